package io.mooring.driver

import java.util.concurrent.ConcurrentHashMap
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

/** What executors report, added up for metrics and passed on to the agent. */
final class ExecutorReportHandler(
    context: SparkContext, bridge: Bridge, table: PlacementTable, standbys: Option[Standbys], liveness: Option[Liveness], census: ExecutorRegistry,
    rehearsals: WarmupProfiles, agentIsComing: () => Boolean) {
  private val localBytes, remoteBytes = new AtomicLong
  private val versions = new ConcurrentHashMap[String, Long]() // executor -> version that was told to the agent

  /** Takes a report in; the answer to one that is a question, else null. */
  def receive(json: String): String = {
    val report = Json.read(json)
    report.get("report").asText() match {
      case "joins" =>
        val rehearsal = rehearsals.now
        Json.write(Map("classes" -> rehearsal.classes, "sources" -> rehearsal.sources))
      case "readers" => Json.write(PendingTasks.codeOfReaders(context, report.get("executor").asText()).map("code" -> _).toMap)
      case "version" => newestVersion(report.get("executor").asText(), report.get("version").asLong())
      case kind =>
        take(kind, report)
        null
    }
  }

  /**
   * What an executor knows; the answer is what it should know, and when to ask again: within a second, with up to a
   * thousand executors not more than a thousand questions a second; seldom where nobody will ever offer anything.
   */
  private def newestVersion(executor: String, known: Long): String = {
    if (known >= 0 && table.isAlive(executor) && versions.put(executor, known) != known) bridge.pickedUp(executor, known)
    val again = askAgainInMs(known)
    liveness.foreach(_.hasAsked(executor, again))
    Json.write(Map("version" -> bridge.newest, "again-in-ms" -> again, "copied" -> standbys.toSeq.flatMap(_.copiedBy(executor)),
      "copied-anywhere" -> standbys.toSeq.flatMap(_.copied),
      "rehearsal-is-asked" -> rehearsals.isAsked(executor)))
  }

  private def askAgainInMs(known: Long): Int =
    if (bridge.newest < 0 && !agentIsComing()) ExecutorReportHandler.AskSeldomMs
    else {
      val least = if (known < 0) ExecutorReportHandler.AskFirstMs else ExecutorReportHandler.AskEveryMs // a first batch waits for a first plan
      math.min(math.max(least, table.aliveCount), ExecutorReportHandler.AskAtLeastEveryMs)
    }

  def removed(executor: String): Unit = {
    versions.remove(executor)
    liveness.foreach(_.removed(executor))
  }

  private def take(kind: String, report: JsonNode): Unit = {
    kind match {
      case "hello" =>
        census.located(report.get("executor").asText(), report.get("location").asText(), report.get("zone").asText())
      case "rehearsal" => rehearsals.told(report.get("executor").asText(),
        WarmupProfile(ExecutorReports.texts(report, "classes"), ExecutorReports.texts(report, "sources")))
      case "store-opened" => storeOpened(report)
      case "state-measured" => pass(report, "StateMeasured")
      case "stores-fetched" => pass(report, "StoresFetched")
      case "copy-made" => standbys.foreach(_.copyMade(report.get("executor").asText(), report.get("query").asText(),
        CopyState(report.get("partition").asInt(), report.get("version").asLong(), report.get("bytes").asLong()),
        report.get("fetched-bytes").asLong()))
      case "copy-failed" => standbys.foreach(_.copyFailed(report.get("executor").asText(), report.get("query").asText(),
        report.get("partition").asInt(), report.get("why").asText()))
      case "version-committed" | "snapshot-saved" => bridge.facts.add(report.toString)
      case "keys-counted" => standbys.foreach(_.keysCounted(report.get("query").asText(), report.get("version").asLong(),
        report.get("id").asText(), KeyCounts(report.get("keys").asLong(), report.get("internal-keys").asLong())))
      case other => Log.once(s"report-$other", s"an executor sent a report of an unknown kind, $other: ignored")
    }
  }

  private def storeOpened(report: JsonNode): Unit = {
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
