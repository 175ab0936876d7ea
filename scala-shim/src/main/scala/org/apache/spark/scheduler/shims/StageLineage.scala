package org.apache.spark.scheduler.shims

import scala.collection.mutable
import scala.reflect.ClassTag

import org.apache.spark.{NarrowDependency, OneToOneDependency, SparkContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.ExecutorCacheTaskLocation

/**
 * Which partitions of an RDD a task computes. A task has the number of a partition of its stage's last RDD. Between the two RDDs, a
 * union may renumber partitions, and a coalesce may merge several into one.
 *
 * Called on the driver, mostly by the thread that sends the tasks of stages. Depends on `DAGScheduler.runningStages` and that
 * thread's name; without it tasks of renumbered partitions are not placed.
 */
object StageLineage {
  private val SendingThread = "dag-scheduler-event-loop"

  /** The partitions of RDDs of class `R` that this partition of `last` is computed from, without a shuffle between. */
  def nearest[R <: RDD[_]: ClassTag](last: RDD[_], partition: Int): Seq[(R, Int)] = {
    val seen = mutable.Set.empty[(Int, Int)] // several dependencies may lead to one partition
    def from(rdd: RDD[_], partition: Int): Seq[(R, Int)] = rdd match {
      case _ if !seen.add(rdd.id -> partition) => Nil
      case found: R => Seq(found -> partition)
      case other => narrow(other).flatMap(dependency => dependency.getParents(partition).flatMap(from(dependency.rdd, _)))
    }
    from(last, partition)
  }

  /** The RDD of class `R`, if its partitions have the same numbers as those of `last`. In most stages they have. */
  def withSamePartitions[R <: RDD[_]: ClassTag](last: RDD[_]): Option[R] = last match {
    case found: R => Some(found)
    case other => other.dependencies match {
      case Seq(same: OneToOneDependency[_]) => withSamePartitions[R](same.rdd)
      case _ => None
    }
  }

  /** A stage whose tasks Spark's scheduler is about to send. */
  final case class Sent(stage: Int, attempt: Int, last: RDD[_])

  /** The running stages that compute this RDD. Empty on any thread but the one that sends the tasks of stages. */
  def stagesOf(context: SparkContext, rdd: RDD[_]): Seq[Sent] =
    if (Thread.currentThread.getName != SendingThread) Nil // only that thread may read the set of running stages
    else context.dagScheduler.runningStages.toSeq.filter(stage => computes(stage.rdd, rdd))
      .map(stage => Sent(stage.id, stage.latestInfo.attemptNumber(), stage.rdd))

  private def computes(last: RDD[_], rdd: RDD[_]): Boolean = {
    val seen = mutable.Set.empty[Int]
    def from(other: RDD[_]): Boolean = seen.add(other.id) && ((other eq rdd) || narrow(other).exists(dependency => from(dependency.rdd)))
    from(last)
  }

  private def narrow(rdd: RDD[_]): Seq[NarrowDependency[_]] = rdd.dependencies.collect { case dependency: NarrowDependency[_] => dependency }

  /** Whether the task of this partition prefers an executor, by the executor's id or by its host. */
  def prefers(context: SparkContext, last: RDD[_], partition: Int, hostOf: String => Option[String]): String => Boolean = {
    val places = context.getPreferredLocs(last, partition)
    executor => places.exists {
      case at: ExecutorCacheTaskLocation => at.executorId == executor
      case at => hostOf(executor).contains(at.host)
    }
  }
}
