package io.mooring.driver

import io.mooring.common.{Build, Log, SettingsTable}
import org.apache.spark.sql.execution.streaming.state.shims.StreamShims

/** Whether the agent lists committed state in Delta tables, for which it needs Delta among the application's jars. Called once, at the start. */
private object Catalogue {
  private val Key = "spark.mooring.checkpoint.catalog.enabled"
  private val LinesOfDelta = Set("4.0", "4.1", "4.2") // those for which Delta 4.4.0 has a jar
  private val DeltaTables = "org.apache.spark.sql.delta.sources.DeltaDataSource"

  def isOn(settings: SettingsTable): Boolean = {
    val wanted = settings.text(Key).map(_.toBoolean)
    val isThere = wanted.getOrElse(true) && StreamShims.isLoadable(DeltaTables)
    if (!isThere && wanted.forall(identity)) {
      val message = s"no Delta among the application's jars: committed state is not catalogued; $whatToAdd"
      if (wanted.isDefined) Log.once("no-delta", message) else Log.info(message)
    }
    isThere
  }

  private def whatToAdd: String = {
    val line = Build.spark.split('.').take(2).mkString(".")
    if (LinesOfDelta(line)) s"add --packages io.delta:delta-spark_${line}_2.13:4.4.0" else s"there is no Delta for Spark $line yet"
  }
}
