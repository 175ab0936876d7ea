package io.mooring.common

import scala.util.control.NonFatal

/** The last resort: whatever part of Mooring fails stays out of the way, and says so once. */
object FailOpen {
  def otherwise[T](part: String, instead: => T)(body: => T): T = forAWhile(part, instead, isOver = false)(body)

  /** The same of what is needed for a while only, as long as a query runs: a failure after that is none. */
  def forAWhile[T](part: String, instead: => T, isOver: => Boolean)(body: => T): T =
    try body
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => // a missing class or library is no less our own fault
        Log.failed(s"aside-$part", e, isOver)(s"its $part failed ($e): Spark goes on without it")
        instead
    }
}
