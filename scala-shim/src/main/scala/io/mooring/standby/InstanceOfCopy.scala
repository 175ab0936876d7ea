package io.mooring.standby

import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.{Semaphore, TimeUnit}

import scala.util.control.NonFatal

import io.mooring.common.Log
import io.mooring.restore.OpenCopy
import org.apache.hadoop.fs.Path
import org.apache.spark.shims.IdleWaitBudget
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, CopiedVersion, OpenStore, OpenStores}

/** What the query of a copy commits, by the orders for that copy: they come soon after a commit, the first one at any time. */
private[mooring] final class Commits {
  private var newest = -1L // version
  @volatile private var heardAt = System.nanoTime()

  /** By one thread at a time. */
  def heard(version: Long): Unit = if (version > newest) {
    newest = version
    heardAt = System.nanoTime()
  }

  /** So that the next batch's tasks are not here yet, where it does not follow at once. */
  def isOneJustNow: Boolean = System.nanoTime() - heardAt < Commits.JustNowNanos
}

private object Commits {
  private val JustNowNanos = TimeUnit.MILLISECONDS.toNanos(500)
}

/**
 * The open instance of one copied store, where there is room for it: brought on from version to version, else dropped
 * and opened anew from the files that were copied. Whatever goes wrong leaves a copy of files, which is opened at the
 * take-over.
 *
 * @param patience of all copies before they are opened: that takes a processor for a second, where code is cold
 */
private final class InstanceOfCopy(
    directory: Path, partition: Int, access: CheckpointAccess, room: Semaphore, patience: IdleWaitBudget, commits: Commits)
  extends OpenCopy {
  private val isPossible = OpenStores.areOf(access)
  @volatile private var isOver = false
  @volatile private var open = Option.empty[OpenStore]
  private var notBefore = System.nanoTime()
  private var hasFailed = false
  private var hasTurn = false
  private var failure = Option.empty[Throwable] // of going on, not dealt with yet

  override def goOn(copied: CopiedVersion): Boolean =
    try hasGoneOn(copied)
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] =>
        drop()
        failure = Some(e)
        false
    }

  private def hasGoneOn(copied: CopiedVersion): Boolean = stands(copied) && !isDue(copied)

  /** Whether it is to be opened anew now, though it could go on: until it is its turn it does. */
  private def isDue(copied: CopiedVersion): Boolean =
    System.nanoTime() - notBefore >= 0 && open.exists(copy => !copy.isTaken && copy.isDated(copied)) && (hasTurn || {
      hasTurn = InstanceOfCopy.turn.tryAcquire()
      hasTurn
    })

  override def endTurn(): Unit = if (hasTurn) {
    hasTurn = false
    InstanceOfCopy.turn.release()
  }

  private def stands(copied: CopiedVersion): Boolean = open.exists(_.goOn(copied))

  override def isOpen: Boolean = open.nonEmpty

  override def isWaiting: Boolean = !isOver && open.exists(!_.isTaken)

  /** One waits at a time: the other threads bring copies on. */
  override def awaitQuiet(isWanted: => Boolean): Unit =
    if (isPossible && !isPaused && room.availablePermits > 0 && InstanceOfCopy.waiting.tryAcquire())
      try patience.await(isWanted && !isOver, commits.isOneJustNow)
      finally InstanceOfCopy.waiting.release()

  override def bringTo(copied: CopiedVersion): Boolean = !isPossible || isOver || {
    val done =
      try {
        for (e <- failure) {
          failure = None
          throw e
        }
        if (!stands(copied)) openAnew(copied)
        else if (isDue(copied)) exchange(copied)
        if (open.nonEmpty) hasFailed = false
        true
      } catch {
        case e @ (_: InterruptedException | _: ClosedByInterruptException) => // the executor ends
          drop()
          throw e
        case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] =>
          notBefore = System.nanoTime() + InstanceOfCopy.PauseNanos
          Log.failed(s"open-copy-${e.getClass.getName}", e)(s"the copy of $directory could not be kept open ($e): its files are " +
            "kept, and it is opened again in a minute")
          drop()
          val isFirst = !hasFailed
          hasFailed = true
          !isFirst
      }
    endTurn()
    if (isOver) drop()
    done
  }

  override def close(): Unit = {
    isOver = true
    open.foreach(_.drop())
  }

  private def drop(): Unit = {
    open.foreach(_.drop())
    open = None
  }

  private def openAnew(copied: CopiedVersion): Unit = {
    if (open.exists(_.isTaken)) notBefore = System.nanoTime() + InstanceOfCopy.PauseNanos // the order is from before that
    if (isPaused) drop() else openNow(copied)
  }

  private def isPaused: Boolean = notBefore - System.nanoTime() > 0

  /** If that fails the one that is open goes on for another minute. */
  private def exchange(copied: CopiedVersion): Unit =
    try openNow(copied)
    catch {
      case e: ClosedByInterruptException => throw e
      case NonFatal(e) if open.nonEmpty =>
        notBefore = System.nanoTime() + InstanceOfCopy.PauseNanos
        Log.failed(s"open-copy-anew-${e.getClass.getName}", e)(s"the copy of $directory could not be opened anew ($e): it goes on " +
          "from the version that it has, and that is tried again in a minute")
    }

  /** Where there is room for both, it takes the place of one that is still there. */
  private def openNow(copied: CopiedVersion): Unit = if (hasRoom) {
    val watcher = new StoreWatcher(directory, isOfCopy = true)
    val opened =
      try OpenStores.open(directory, partition, copied, access, watcher)(room.release())
      catch {
        case e: Throwable =>
          room.release()
          throw e
      }
    open = Some(opened)
  }

  private def hasRoom: Boolean = room.tryAcquire() || {
    drop()
    room.tryAcquire()
  }
}

private object InstanceOfCopy {
  // Copies become dated together; opening them takes processor time that the tasks of the executor need, and a snapshot each.
  private val turn = new Semaphore(1)
  private val waiting = new Semaphore(1)
  private val PauseNanos = TimeUnit.MINUTES.toNanos(1)
}
