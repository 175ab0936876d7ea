package io.mooring

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import java.util.concurrent.locks.ReentrantLock

import scala.jdk.CollectionConverters._

/** A plan as the agent published it: for each query and partition the executors in order of preference. */
final case class Plan(version: Long, rows: Map[String, Map[Int, Seq[String]]])

object Plan {
  val Empty: Plan = Plan(-1, Map.empty)

  /** Reads `{"version": n, "queries": {"<id>": {"<partition>": ["<executor>", …]}}}`. */
  def parse(json: String): Plan = {
    val node = Json.read(json)
    val rows = node.get("queries").properties().asScala.map { query =>
      query.getKey -> query.getValue.properties().asScala.map { row =>
        row.getKey.toInt -> row.getValue.elements().asScala.map(_.asText()).toSeq
      }.toMap
    }.toMap
    Plan(node.get("version").asLong(), rows)
  }
}

/**
 * Where each task is wanted, looked up by the scheduler's thread for every task of every batch.
 *
 * A lookup is two reads: the current plan, which is replaced as a whole, and the set of executors that are alive.
 * When an executor dies it leaves that set, and with that every row falls to its next entry at once.
 */
final class PlacementTable {
  @volatile private var plan = Plan.Empty
  private val living = new ConcurrentHashMap[String, String]() // executor id -> host
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
  def executorLost(id: String): Unit = { living.remove(id); () }

  def isAlive(id: String): Boolean = living.containsKey(id)
  def aliveCount: Int = living.size

  /** The living executor, as (id, host), where this task should run; None is no preference. */
  def preferred(query: String, partition: Int): Option[(String, String)] =
    plan.rows.get(query).flatMap(_.get(partition)).flatMap { row =>
      row.iterator.flatMap(id => Option(living.get(id)).map(id -> _)).nextOption()
    }

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
