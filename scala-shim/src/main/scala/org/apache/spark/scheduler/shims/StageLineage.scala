package org.apache.spark.scheduler.shims

import scala.collection.mutable
import scala.reflect.ClassTag

import org.apache.spark.{NarrowDependency, OneToOneDependency, SparkContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.ExecutorCacheTaskLocation

/**
 * Which partitions of an RDD a task computes. A task has the number of a partition of its stage's last RDD. Between the
 * two RDDs a union may number partitions anew, and a coalesce may put several of them into one.
 */
object StageLineage {
  private val SendingThread = "dag-scheduler-event-loop"

  /** The partitions of the nearest RDDs of this class that make up this partition of `last`, without a shuffle between. */
  def nearest[R <: RDD[_]: ClassTag](last: RDD[_], partition: Int): Seq[(R, Int)] = {
    val seen = mutable.Set.empty[(Int, Int)] // several ways may lead to one partition
    def from(rdd: RDD[_], partition: Int): Seq[(R, Int)] = rdd match {
      case _ if !seen.add(rdd.id -> partition) => Nil
      case found: R => Seq(found -> partition)
      case other => narrow(other).flatMap(dependency => dependency.getParents(partition).flatMap(from(dependency.rdd, _)))
    }
    from(last, partition)
  }

  /** The nearest RDD of this class, when each of its partitions has the number of its task: most stages are so. */
  def alike[R <: RDD[_]: ClassTag](last: RDD[_]): Option[R] = last match {
    case found: R => Some(found)
    case other => other.dependencies match {
      case Seq(same: OneToOneDependency[_]) => alike[R](same.rdd)
      case _ => None
    }
  }

  /** A stage whose tasks Spark's scheduler is about to send. */
  final case class Sent(stage: Int, attempt: Int, last: RDD[_])

  /** The running stages that compute this RDD; none in other threads than that in which Spark sends the tasks of stages. */
  def stagesOf(context: SparkContext, rdd: RDD[_]): Seq[Sent] =
    if (Thread.currentThread.getName != SendingThread) Nil // the set of running stages is that thread's own
    else context.dagScheduler.runningStages.toSeq.filter(stage => computes(stage.rdd, rdd))
      .map(stage => Sent(stage.id, stage.latestInfo.attemptNumber(), stage.rdd))

  private def computes(last: RDD[_], rdd: RDD[_]): Boolean = {
    val seen = mutable.Set.empty[Int]
    def from(one: RDD[_]): Boolean = seen.add(one.id) && ((one eq rdd) || narrow(one).exists(dependency => from(dependency.rdd)))
    from(last)
  }

  private def narrow(rdd: RDD[_]): Seq[NarrowDependency[_]] = rdd.dependencies.collect { case one: NarrowDependency[_] => one }

  /** Which executors the task of this partition is told to prefer, by themselves or by their host. */
  def prefers(context: SparkContext, last: RDD[_], partition: Int, hostOf: String => Option[String]): String => Boolean = {
    val places = context.getPreferredLocs(last, partition)
    executor => places.exists {
      case at: ExecutorCacheTaskLocation => at.executorId == executor
      case at => hostOf(executor).contains(at.host)
    }
  }
}
