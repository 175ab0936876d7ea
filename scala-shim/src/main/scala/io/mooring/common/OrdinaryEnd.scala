package io.mooring.common

import java.io.InterruptedIOException
import java.net.SocketTimeoutException
import java.nio.channels.ClosedByInterruptException

import org.apache.spark.{SparkThrowable, TaskContext, TaskKilledException}
import org.apache.spark.shims.Signals

/**
 * Tells a failure of Mooring's from the echo of an ordinary end: the application stops, the JVM shuts down, a task is
 * killed, a job is cancelled. Such an echo is no fault, and nobody has to do anything about it.
 */
object OrdinaryEnd {
  private val Cancelled = "SPARK_JOB_CANCELLED"
  private val DeepestCause = 20 // causes may form a circle

  @volatile private var isOver: () => Boolean = () => false

  /** The application of this JVM begins. `over` tells whether it stops, or has stopped. */
  private[mooring] def begins(over: () => Boolean): Unit = isOver = over

  /** Whether the application, or this JVM, is ending. It stays so until another application begins. */
  def isUnderWay: Boolean = isOver() || Signals.isShuttingDown

  /** Whether a failure comes from an ordinary end. */
  def explains(failure: Throwable): Boolean =
    isUnderWay || Iterator.iterate(failure)(_.getCause).take(DeepestCause).takeWhile(_ != null).exists {
      case _: InterruptedException | _: ClosedByInterruptException | _: TaskKilledException => true
      case _: SocketTimeoutException => false // storage that does not answer; it extends the next one
      case _: InterruptedIOException => isThreadToStop // clients of storage use it for their timeouts, too
      case e: SparkThrowable => e.getCondition == Cancelled
      case _ => false
    }

  private def isThreadToStop: Boolean = Thread.currentThread.isInterrupted || Option(TaskContext.get()).exists(_.isInterrupted())
}
