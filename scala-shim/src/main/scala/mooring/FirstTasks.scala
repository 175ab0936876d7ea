package io.mooring

import java.util.concurrent.TimeUnit

import scala.util.control.NonFatal

import org.apache.spark.{HashPartitioner, SparkContext}
import org.apache.spark.scheduler.mooring.PendingTasks

/**
 * An executor that joins while queries run is given a small job of Mooring's own first, with as many tasks as it has room
 * for. What the first task of any kind brings with it is over then, and until it is Spark gives the queries' tasks, which
 * their batches wait for, to the other executors. Driver only.
 */
final class FirstTasks(context: SparkContext) {
  import FirstTasks._

  /** Returns at once; the job waits on a thread of its own until Spark would give a task to this executor, for a minute at most. */
  def begin(executor: String, host: String, cores: Int): Unit = {
    Daemon.start(s"mooring-first-tasks-$executor") {
      try if (hasRoom(executor)) run(executor, host, math.max(1, cores / context.getConf.getInt("spark.task.cpus", 1)))
      catch {
        case _: InterruptedException => // the application ends
        case NonFatal(e) => Say.info(s"the first tasks of executor $executor were not run ($e): it begins with those of the queries")
      }
    }
    ()
  }

  private def hasRoom(executor: String): Boolean = {
    val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(MostSeconds)
    while (!PendingTasks.hasRoom(context, executor) && !context.isStopped && System.nanoTime() - end < 0) Thread.sleep(PauseMs)
    PendingTasks.hasRoom(context, executor)
  }

  /** Tasks that write a shuffle, and tasks that read it. */
  private def run(executor: String, host: String, tasks: Int): Unit = {
    val began = System.nanoTime()
    context.setJobDescription(s"mooring: first tasks of executor $executor")
    val there = context.makeRDD((1 to tasks).map(number => number -> Seq(Location.ofExecutor(host, executor))))
    there.map(number => number -> number).partitionBy(new HashPartitioner(tasks)).count()
    Say.info(s"executor $executor has run its first tasks, a small job of Mooring's, after ${(System.nanoTime() - began) / 1000000} ms")
  }
}

private object FirstTasks {
  private val MostSeconds = 60L // until an executor has registered it may have to fetch jars, and it warms up
  private val PauseMs = 10L // a task of a query may be waiting for room
}
