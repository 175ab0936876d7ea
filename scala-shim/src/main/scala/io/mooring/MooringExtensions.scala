package io.mooring

import io.mooring.placement.PlacementRule
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.streaming.state.shims.OfflineTools

/**
 * Adds `PlacementRule` to every session, and lets `OfflineTools` follow the session. `ConfOverrides` appends this class to
 * `spark.sql.extensions`; Spark makes it by reflection, for each session.
 */
final class MooringExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectColumnar { session =>
      OfflineTools.follow(session)
      new ColumnarRule {
        override def postColumnarTransitions: Rule[SparkPlan] = PlacementRule
      }
    }
}
