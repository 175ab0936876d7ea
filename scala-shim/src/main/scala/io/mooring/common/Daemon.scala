package io.mooring.common

import java.util.concurrent.ThreadFactory

/** Makes daemon threads, which do not keep a JVM from ending. Their names begin with `mooring-`, so that a thread dump shows them. */
object Daemon {
  def factory(name: String): ThreadFactory = (work: Runnable) => {
    val thread = new Thread(work, name)
    thread.setDaemon(true)
    thread
  }

  def start(name: String)(work: => Unit): Thread = {
    val thread = factory(name).newThread(() => work)
    thread.start()
    thread
  }
}
