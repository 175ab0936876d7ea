package io.mooring.common

import java.util.concurrent.ThreadFactory

/** Threads that do not keep a JVM from ending, named so that a thread dump tells whose they are. */
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
