package io.mooring.warmup

import scala.util.control.NonFatal

import io.mooring.common.{Daemon, Log}
import io.mooring.reports.ExecutorReports
import org.apache.spark.shims.{TaskReads, WarmupProfile}
import org.apache.spark.sql.execution.streaming.state.shims.WarmUp

/**
 * Has an executor that joins running queries read what their tasks read, so that its own first tasks do not wait for a cold
 * JVM: the code of a task before its first task, and shuffle files in the seconds after. In these seconds stateful tasks have
 * not come yet: their stores are still being fetched.
 *
 * The plugin calls `code` and `begin` at the executor's start. Shuffles are read in a daemon thread of its own. What can not be
 * read now is read by the first task that needs it.
 */
object ShuffleWarmup {
  private val MostTries = 10
  private val PauseMs = 100L // between two batches there is nothing to read
  private val Rounds = 5
  private val FirstPauseMs = 3000L
  private val RoundPauseMs = 500L

  /** Code of tasks that read shuffles and ran when (`System.nanoTime`) the driver was asked. */
  private final case class Readers(code: Seq[Long], asked: Long)

  /** Asks for such tasks until there are some: for a second at most, and only once where none will come. */
  private def askForReaders(triesLeft: Int = MostTries): Readers = {
    val asked = System.nanoTime()
    ExecutorReports.codeOfReaders() match {
      case Some(Nil) if triesLeft > 1 =>
        Thread.sleep(PauseMs)
        askForReaders(triesLeft - 1)
      case found => Readers(found.getOrElse(Nil), asked)
    }
  }

  /** Reads the code of a running task that reads shuffles; waits a second at most for one. Whether code was read. */
  def code(): Boolean = askForReaders().code.exists(broadcast => WarmupProfile.asFarAsPossible(TaskReads.code(broadcast)))

  /** Starts the thread that reads shuffles. It ends by itself, most often within twenty seconds. */
  def begin(): ShuffleWarmup = new ShuffleWarmup
}

final class ShuffleWarmup {
  import ShuffleWarmup._

  @volatile private var isOver = false // Spark's code may swallow the interrupt

  private val thread = Daemon.start("mooring-shuffle-warm-up") {
    try Log.info(s"${readShuffles()} shuffles are read as the queries that run do")
    catch {
      case _: InterruptedException => // the executor ends
      case NonFatal(e) => Log.info(s"shuffles are not read before the first task that does ($e)")
    }
  }

  def stop(): Unit = {
    isOver = true
    thread.interrupt()
  }

  private def readShuffles(): Int = {
    Thread.sleep(FirstPauseMs)
    WarmupProfile.asFarAsPossible(WarmUp.askCoordinator())
    (1 to Rounds).filterNot(_ => isOver).map { _ =>
      Thread.sleep(RoundPauseMs)
      val now = askForReaders()
      var count = 0
      for (broadcast <- now.code) WarmupProfile.asFarAsPossible { count += TaskReads.shuffles(TaskReads.code(broadcast), now.asked) }
      count
    }.sum
  }
}
