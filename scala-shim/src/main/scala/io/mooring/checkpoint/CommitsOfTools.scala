package io.mooring.checkpoint

import java.io.{ByteArrayOutputStream, FileNotFoundException}
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import io.mooring.common.{FailOpen, Log}
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.state.shims.{OfflineTools, StreamShims}

/**
 * The log of commits that one of Spark's own tools has opened. The repartition, told to skip a batch that was begun and not
 * committed, writes a commit for it that names no state. When it fails later, its next run would look for state there.
 */
private[mooring] final class CommitsOfTools(commits: Path, stock: CheckpointFileManager) {
  /**
   * The version of the newest entry that is of no skipped batch. State has format 2 if it is 2 or 3, and Spark's rewriter
   * wants the setting to be the same number. None where the setting stands: version 3, which tells of the sink, may name
   * no state.
   */
  private lazy val format: Option[Int] = {
    // The newest may be a skipped one, which a session without Mooring writes as version 1.
    val (skipped, others) = newestOf(batches(stock.list(commits))).map(entry(commits, _)).span(isSkipped)
    val newest = others.headOption.orElse(skipped.maxByOption(version))
    newest.map(version).filter(known => known < 3 || newest.exists(namesState))
  }

  private def newestOf(found: Seq[Long]): LazyList[Long] = found.reverse.to(LazyList).take(CommitsOfTools.MostSkipped + 1)

  /** To the session's settings, as this thread sees them. `chosen` is what the session says. */
  def tellFormat(chosen: Option[String]): Unit = FailOpen.otherwise("look at a checkpoint's format", ()) {
    OfflineTools.forget() // the same tool may have read another checkpoint before
    try for (known <- format) {
      OfflineTools.open(known)(FailOpen.otherwise("look at a session's settings", ())(_))
      for (other <- chosen if other != known.toString)
        Log.once(s"format-$commits", s"${commits.getParent} has state of format $known: Spark's tools read and write that, " +
          s"though ${StreamShims.FormatKey} is $other")
    } catch { case _: FileNotFoundException => } // no checkpoint yet: the tool says so
  }

  def isOfFormat2: Boolean = FailOpen.otherwise("look at a checkpoint's format", false)(format.exists(_ >= 2))

  /**
   * Without the newest commits that name no state, where a repartition that has skipped their batches is unfinished: its
   * next run goes on from the newest commit with state, as the first one did.
   */
  def withoutSkipped(found: Array[FileStatus]): Array[FileStatus] =
    if (!OfflineTools.isRepartition || !isOfFormat2) found
    else FailOpen.otherwise("look for skipped batches", found) {
      val (skipped, others) = newestOf(batches(found)).span(batch => !namesState(entry(commits, batch)))
      val isUnfinished = others.headOption.exists(base => skipped.nonEmpty && isFrom(base, after = skipped.head))
      if (isUnfinished) found.filterNot(file => skipped.exists(_.toString == file.getPath.getName)) else found
    }

  /** Whether the entry after the skipped ones starts from the offsets of that batch, and none was given up with them. */
  private def isFrom(base: Long, after: Long): Boolean = {
    val offsets = new Path(commits.getParent, "offsets")
    def sources(batch: Long) = entry(offsets, batch).linesIterator.drop(2).toSeq // after the version and the settings
    batches(stock.list(offsets)).lastOption.contains(after + 1) && sources(after + 1) == sources(base)
  }

  private def version(entry: String): Int = entry.linesIterator.nextOption().fold(1)(_.stripPrefix("v").toInt)
  private def namesState(entry: String): Boolean = entry.contains("\"stateUniqueIds\"")
  private def isSkipped(entry: String): Boolean = entry.linesIterator.drop(1).mkString == CommitsOfTools.Skipped

  private def entry(log: Path, batch: Long): String =
    Using.resource(stock.open(new Path(log, batch.toString)))(in => new String(in.readAllBytes(), UTF_8))

  private def batches(found: Array[FileStatus]): Seq[Long] = found.toSeq.flatMap(_.getPath.getName.toLongOption).sorted
}

private object CommitsOfTools {
  val Skipped = "{\"nextBatchWatermarkMs\":0}" // after the version
  val MostSkipped = 3 // a query has one batch that is begun and not committed; each repartition may skip one
}

/**
 * An entry of the commit log of a checkpoint of format 2: Spark writes those of skipped batches as version 1. It reads
 * one of version 2 beside others of version 3, which always name a sink.
 */
private[mooring] final class Format2Stream(out: CancellableFSDataOutputStream) extends EntryStream(out, new ByteArrayOutputStream) {
  override protected def asWritten(entry: Array[Byte]): Array[Byte] =
    if (new String(entry.take(3), UTF_8) == "v1\n") "v2\n".getBytes(UTF_8) ++ entry.drop(3) else entry
}
