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
 * The commit log of a checkpoint that one of Spark's own tools has opened (`OfflineTools`). It has two purposes:
 *
 *  - It finds the format of the checkpoint's state for the tool.
 *  - It hides skipped batches. When Spark's offline repartition skips a batch that was begun and not committed, it writes a commit without
 *    state. If the repartition fails later, its next run would look for state in that commit.
 *
 * Called by the tool's thread. Depends on the form of commit log entries in Spark 4.0 to 4.3, and on `OfflineTools`. Without it, a tool
 * fails on a checkpoint of another format than its session's, and the repartition can not be repeated after a failure.
 */
private[mooring] final class CommitsOfTools(commits: Path, stock: CheckpointFileManager) {
  /**
   * The version of the newest entry that is not an entry of a skipped batch. Versions 2 and 3 both mean state of format 2; Spark's rewriter
   * needs the setting to have the same number. None where the setting is to stay: an entry of version 3 describes the sink, and may name no
   * state.
   */
  private lazy val format: Option[Int] = {
    // A session without Mooring writes the entry of a skipped batch as version 1.
    val (skipped, others) = newestOf(batches(stock.list(commits))).map(entry(commits, _)).span(isSkipped)
    val newest = others.headOption.orElse(skipped.maxByOption(version))
    newest.map(version).filter(known => known < 3 || newest.exists(namesState))
  }

  private def newestOf(found: Seq[Long]): LazyList[Long] = found.reverse.to(LazyList).take(CommitsOfTools.MostSkipped + 1)

  /** Gives the session's settings the checkpoint's format, for this thread. `chosen` is the format that the session has set. */
  def setFormatForTool(chosen: Option[String]): Unit = FailOpen.otherwise("look at a checkpoint's format", ()) {
    OfflineTools.forget() // the same tool may have read another checkpoint before
    try for (known <- format) {
      OfflineTools.open(known)(FailOpen.otherwise("look at a session's settings", ())(_))
      for (other <- chosen if other != known.toString)
        Log.once(s"format-$commits", s"${commits.getParent} has state of format $known: Spark's tools read and write that, " +
          s"though ${StreamShims.FormatKey} is $other")
    } catch { case _: FileNotFoundException => } // there is no checkpoint: the tool reports that
  }

  def isOfFormat2: Boolean = FailOpen.otherwise("look at a checkpoint's format", false)(format.exists(_ >= 2))

  /**
   * The listed entries without the newest commits that name no state, if an unfinished repartition has skipped their batches. Its next run
   * then starts from the newest commit with state, as the first run did.
   */
  def withoutSkipped(found: Array[FileStatus]): Array[FileStatus] =
    if (!OfflineTools.isRepartition || !isOfFormat2) found
    else FailOpen.otherwise("look for skipped batches", found) {
      val (skipped, others) = newestOf(batches(found)).span(batch => !namesState(entry(commits, batch)))
      val isUnfinished = others.headOption.exists(base => skipped.nonEmpty && isFrom(base, after = skipped.head))
      if (isUnfinished) found.filterNot(file => skipped.exists(_.toString == file.getPath.getName)) else found
    }

  /** Whether the repartition has written an offset log entry just after the skipped batch `after`, with the offsets of batch `base`. */
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
  val MostSkipped = 3 // each repartition may skip one batch
}

/**
 * Writes a commit log entry of a checkpoint with state of format 2. Spark writes the entry of a skipped batch as version 1; this makes it
 * version 2. Spark can read version 2 beside entries of version 3, which always describe a sink.
 */
private[mooring] final class Format2Stream(out: CancellableFSDataOutputStream) extends EntryStream(out, new ByteArrayOutputStream) {
  override protected def asWritten(entry: Array[Byte]): Array[Byte] =
    if (new String(entry.take(3), UTF_8) == "v1\n") "v2\n".getBytes(UTF_8) ++ entry.drop(3) else entry
}
