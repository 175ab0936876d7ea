package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RocksDB

/** All methods of `RocksDB` that write to a store, in Spark 4.2 and 4.3. */
private[shims] trait WritesOfLine extends RocksDB {

  /** Runs `write`, which changes this key only. */
  protected def writing(key: Array[Byte], family: String, includesPrefix: Boolean)(write: => Unit): Unit

  /** Runs `write`, which changes keys that are not known before. */
  protected def writingUnknownKeys(write: => Unit): Unit

  override def put(
      key: Array[Byte], value: Array[Byte], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean,
      includesChecksum: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.put(key, value, cfName, includesPrefix, deriveCfName, includesChecksum))

  override def putList(
      key: Array[Byte], values: List[Array[Byte]], cfName: String, includesPrefix: Boolean, includesChecksum: Boolean,
      deriveCfName: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.putList(key, values, cfName, includesPrefix, includesChecksum, deriveCfName))

  override def merge(
      key: Array[Byte], value: Array[Byte], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean,
      includesChecksum: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.merge(key, value, cfName, includesPrefix, deriveCfName, includesChecksum))

  override def mergeList(
      key: Array[Byte], values: List[Array[Byte]], cfName: String, includesPrefix: Boolean, includesChecksum: Boolean,
      deriveCfName: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.mergeList(key, values, cfName, includesPrefix, includesChecksum, deriveCfName))

  override def remove(
      key: Array[Byte], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean, includesChecksum: Boolean): Unit =
    writing(key, cfName, includesPrefix)(super.remove(key, cfName, includesPrefix, deriveCfName, includesChecksum))

  override def deleteRange(
      beginKey: Array[Byte], endKey: Array[Byte], cfName: String, includesPrefix: Boolean, includesChecksum: Boolean): Unit =
    writingUnknownKeys(super.deleteRange(beginKey, endKey, cfName, includesPrefix, includesChecksum))
}
