package org.apache.spark.deploy.k8s.shims

import org.apache.spark.deploy.k8s.{KubernetesExecutorConf, SparkPod}
import org.apache.spark.deploy.k8s.features.KubernetesExecutorCustomFeatureConfigStep

/**
 * A step that changes the pods of executors. Spark makes one for each executor, by its name in the settings, in the driver. Depends on
 * `KubernetesExecutorConf`, which is private to Spark, of Spark 4.0 to 4.3.
 */
abstract class ExecutorPodShim extends KubernetesExecutorCustomFeatureConfigStep {
  private var executor = ""

  final override def init(conf: KubernetesExecutorConf): Unit = executor = conf.executorId
  final override def configurePod(pod: SparkPod): SparkPod = amended(executor, pod)

  /** The pod of this executor, with what the step adds. */
  protected def amended(executor: String, pod: SparkPod): SparkPod
}
