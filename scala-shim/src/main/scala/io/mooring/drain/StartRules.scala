package io.mooring.drain

import java.util.concurrent.ConcurrentHashMap

/**
 * Rules for the start of a stream after a drain or a restore of its checkpoint: whether it may start, and which watermark it reads.
 *
 * `Drains.atStart` sets the rules on the stream's thread, before the stream reads its logs. The checkpoint's file manager
 * (`CheckpointFiles`) looks them up on the same thread, and so enforces them.
 */
object StartRules {
  private val refusals = new ConcurrentHashMap[String, String]() // checkpoint -> why no query may start from it
  private val resets = new ConcurrentHashMap[String, WatermarkReset]() // by checkpoint

  /** Throws IllegalStateException, which ends the query, when no query may start from this checkpoint. */
  def checkMayStart(checkpoint: String): Unit =
    refusal(checkpoint).foreach(reason => throw new IllegalStateException(reason))

  /** Why no query may start from this checkpoint; None when it may. */
  def refusal(checkpoint: String): Option[String] = Option(refusals.get(checkpoint))

  /** The watermark (ms) that replaces the watermark in the logs' entries for this batch; None where the entries stay as they are. */
  def watermarkOverride(checkpoint: String, batch: String): Option[Long] =
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
