package io.mooring.common

import scala.util.control.NonFatal

/**
 * Keeps a failure of Mooring away from Spark: runs a part of Mooring, logs a failure once, and continues with a substitute. Called by any
 * thread. Fatal errors of the JVM and interruptions pass through.
 */
object FailOpen {

  /** The result of `body`; `instead` when it fails. `part` names the part of Mooring, for the log. */
  def otherwise[T](part: String, instead: => T)(body: => T): T = forAWhile(part, instead, isOver = false)(body)

  /** The same for work that is needed for a while only, such as while a query runs. A failure after that (`isOver`) is not warned of. */
  def forAWhile[T](part: String, instead: => T, isOver: => Boolean)(body: => T): T =
    try body
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => // LinkageError: a class or a library is missing
        Log.failed(s"aside-$part", e, isOver)(s"its $part failed ($e): Spark goes on without it")
        instead
    }
}
