package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RocksDB

/** All methods of `RocksDB` that write to a store, in Spark 4.1. */
private[shims] trait WritesOfLine extends RocksDB {

  /** Runs `write`, which changes this key only. */
  protected def writing(key: Array[Byte], family: String, includesPrefix: Boolean)(write: => Unit): Unit

  /** Runs `write`, which changes keys that are not known before. No method of this line does. */
  protected def writingUnknownKeys(write: => Unit): Unit

  override def put(
      key: Array[Byte], value: Array[Byte], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.put(key, value, cfName, includesPrefix, deriveCfName))

  override def putList(
      key: Array[Byte], values: List[Array[Byte]], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.putList(key, values, cfName, includesPrefix, deriveCfName))

  override def merge(
      key: Array[Byte], value: Array[Byte], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.merge(key, value, cfName, includesPrefix, deriveCfName))

  override def mergeList(
      key: Array[Byte], values: List[Array[Byte]], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.mergeList(key, values, cfName, includesPrefix, deriveCfName))

  override def remove(key: Array[Byte], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.remove(key, cfName, includesPrefix, deriveCfName))
}
