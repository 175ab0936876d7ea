package io.mooring.placement

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import java.util.concurrent.locks.ReentrantLock

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import io.mooring.common.Json

/**
 * A plan as the agent published it: for each query and partition the executors in order of preference, and those that
 * are to hold a copy of its state.
 */
final case class Plan(version: Long, rows: Plan.Rows, standbys: Plan.Rows)

object Plan {
  type Rows = Map[String, Map[Int, Seq[String]]]

  val Empty: Plan = Plan(-1, Map.empty, Map.empty)

  /** Reads `{"version": n, "queries": {"<id>": {"<partition>": ["<executor>", …]}}, "standbys": {…}}`. */
  def parse(json: String): Plan = {
    val node = Json.read(json)
    Plan(node.get("version").asLong(), rows(node.get("queries")), Option(node.get("standbys")).fold[Rows](Map.empty)(rows))
  }

  private def rows(queries: JsonNode): Rows = queries.properties().asScala.map { query =>
    query.getKey -> query.getValue.properties().asScala.map { row =>
      row.getKey.toInt -> row.getValue.elements().asScala.map(_.asText()).toSeq
    }.toMap
  }.toMap
}

/**
 * Where each task is wanted, looked up by the scheduler's thread for every task of every batch.
 *
 * A lookup reads the current plan, which is replaced as a whole, the set of executors that are alive, and those of them
 * that Spark gives no tasks. When an executor dies or gets no tasks, every row falls to its next entry at once.
 */
final class PlacementTable {
  @volatile private var plan = Plan.Empty
  private val living = new ConcurrentHashMap[String, String]() // executor id -> host
  private val leaving = ConcurrentHashMap.newKeySet[String]() // executors that get no tasks any more, and end those they have
  @volatile private var withheld = Map.empty[String, String] // living executors that get no tasks from Spark -> why
  private val lock = new ReentrantLock
  private val changed = lock.newCondition()

  /** Takes a plan over; false when a newer one is there already. */
  def accept(newer: Plan): Boolean = locked {
    val accepted = newer.version >= plan.version
    if (accepted) plan = newer
    changed.signalAll()
    accepted
  }

  def executorAdded(id: String, host: String): Unit = { living.put(id, host); () }

  /** It is to go, and still ends the tasks that it has. */
  def executorLeaves(id: String): Unit = {
    leaving.add(id)
    if (living.remove(id) == null) leaving.remove(id) // it was lost just then
    ()
  }

  def executorLost(id: String): Unit = {
    living.remove(id)
    leaving.remove(id)
    ()
  }

  /** From now on Spark gives tasks to all living executors but these, which map to the reason. */
  def withhold(now: Map[String, String]): Unit = withheld = now

  def hostOf(id: String): Option[String] = Option(living.get(id))
  def isAlive(id: String): Boolean = living.containsKey(id)

  /** Whether it is alive and Spark gives it tasks. */
  def isUsable(id: String): Boolean = isAlive(id) && !withheld.contains(id)

  /** Living executors, each with its host. */
  def alive: Map[String, String] = living.asScala.toMap

  def isLeaving(id: String): Boolean = leaving.contains(id)
  def aliveCount: Int = living.size

  /** The usable executor, as (id, host), where this task should run; None is no preference. */
  def preferred(query: String, partition: Int): Option[(String, String)] = usable(row(query, partition)).nextOption()

  /** The usable executors of its row, the most wanted first. */
  def candidates(query: String, partition: Int): Seq[(String, String)] = usable(row(query, partition)).toSeq

  private def row(query: String, partition: Int): Seq[String] = plan.rows.get(query).flatMap(_.get(partition)).getOrElse(Nil)

  private def usable(executors: Seq[String]): Iterator[(String, String)] = {
    val not = withheld
    executors.iterator.filterNot(not.contains).flatMap(id => Option(living.get(id)).map(id -> _))
  }

  /**
   * For each partition of the query the usable executors, as (id, host), that hold a copy and do not run it. One that will
   * take over from an executor that leaves still needs what that commits with its last tasks.
   */
  def standbys(query: String): Map[Int, Seq[(String, String)]] = {
    val now = plan
    now.standbys.getOrElse(query, Map.empty).map { case (partition, executors) =>
      val row = now.rows.get(query).flatMap(_.get(partition)).getOrElse(Nil)
      val active = row.find(id => isUsable(id) || leaving.contains(id))
      partition -> usable(executors.filterNot(active.contains)).toSeq
    }
  }

  /** Whether copies of the query's state are wanted anywhere. */
  def wantsStandbys(query: String): Boolean = plan.standbys.contains(query)

  /** The same, by this executor. */
  def wantsStandbys(query: String, executor: String): Boolean =
    plan.standbys.get(query).exists(_.values.exists(_.contains(executor)))

  def names(query: String): Boolean = plan.rows.contains(query)

  /** Waits until a plan names the query, until `stillHoping` turns false, or for `milliseconds`. */
  def awaitPlanFor(query: String, milliseconds: Long)(stillHoping: => Boolean): Boolean = locked {
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds)
    while (!names(query) && stillHoping && deadline > System.nanoTime())
      changed.await(math.min(deadline - System.nanoTime(), TimeUnit.MILLISECONDS.toNanos(100)), TimeUnit.NANOSECONDS)
    names(query)
  }

  def version: Long = plan.version

  private def locked[T](body: => T): T = {
    lock.lockInterruptibly()
    try body
    finally lock.unlock()
  }
}
