package org.apache.spark.sql.execution.streaming.state.shims

import java.nio.ByteBuffer
import java.util.{Arrays, Map => JMap}

import scala.collection.mutable.ArrayBuffer

import org.rocksdb.{WriteBatch, WriteOptions, RocksDB => NativeRocksDB}

import org.apache.spark.sql.execution.streaming.state.{RecordType, RocksDBStateStoreProvider, StateStoreChangelogReader}

/** How many keys of the user, and how many of Spark's own, a version of a store has; -1 where they are not counted. */
final case class KeyCounts(keys: Long, internal: Long)

object KeyCounts {
  val NotCounted: KeyCounts = KeyCounts(-1, -1)
}

/**
 * Writes the changes of later versions into an open copy. Stock Spark's replay looks every key up before it writes the key, to count
 * keys; the look-ups take most of its time. Where the store's executor has reported the number of keys, this replay writes many
 * changes at once, in the order of their keys.
 *
 * Called by the thread that advances the copy. Depends on what `InsideRocksDB` reaches, and on the kinds of records in a changelog.
 */
private final class Replay(store: RocksDBOfLine, hasColumnFamilies: Boolean) {
  import Replay._

  private val inside = new InsideRocksDB(store)

  /** Replays these versions as stock Spark does on top of a snapshot. */
  def countingKeys(versions: Seq[(Long, String)]): Unit = {
    inside.replayChangelog(versions)
    setCounts(inside.counts)
  }

  /** Replays the changes of one version. `setCounts` has to follow after the last version. */
  def withoutCounting(changes: StateStoreChangelogReader): Unit = {
    store.beforeReplay()
    val batch = new Batch(inside.db, inside.writeOptions)
    val families = if (hasColumnFamilies) Some(inside.families) else None
    changes.foreach { case (kind, key, value) =>
      families.foreach(checkFamily(key, _))
      batch.add(kind, key, value)
    }
    batch.write()
  }

  /** Stock Spark's replay finds an unknown family when it looks a key up. Such a family would get another number later. */
  private def checkFamily(key: Array[Byte], families: JMap[Short, String]): Unit = {
    val id = RocksDBStateStoreProvider.getColumnFamilyBytesAsId(key)
    if (!families.containsKey(id)) throw new IllegalStateException(s"a changelog has a key of column family $id, which is not known here")
  }

  /** Sets the numbers of keys in the version that was reached. */
  def setCounts(counts: KeyCounts): Unit = inside.setCounts(counts)
}

private object Replay {
  private val MostBytes = 1 << 20
  private type Change = (RecordType.Value, Array[Byte], Array[Byte])

  /**
   * The places of these keys in sorted order. Equal keys keep their order. Keys are compared by words of eight bytes, which are
   * sorted as numbers: comparing keys byte by byte took a quarter of a copy's time.
   */
  private[shims] def order(keys: Array[Array[Byte]]): Array[Int] = {
    val order = keys.indices.toArray
    sort(keys, order, 0, keys.length, sorted = -1)
    order
  }

  /** Sorts the part of `order` from `from` to `until`, whose keys have the same first `sorted` bytes. */
  private def sort(keys: Array[Array[Byte]], order: Array[Int], from: Int, until: Int, sorted: Int): Unit = {
    val before = Arrays.copyOfRange(order, from, until)
    val start = commonPrefix(keys, before)
    if (start > sorted) { // else the keys differ only by zeros at the end of the longer ones
      val mask = (1L << (64 - java.lang.Long.numberOfLeadingZeros(before.length.toLong))) - 1 // the lowest bits of a word hold the place of its key
      val words = Array.tabulate(before.length)(place => (wordAt(keys(before(place)), start) ^ Long.MinValue) & ~mask | place)
      Arrays.sort(words) // as signed numbers: that is why the first bit of each word is inverted
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

  /** Eight bytes of the key from `start` on, as a big-endian number; zeros after the end of the key. */
  private def wordAt(key: Array[Byte], start: Int): Long =
    ByteBuffer.wrap(if (key.length < start + 8) Arrays.copyOf(key, start + 8) else key).getLong(start)

  private final class Batch(db: NativeRocksDB, options: WriteOptions) {
    private val changes = ArrayBuffer.empty[Change]
    private var bytes = 0L

    def add(kind: RecordType.Value, key: Array[Byte], value: Array[Byte]): Unit = {
      val isRange = RangeRecords.isRange(kind)
      if (isRange || bytes >= MostBytes) write()
      changes += ((kind, key, value))
      bytes += key.length + (if (value == null) 0 else value.length)
      if (isRange) write()
    }

    def write(): Unit = if (changes.nonEmpty) {
      val batch = new WriteBatch()
      try {
        order(changes.view.map(_._2).toArray).iterator.map(changes).foreach {
          case (RecordType.PUT_RECORD, key, value) => batch.put(key, value)
          case (RecordType.DELETE_RECORD, key, _) => batch.delete(key)
          case (RecordType.MERGE_RECORD, key, value) => batch.merge(key, value)
          case (kind, first, end) if RangeRecords.isRange(kind) => batch.deleteRange(first, end)
          case (other, _, _) => throw new IllegalStateException(s"a changelog has a record of the kind $other")
        }
        db.write(options, batch)
      } finally batch.close()
      changes.clear()
      bytes = 0
    }
  }
}
