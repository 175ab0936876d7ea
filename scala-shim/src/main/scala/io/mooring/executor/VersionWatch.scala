package io.mooring.executor

import io.mooring.common.{FailOpen, Daemon}
import io.mooring.reports.ExecutorReports
import io.mooring.standby.Copies
import org.apache.spark.shims.WarmupProfile

/**
 * Takes up each new version of the job model in an executor, and ends copies for which nobody asks any more, by asking the
 * driver again and again; the plugin's API has no way from the driver to an executor. A daemon thread, from its making
 * until `stop`.
 */
final class VersionWatch {
  @volatile private var taken = -1L

  private val thread = Daemon.start("mooring-version-watch")(run())

  /** The newest version that this executor has taken up; -1 for none. */
  def version: Long = taken

  def stop(): Unit = thread.interrupt()

  private def run(): Unit =
    try while (true) Thread.sleep(ask())
    catch { case _: InterruptedException => } // the executor ends

  /** Asks, and tells at once of what is new; answers how long to wait. */
  private def ask(): Long =
    FailOpen.otherwise("watch of placement versions", VersionWatch.PauseMs)(ExecutorReports.version(taken).fold(VersionWatch.PauseMs) { word =>
      val isNews = word.version > taken
      taken = math.max(word.version, taken)
      ExecutorReports.areCopied(word.copiedAnywhere)
      FailOpen.otherwise("letting go of copies", ())(Copies.ofThisExecutor.foreach(_.keepOnly(word.copied)))
      if (word.rehearsalIsAsked) Daemon.start("mooring-rehearsal")(
        FailOpen.otherwise("rehearsal", ())(ExecutorReports.rehearsal(WarmupProfile.ofThisExecutor())))
      if (isNews) 0 else word.againInMs
    })
}

object VersionWatch {
  private val PauseMs = 1000L // the driver is busy, or of another version of Mooring
}
