package io.mooring.drain

import java.util.concurrent.ConcurrentHashMap

/**
 * What a stream that starts has to obey after a drain or a restore of its checkpoint. `Drains.atStart` sets the rules on the
 * stream's thread, before the stream reads its logs. The checkpoint's file manager asks for them on the same thread.
 */
object StartRules {
  private val refusals = new ConcurrentHashMap[String, String]() // checkpoint -> why no query may start from it
  private val resets = new ConcurrentHashMap[String, WatermarkReset]() // by checkpoint

  /** IllegalStateException, which ends the query, where it may not start. */
  def checkMayStart(checkpoint: String): Unit =
    refusal(checkpoint).foreach(reason => throw new IllegalStateException(reason))

  /** Why no query may start from this checkpoint. */
  def refusal(checkpoint: String): Option[String] = Option(refusals.get(checkpoint))

  /** The watermark (ms) with which a log's entry for this batch is to be read, where that is not its own. */
  def watermarkInstead(checkpoint: String, batch: String): Option[Long] =
    for (reset <- Option(resets.get(checkpoint)); number <- batch.toLongOption if reset.from <= number && number <= reset.to)
      yield reset.watermarkMs

  private[drain] def forget(checkpoint: String): Unit = {
    resets.remove(checkpoint)
    refusals.remove(checkpoint)
    ()
  }

  private[drain] def refuse(checkpoint: String, reason: String): Unit = {
    refusals.put(checkpoint, reason)
    ()
  }

  private[drain] def reset(checkpoint: String, reset: WatermarkReset): Unit = {
    resets.put(checkpoint, reset)
    ()
  }
}
