package io.mooring.warmup

import scala.util.control.NonFatal

import io.mooring.common.{Daemon, Log}
import io.mooring.reports.ExecutorReports
import org.apache.spark.shims.{TaskReads, WarmupProfile}
import org.apache.spark.sql.execution.streaming.state.shims.WarmUp

/**
 * An executor that joins running queries reads what their tasks read: the code of one before its first task, shuffles
 * when the first tasks are done and those with state have not come yet, as their stores are on their way.
 */
object ShuffleWarmup {
  private val MostTries = 10
  private val PauseMs = 100L // between two batches there is nothing to read
  private val Rounds = 5
  private val FirstPauseMs = 3000L
  private val RoundPauseMs = 500L

  /** Code of tasks that read shuffles and ran when (`System.nanoTime`) the driver was asked. */
  private final case class Readers(code: Seq[Long], asked: Long)

  /** As soon as there are some; of none when that does not happen within a second, or will not. */
  private def readers(triesLeft: Int = MostTries): Readers = {
    val asked = System.nanoTime()
    ExecutorReports.codeOfReaders() match {
      case Some(Nil) if triesLeft > 1 =>
        Thread.sleep(PauseMs)
        readers(triesLeft - 1)
      case found => Readers(found.getOrElse(Nil), asked)
    }
  }

  /** Whether a task's code was there and could be read; waits for one for a second at most, and not when none will come. */
  def code(): Boolean = readers().code.exists(broadcast => WarmupProfile.asFarAsPossible(TaskReads.code(broadcast)))

  /** On a thread of its own, which ends by itself, within some twenty seconds as a rule. */
  def begin(): ShuffleWarmup = new ShuffleWarmup
}

final class ShuffleWarmup {
  import ShuffleWarmup._

  @volatile private var isOver = false // what Spark waits with may swallow an interrupt

  private val thread = Daemon.start("mooring-first-reads") {
    try Log.info(s"${shuffles()} shuffles are read as the queries that run do")
    catch {
      case _: InterruptedException => // the executor ends
      case NonFatal(e) => Log.info(s"shuffles are not read before the first task that does ($e)")
    }
  }

  def stop(): Unit = {
    isOver = true
    thread.interrupt()
  }

  private def shuffles(): Int = {
    Thread.sleep(FirstPauseMs)
    WarmupProfile.asFarAsPossible(WarmUp.askCoordinator())
    (1 to Rounds).filterNot(_ => isOver).map { _ =>
      Thread.sleep(RoundPauseMs)
      val now = readers()
      var count = 0
      for (broadcast <- now.code) WarmupProfile.asFarAsPossible { count += TaskReads.shuffles(TaskReads.code(broadcast), now.asked) }
      count
    }.sum
  }
}
