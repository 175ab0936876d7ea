package org.apache.spark.sql.execution.streaming

import org.apache.spark.sql.execution.streaming

/** Names that Spark 4.1 moved here. In Spark 4.0 they are in the package `streaming`. */
package object runtime {
  type AvailableNowDataStreamWrapper = streaming.AvailableNowDataStreamWrapper
  type MicroBatchExecution = streaming.MicroBatchExecution
  type QueryExecutionThread = streaming.QueryExecutionThread
  type StreamExecution = streaming.StreamExecution
  val StreamExecution: streaming.StreamExecution.type = streaming.StreamExecution
  type StreamExecutionContext = streaming.StreamExecutionContext
  type StreamingQueryWrapper = streaming.StreamingQueryWrapper
  type StreamProgress = streaming.StreamProgress
  type WatermarkPropagator = streaming.WatermarkPropagator
  type WatermarkTracker = streaming.WatermarkTracker
}
