package io.mooring.executor

import io.mooring.common.{FailOpen, Daemon}
import io.mooring.reports.ExecutorReports
import io.mooring.standby.Copies
import org.apache.spark.shims.WarmupProfile

/**
 * Polls the driver for the newest version of the job model, and for the queries of which this executor is to keep copies. It notes
 * the number of the version, and drops copies that are not wanted. It gets no plan. The executor has to poll, as a driver plugin can not
 * call an executor plugin.
 *
 * One daemon thread polls, from the making of this object until `stop`. After a failure it polls again a second later.
 */
final class VersionWatch {
  @volatile private var takenUp = -1L

  private val thread = Daemon.start("mooring-version-watch")(run())

  /** The newest version of the job model that this executor has noted (*taken up*); -1 for none. */
  def version: Long = takenUp

  def stop(): Unit = thread.interrupt()

  private def run(): Unit =
    try while (true) Thread.sleep(poll())
    catch { case _: InterruptedException => } // the executor ends

  /** Polls once. Returns the milliseconds until the next poll: 0 after a new version, so that the driver learns at once that it was taken up. */
  private def poll(): Long =
    FailOpen.otherwise("watch of placement versions", VersionWatch.PauseMs)(ExecutorReports.poll(takenUp).fold(VersionWatch.PauseMs) { response =>
      val isNew = response.version > takenUp
      takenUp = math.max(response.version, takenUp)
      ExecutorReports.setCopiedQueries(response.copiedAnywhere)
      FailOpen.otherwise("letting go of copies", ())(Copies.ofThisExecutor.foreach(_.keepOnly(response.copied)))
      if (response.isProfileWanted) Daemon.start("mooring-warm-up-profile")(
        FailOpen.otherwise("report of a warm-up profile", ())(ExecutorReports.sendWarmupProfile(WarmupProfile.ofThisExecutor())))
      if (isNew) 0 else response.againInMs
    })
}

object VersionWatch {
  private val PauseMs = 1000L // after a poll without an answer
}
