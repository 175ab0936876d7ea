package io.mooring

import scala.util.control.NonFatal

import org.apache.spark.sql.execution.streaming.state.mooring.{Rehearsal, TaskReads}

/**
 * An executor that joins running queries reads what their tasks read: the code of one before its first task, shuffles
 * when the first tasks are done and those with state have not come yet, as their stores are on their way.
 */
object FirstReads {
  private val MostTries = 10
  private val PauseMs = 100L // between two batches there is nothing to read
  private val Rounds = 5
  private val FirstPauseMs = 3000L
  private val RoundPauseMs = 500L

  /** Whether a task's code was there and could be read; waits for one for a second at most, and not when none will come. */
  def code(): Boolean = some(block => if (Rehearsal.asFarAsPossible(TaskReads.code(block))) 1 else 0) > 0

  /** On a thread of its own, which ends by itself, within some twenty seconds as a rule, or is interrupted. */
  def begin(): Thread = Daemon.start("mooring-first-reads") {
    try Say.info(s"${shuffles()} shuffles are read as the queries that run do")
    catch {
      case _: InterruptedException => // the executor ends
      case NonFatal(e) => Say.info(s"shuffles are not read before the first task that does ($e)")
    }
  }

  private def shuffles(): Int = {
    Thread.sleep(FirstPauseMs)
    Rehearsal.asFarAsPossible(TaskReads.askCoordinator())
    (1 to Rounds).map { _ =>
      Thread.sleep(RoundPauseMs)
      some { block =>
        val told = System.nanoTime()
        var count = 0
        Rehearsal.asFarAsPossible { count = TaskReads.shuffles(TaskReads.code(block), told) }
        count
      }
    }.sum
  }

  /** What reading the code of tasks comes to when some run that read shuffles; 0 when that does not happen within a second. */
  private def some(read: String => Int): Int = {
    def look(triesLeft: Int): Int = ExecutorReports.codeOfReaders() match {
      case Some(blocks) if blocks.nonEmpty => blocks.map(read).sum
      case Some(_) if triesLeft > 1 =>
        Thread.sleep(PauseMs)
        look(triesLeft - 1)
      case _ => 0 // none will run before this executor does, or they are far between
    }
    look(MostTries)
  }
}
