package io.mooring.standby

import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.{Semaphore, TimeUnit}

import scala.util.control.NonFatal

import io.mooring.common.Log
import io.mooring.restore.OpenCopy
import org.apache.hadoop.fs.Path
import org.apache.spark.shims.IdleWaitBudget
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, CopiedVersion, OpenStore, OpenStores}

/** When the query of a copy has committed, by the orders for the copy: an order for a new version comes soon after the commit. */
private[mooring] final class Commits {
  private var newest = -1L // version
  @volatile private var committedAt = System.nanoTime()

  /** An order for this version has come. Called by one thread at a time. */
  def note(version: Long): Unit = if (version > newest) {
    newest = version
    committedAt = System.nanoTime()
  }

  /** Whether the query has committed in the last half second. Then tasks of the next batch are not here yet, unless it follows at once. */
  def hasJustCommitted: Boolean = System.nanoTime() - committedAt < Commits.JustNowNanos
}

private object Commits {
  private val JustNowNanos = TimeUnit.MILLISECONDS.toNanos(500)
}

/**
 * The open instance of one copied store, if there is a free slot for it. It is advanced from version to version; where it can not be, it
 * is dropped, and opened anew from the copied files. After any failure the copy is plain files, which are opened at the take-over.
 *
 * Called by the threads of `Copies`, one at a time; `close` by any. A provider may take the instance over at any moment
 * (`OpenStores.take`).
 *
 * @param slots        free places for open copies on this executor
 * @param openingWaits the waits of all copies before they are opened, which takes a processor for a second where code is cold
 */
private final class InstanceOfCopy(
    directory: Path, partition: Int, access: CheckpointAccess, slots: Semaphore, openingWaits: IdleWaitBudget, commits: Commits)
  extends OpenCopy {
  private val isPossible = OpenStores.arePossible(access)
  @volatile private var isOver = false
  @volatile private var open = Option.empty[OpenStore]
  private var notBefore = System.nanoTime() // when it may be opened next
  private var hasFailed = false
  private var hasTurn = false // to be opened anew
  private var failure = Option.empty[Throwable] // of `advance`, for the next `bringTo`

  override def advance(copied: CopiedVersion): Boolean =
    try hasReached(copied) && !isDue(copied)
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] =>
        drop()
        failure = Some(e)
        false
    }

  /** Whether the instance is to be opened anew now, from a newer snapshot. Copies have turns for that; until its turn a copy is advanced. */
  private def isDue(copied: CopiedVersion): Boolean =
    System.nanoTime() - notBefore >= 0 && open.exists(copy => !copy.isTaken && copy.isDated(copied)) && (hasTurn || {
      hasTurn = InstanceOfCopy.turn.tryAcquire()
      hasTurn
    })

  override def endTurn(): Unit = if (hasTurn) {
    hasTurn = false
    InstanceOfCopy.turn.release()
  }

  private def hasReached(copied: CopiedVersion): Boolean = open.exists(_.advance(copied))

  override def isOpen: Boolean = open.nonEmpty

  override def isWaiting: Boolean = !isOver && open.exists(!_.isTaken)

  /** One copy waits at a time, so that the other threads can advance copies. */
  override def awaitIdle(isWanted: => Boolean): Unit =
    if (isPossible && !isPaused && slots.availablePermits > 0 && InstanceOfCopy.waiting.tryAcquire())
      try openingWaits.await(isWanted && !isOver, commits.hasJustCommitted)
      finally InstanceOfCopy.waiting.release()

  override def bringTo(copied: CopiedVersion): Boolean = !isPossible || isOver || {
    val done =
      try {
        for (e <- failure) {
          failure = None
          throw e
        }
        if (!hasReached(copied)) openAnew(copied)
        else if (isDue(copied)) replaceOpenOne(copied)
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
    if (open.exists(_.isTaken)) notBefore = System.nanoTime() + InstanceOfCopy.PauseNanos // the order was sent before the take-over
    if (isPaused) drop() else openNow(copied)
  }

  private def isPaused: Boolean = notBefore - System.nanoTime() > 0

  /** Opens a new instance in the place of the open one. If that fails, the open one stays for another minute at least. */
  private def replaceOpenOne(copied: CopiedVersion): Unit =
    try openNow(copied)
    catch {
      case e: ClosedByInterruptException => throw e
      case NonFatal(e) if open.nonEmpty =>
        notBefore = System.nanoTime() + InstanceOfCopy.PauseNanos
        Log.failed(s"open-copy-anew-${e.getClass.getName}", e)(s"the copy of $directory could not be opened anew ($e): it goes on " +
          "from the version that it has, and that is tried again in a minute")
    }

  /** Opens a new instance, if there is a free slot. With only one slot, the open instance is dropped first. */
  private def openNow(copied: CopiedVersion): Unit = if (acquireSlot()) {
    val watcher = new StoreWatcher(directory, isOfCopy = true)
    val opened =
      try OpenStores.open(directory, partition, copied, access, watcher)(slots.release())
      catch {
        case e: Throwable =>
          slots.release()
          throw e
      }
    open = Some(opened)
  }

  private def acquireSlot(): Boolean = slots.tryAcquire() || {
    drop()
    slots.tryAcquire()
  }
}

private object InstanceOfCopy {
  // Many copies become due to be opened anew at the same time. That takes processor time from tasks, and a snapshot for each copy: so
  // one copy of the executor is opened anew at a time.
  private val turn = new Semaphore(1)
  private val waiting = new Semaphore(1)
  private val PauseNanos = TimeUnit.MINUTES.toNanos(1)
}
