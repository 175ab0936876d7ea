package io.mooring

import io.mooring.driver.Driver

/** What a job's own code may ask of the drains of its queries. */
object Drains {
  /** As `letsOut` of this application; false where Mooring is switched off. For `mooring.drain.is_draining`. */
  def isFlush(batch: Long): Boolean = Driver.current.exists(_.drains.letsOut(batch))
}
