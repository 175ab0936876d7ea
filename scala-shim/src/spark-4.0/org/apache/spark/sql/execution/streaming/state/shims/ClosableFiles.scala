package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.CheckpointFileManager

/** A checkpoint file manager that uses another one. In Spark 4.0 file managers are not closed. */
trait ClosableFiles extends CheckpointFileManager {

  /** The file manager that this one uses. */
  protected def stock: CheckpointFileManager
}
