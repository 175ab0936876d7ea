package org.apache.spark.sql.execution.streaming.state.mooring

import java.nio.ByteBuffer
import java.util.{Arrays, Map => JMap}

import scala.collection.mutable.ArrayBuffer

import org.rocksdb.{WriteBatch, WriteOptions, RocksDB => NativeRocksDB}

import org.apache.spark.sql.execution.streaming.state.{RecordType, RocksDB, RocksDBStateStoreProvider, StateStoreChangelogReader}

/** How many keys a version of a store has, and how many that Spark keeps beside the user's; -1 where they are not counted. */
final case class KeyCounts(keys: Long, internal: Long)

object KeyCounts {
  val NotCounted: KeyCounts = KeyCounts(-1, -1)
}

/**
 * Brings an open instance on by the changes of later versions. Stock's replay looks every key up before it writes it, to
 * know how many there are, which is the larger part of its time; where the owner has told their number the changes are
 * written many at once instead, in the order of their keys.
 */
private final class Replay(store: RocksDB, hasColumnFamilies: Boolean) {
  import Replay._

  private val inside = new InsideRocksDB(store)

  /** As stock replays on top of a snapshot. */
  def counting(versions: Seq[(Long, String)]): Unit = {
    inside.replayChangelog(versions)
    told(inside.counts)
  }

  /** The changes of one version, which may have any number of them. */
  def uncounted(changes: StateStoreChangelogReader): Unit = {
    store.updateMemoryUsageIfNeeded()
    val batch = new Batch(inside.db, inside.writeOptions)
    val families = if (hasColumnFamilies) Some(inside.families) else None
    changes.foreach { case (kind, key, value) =>
      families.foreach(checkFamily(key, _))
      batch.add(kind, key, value)
    }
    batch.write()
  }

  /** As Spark's replay does by looking it up: a family that is not known would be numbered anew later. */
  private def checkFamily(key: Array[Byte], families: JMap[Short, String]): Unit = {
    val id = RocksDBStateStoreProvider.getColumnFamilyBytesAsId(key)
    if (!families.containsKey(id)) throw new IllegalStateException(s"a changelog has a key of column family $id, which is not known here")
  }

  /** How many keys there are in the version to which it was brought. */
  def told(counts: KeyCounts): Unit = inside.setCounts(counts)
}

private object Replay {
  private val MostBytes = 1 << 20
  private type Change = (RecordType.Value, Array[Byte], Array[Byte])

  /**
   * The order in which to write these keys: neighbours in it are neighbours in memory, too, which makes writing cheaper. It
   * need not be exact, and costs much less than an exact one: by the first bytes in which the keys differ. The changes of
   * one key stay in theirs.
   */
  private[mooring] def nearlySorted(keys: IndexedSeq[Array[Byte]]): Array[Int] = {
    val start = commonPrefix(keys)
    val bits = 64 - java.lang.Long.numberOfLeadingZeros(keys.length.toLong) // of an index, below those of the key
    val mask = (1L << bits) - 1
    val order = Array.tabulate(keys.length)(index => (wordAt(keys(index), start) ^ Long.MinValue) & ~mask | index)
    Arrays.sort(order) // as signed numbers, hence the first bit turned
    order.map(word => (word & mask).toInt)
  }

  private def commonPrefix(keys: IndexedSeq[Array[Byte]]): Int = {
    val first = keys.headOption.getOrElse(Array.emptyByteArray)
    keys.foldLeft(first.length) { (length, key) =>
      val differs = Arrays.mismatch(first, 0, length, key, 0, math.min(length, key.length))
      if (differs < 0) length else differs
    }
  }

  /** Eight bytes of the key from there on, the first one the highest; zeros behind its end. */
  private def wordAt(key: Array[Byte], start: Int): Long =
    ByteBuffer.wrap(if (key.length < start + 8) Arrays.copyOf(key, start + 8) else key).getLong(start)

  private final class Batch(db: NativeRocksDB, options: WriteOptions) {
    private val changes = ArrayBuffer.empty[Change]
    private var bytes = 0L

    def add(kind: RecordType.Value, key: Array[Byte], value: Array[Byte]): Unit = {
      val isOfMany = kind == RecordType.DELETE_RANGE_RECORD
      if (isOfMany || bytes >= MostBytes) write()
      changes += ((kind, key, value))
      bytes += key.length + (if (value == null) 0 else value.length)
      if (isOfMany) write()
    }

    def write(): Unit = if (changes.nonEmpty) {
      val batch = new WriteBatch()
      try {
        nearlySorted(changes.view.map(_._2).toIndexedSeq).iterator.map(changes).foreach {
          case (RecordType.PUT_RECORD, key, value) => batch.put(key, value)
          case (RecordType.DELETE_RECORD, key, _) => batch.delete(key)
          case (RecordType.MERGE_RECORD, key, value) => batch.merge(key, value)
          case (RecordType.DELETE_RANGE_RECORD, first, end) => batch.deleteRange(first, end)
          case (other, _, _) => throw new IllegalStateException(s"a changelog has a record of the kind $other")
        }
        db.write(options, batch)
      } finally batch.close()
      changes.clear()
      bytes = 0
    }
  }
}
