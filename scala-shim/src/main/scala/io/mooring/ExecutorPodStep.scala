package io.mooring

import io.mooring.common.FailOpen
import io.mooring.driver.Driver
import org.apache.spark.deploy.k8s.SparkPod
import org.apache.spark.deploy.k8s.shims.ExecutorPodShim

/**
 * Keeps new executors on Kubernetes near their state. The plugin adds it to `spark.kubernetes.executor.pod.featureSteps`. After a failure,
 * which is logged, the pod is as Spark and the user's template made it.
 */
final class ExecutorPodStep extends ExecutorPodShim {
  override protected def amended(executor: String, pod: SparkPod): SparkPod = FailOpen.otherwise("node of an executor pod", pod) {
    Driver.current.flatMap(_.executorRequests.pods).fold(pod)(_.amended(executor, pod))
  }
}
