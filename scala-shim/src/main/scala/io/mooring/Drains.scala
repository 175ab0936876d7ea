package io.mooring

import io.mooring.driver.Driver

/** What a job's own code may ask about the drains of its queries. */
object Drains {
  /**
   * Whether this batch, of the query on whose thread this is called, lets out what was held back, such as windows that are not
   * full. False where Mooring is switched off. `mooring.drain.is_draining` calls it.
   */
  def isFlush(batch: Long): Boolean = Driver.current.exists(_.drains.isFlush(batch))
}
