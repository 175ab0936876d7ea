package org.apache.spark.shims

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle.ShuffleManager

/** Spark 4.0 to 4.2 have one shuffle manager. */
private[shims] object Shuffles {

  /** The manager of shuffles that are written whole before they are read. */
  def managerOf(env: SparkEnv): ShuffleManager = env.shuffleManager
}
