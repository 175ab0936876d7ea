package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import org.apache.spark.SparkEnv
import org.apache.spark.util.Utils

/** Where an executor keeps the working directories of its stores in Spark 4.1 to 4.3. */
private[shims] object Directories {

  /** A new working directory for a store. Spark deletes it when the executor ends. */
  def ofStore(name: String): File = Utils.createExecutorLocalTempDir(SparkEnv.get.conf, name)
}
