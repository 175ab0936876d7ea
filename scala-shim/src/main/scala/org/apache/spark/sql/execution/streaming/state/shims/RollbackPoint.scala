package org.apache.spark.sql.execution.streaming.state.shims

import scala.util.control.NonFatal

/**
 * The content of one RocksDB instance. `changes` is RocksDB's number of its last change: two positions of one instance with the same
 * number have the same content.
 */
private final case class Position(version: Long, id: Option[String], changes: Long, families: Map[Short, String])

/**
 * The position to which a roll-back of one `RocksDBShim` returns, and the writes since then. Called by the thread that uses the store.
 *
 * @param now    the instance's position; None when it can not be known
 * @param undoOf takes back the writes after this number of changes
 */
private final class RollbackPoint(now: () => Option[Position], undoOf: Long => Undo) {
  @volatile private var start = Option.empty[Position] // the loaded version, before any write
  @volatile private var left = Option.empty[Position] // where the last roll-back has left the instance open
  @volatile private var undoSinceStart = Option.empty[Undo]

  /** Takes back what was written since the version was loaded; None when that is not wanted, or not possible. */
  def undo: Option[Undo] = undoSinceStart

  /** There is nothing to return to. */
  def forget(): Unit = {
    start = None
    undoSinceStart = None
  }

  /**
   * A version is about to be loaded, and the position is forgotten. False when the instance differs from what the last roll-back has left:
   * Python of a killed task may have written after the roll-back. Then the instance has to be opened again.
   */
  def isLeftAsItWas(): Boolean = {
    forget()
    val isAsItWas = left.forall(now().contains(_))
    left = None
    isAsItWas
  }

  /** A version is loaded: a roll-back returns to it. */
  def loaded(isUndoWanted: Boolean): Unit = {
    start = now()
    undoSinceStart = start.filter(isUndoWanted && _.id.nonEmpty).map(at => undoOf(at.changes))
  }

  /** A commit begins: from now on no write can be taken back. */
  def committing(): Unit = undoSinceStart = None

  /** Takes back the writes since the version was loaded. The position then, if it has the content of that version. */
  def takeBack(): Option[Position] =
    try start.filter(_.id.nonEmpty).flatMap { before =>
      now().filter(_.copy(changes = before.changes) == before).flatMap { found =>
        if (found == before) Some(found) else undoSinceStart.flatMap(_.takeBack()).map(changes => found.copy(changes = changes))
      }
    } catch {
      case NonFatal(_) => None // if the writes are taken back in part only, the version is opened again, as in stock Spark
    }

  /** A roll-back has left the instance open at this position; None when the instance has to be opened again. */
  def leftAt(position: Option[Position]): Unit = left = position
}
