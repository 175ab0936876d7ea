package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import org.apache.spark.SparkEnv
import org.apache.spark.util.Utils

/** Where an executor keeps the working directories of its stores in Spark 4.0. */
private[shims] object Directories {

  /** A new working directory for a store. Spark deletes it when the executor ends. */
  def ofStore(name: String): File = Utils.createTempDir(Utils.getLocalDir(SparkEnv.get.conf), name)
}
