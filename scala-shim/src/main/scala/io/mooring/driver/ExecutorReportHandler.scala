package io.mooring.driver

import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import io.mooring.agent.Bridge
import io.mooring.common.{Json, Metrics, Log}
import io.mooring.placement.PlacementTable
import io.mooring.reports.ExecutorReports
import io.mooring.standby.{CopyState, Liveness, Standbys}
import io.mooring.warmup.WarmupProfiles

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.shims.PendingTasks
import org.apache.spark.shims.WarmupProfile
import org.apache.spark.sql.execution.streaming.state.shims.KeyCounts

/**
 * Handles the reports of executors: adds them up for the metrics, and passes them to the agent and to the parts of the driver.
 *
 * Spark's RPC thread for plugins calls `receive`: one thread for all messages. The listener thread calls `removed`. When a report cannot
 * be handled, one line is logged and the executor gets no answer. Events: StoreOpened, StateMeasured, StoresFetched.
 */
final class ExecutorReportHandler(
    context: SparkContext, bridge: Bridge, table: PlacementTable, standbys: Option[Standbys], liveness: Option[Liveness],
    executors: ExecutorRegistry, warmups: WarmupProfiles, agentIsExpected: () => Boolean) {
  private val localBytes, remoteBytes = new AtomicLong

  /** Handles a report. Returns the answer if the report is a question, else null. In the JSON a warm-up profile is a `rehearsal`. */
  def receive(json: String): String = {
    val report = Json.read(json)
    report.get("report").asText() match {
      case "joins" =>
        val profile = warmups.now
        Json.write(Map("classes" -> profile.classes, "sources" -> profile.sources))
      case "readers" => Json.write(PendingTasks.codeOfReaders(context, report.get("executor").asText()).map("code" -> _).toMap)
      case "version" => handlePoll(report.get("executor").asText(), report.get("version").asLong())
      case kind =>
        handle(kind, report)
        null
    }
  }

  /**
   * Handles a poll: an executor reports which version of the job model it has taken up (-1 for none). The answer has the newest
   * version, the queries of which copies are kept, and the time until the next poll.
   */
  private def handlePoll(executor: String, known: Long): String = {
    // An executor that is leaving or lost is not waited for any more.
    if (known >= 0 && table.isAlive(executor)) executors.tookUp(executor, known)
    val again = askAgainInMs(known)
    liveness.foreach(_.polled(executor, again))
    Json.write(Map("version" -> bridge.newest, "again-in-ms" -> again, "copied" -> standbys.toSeq.flatMap(_.copiedBy(executor)),
      "copied-anywhere" -> standbys.toSeq.flatMap(_.copied),
      "rehearsal-is-asked" -> warmups.isAsked(executor)))
  }

  /**
   * The time until the executor's next poll: one millisecond for each living executor, so that all executors together poll a thousand
   * times a second. It is at least half a second (`AskFirstMs` before an executor's first version), and at most a second. It is five
   * seconds while there is no version and no agent is expected.
   */
  private def askAgainInMs(known: Long): Int =
    if (bridge.newest < 0 && !agentIsExpected()) ExecutorReportHandler.AskSeldomMs
    else {
      // Before the first version the first batch of a query waits for its plan.
      val least = if (known < 0) ExecutorReportHandler.AskFirstMs else ExecutorReportHandler.AskEveryMs
      math.min(math.max(least, table.aliveCount), ExecutorReportHandler.AskAtLeastEveryMs)
    }

  def removed(executor: String): Unit = liveness.foreach(_.removed(executor))

  private def handle(kind: String, report: JsonNode): Unit = {
    kind match {
      case "hello" =>
        executors.located(report.get("executor").asText(), report.get("location").asText(), report.get("zone").asText())
      case "rehearsal" => warmups.reported(report.get("executor").asText(),
        WarmupProfile(ExecutorReports.texts(report, "classes"), ExecutorReports.texts(report, "sources")))
      case "store-opened" => handleStoreOpened(report)
      case "state-measured" => pass(report, "StateMeasured")
      case "stores-fetched" => pass(report, "StoresFetched")
      case "copy-made" => standbys.foreach(_.copyMade(report.get("executor").asText(), report.get("query").asText(),
        CopyState(report.get("partition").asInt(), report.get("version").asLong(), report.get("bytes").asLong()),
        report.get("fetched-bytes").asLong()))
      case "copy-failed" => standbys.foreach(_.copyFailed(report.get("executor").asText(), report.get("query").asText(),
        report.get("partition").asInt(), report.get("why").asText()))
      case "version-committed" | "snapshot-saved" => bridge.stateReports.add(report.toString)
      case "keys-counted" => standbys.foreach(_.keysCounted(report.get("query").asText(), report.get("version").asLong(),
        report.get("id").asText(), KeyCounts(report.get("keys").asLong(), report.get("internal-keys").asLong())))
      case other => Log.once(s"report-$other", s"an executor sent a report of an unknown kind, $other: ignored")
    }
  }

  private def handleStoreOpened(report: JsonNode): Unit = {
    Metrics.set("restore-bytes-local", localBytes.addAndGet(report.get("local-bytes").asLong()).toDouble)
    Metrics.set("restore-bytes-remote", remoteBytes.addAndGet(report.get("remote-bytes").asLong()).toDouble)
    pass(report, "StoreOpened")
  }

  private def pass(report: JsonNode, event: String): Unit = {
    val fields = report.properties().asScala.map { field =>
      field.getKey -> (if (field.getValue.isNumber) field.getValue.asLong() else field.getValue.asText())
    }
    bridge.tell(fields.toMap - "report" + ("event" -> event))
  }
}

object ExecutorReportHandler {
  private val AskFirstMs = 50
  private val AskEveryMs = 500
  private val AskAtLeastEveryMs = 1000
  private val AskSeldomMs = 5000
}
