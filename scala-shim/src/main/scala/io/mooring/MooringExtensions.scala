package io.mooring

import io.mooring.placement.PlacementRule
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.streaming.state.shims.OfflineTools

/** Appended to `spark.sql.extensions` by the driver part. */
final class MooringExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectColumnar { session =>
      OfflineTools.follow(session)
      new ColumnarRule {
        override def postColumnarTransitions: Rule[SparkPlan] = PlacementRule
      }
    }
}
