package org.apache.spark.sql.execution.streaming.operators

import org.apache.spark.sql.execution.streaming

/** Names that Spark 4.1 moved here. In Spark 4.0 they are in the package `streaming`. */
package object stateful {
  type StatefulOperator = streaming.StatefulOperator
  type StatefulOperatorStateInfo = streaming.StatefulOperatorStateInfo
  val StatefulOperatorStateInfo: streaming.StatefulOperatorStateInfo.type = streaming.StatefulOperatorStateInfo
  type StatefulOpStateStoreCheckpointInfo = streaming.StatefulOpStateStoreCheckpointInfo
  val StatefulOpStateStoreCheckpointInfo: streaming.StatefulOpStateStoreCheckpointInfo.type = streaming.StatefulOpStateStoreCheckpointInfo
  type StateStoreWriter = streaming.StateStoreWriter
}
