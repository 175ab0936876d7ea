package org.apache.spark.scheduler.cluster.k8s.shims

import scala.collection.Map

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.cluster.k8s.{ExecutorPodsAllocator, ExecutorPodsSnapshot, FinalPodState, KubernetesClusterSchedulerBackend}
import org.apache.spark.shims.SparkInternals

/** The pods of executors, as Spark's allocator knows them. Depends on private fields of Spark 4.0 to 4.3, through `SparkInternals`. */
object ExecutorPodsShim {

  /**
   * The ids of executors whose pods are made and have not ended. Spark's thread that makes pods calls it: then it is what Spark itself decides
   * from. None where another allocator makes the pods, and where a field is missing.
   */
  def living(context: SparkContext): Option[Set[String]] = context.schedulerBackend match {
    case backend: KubernetesClusterSchedulerBackend =>
      for {
        of <- SparkInternals.podAllocator
        allocator <- Option(of.get(backend)).collect { case one: ExecutorPodsAllocator => one }
        created <- SparkInternals.podsJustCreated
        known <- SparkInternals.podsKnownToScheduler
        seen <- SparkInternals.podsSeen
      } yield {
        val snapshot = seen.get(allocator).asInstanceOf[ExecutorPodsSnapshot]
        val notSeenYet = Seq(created, known).flatMap(_.get(allocator).asInstanceOf[Map[Long, Any]].keys)
        val notEnded = snapshot.executorPods.collect { case (id, state) if !state.isInstanceOf[FinalPodState] => id }
        (notSeenYet ++ notEnded).map(_.toString).toSet
      }
    case _ => None
  }
}
