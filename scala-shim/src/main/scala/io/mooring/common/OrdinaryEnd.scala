package io.mooring.common

import java.io.InterruptedIOException
import java.net.SocketTimeoutException
import java.nio.channels.ClosedByInterruptException

import org.apache.spark.{SparkThrowable, TaskContext, TaskKilledException}
import org.apache.spark.shims.Signals

/**
 * Distinguishes faults from failures that an ordinary end causes: the application stops, the JVM shuts down, a task is killed, a job is
 * cancelled. Such a failure needs no action of an operator, so it is not warned of.
 *
 * Called by any thread. Depends on `Signals`, and on the condition name `SPARK_JOB_CANCELLED` of Spark 4.0 to 4.3.
 */
object OrdinaryEnd {
  private val Cancelled = "SPARK_JOB_CANCELLED"
  private val DeepestCause = 20 // causes may form a circle

  @volatile private var isOver: () => Boolean = () => false

  /** The application of this JVM begins. `over` tells whether it is stopping, or has stopped. */
  private[mooring] def begins(over: () => Boolean): Unit = isOver = over

  /** Whether the application or this JVM is ending, or has ended. True until another application begins. */
  def isUnderWay: Boolean = isOver() || Signals.isShuttingDown

  /** Whether an ordinary end is the cause of this failure. */
  def explains(failure: Throwable): Boolean =
    isUnderWay || Iterator.iterate(failure)(_.getCause).take(DeepestCause).takeWhile(_ != null).exists {
      case _: InterruptedException | _: ClosedByInterruptException | _: TaskKilledException => true
      case _: SocketTimeoutException => false // storage does not answer; a subclass of the next case
      case _: InterruptedIOException => isThreadToStop // clients of storage also throw it at a timeout
      case e: SparkThrowable => e.getCondition == Cancelled
      case _ => false
    }

  private def isThreadToStop: Boolean = Thread.currentThread.isInterrupted || Option(TaskContext.get()).exists(_.isInterrupted())
}
