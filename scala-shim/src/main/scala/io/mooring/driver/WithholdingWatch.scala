package io.mooring.driver

import io.mooring.agent.Bridge
import io.mooring.common.{FailOpen, Log}
import io.mooring.placement.PlacementTable
import org.apache.spark.SparkContext
import org.apache.spark.scheduler.shims.Withholding

/**
 * Finds the executors that are alive and get no tasks from Spark, so that the plan does not use them. Spark has excluded such
 * an executor after failures, alone or with its host, or is about to remove the executor.
 *
 * Any thread may call it that does not hold the scheduler's lock. Depends on `Withholding`. When Spark can not be asked, no executor
 * counts as excluded. Event: TasksWithheld.
 */
final class WithholdingWatch(context: SparkContext, table: PlacementTable, bridge: Bridge) {
  private var known = Map.empty[String, String] // executor -> why it gets no tasks

  /** Asks Spark. When the answer has changed, logs the change and tells the agent. Whether it has changed. */
  def refresh(): Boolean = synchronized {
    val living = table.alive
    val now = FailOpen.otherwise("look at excluded executors", Map.empty[String, String])(Withholding.executors(context, living))
    val hasChanged = now != known
    if (hasChanged) {
      table.setWithheld(now)
      val lines = WithholdingWatch.lines(known, now, living)
      lines.ordinary.foreach(Log.info(_))
      lines.warnings.foreach(Log.warn)
      bridge.tell(Map("event" -> "TasksWithheld", "executors" -> now), about = Some("tasks withheld"))
      known = now
    }
    hasChanged
  }
}

object WithholdingWatch {
  /** Lines for the log. A removal is ordinary: dynamic allocation and Mooring's own restarts remove executors. */
  final case class Lines(ordinary: Seq[String], warnings: Seq[String])

  /** `before` and `now` map executors that get no tasks to the reason. `living` maps each living executor to its host. */
  def lines(before: Map[String, String], now: Map[String, String], living: Map[String, String]): Lines = {
    def excluded(all: Map[String, String]) = all.filterNot(_._2 == Withholding.ToBeRemoved)
    def getNoTasks(executors: Map[String, String]) = for ((executor, why) <- executors.toSeq.sorted) yield
      s"executor $executor on ${living(executor)} gets no tasks: $why; its tasks run elsewhere meanwhile"
    val leaves = now -- excluded(now).keys -- before.keys.filter(before(_) == Withholding.ToBeRemoved)
    // An executor that was removed, or is to be removed, does not get tasks again.
    val returned = (excluded(before) -- now.keys).keys.toSeq.sorted.filter(living.contains)
    Lines(getNoTasks(leaves), getNoTasks(excluded(now) -- excluded(before).keys) ++
      returned.map(executor => s"executor $executor gets tasks again: those that the plan has there return to it"))
  }
}
