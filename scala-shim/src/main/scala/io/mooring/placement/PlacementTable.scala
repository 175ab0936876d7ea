package io.mooring.placement

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import java.util.concurrent.locks.ReentrantLock

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import io.mooring.common.Json

/**
 * A plan as the agent published it. `rows` has for each query and partition the executors in order of preference. `standbys` has
 * the executors that are to hold a copy of the partition's state.
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
 * The executors on which each task is wanted.
 *
 * A lookup makes three reads: the current plan, which is replaced as a whole; the executors that are alive; and the executors
 * that are alive and get no tasks from Spark. When an executor is lost or gets no tasks, every row falls to its next entry at
 * once, without the agent.
 *
 * Any thread of the driver may call it. Spark's scheduler looks a row up for every task of every batch; only `accept` and
 * `awaitPlanFor` take a lock. It depends on nothing in Spark.
 */
final class PlacementTable {
  @volatile private var plan = Plan.Empty
  private val living = new ConcurrentHashMap[String, String]() // executor id -> host; without those that `executorLeaves` was called for
  private val leaving = ConcurrentHashMap.newKeySet[String]() // executors that `executorLeaves` was called for, until they are lost
  private val lost = ConcurrentHashMap.newKeySet[String]() // executors that were lost; ids are not used again
  @volatile private var withheld = Map.empty[String, String] // living executors that get no tasks from Spark -> why
  private val lock = new ReentrantLock
  private val changed = lock.newCondition()

  /** Puts a plan in force. False when a newer plan is in force. */
  def accept(newer: Plan): Boolean = locked {
    val accepted = newer.version >= plan.version
    if (accepted) plan = newer
    changed.signalAll()
    accepted
  }

  /** An executor has come. Spark's scheduler may have noted the loss of an executor before Spark's listeners learn that it has come. */
  def executorAdded(id: String, host: String): Unit = {
    living.put(id, host)
    if (lost.contains(id)) living.remove(id)
    ()
  }

  /** The executor is to be removed. It gets no new tasks, and finishes the tasks it has. Called only with standbys. */
  def executorLeaves(id: String): Unit = {
    leaving.add(id)
    if (living.remove(id) == null) leaving.remove(id) // it was lost meanwhile
    ()
  }

  def executorLost(id: String): Unit = {
    lost.add(id)
    living.remove(id)
    leaving.remove(id)
    ()
  }

  /** Sets the living executors that get no tasks from Spark, each with the reason. */
  def setWithheld(executors: Map[String, String]): Unit = withheld = executors

  def hostOf(id: String): Option[String] = Option(living.get(id))

  /** Whether the executor lives, and `executorLeaves` was not called for it. */
  def isAlive(id: String): Boolean = living.containsKey(id)

  /** Whether the executor is alive and Spark gives it tasks. */
  def isUsable(id: String): Boolean = isAlive(id) && !withheld.contains(id)

  /** Living executors, each with its host. */
  def alive: Map[String, String] = living.asScala.toMap

  def isLeaving(id: String): Boolean = leaving.contains(id)
  def aliveCount: Int = living.size

  /** The first usable executor of the task's row, as (id, host). None when the task may run anywhere. */
  def preferred(query: String, partition: Int): Option[(String, String)] = usable(row(query, partition)).nextOption()

  /** All usable executors of the task's row, as (id, host), the most wanted first. */
  def candidates(query: String, partition: Int): Seq[(String, String)] = usable(row(query, partition)).toSeq

  private def row(query: String, partition: Int): Seq[String] = plan.rows.get(query).flatMap(_.get(partition)).getOrElse(Nil)

  private def usable(executors: Seq[String]): Iterator[(String, String)] = {
    val unusable = withheld
    executors.iterator.filterNot(unusable.contains).flatMap(id => Option(living.get(id)).map(id -> _))
  }

  /**
   * For each partition of the query the usable executors, as (id, host), that hold a copy and do not run the task. While the
   * task's executor is leaving, it still counts as the executor that runs the task: it may commit once more, and its successor
   * needs that commit.
   */
  def standbys(query: String): Map[Int, Seq[(String, String)]] = {
    val now = plan
    now.standbys.getOrElse(query, Map.empty).map { case (partition, executors) =>
      val row = now.rows.get(query).flatMap(_.get(partition)).getOrElse(Nil)
      val runsTask = row.find(id => isUsable(id) || leaving.contains(id))
      partition -> usable(executors.filterNot(runsTask.contains)).toSeq
    }
  }

  /** Whether any executor is to hold copies of the query's state. */
  def wantsStandbys(query: String): Boolean = plan.standbys.contains(query)

  /** Whether this executor is to hold copies of the query's state. */
  def wantsStandbys(query: String, executor: String): Boolean =
    plan.standbys.get(query).exists(_.values.exists(_.contains(executor)))

  def hasPlanFor(query: String): Boolean = plan.rows.contains(query)

  /** Waits until a plan has rows for the query, no agent is expected, or `milliseconds` have passed. Whether there are rows. */
  def awaitPlanFor(query: String, milliseconds: Long)(isAgentExpected: => Boolean): Boolean = locked {
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds)
    while (!hasPlanFor(query) && isAgentExpected && deadline > System.nanoTime())
      changed.await(math.min(deadline - System.nanoTime(), TimeUnit.MILLISECONDS.toNanos(100)), TimeUnit.NANOSECONDS)
    hasPlanFor(query)
  }

  def version: Long = plan.version

  private def locked[T](body: => T): T = {
    lock.lockInterruptibly()
    try body
    finally lock.unlock()
  }
}
