package io.mooring

import java.nio.file.{Files, Path}
import java.util.concurrent.{ThreadFactory, TimeUnit}

import scala.util.control.NonFatal

/** Threads that do not keep a JVM from ending, named so that a thread dump tells whose they are. */
object Daemon {
  def factory(name: String): ThreadFactory = (work: Runnable) => {
    val thread = new Thread(work, name)
    thread.setDaemon(true)
    thread
  }

  /**
   * The same, of threads that give way to tasks where processor time is short. Java has no such thing on Linux, where a
   * thread's priority is the system's to change: it is asked by its own command, and where there is none nothing changes.
   */
  def factoryOfGentle(name: String): ThreadFactory = (work: Runnable) => factory(name).newThread { () =>
    giveWay()
    work.run()
  }

  private def giveWay(): Unit =
    try {
      val thread = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName.toString
      val asking = new ProcessBuilder("renice", "-n", Niceness.toString, "-p", thread).redirectErrorStream(true)
        .redirectOutput(ProcessBuilder.Redirect.DISCARD).start()
      if (!asking.waitFor(AnswerMs, TimeUnit.MILLISECONDS)) asking.destroyForcibly()
    } catch {
      case NonFatal(_) => // another system, or an image without the command
      case _: InterruptedException => Thread.currentThread().interrupt()
    }

  private val Niceness = 5 // a third of the processor time that a task's thread gets beside it
  private val AnswerMs = 1000L

  def start(name: String)(work: => Unit): Thread = {
    val thread = factory(name).newThread(() => work)
    thread.start()
    thread
  }
}
