package io.mooring.driver

import io.mooring.common.{Log, SettingsTable}
import org.apache.spark.sql.execution.streaming.state.shims.StreamShims

/** Whether the agent lists committed state in Delta tables, for which it needs Delta among the application's jars. Called once, at the start. */
private object Catalogue {
  private val Key = "spark.mooring.checkpoint.catalog.enabled"
  private val DeltaTables = "org.apache.spark.sql.delta.sources.DeltaDataSource"

  def isOn(settings: SettingsTable): Boolean = {
    val wanted = settings.text(Key).map(_.toBoolean)
    val isThere = wanted.getOrElse(true) && StreamShims.isLoadable(DeltaTables)
    if (!isThere && wanted.forall(identity)) {
      val message = s"no Delta among the application's jars: committed state is not catalogued; ${DeltaOfLine.Advice}"
      if (wanted.isDefined) Log.once("no-delta", message) else Log.info(message)
    }
    isThere
  }
}
