package io.mooring.localstore

import java.util.concurrent.{CancellationException, ExecutionException, FutureTask}

/**
 * One fetch of the files of a store that is about to be opened on this host. It runs once, on the thread that calls `run` first: a thread of
 * `Prefetch` or `Copies`, or the task that opens the store. It waits for the fetch `before` it of the same store, so that no file is
 * fetched twice.
 */
private[mooring] final class FetchAhead(fetch: => Unit, before: Option[FetchAhead]) extends FutureTask[Unit](() => {
  before.foreach(_.await())
  fetch
}) {

  /** Blocks until the fetch has ended, with or without success. InterruptedException when the caller's task is killed meanwhile. */
  def await(): Unit = {
    run() // does nothing when another thread has begun
    try FetchAhead.resultOf(this)
    catch { case _: CancellationException => } // the fetch was cancelled
  }
}

private[mooring] object FetchAhead {
  def resultOf[T](task: FutureTask[T]): T =
    try task.get()
    catch { case e: ExecutionException => throw e.getCause }
}
