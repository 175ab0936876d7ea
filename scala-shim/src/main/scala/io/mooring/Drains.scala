package io.mooring

import io.mooring.driver.Driver

/** Answers questions of a job's own code about the drains of its queries. Called on the driver, as in `foreachBatch`. */
object Drains {
  /**
   * Whether this batch flushes the state of the query on whose thread it is called, such as windows that are not full. False where
   * Mooring is switched off. `mooring.drain.is_draining` calls it.
   */
  def isFlush(batch: Long): Boolean = Driver.current.exists(_.drains.isFlush(batch))
}
