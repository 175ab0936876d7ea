package io.mooring.drain

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import io.mooring.agent.DriverFiles
import io.mooring.common.Json

/**
 * The files in the directory `_mooring` of a checkpoint. They record the progress of a drain and of a restore. Each start of the
 * query reads them: an unfinished drain is resumed, and no query starts from a drained checkpoint unless the user allows it.
 *
 *     draining.json   a drain is not over. `phase` is asked, frozen or flushing. In the phase asked, `after` maps each query that
 *                     is to be drained before this one to its checkpoint.
 *     to-drain.json   written by `mooring drain --checkpoint`: the next start drains the query, without any new input
 *     drained.json    the drain is over; `batch` is the last batch. `with` has the checkpoints that are drained together with
 *                     this one. Until all of them are drained, a start of this query ends at once, so that the application
 *                     can be started again for the other queries.
 *     reset.json      the entries of the logs for the batches `from` to `to` are to be read with the watermark `watermark` (ms)
 *                     in place of their own watermark
 *     undone.json     written by `mooring restore`, and never removed: `until` is the last batch that was begun before the restore
 *     restoring.json  `mooring restore` is not over
 *
 * Each start looks for several files that do not exist, and a store may take long to answer. So the directory is listed once.
 *
 * Threads: the stream's thread when it starts or is drained, and the thread that serves the agent. Each caller makes an object of its own.
 * Exceptions of the file system pass through: then `Drains` refuses the query.
 */
private[drain] final class DrainMarkers(files: DriverFiles) {
  import DrainMarkers._

  private var listed: Option[Set[String]] = None // the names in the directory; cleared by each write

  def draining: Option[DrainingMarker] = read(DrainingFile).map(new DrainingMarker(_))
  def drained: Option[DrainMarker] = read(DrainedFile).map(new DrainMarker(_))
  def reset: Option[WatermarkReset] = read(ResetFile).map { json =>
    WatermarkReset(json.get("from").asLong(), json.get("to").asLong(), json.get("watermark").asLong())
  }

  /** Whether `mooring drain --checkpoint` asks for a drain at the next start. */
  def isToDrain: Boolean = read(ToDrainFile).isDefined

  /** The last batch that was begun before the checkpoint was restored to an earlier one. */
  def lastBatchBeforeRestore: Option[Long] = read(UndoneFile).map(_.get("until").asLong())

  /** The target batch of a restore that is not over. */
  def restoringTo: Option[String] = read(RestoringFile).map(_.path("to-batch").asText())

  def writeDraining(content: Map[String, Any]): Unit = write(DrainingFile, content)

  def writeReset(reset: WatermarkReset): Unit =
    write(ResetFile, Map("from" -> reset.from, "to" -> reset.to, "watermark" -> reset.watermarkMs))

  /** The drain is over: only `drained.json` stays. */
  def writeDrained(content: Map[String, Any]): Unit = {
    write(DrainedFile, content)
    deleteUnfinished()
  }

  def deleteDraining(): Unit = delete(DrainingFile)

  /** Deletes the markers of a drain that is under way, or is to come. */
  def deleteUnfinished(): Unit = Seq(DrainingFile, ToDrainFile).foreach(delete)

  private def read(name: String): Option[JsonNode] = Option.when(names(name))(files.read(name, MostBytes)).flatMap(Option(_))
    .map(bytes => Json.read(new String(bytes, UTF_8)))

  private def write(name: String, content: Map[String, Any]): Unit = {
    listed = None
    files.writeAtomic(name, Json.write(content).getBytes(UTF_8))
  }

  private def delete(name: String): Unit = {
    listed = None
    files.delete(name)
  }

  private def names: Set[String] = listed.getOrElse {
    val found = files.names.toSet
    listed = Some(found)
    found
  }
}

private[drain] object DrainMarkers {
  /** The directory of the markers, in each checkpoint. */
  val Directory = "_mooring"

  val DrainingFile = "draining.json"
  val DrainedFile = "drained.json"
  private val ToDrainFile = "to-drain.json"
  private val ResetFile = "reset.json"
  private val UndoneFile = "undone.json"
  private val RestoringFile = "restoring.json"

  private val MostBytes = 1 << 20
}

/** The fields that `draining.json` and `drained.json` have in common. */
private[drain] class DrainMarker(json: JsonNode) {
  /** The last batch that had ended. */
  def batch: Long = json.get("batch").asLong()

  /** The checkpoints that are drained together, including this one. */
  def checkpoints: Seq[String] = Option(json.get("with")).toSeq.flatMap(_.asScala.map(_.asText))
}

/** The content of `draining.json`: a drain that is not over. */
private[drain] final class DrainingMarker(json: JsonNode) extends DrainMarker(json) {
  def phase: DrainingPhase = DrainingPhase.named(json.get("phase").asText())

  /** Phase Asked: the queries that are to be drained before this one, by id, with their checkpoints. */
  def after: Seq[(String, String)] = json.get("after").properties().asScala.map(entry => entry.getKey -> entry.getValue.asText).toSeq

  /** Phase Frozen: whether the query reads no input, not even input that is there already. */
  def readsNothing: Boolean = json.path("zero-input").asBoolean()

  /** Phase Flushing: the watermark (ms) from before the flush. */
  def watermarkMs: Long = json.get("watermark").asLong()
}

/** The phase of a drain that is not over, as `draining.json` names it. */
private[drain] sealed abstract class DrainingPhase(val name: String)

private[drain] object DrainingPhase {
  /** A drain was requested, and the query's intake is open. */
  case object Asked extends DrainingPhase("asked")
  /** The intake is stopped. The query still processes the input that it has. */
  case object Frozen extends DrainingPhase("frozen")
  /** All input is processed. Batches flush the state. */
  case object Flushing extends DrainingPhase("flushing")

  /** An unknown name counts as Frozen. */
  def named(name: String): DrainingPhase = Seq(Asked, Flushing).find(_.name == name).getOrElse(Frozen)
}

/** The entries of a checkpoint's logs for the batches `from` to `to` are to be read with this watermark. */
private[drain] final case class WatermarkReset(from: Long, to: Long, watermarkMs: Long)
