package io.mooring.localstore

import java.util.concurrent.{CancellationException, ExecutionException, FutureTask}

/**
 * The files of one store that are on their way to the host; run by whoever has the time for it first, and when those that
 * were ordered `before` for the store have come, so that nothing is fetched twice.
 */
private[mooring] final class Coming(bring: => Unit, before: Option[Coming]) extends FutureTask[Unit](() => {
  before.foreach(_.await())
  bring
}) {

  /** Returns when they are here, or can not be had. InterruptedException when the caller's task is killed meanwhile. */
  def await(): Unit = {
    run() // does nothing when another thread has begun
    try Coming.resultOf(this)
    catch { case _: CancellationException => } // it is not needed any more
  }
}

private[mooring] object Coming {
  def resultOf[T](task: FutureTask[T]): T =
    try task.get()
    catch { case e: ExecutionException => throw e.getCause }
}
