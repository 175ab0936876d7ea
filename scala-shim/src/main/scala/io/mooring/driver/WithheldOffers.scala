package io.mooring.driver

import io.mooring.agent.Bridge
import io.mooring.common.{FailOpen, Log}
import io.mooring.placement.PlacementTable
import org.apache.spark.SparkContext
import org.apache.spark.scheduler.shims.Offers

/**
 * Keeps the plan from executors that live and get no tasks from Spark: excluded after failures, alone or with their host,
 * or about to be removed. Says so, and tells the agent. Called by any thread that does not hold the scheduler's lock.
 */
final class WithheldOffers(context: SparkContext, table: PlacementTable, bridge: Bridge) {
  private var known = Map.empty[String, String] // executor -> why

  /** Asks Spark; whether the answer is another than the last one. */
  def look(): Boolean = synchronized {
    val living = table.alive
    val now = FailOpen.otherwise("look at excluded executors", Map.empty[String, String])(Offers.withheld(context, living))
    val isNews = now != known
    if (isNews) {
      table.withhold(now)
      val lines = WithheldOffers.lines(known, now, living)
      lines.ordinary.foreach(Log.info(_))
      lines.warnings.foreach(Log.warn)
      bridge.tell(Map("event" -> "OffersWithheld", "executors" -> now), about = Some("withheld offers"))
      known = now
    }
    isNews
  }
}

object WithheldOffers {
  /** What the log says. That an executor is removed is ordinary: dynamic allocation does it, and Mooring's own restarts. */
  final case class Lines(ordinary: Seq[String], warnings: Seq[String])

  /** Of those that got no tasks, and get none `now`, with the reason. `living` has the hosts of all that live. */
  def lines(before: Map[String, String], now: Map[String, String], living: Map[String, String]): Lines = {
    def excluded(all: Map[String, String]) = all.filterNot(_._2 == Offers.ToBeRemoved)
    def begins(news: Map[String, String]) = for ((executor, why) <- news.toSeq.sorted) yield
      s"executor $executor on ${living(executor)} gets no tasks: $why; its tasks run elsewhere meanwhile"
    val leaves = now -- excluded(now).keys -- before.keys.filter(before(_) == Offers.ToBeRemoved)
    // Nothing returns to one that was removed meanwhile, or is to be.
    val returned = (excluded(before) -- now.keys).keys.toSeq.sorted.filter(living.contains)
    Lines(begins(leaves), begins(excluded(now) -- excluded(before).keys) ++
      returned.map(executor => s"executor $executor gets tasks again: those that the plan has there return to it"))
  }
}
