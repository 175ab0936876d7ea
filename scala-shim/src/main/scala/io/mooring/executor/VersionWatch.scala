package io.mooring.executor

import io.mooring.common.{FailOpen, Daemon}
import io.mooring.reports.ExecutorReports
import io.mooring.standby.Copies
import org.apache.spark.shims.WarmupProfile

/**
 * Asks the driver again and again which version of the job model is the newest, and of which queries this executor is to keep
 * copies. It takes the version up, and drops copies that are not wanted. Spark's plugin API lets only the executor ask.
 *
 * One daemon thread does it, from the start until `stop`. When a question fails, it is asked again a second later.
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

  /** Asks once. How long (ms) to wait before the next question: 0 after a new version, so that the driver knows of it at once. */
  private def ask(): Long =
    FailOpen.otherwise("watch of placement versions", VersionWatch.PauseMs)(ExecutorReports.poll(taken).fold(VersionWatch.PauseMs) { response =>
      val isNew = response.version > taken
      taken = math.max(response.version, taken)
      ExecutorReports.setCopiedQueries(response.copiedAnywhere)
      FailOpen.otherwise("letting go of copies", ())(Copies.ofThisExecutor.foreach(_.keepOnly(response.copied)))
      if (response.isProfileWanted) Daemon.start("mooring-warm-up-profile")(
        FailOpen.otherwise("report of a warm-up profile", ())(ExecutorReports.sendWarmupProfile(WarmupProfile.ofThisExecutor())))
      if (isNew) 0 else response.againInMs
    })
}

object VersionWatch {
  private val PauseMs = 1000L // after a question without an answer
}
