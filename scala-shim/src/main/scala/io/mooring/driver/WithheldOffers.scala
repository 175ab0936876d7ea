package io.mooring.driver

import io.mooring.agent.Bridge
import io.mooring.common.{FailOpen, Log}
import io.mooring.placement.PlacementTable
import org.apache.spark.SparkContext
import org.apache.spark.scheduler.shims.Offers

/**
 * Keeps the plan from executors that are alive and get no tasks from Spark: Spark has excluded them after failures, alone or
 * with their host, or is about to remove them. Any thread that does not hold the scheduler's lock may call it. When Spark can
 * not be asked, no executor counts as excluded. Event: OffersWithheld.
 */
final class WithheldOffers(context: SparkContext, table: PlacementTable, bridge: Bridge) {
  private var known = Map.empty[String, String] // executor -> why

  /** Asks Spark, and logs and tells the agent what has changed. Whether anything has. */
  def look(): Boolean = synchronized {
    val living = table.alive
    val now = FailOpen.otherwise("look at excluded executors", Map.empty[String, String])(Offers.withheld(context, living))
    val hasChanged = now != known
    if (hasChanged) {
      table.withhold(now)
      val lines = WithheldOffers.lines(known, now, living)
      lines.ordinary.foreach(Log.info(_))
      lines.warnings.foreach(Log.warn)
      bridge.tell(Map("event" -> "OffersWithheld", "executors" -> now), about = Some("withheld offers"))
      known = now
    }
    hasChanged
  }
}

object WithheldOffers {
  /** Lines for the log. A removal is ordinary: dynamic allocation and Mooring's own restarts remove executors. */
  final case class Lines(ordinary: Seq[String], warnings: Seq[String])

  /** `before` and `now` map executors that get no tasks to the reason. `living` maps each living executor to its host. */
  def lines(before: Map[String, String], now: Map[String, String], living: Map[String, String]): Lines = {
    def excluded(all: Map[String, String]) = all.filterNot(_._2 == Offers.ToBeRemoved)
    def getNoTasks(executors: Map[String, String]) = for ((executor, why) <- executors.toSeq.sorted) yield
      s"executor $executor on ${living(executor)} gets no tasks: $why; its tasks run elsewhere meanwhile"
    val leaves = now -- excluded(now).keys -- before.keys.filter(before(_) == Offers.ToBeRemoved)
    // An executor that is removed, or is to be, gets no tasks again.
    val returned = (excluded(before) -- now.keys).keys.toSeq.sorted.filter(living.contains)
    Lines(getNoTasks(leaves), getNoTasks(excluded(now) -- excluded(before).keys) ++
      returned.map(executor => s"executor $executor gets tasks again: those that the plan has there return to it"))
  }
}
