package io.mooring.restore

import org.apache.spark.sql.execution.streaming.state.shims.CopiedVersion

/**
 * The open instance of one copied store, if there is one, as `StoreCopy` uses it. Called by one thread at a time, `close` by any.
 * `InstanceOfCopy` is the real one. Without an open instance, a copy is plain files, and the executor that takes over must first open
 * RocksDB.
 */
private[mooring] trait OpenCopy {

  /**
   * Advances the open instance by changelogs alone, before other files of the version are here. False when it can not, or when the
   * instance should be opened anew from a newer snapshot. Throws nothing: `bringTo` reports a failure.
   */
  def advance(copied: CopiedVersion): Boolean

  /** The round has ended, well or badly. The instance gives back the turn to be opened anew, if it had it. */
  def endTurn(): Unit

  def isOpen: Boolean

  /** Whether the instance is open, and no provider has taken it over. */
  def isWaiting: Boolean

  /** Blocks until a moment between batches in which no task needs the processors, while the copy `isWanted`. Called before it is opened. */
  def awaitIdle(isWanted: => Boolean): Unit

  /** Brings the instance to the version. False when the copied files failed for the first time in a row: one may be damaged. */
  def bringTo(copied: CopiedVersion): Boolean

  /** Closes the instance for good. If another thread is opening it just now, that thread drops it. */
  def close(): Unit
}

/** A copy that is plain files, and is never opened. */
private object NeverOpen extends OpenCopy {
  override def advance(copied: CopiedVersion): Boolean = false
  override def endTurn(): Unit = ()
  override def isOpen: Boolean = false
  override def isWaiting: Boolean = false
  override def awaitIdle(isWanted: => Boolean): Unit = ()
  override def bringTo(copied: CopiedVersion): Boolean = true
  override def close(): Unit = ()
}
