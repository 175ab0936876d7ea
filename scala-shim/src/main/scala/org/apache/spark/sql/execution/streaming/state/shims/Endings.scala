package org.apache.spark.sql.execution.streaming.state.shims

/** What a `DrainValve` reports. Called by the stream's thread between two batches; an exception ends the query with an error. */
trait DrainLog {

  /** The intake is stopped. If `zeroInput`, nothing was read at all. `next` is the next batch that the query will begin. */
  def frozen(next: Long, ending: Ending, zeroInput: Boolean): Unit

  /** All input is processed, up to this watermark. Batch `next` is the first that flushes state. */
  def caughtUp(next: Long, watermarkMs: Long): Unit

  /** A batch that flushes has ended: it has removed so many rows of state, and so many are left. */
  def flushed(batch: Long, removed: Long, stateLeft: Long): Unit

  /** All state is flushed after batch `last`. The query is about to stop. */
  def drained(last: Long): Unit

  /** The query is about to stop after batch `last`, as was asked. Its state is kept. */
  def stopped(last: Long, how: Ending): Unit
}

/**
 * How a query is to end. A greater `haste` is over sooner, and may be asked for while an ending with less haste is under way.
 *
 * @param name as in requests and messages
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

/** What a query that is to end still reads. */
sealed trait Intake

object Intake {
  /** Nothing, also if there is input. */
  case object Nothing extends Intake
  /** All that there is when the query is frozen. */
  case object All extends Intake
  /**
   * The query is held until it is told whether it reads nothing or all. It is held while `isToBeHoped`: while somebody may still
   * tell it. After that it goes on as if no drain had been asked for; or it ends, if it `endsWithoutHope`, as it was started for
   * its drain only.
   */
  final case class Later(isToBeHoped: () => Boolean, endsWithoutHope: Boolean) extends Intake
}
