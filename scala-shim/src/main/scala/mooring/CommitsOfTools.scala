package io.mooring

import java.io.{ByteArrayOutputStream, FileNotFoundException}
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.state.mooring.{OfflineTools, StreamDoors}

/**
 * The log of commits that one of Spark's own tools has opened. The repartition, told to skip a batch that was begun and not
 * committed, writes a commit for it that names no state. When it fails later, its next run would look for state there.
 */
private final class CommitsOfTools(commits: Path, stock: CheckpointFileManager) {
  private lazy val format: Option[Int] = {
    val newest = batches(stock.list(commits)).reverse
    // The newest may be a skipped one, which older versions of Spark or a session without Mooring wrote as format 1.
    newest.headOption.map { first =>
      val looked = if (entry(commits, first) == CommitsOfTools.Skipped) newest.take(CommitsOfTools.MostSkipped + 1) else Seq(first)
      if (looked.exists(version(_) >= 2)) 2 else 1
    }
  }

  /** To the session's settings, as this thread sees them. `chosen` is what the session says. */
  def tellFormat(chosen: Option[String]): Unit = Aside.otherwise("look at a checkpoint's format", ()) {
    OfflineTools.forget() // the same tool may have read another checkpoint before
    try for (known <- format) {
      OfflineTools.open(known)(Aside.otherwise("look at a session's settings", ())(_))
      for (other <- chosen if other != known.toString)
        Say.once(s"format-$commits", s"${commits.getParent} has state of format $known: Spark's tools read and write that, " +
          s"though ${StreamDoors.FormatKey} is $other")
    } catch { case _: FileNotFoundException => } // no checkpoint yet: the tool says so
  }

  def isOfFormat2: Boolean = Aside.otherwise("look at a checkpoint's format", false)(format.contains(2))

  /**
   * Without the newest commits that name no state, where a repartition that has skipped their batches is unfinished: its
   * next run goes on from the newest commit with state, as the first one did.
   */
  def withoutSkipped(found: Array[FileStatus]): Array[FileStatus] =
    if (!OfflineTools.isRepartition || !isOfFormat2) found
    else Aside.otherwise("look for skipped batches", found) {
      val (skipped, others) = batches(found).reverse.take(CommitsOfTools.MostSkipped + 1).span(!namesState(_))
      val isUnfinished = others.headOption.exists(base => skipped.nonEmpty && isFrom(base, after = skipped.head))
      if (isUnfinished) found.filterNot(file => skipped.exists(_.toString == file.getPath.getName)) else found
    }

  /** Whether the entry after the skipped ones starts from the offsets of that batch, and none was given up with them. */
  private def isFrom(base: Long, after: Long): Boolean = {
    val offsets = new Path(commits.getParent, "offsets")
    def sources(batch: Long) = entry(offsets, batch).linesIterator.drop(2).toSeq // after the version and the settings
    batches(stock.list(offsets)).lastOption.contains(after + 1) && sources(after + 1) == sources(base)
  }

  private def version(batch: Long): Int = entry(commits, batch).linesIterator.nextOption().fold(1)(_.stripPrefix("v").toInt)
  private def namesState(batch: Long): Boolean = entry(commits, batch).contains("\"stateUniqueIds\"")

  private def entry(log: Path, batch: Long): String =
    Using.resource(stock.open(new Path(log, batch.toString)))(in => new String(in.readAllBytes(), UTF_8))

  private def batches(found: Array[FileStatus]): Seq[Long] = found.toSeq.flatMap(_.getPath.getName.toLongOption).sorted
}

private object CommitsOfTools {
  val Skipped = "v1\n{\"nextBatchWatermarkMs\":0}"
  val MostSkipped = 3 // a query has one batch that is begun and not committed; each repartition may skip one
}

/** An entry of the commit log of a checkpoint of format 2: Spark writes those of skipped batches in format 1. */
private final class Format2Stream(out: CancellableFSDataOutputStream) extends EntryStream(out, new ByteArrayOutputStream) {
  override protected def asWritten(entry: Array[Byte]): Array[Byte] =
    if (new String(entry.take(3), UTF_8) == "v1\n") "v2\n".getBytes(UTF_8) ++ entry.drop(3) else entry
}
