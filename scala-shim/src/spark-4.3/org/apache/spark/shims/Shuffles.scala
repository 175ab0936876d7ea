package org.apache.spark.shims

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle.ShuffleManager

/** Spark 4.3 has two shuffle managers: one for pipelined shuffles, and one for all others. */
private[shims] object Shuffles {

  /** The manager of shuffles that are written whole before they are read. */
  def managerOf(env: SparkEnv): ShuffleManager = env.blockingShuffleManager
}
