package org.apache.spark.sql.execution.streaming.state.shims

import scala.collection.mutable.ArrayBuffer
import scala.util.control.NonFatal

import org.rocksdb.WriteBatch

/**
 * Takes back what a task has written to its open store since the version was loaded. It notes the value that each key had
 * before, which costs a look-up for each write. So it does this for a limited number of writes: a store with more writes is
 * opened again, as in stock Spark.
 *
 * RocksDB's own snapshots need no look-ups. But when one is released, RocksDB compacts files of the lowest level, and these
 * have to be uploaded again.
 *
 * Called by the thread that writes and by the thread that rolls back. Depends on what `InsideRocksDB` reaches.
 *
 * @param first the number of RocksDB's last change when the version was loaded
 */
private final class Undo(inside: InsideRocksDB, first: Long) {
  private val before = ArrayBuffer.empty[(Array[Byte], Array[Byte])] // keys with their values, null for none
  private var bytes = 0L
  private var isPossible = true

  /** Called before each write. The key is copied, as the caller may use its array for the next key. */
  def beforeWrite(key: Array[Byte], family: Option[String]): Unit = synchronized {
    if (isPossible)
      try {
        val whole = family.fold(key.clone())(inside.prefixed(key, _))
        val value = inside.db.get(whole)
        before += whole -> value
        bytes += whole.length + (if (value == null) 0 else value.length)
        if (before.size > Undo.MostWrites || bytes > Undo.MostBytes) giveUp()
      } catch { case NonFatal(_) => giveUp() } // the write that follows fails for the same reason, and reports it
  }

  /** Called before a write that can not be taken back. */
  def giveUp(): Unit = synchronized {
    isPossible = false
    before.clear()
  }

  /**
   * Restores the content that the store had. The number of RocksDB's last change afterwards; None when the content could not be
   * restored. RocksDB numbers its changes: there must be none but those that were noted, and none that come meanwhile.
   */
  def takeBack(): Option[Long] = synchronized {
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
  /** Whether writes are noted. Only applications with standbys need it, and pay for the look-ups. */
  @volatile var isWanted = false

  private val MostWrites = 256
  private val MostBytes = 4 << 20
}
