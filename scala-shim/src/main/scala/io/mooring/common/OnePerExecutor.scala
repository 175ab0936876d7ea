package io.mooring.common

/**
 * Holds the one instance of something in an executor's JVM. The executor plugin sets it; any thread reads it.
 *
 * @param end ends an instance that is replaced
 */
abstract class OnePerExecutor[T](end: T => Unit) {
  @volatile private var current: Option[T] = None

  /** The instance of this executor. None in a driver, and where the executor can not have one. */
  def ofThisExecutor: Option[T] = current

  private[mooring] def use(instance: Option[T]): Unit = {
    current.foreach(end)
    current = instance
  }
}
