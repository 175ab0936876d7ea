package io.mooring

import io.mooring.checkpoint.StartupReadCache
import io.mooring.common.FailOpen
import io.mooring.drain.StartRules
import io.mooring.driver.{Driver, QueryWatch, ConfOverrides}
import org.apache.spark.shims.Capability
import org.apache.spark.sql.execution.streaming.state.shims.StreamShims
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

/**
 * Prepares each query at its start, and tells the agent which checkpoint the run uses. Registered by name in every session's settings.
 *
 * Spark calls `onQueryStarted` in the stream's thread before its first batch, and `onQueryTerminated` in its listener thread.
 * When a part of the preparation fails, the query starts without that part. Events: CheckpointTaken, CheckpointLeft.
 */
final class QueryStartWatch extends StreamingQueryListener {
  override def onQueryStarted(event: QueryStartedEvent): Unit =
    for (driver <- Driver.current; query <- StreamShims.query(event.id.toString) if Capability.QuerySettings.isOn) {
      StartupReadCache.begin(query.checkpoint)
      val look = FailOpen.otherwise[Option[QueryWatch.Look]]("look ahead", None)(driver.queries.lookAhead(query))
      driver.bridge.tell(Map("event" -> "CheckpointTaken", "run" -> query.runId, "checkpoint" -> query.checkpoint),
        about = Some(QueryStartWatch.about(query.runId)))
      FailOpen.otherwise("look at an earlier drain", ())(driver.drains.atStart(query))
      if (StartRules.refusal(query.checkpoint).isEmpty) {
        ConfOverrides.atStart(query)
        for (last <- driver.drains.lastBatchBeforeRestore(query.checkpoint)) driver.queries.completesBatches(query, last)
        look.foreach(driver.queries.starts(query, _))
      }
    }
  override def onQueryProgress(event: QueryProgressEvent): Unit = ()
  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = for (driver <- Driver.current) {
    val run = event.runId.toString
    driver.bridge.over(QueryStartWatch.about(run))
    driver.bridge.tell(Map("event" -> "CheckpointLeft", "run" -> run))
    driver.drains.ended(run, event.exception)
  }
}

private object QueryStartWatch {
  /** The name under which the bridge keeps CheckpointTaken for later agents. */
  def about(run: String): String = s"checkpoint of $run"
}
