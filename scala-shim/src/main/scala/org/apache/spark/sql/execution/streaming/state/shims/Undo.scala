package org.apache.spark.sql.execution.streaming.state.shims

import scala.collection.mutable.ArrayBuffer
import scala.util.control.NonFatal

import org.rocksdb.WriteBatch

/**
 * Takes back what a task has written to an open store since it loaded its version: keeps what each key had before. Only of
 * some writes, as each is looked up for that: where there were more, the store is opened anew, as in stock Spark.
 *
 * RocksDB's own snapshots would do without looking up; but when one is released, files of the lowest level are compacted,
 * and have to be uploaded again.
 *
 * @param first how many changes the store had when the version was loaded
 */
private final class Undo(inside: InsideRocksDB, first: Long) {
  private val before = ArrayBuffer.empty[(Array[Byte], Array[Byte])] // key, and its value or null
  private var bytes = 0L
  private var isPossible = true

  /** Called before each write, by who writes. The key's bytes may be another key's soon. */
  def writes(key: Array[Byte], family: Option[String]): Unit = synchronized {
    if (isPossible)
      try {
        val whole = family.fold(key.clone())(inside.prefixed(key, _))
        val value = inside.db.get(whole)
        before += whole -> value
        bytes += whole.length + (if (value == null) 0 else value.length)
        if (before.size > Undo.MostWrites || bytes > Undo.MostBytes) giveUp()
      } catch { case NonFatal(_) => giveUp() } // the write itself tells what is wrong
  }

  /** Before a write that can not be taken back. */
  def giveUp(): Unit = synchronized {
    isPossible = false
    before.clear()
  }

  /**
   * How many changes the store has when it has the content again that it had; None when it has not. RocksDB numbers all
   * changes: there may be no others than those that are known, and none that come meanwhile.
   */
  def done(): Option[Long] = synchronized {
    val last = inside.db.getLatestSequenceNumber
    Option.when(isPossible && last - first == before.size)(new WriteBatch()).flatMap { batch =>
      try {
        for ((key, value) <- before.reverseIterator) if (value == null) batch.delete(key) else batch.put(key, value)
        inside.db.write(inside.writeOptions, batch)
        Some(last + batch.count).filter(_ == inside.db.getLatestSequenceNumber)
      } finally batch.close()
    }
  }
}

object Undo {
  /** Where standbys take over: who has none does not pay for it. */
  @volatile var isWanted = false

  private val MostWrites = 256
  private val MostBytes = 4 << 20
}
