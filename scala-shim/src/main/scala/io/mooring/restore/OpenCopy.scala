package io.mooring.restore

import org.apache.spark.sql.execution.streaming.state.shims.CopiedVersion

/** What is open of a copied store; called by one thread at a time, `close` by any. */
private[mooring] trait OpenCopy {

  /**
   * By the changelogs alone, before any other file of the version is here; false when that can not be, or when it is time
   * to begin with a newer snapshot. `bringTo` deals with what goes wrong.
   */
  def goOn(copied: CopiedVersion): Boolean

  /** Whatever came of the round in which it had the turn to be opened anew. */
  def endTurn(): Unit

  def isOpen: Boolean

  /** Whether it is open, for somebody who has not taken it over yet. */
  def isWaiting: Boolean

  /** Before it is opened when it is not, while it is wanted: for a moment between batches, when no task needs the processors. */
  def awaitQuiet(isWanted: => Boolean): Unit

  /** False when the copied files did not do for it, for the first time in a row: one of them may be damaged. */
  def bringTo(copied: CopiedVersion): Boolean

  /** For ever. What is being opened meanwhile is dropped by who opens it. */
  def close(): Unit
}

/** Of files alone. */
private object NeverOpen extends OpenCopy {
  override def goOn(copied: CopiedVersion): Boolean = false
  override def endTurn(): Unit = ()
  override def isOpen: Boolean = false
  override def isWaiting: Boolean = false
  override def awaitQuiet(isWanted: => Boolean): Unit = ()
  override def bringTo(copied: CopiedVersion): Boolean = true
  override def close(): Unit = ()
}
