package org.apache.spark.sql.execution.streaming.state.shims

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
   * The order in which to write these keys, each by its place here: neighbours in it are neighbours in memory, too. Those of
   * equal keys keep theirs. By words of eight bytes: to compare the keys one with another took a quarter of a copy's time.
   */
  private[shims] def order(keys: Array[Array[Byte]]): Array[Int] = {
    val order = keys.indices.toArray
    sort(keys, order, 0, keys.length, sorted = -1)
    order
  }

  /** Of this part, whose keys are in order as far as their first `sorted` bytes go, and alike in these. */
  private def sort(keys: Array[Array[Byte]], order: Array[Int], from: Int, until: Int, sorted: Int): Unit = {
    val before = Arrays.copyOfRange(order, from, until)
    val start = commonPrefix(keys, before)
    if (start > sorted) { // else the shorter ones are as if zeros came after them
      val mask = (1L << (64 - java.lang.Long.numberOfLeadingZeros(before.length.toLong))) - 1 // of a place, below a key's bits
      val words = Array.tabulate(before.length)(place => (wordAt(keys(before(place)), start) ^ Long.MinValue) & ~mask | place)
      Arrays.sort(words) // as signed numbers, hence the first bit turned
      for (place <- words.indices) order(from + place) = before((words(place) & mask).toInt)
      var first = 0
      while (first < words.length) {
        var end = first + 1
        while (end < words.length && (words(end) & ~mask) == (words(first) & ~mask)) end += 1
        if (end > first + 1) sort(keys, order, from + first, from + end, start)
        first = end
      }
    }
  }

  private def commonPrefix(keys: Array[Array[Byte]], places: Array[Int]): Int = {
    val first = places.headOption.fold(Array.emptyByteArray)(keys)
    places.foldLeft(first.length) { (length, place) =>
      val key = keys(place)
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
        order(changes.view.map(_._2).toArray).iterator.map(changes).foreach {
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
