package org.apache.spark.sql.execution.streaming.state.shims

import java.lang.reflect.{InvocationTargetException, Method}
import java.util.{Map => JMap}

import org.rocksdb.{WriteOptions, RocksDB => NativeRocksDB}

import org.apache.spark.shims.SparkInternals
import org.apache.spark.sql.execution.streaming.state.RocksDB

/**
 * The private members of Spark's `RocksDB` that Mooring needs, for one instance. Called by the thread that uses the instance. Its
 * making throws what reflection throws when a member is missing (`SparkInternals.rocksDB`): then copies are not kept open, and
 * the writes of killed tasks are not taken back.
 */
private final class InsideRocksDB(store: RocksDB) {
  private val methods = SparkInternals.rocksDB

  def db: NativeRocksDB = call(methods.db)
  def writeOptions: WriteOptions = call(methods.writeOptions)
  def families: JMap[Short, String] = call(methods.families)

  /** Stock Spark's replay of changelogs, which looks every key up to count keys. */
  def replayChangelog(versions: Seq[(Long, String)]): Unit = {
    call[Any](methods.replayChangelog, versions.map { case (version, id) => (version, Option(id)) }.toArray)
    ()
  }

  /** The key as the store has it: with the prefix of its column family. */
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
  /** The version from which stock Spark counts to the next snapshot; None where this Spark counts in another way. */
  def lastSnapshotOf(store: RocksDB): Option[Long] =
    SparkInternals.rocksDBLastSnapshotVersion.map { case (get, _) => get.invoke(store).asInstanceOf[Long] }

  /** Does nothing where this Spark counts in another way. */
  def setLastSnapshot(store: RocksDB, version: Long): Unit =
    SparkInternals.rocksDBLastSnapshotVersion.foreach { case (_, set) => set.invoke(store, Long.box(version)) }
}
