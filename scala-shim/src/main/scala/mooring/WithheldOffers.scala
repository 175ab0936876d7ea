package io.mooring

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.mooring.Offers

/**
 * Keeps the plan from executors that live and get no tasks from Spark: excluded after failures, alone or with their host,
 * or about to be removed. Says so, and tells the agent. Called by any thread that does not hold the scheduler's lock.
 */
final class WithheldOffers(context: SparkContext, table: PlacementTable, bridge: Bridge) {
  private var known = Map.empty[String, String] // executor -> why

  /** Asks Spark; whether the answer is another than the last one. */
  def look(): Boolean = synchronized {
    val living = table.alive
    val now = Aside.otherwise("look at excluded executors", Map.empty[String, String])(Offers.withheld(context, living))
    val isNews = now != known
    if (isNews) {
      table.withhold(now)
      for ((executor, why) <- now if !known.contains(executor))
        Say.warn(s"executor $executor on ${living(executor)} gets no tasks: $why; its tasks run elsewhere meanwhile")
      for (executor <- known.keys if !now.contains(executor) && table.isAlive(executor))
        Say.warn(s"executor $executor gets tasks again: those that the plan has there return to it")
      bridge.tell(Map("event" -> "OffersWithheld", "executors" -> now), about = Some("withheld offers"))
      known = now
    }
    isNews
  }
}
