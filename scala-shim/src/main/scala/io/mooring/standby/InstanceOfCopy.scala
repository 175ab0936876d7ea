package io.mooring.standby

import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.{Semaphore, TimeUnit}

import scala.util.control.NonFatal

import io.mooring.common.Log
import io.mooring.restore.OpenCopy
import org.apache.hadoop.fs.Path
import org.apache.spark.shims.IdleWaitBudget
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, CopiedVersion, OpenStore, OpenStores}

/** Infers from the orders for a copy when the copied query has committed: an order for a new version comes soon after the commit. */
private[mooring] final class LastCommit {
  private var newest = -1L // the newest version of any order
  @volatile private var committedAt = System.nanoTime()

  /** An order for this version has come. Called with the lock of the copy. */
  def note(version: Long): Unit = if (version > newest) {
    newest = version
    committedAt = System.nanoTime()
  }

  /**
   * Whether the query has committed in the last half second. Then no task of the next batch runs here yet, unless that batch follows at
   * once.
   */
  def isRecent: Boolean = System.nanoTime() - committedAt < LastCommit.JustNowNanos
}

private object LastCommit {
  private val JustNowNanos = TimeUnit.MILLISECONDS.toNanos(500)
}

/**
 * The open instance of one copied store, if there is a free slot for it. It is advanced from version to version. When it can not be
 * advanced, it is dropped, and opened again from the copied files. After any failure the copy is plain files, which are opened when a
 * provider takes the store over.
 *
 * Threads: the threads of `Copies`, one at a time; any thread calls `close`. A provider may take the instance over at any moment
 * (`OpenStores.take`). Depends on `OpenStores`, and so on private members of `RocksDB`, through SparkInternals. Without them, copies are
 * plain files.
 *
 * @param slots        free places for open copies on this executor
 * @param openingWaits the waits of all copies before their opening. An opening takes a processor for a second while code is cold
 */
private final class InstanceOfCopy(
    directory: Path, partition: Int, access: CheckpointAccess, slots: Semaphore, openingWaits: IdleWaitBudget, lastCommit: LastCommit)
  extends OpenCopy {
  private val isPossible = OpenStores.arePossible(access)
  @volatile private var isOver = false
  @volatile private var open = Option.empty[OpenStore]
  private var notBefore = System.nanoTime() // the earliest time of the next opening
  private var hasFailed = false
  private var hasTurn = false // whether this copy has the turn to be opened again (`InstanceOfCopy.turn`)
  private var failure = Option.empty[Throwable] // the failure of `advance`, for the next `advanceOrOpen`

  override def advance(copied: CopiedVersion): Boolean =
    try hasReached(copied) && !isDue(copied)
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] =>
        drop()
        failure = Some(e)
        false
    }

  /** Whether the instance is to be opened again now, from a newer snapshot. Copies take turns; until its turn, a copy is advanced. */
  private def isDue(copied: CopiedVersion): Boolean =
    System.nanoTime() - notBefore >= 0 && open.exists(copy => !copy.isTaken && copy.isOutdated(copied)) && (hasTurn || {
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

  /** Only one copy waits at a time, so that the other threads can advance copies. */
  override def awaitIdle(isWanted: => Boolean): Unit =
    if (isPossible && !isPaused && slots.availablePermits > 0 && InstanceOfCopy.waiting.tryAcquire())
      try openingWaits.await(isWanted && !isOver, lastCommit.isRecent)
      finally InstanceOfCopy.waiting.release()

  override def advanceOrOpen(copied: CopiedVersion): Boolean = !isPossible || isOver || {
    val done =
      try {
        for (e <- failure) {
          failure = None
          throw e
        }
        if (!hasReached(copied)) openAgain(copied)
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

  private def openAgain(copied: CopiedVersion): Unit = {
    // A provider has taken the instance over, and the driver sent this order before it knew that: no instance is opened for a minute.
    if (open.exists(_.isTaken)) notBefore = System.nanoTime() + InstanceOfCopy.PauseNanos
    if (isPaused) drop() else openNow(copied)
  }

  private def isPaused: Boolean = notBefore - System.nanoTime() > 0

  /** Opens a new instance in the place of the open one. If that fails, the open instance stays for another minute at least. */
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
    val observer = new StoreWatcher(directory, hasUniqueIds = true, isOfCopy = true)
    val opened =
      try OpenStores.open(directory, partition, copied, access, observer)(slots.release())
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
  // Many copies become due to be opened again at the same time. Each opening takes processor time from tasks, and fetches a snapshot. So
  // only one copy of the executor is opened again at a time.
  private val turn = new Semaphore(1)
  private val waiting = new Semaphore(1) // held by the copy that waits for an idle moment
  private val PauseNanos = TimeUnit.MINUTES.toNanos(1)
}
