package org.apache.spark.sql.execution.streaming.state.shims

/** Receives the progress of a `DrainValve`. Called by the stream's thread between two batches; an exception ends the query with an error. */
trait DrainLog {

  /** The intake is stopped. With `zeroInput`, the run has read no new input. `next` is the number of the query's next batch. */
  def frozen(next: Long, ending: Ending, zeroInput: Boolean): Unit

  /** All input is processed, up to this watermark. Batch `next` is the first that flushes state. */
  def caughtUp(next: Long, watermarkMs: Long): Unit

  /** A batch that flushes state has ended. It has removed `removed` rows of state; `stateLeft` rows are left. */
  def flushed(batch: Long, removed: Long, stateLeft: Long): Unit

  /** All state is flushed after batch `last`. The query is about to stop. */
  def drained(last: Long): Unit

  /** The query is about to stop after batch `last`, in the requested way. Its state is kept. */
  def stopped(last: Long, how: Ending): Unit
}

/**
 * How a query is to end.
 *
 * @param name  the name in requests and messages
 * @param haste an ending with more haste is over sooner, and replaces an ending with less haste that is under way
 */
sealed abstract class Ending(val name: String, private[shims] val haste: Int)

object Ending {
  /** All input that there is now is processed, and all state is flushed. */
  case object Drained extends Ending("DRAIN", 0)
  /** All input that there is now is processed. */
  case object AfterAvailable extends Ending("AFTER_AVAILABLE", 1)
  /** The running batch is the last. */
  case object AfterBatch extends Ending("AFTER_BATCH", 2)
  /** As Spark's own stop: the running batch is cut, and repeated at the next start. */
  case object Now extends Ending("NOW", 3)

  private val all = Seq(Drained, AfterAvailable, AfterBatch, Now)
  def named(name: String): Ending = all.find(_.name == name)
    .getOrElse(throw new IllegalArgumentException(s"$name: expected one of ${all.map(_.name).mkString(", ")}"))
}

/** The input that a query still reads before it ends. */
sealed trait Intake

object Intake {
  /** No input, even if there is some. */
  case object Nothing extends Intake
  /** All input that there is when the query is frozen. */
  case object All extends Intake
  /**
   * Decided later, by `DrainValve.end`. Until then the query is held, as long as `isReleasePossible`. When a release is not possible
   * any more, the query continues as if no drain had been requested; or with `endsUnreleased`, it ends, as it was started for its
   * drain only.
   */
  final case class Later(isReleasePossible: () => Boolean, endsUnreleased: Boolean) extends Intake
}
