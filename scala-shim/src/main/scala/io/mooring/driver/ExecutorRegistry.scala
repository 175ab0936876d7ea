package io.mooring.driver

import io.mooring.agent.Bridge
import io.mooring.common.Location

/**
 * Reports an executor to the agent once two things have happened, in either order: Spark has added the executor, and the executor
 * has reported its location. An executor that still warms up has not reported, so the plan does not use it yet.
 *
 * Spark's listener thread and RPC threads call it. Events: ExecutorRegistered, ExecutorLost; PlanPickedUp by the bridge.
 */
final class ExecutorRegistry(bridge: Bridge) {
  private val added = scala.collection.mutable.Map[String, (String, Int)]() // executor -> host, cores
  private val located = scala.collection.mutable.Map[String, (String, String)]() // executor -> location, zone
  private val versions = scala.collection.mutable.Map[String, Long]() // executor -> the version of the job model that it has reported last

  def added(executor: String, host: String, cores: Int): Unit = synchronized {
    added(executor) = (host, cores)
    tell(executor)
  }

  def located(executor: String, location: String, zone: String): Unit = synchronized {
    located(executor) = (location, zone)
    tell(executor)
  }

  /** The executor has taken up this version. A report that comes after the executor's removal is dropped: no event would end it. */
  def pickedUp(executor: String, version: Long): Unit = synchronized {
    if (added.contains(executor) && !versions.put(executor, version).contains(version)) bridge.pickedUp(executor, version)
  }

  def removed(executor: String, reason: String): Unit = synchronized {
    added.remove(executor)
    located.remove(executor)
    versions.remove(executor)
    bridge.over(s"executor $executor")
    bridge.over(s"version of $executor")
    bridge.tell(Map("event" -> "ExecutorLost", "executor" -> executor, "reason" -> reason))
  }

  private def tell(executor: String): Unit =
    for ((host, cores) <- added.get(executor); (location, zone) <- located.get(executor)) {
      val place = if (location.isEmpty) host else location.replace(Location.Host, host)
      bridge.tell(Map("event" -> "ExecutorRegistered", "executor" -> executor, "host" -> host, "location" -> place,
        "zone" -> zone, "cores" -> cores), about = Some(s"executor $executor"))
    }
}
