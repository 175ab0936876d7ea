package org.apache.spark.sql.execution.streaming.state.shims

import java.lang.reflect.{InvocationTargetException, Method}
import java.util.{Map => JMap}

import org.rocksdb.{WriteOptions, RocksDB => NativeRocksDB}

import org.apache.spark.shims.SparkInternals
import org.apache.spark.sql.execution.streaming.state.RocksDB

/** What is private in an instance of Spark 4.2's. It may throw what reflection throws, at its making. */
private final class InsideRocksDB(store: RocksDB) {
  private val methods = SparkInternals.rocksDB

  def db: NativeRocksDB = call(methods.db)
  def writeOptions: WriteOptions = call(methods.writeOptions)
  def families: JMap[Short, String] = call(methods.families)

  /** With all that stock does on the way: it looks every key up to count them. */
  def replayChangelog(versions: Seq[(Long, String)]): Unit = {
    call[Any](methods.replayChangelog, versions.map { case (version, id) => (version, Option(id)) }.toArray)
    ()
  }

  /** As the store has the key of a column family. */
  def prefixed(key: Array[Byte], family: String): Array[Byte] = call(methods.prefixed, key, family)

  def counts: KeyCounts = KeyCounts(call[Long](methods.keys), call[Long](methods.internalKeys))

  def setCounts(counts: KeyCounts): Unit = {
    methods.setKeys.foreach(call[Any](_, Long.box(counts.keys)))
    methods.setInternalKeys.foreach(call[Any](_, Long.box(counts.internal)))
  }

  private def call[T](method: Method, arguments: AnyRef*): T =
    try method.invoke(store, arguments: _*).asInstanceOf[T]
    catch { case e: InvocationTargetException => throw e.getCause }
}

private object InsideRocksDB {
  /** The version from which stock counts to the next snapshot; None where this Spark has another way to count. */
  def lastSnapshotOf(store: RocksDB): Option[Long] =
    SparkInternals.rocksDBLastSnapshotVersion.map { case (get, _) => get.invoke(store).asInstanceOf[Long] }

  /** Nothing is done where this Spark has another way to count. */
  def setLastSnapshot(store: RocksDB, version: Long): Unit =
    SparkInternals.rocksDBLastSnapshotVersion.foreach { case (_, set) => set.invoke(store, Long.box(version)) }
}
