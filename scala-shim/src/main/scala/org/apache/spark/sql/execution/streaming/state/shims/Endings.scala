package org.apache.spark.sql.execution.streaming.state.shims

/** Follows a drain; called on the stream's own thread, between two batches. What it throws ends the query with an error. */
trait DrainLog {

  /** Nothing more is taken in from now on, or nothing at all was; `next` is the batch after those that were begun before. */
  def frozen(next: Long, ending: Ending, zeroInput: Boolean): Unit

  /** All that had come in was processed, up to this watermark: from batch `next` on state is flushed. */
  def caughtUp(next: Long, watermarkMs: Long): Unit

  /** A batch that flushed has ended: so many rows of state went, and so many are left. */
  def flushed(batch: Long, removed: Long, stateLeft: Long): Unit

  /** Nothing more comes out; the query is about to stop. */
  def drained(last: Long): Unit

  /** The query is about to stop, as was asked, with state that it keeps. */
  def stopped(last: Long, how: Ending): Unit
}

/** How a query is to end; what comes later is sooner over, and may still be asked for when an earlier one is under way. */
sealed abstract class Ending(val name: String, private[shims] val haste: Int)

object Ending {
  /** All that has come in is processed, and all state comes out. */
  case object Drained extends Ending("DRAIN", 0)
  /** All that has come in is processed. */
  case object AfterAvailable extends Ending("AFTER_AVAILABLE", 1)
  /** The batch that runs is the last. */
  case object AfterBatch extends Ending("AFTER_BATCH", 2)
  /** As by Spark's own stop: the batch that runs is cut, and repeated at the next start. */
  case object Now extends Ending("NOW", 3)

  private val all = Seq(Drained, AfterAvailable, AfterBatch, Now)
  def named(name: String): Ending = all.find(_.name == name)
    .getOrElse(throw new IllegalArgumentException(s"$name: expected one of ${all.map(_.name).mkString(", ")}"))
}

/** What a query that is to end still reads. */
sealed trait Intake

object Intake {
  /** Nothing at all, also of what lies ready. */
  case object Nothing extends Intake
  /** All that there is at the moment of its freeze. */
  case object All extends Intake
  /**
   * One or the other, as it will be told, as long as there is hope for that. Without hope it goes on as if nobody had
   * asked; one that `endsWithoutHope` was started for its drain only, and ends.
   */
  final case class Later(isToBeHoped: () => Boolean, endsWithoutHope: Boolean) extends Intake
}
