package io.mooring.driver

import io.mooring.agent.Bridge
import io.mooring.common.{Location, OrdinaryEnd}

/**
 * Reports an executor to the agent once two things have happened, in either order: Spark has added the executor, and the executor
 * has reported its location. An executor that still warms up has not reported, so the plan does not use it yet.
 *
 * Spark's listener thread, RPC threads and the thread of `Liveness` call it. Events: ExecutorRegistered, ExecutorLost; PlanPickedUp by the bridge.
 */
final class ExecutorRegistry(bridge: Bridge) {
  private val hostAndCores = scala.collection.mutable.Map[String, (String, Int)]() // of the executors that Spark has added
  private val locationAndZone = scala.collection.mutable.Map[String, (String, String)]() // of the executors that have reported theirs
  private val removedIds = scala.collection.mutable.Set[String]() // executors that were removed; ids are not used again
  private val versions = scala.collection.mutable.Map[String, Long]() // executor -> the version of the job model that it has reported last

  def added(executor: String, host: String, cores: Int): Unit = synchronized {
    if (!removedIds.contains(executor)) {
      hostAndCores(executor) = (host, cores)
      tell(executor)
    }
  }

  /** The executor has reported its location. A report that comes after the executor's removal is dropped. */
  def located(executor: String, location: String, zone: String): Unit = synchronized {
    if (!removedIds.contains(executor)) {
      locationAndZone(executor) = (location, zone)
      tell(executor)
    }
  }

  /**
   * The executor has taken up this version. A report that comes after the executor's removal is dropped: only `removed` takes such an event
   * out of the bridge, which would else give the event to every later agent.
   */
  def tookUp(executor: String, version: Long): Unit = synchronized {
    if (hostAndCores.contains(executor) && !versions.put(executor, version).contains(version)) bridge.tookUp(executor, version)
  }

  /**
   * The executor is lost, or is about to be removed. Called once or twice for an executor. An event from an ordinary end of the
   * application says so.
   */
  def removed(executor: String, reason: String): Unit = synchronized {
    removedIds.add(executor)
    hostAndCores.remove(executor)
    locationAndZone.remove(executor)
    versions.remove(executor)
    bridge.over(s"executor $executor")
    bridge.over(s"version of $executor")
    bridge.tell(Map("event" -> "ExecutorLost", "executor" -> executor, "reason" -> reason) ++
      Option.when(OrdinaryEnd.isUnderWay)("ordinary-end" -> true))
  }

  private def tell(executor: String): Unit =
    for ((host, cores) <- hostAndCores.get(executor); (location, zone) <- locationAndZone.get(executor)) {
      val place = if (location.isEmpty) host else location.replace(Location.Host, host)
      bridge.tell(Map("event" -> "ExecutorRegistered", "executor" -> executor, "host" -> host, "location" -> place,
        "zone" -> zone, "cores" -> cores), about = Some(s"executor $executor"))
    }
}
