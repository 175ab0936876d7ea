package io.mooring.restore

import org.apache.spark.sql.execution.streaming.state.shims.CopiedVersion

/**
 * The open RocksDB instance of one copied store, as `StoreCopy` uses it. There may be no instance at the moment. `InstanceOfCopy` is the
 * implementation for standbys.
 *
 * Called by one thread at a time; `close` is called by any thread. Without an open instance, a copy is plain files, and the executor that
 * takes over must first open RocksDB.
 */
private[mooring] trait OpenCopy {

  /**
   * Advances the open instance by changelogs alone, before other files of the version are here. False when that is not possible, or when
   * the instance should be opened again from a newer snapshot. Throws nothing: the next `advanceOrOpen` reports what failed here.
   */
  def advance(copied: CopiedVersion): Boolean

  /** The round has ended, with or without success. Releases the turn to open an instance again, if this copy has that turn. */
  def endTurn(): Unit

  def isOpen: Boolean

  /** Whether the instance is open, and no state store provider has taken it over. */
  def isWaiting: Boolean

  /** Blocks until a moment between batches, when no task needs the processors, or until the copy is not wanted any more. Called before an opening. */
  def awaitIdle(isWanted: => Boolean): Unit

  /**
   * Advances the instance to the version, or opens an instance at it. False when that has failed and the attempt before it had not: then a
   * copied file may be damaged.
   */
  def advanceOrOpen(copied: CopiedVersion): Boolean

  /** Closes the instance; no instance is opened after that. If another thread is opening an instance now, that thread drops it. */
  def close(): Unit
}

/** A copy that is plain files, and is never opened. */
private object NeverOpen extends OpenCopy {
  override def advance(copied: CopiedVersion): Boolean = false
  override def endTurn(): Unit = ()
  override def isOpen: Boolean = false
  override def isWaiting: Boolean = false
  override def awaitIdle(isWanted: => Boolean): Unit = ()
  override def advanceOrOpen(copied: CopiedVersion): Boolean = true
  override def close(): Unit = ()
}
