package io.mooring.reports

import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import io.mooring.common.{Json, Log}
import io.mooring.localstore.{ReadCounts, WrittenFile}
import org.apache.hadoop.fs.Path
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.shims.WarmupProfile
import org.apache.spark.sql.execution.streaming.state.shims.{KeyCounts, StreamShims}

/**
 * The driver's answer to an executor that polls for the newest version of the job model.
 *
 * @param copied          ids of the queries of which this executor is to keep copies
 * @param copiedAnywhere  ids of the queries of which any executor is to keep copies
 * @param isProfileWanted whether this executor is to report its WarmupProfile
 */
final case class PollResponse(
    version: Long, againInMs: Long, copied: Set[String], copiedAnywhere: Set[String], isProfileWanted: Boolean)

/**
 * Reports of an executor to the driver, as JSON strings: classes of the plugin may have different class loaders on both sides.
 * The driver knows the executor's host; the executor's RPC environment has no address.
 *
 * Any thread of the executor may call it. A report that can not be sent is lost, with one line in the log. A method that asks returns
 * None when the driver gives no answer. In the JSON a warm-up profile is called `rehearsal`.
 */
object ExecutorReports {
  @volatile private var context: Option[PluginContext] = None
  @volatile private var areCopiesOpen = false
  @volatile private var copied = Set.empty[String] // queries

  /** Sets the way to the driver; None ends it. `withOpenCopies`: whether copies are kept open, so that numbers of keys are of use. */
  private[mooring] def through(pluginContext: Option[PluginContext], withOpenCopies: Boolean = false): Unit = {
    context = pluginContext
    areCopiesOpen = withOpenCopies
  }

  /** Sets the queries of which executors keep copies. */
  private[mooring] def setCopiedQueries(queries: Set[String]): Unit = copied = queries

  /** This executor is ready for tasks. An empty location stands for its host; an empty zone is not known. */
  def hello(location: String, zone: String): Unit =
    send(Map("report" -> "hello", "location" -> location, "zone" -> zone))

  def stateMeasured(storeDir: Path, bytes: Long): Unit =
    send(Map("report" -> "state-measured", "store" -> storeDir.toString, "bytes" -> bytes))

  def storeOpened(storeDir: Path, version: Long, milliseconds: Long, aheadMs: Long, counts: ReadCounts): Unit = {
    Log.info(s"opened $storeDir at version $version in $milliseconds ms: ${counts.inWords}")
    send(Map("report" -> "store-opened", "store" -> storeDir.toUri.toString, "version" -> version,
      "milliseconds" -> milliseconds, "ahead-milliseconds" -> aheadMs,
      "local-files" -> counts.localFiles, "local-bytes" -> counts.localBytes,
      "remote-files" -> counts.remoteFiles, "remote-bytes" -> counts.remoteBytes,
      "local-changelogs" -> counts.localChangelogs, "remote-changelogs" -> counts.remoteChangelogs))
  }

  /**
   * For the catalogue: reports a committed version, and the changelog that was written for it, if there is one. `keys` and `bytes` are
   * -1 where they are not known.
   */
  def versionCommitted(
      storeDir: Path, version: Long, id: String, base: Option[String], keys: Long, bytes: Long, changelog: String,
      written: Option[WrittenFile]): Unit =
    send(Map("report" -> "version-committed", "store" -> storeDir.toUri.getPath, "host" -> host, "version" -> version, "id" -> id,
      "base" -> base.getOrElse(""), "keys" -> keys, "bytes" -> bytes, "changelog" -> written.toSeq.map(file(changelog, _))))

  /**
   * For the catalogue: reports an uploaded snapshot: its archive and the files that it names, with the checksums of files written for it.
   * The report is named "snapshot-saved".
   */
  def snapshotUploaded(
      storeDir: Path, version: Long, id: String, archive: String, written: Option[WrittenFile],
      files: Seq[(String, Long, Option[WrittenFile])]): Unit =
    send(Map("report" -> "snapshot-saved", "store" -> storeDir.toUri.getPath, "host" -> host, "version" -> version, "id" -> id,
      "archive" -> written.toSeq.map(file(archive, _)),
      "files" -> files.map { case (name, bytes, own) => Map("name" -> name, "bytes" -> bytes) ++ own.map("crc32c" -> _.crc) }))

  private def file(name: String, written: WrittenFile) = Map("name" -> name, "bytes" -> written.bytes, "crc32c" -> written.crc)
  private def host = org.apache.spark.SparkEnv.get.blockManager.blockManagerId.host

  /** Called by a task that has just committed a store. With these counts, an open copy of the store does not count its keys itself. */
  def keysCounted(version: Long, id: String, counts: KeyCounts): Unit =
    if (areCopiesOpen) for (query <- StreamShims.queryOfTask if copied(query))
      send(Map("report" -> "keys-counted", "query" -> query, "version" -> version, "id" -> id, "keys" -> counts.keys,
        "internal-keys" -> counts.internal))

  def copyMade(query: String, partition: Int, version: Long, bytes: Long, fetched: Long): Unit =
    send(Map("report" -> "copy-made", "query" -> query, "partition" -> partition, "version" -> version, "bytes" -> bytes,
      "fetched-bytes" -> fetched))

  /** A copy could not be brought to its version, and stays as it is for now. */
  def copyFailed(query: String, partition: Int, why: String): Unit =
    send(Map("report" -> "copy-failed", "query" -> query, "partition" -> partition, "why" -> why))

  /** How many stores of the query were fetched before their tasks open them: `done` out of `of`. */
  def storesFetched(query: String, done: Int, of: Int, bytes: Long, milliseconds: Long): Unit =
    send(Map("report" -> "stores-fetched", "query" -> query, "done" -> done, "of" -> of, "bytes" -> bytes,
      "milliseconds" -> milliseconds))

  /** Reports which version of the job model this executor has taken up, and asks for the newest version. */
  def poll(known: Long): Option[PollResponse] = ask(Map("report" -> "version", "version" -> known)).map { answer =>
    PollResponse(answer.get("version").asLong(), answer.get("again-in-ms").asLong(),
      texts(answer, "copied").toSet, texts(answer, "copied-anywhere").toSet, answer.path("rehearsal-is-asked").asBoolean())
  }

  /** Asks which classes and generated code the tasks of the running queries use. */
  def warmupProfile(): WarmupProfile = ask(Map("report" -> "joins"))
    .fold(WarmupProfile.Nothing)(answer => WarmupProfile(texts(answer, "classes"), texts(answer, "sources")))

  /**
   * Asks for the code of running tasks that read shuffles, as ids of broadcasts. None when no task will run before this executor takes
   * some.
   */
  def codeOfReaders(): Option[Seq[Long]] = ask(Map("report" -> "readers"))
    .filter(_.has("code")).map(_.get("code").elements().asScala.map(_.asLong()).toSeq)

  private val SilentForMs = 10000L
  private val unanswered = new Unanswered(SilentForMs)

  /**
   * The driver's answer. None where the driver has no answer, or can not be reached. A single failure is not logged: the driver may have
   * ended, and this executor ends a moment later. A driver that stays out of reach is logged.
   */
  private def ask(question: Map[String, Any]): Option[JsonNode] = context.flatMap { ctx =>
    try {
      val answer = Option(ctx.ask(Json.write(question + ("executor" -> ctx.executorID()))))
      unanswered.answered()
      answer.map(text => Json.read(text.toString))
    } catch {
      case NonFatal(e) =>
        if (unanswered.failed(System.nanoTime()))
          Log.failed("driver-silent", e)(s"the driver has not answered for ${SilentForMs / 1000} s ($e): it is asked again")
        None
    }
  }

  /** Reports what this executor has loaded and compiled, for executors that join later. */
  def sendWarmupProfile(mine: WarmupProfile): Unit =
    send(Map("report" -> "rehearsal", "classes" -> mine.classes, "sources" -> mine.sources))

  private[mooring] def texts(json: JsonNode, name: String): Seq[String] = json.path(name).elements().asScala.map(_.asText()).toSeq

  private def send(report: Map[String, Any]): Unit = context.foreach { ctx =>
    try ctx.send(Json.write(report + ("executor" -> ctx.executorID())))
    catch {
      case e: Exception => Log.failed("executor-report", e)(s"a report to the driver was lost ($e): what it said is missing in the driver")
    }
  }
}

/** Tells whether questions have had no answer for at least `longMs` in a row. */
private final class Unanswered(longMs: Long) {
  private var since = Option.empty[Long] // System.nanoTime of the first that failed

  def answered(): Unit = synchronized { since = None }

  /** A question failed at `now` (System.nanoTime). Whether all have failed for `longMs`. */
  def failed(now: Long): Boolean = synchronized {
    val first = since.getOrElse(now)
    since = Some(first)
    TimeUnit.NANOSECONDS.toMillis(now - first) >= longMs
  }
}
