package org.apache.spark.scheduler.shims

import scala.collection.mutable.HashMap

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.internal.config.EXECUTOR_INSTANCES
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.cluster.{CoarseGrainedSchedulerBackend, SchedulerBackendUtils}
import org.apache.spark.shims.SparkInternals
import org.apache.spark.util.Utils

/**
 * The requests of an application for executors on YARN. Called by the threads of `ExecutorRequests`. Depends on
 * `CoarseGrainedSchedulerBackend` of Spark 4.0 to 4.3, and on private fields of `YarnSchedulerBackend`, through `SparkInternals`.
 */
final class AllocationShim private (context: SparkContext) {
  private def backend: Option[CoarseGrainedSchedulerBackend] = context.schedulerBackend match {
    case yarn: CoarseGrainedSchedulerBackend => Some(yarn)
    case _ => None // it is not made yet
  }

  /** The application master that has registered with this driver last. A driver in client mode may have several, one after the other. */
  def master: Option[AnyRef] = for (yarn <- backend; field <- SparkInternals.applicationMaster; found <- field.get(yarn).asInstanceOf[Option[AnyRef]])
    yield found

  /** How many executors the application has asked for. None where nobody asked since the application master registered. */
  def requested: Option[Int] = for (yarn <- backend; field <- SparkInternals.requestedExecutors; found <- yarn.synchronized {
    field.get(yarn).asInstanceOf[scala.collection.Map[ResourceProfile, Int]].get(profile)
  }) yield found

  /**
   * Asks for `total` executors, so many of them on these hosts. It replaces what was asked for before, but not requests that YARN has not
   * answered yet. Blocks until the application master has the request.
   */
  def request(total: Int, hosts: Map[String, Int]): Unit = backend.foreach { yarn =>
    val tasks = tasksOn(hosts)
    yarn.requestTotalExecutors(Map(profile.id -> total), Map(profile.id -> tasks.values.sum), Map(profile.id -> tasks))
  }

  /**
   * Has Spark's manager of dynamic allocation prefer these hosts, besides those that its stages prefer, whenever it asks for executors. It
   * replaces the hosts of an earlier call. Does nothing where Spark has no manager.
   */
  def prefer(hosts: Map[String, Int]): Unit = for (manager <- context.executorAllocationManager; field <- SparkInternals.placementHints)
    manager.synchronized {
      val listener = manager.listener
      val hints = field.get(listener).asInstanceOf[HashMap[AnyRef, (Int, Map[String, Int], Int)]] // by stage; the hint of this object is one more
      val tasks = tasksOn(hosts)
      hints.put(this, (tasks.values.sum, tasks, profile.id))
      listener.updateExecutorPlacementHints()
    }

  private def profile = context.resourceProfileManager.defaultResourceProfile

  /** Spark counts tasks, and divides by the slots of an executor. */
  private def tasksOn(hosts: Map[String, Int]): Map[String, Int] = {
    val slots = profile.maxTasksPerExecutor(context.conf)
    hosts.map { case (host, executors) => host -> executors * slots }
  }

  /** Lets the start of the context wait for so many executors, as it does by itself when the settings have the number. */
  def expect(total: Int): Unit = for (yarn <- backend; field <- SparkInternals.expectedExecutors) field.setInt(yarn, total)
}

object AllocationShim {
  /** None where the cluster manager is not YARN. */
  def yarn(context: SparkContext): Option[AllocationShim] = Option.when(context.master == "yarn")(new AllocationShim(context))

  /** Whether Spark changes the number of executors with the load. */
  def isDynamic(conf: SparkConf): Boolean = Utils.isDynamicAllocationEnabled(conf)

  /** How many executors an application with this configuration asks its cluster manager for; 0 where it takes what there is. */
  def executors(context: SparkContext, conf: SparkConf): Int =
    if (context.master == "yarn" || context.master.startsWith("k8s:"))
      conf.get(EXECUTOR_INSTANCES).getOrElse(SchedulerBackendUtils.DEFAULT_NUMBER_EXECUTORS)
    else 0
}
