package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** A checkpoint file manager that uses another one. In Spark 4.1 to 4.3 file managers are closed. */
trait ClosableFiles extends CheckpointFileManager {

  /** The file manager that this one uses. */
  protected def stock: CheckpointFileManager

  override def close(): Unit = stock.close()
}
