package io.mooring.allocation

import scala.jdk.CollectionConverters._

import io.fabric8.kubernetes.api.model.{Container, ContainerBuilder, EnvVarBuilder, NodeSelectorTermBuilder, Pod, PodBuilder}
import io.mooring.common.{Location, Names, SettingsTable}
import org.apache.spark.SparkConf
import org.apache.spark.deploy.k8s.SparkPod

/**
 * Adds to the pod of an executor on Kubernetes what keeps it near its state: the node that it prefers, the claim of its volume, and the
 * variables that name both. What the user's pod template has stays, and comes first where it says the same.
 *
 * Spark's thread that makes pods calls it.
 */
private[mooring] final class ExecutorPods(conf: SparkConf, settings: SettingsTable, places: Option[PodPlaces]) {
  private val providers = settings.text(Location.Key).toSeq.flatMap(_.split('/'))

  /** The volumes with claims that the user has made for each executor, by volume: the claim's name, in which Spark puts the executor's number. */
  private val claims: Map[String, String] =
    if (!providers.contains(Location.Volume)) Map.empty
    else conf.getAllWithPrefix(ExecutorPods.ClaimPrefix).collect {
      case (ExecutorPods.ClaimName(volume), name) if name.contains(ExecutorPods.NumberInName) && !isMadeBySpark(volume) => volume -> name
    }.toMap

  private def isMadeBySpark(volume: String) =
    Seq("storageClass", "sizeLimit").forall(option => conf.contains(s"${ExecutorPods.ClaimPrefix}$volume.options.$option"))

  /** The volume with the local store, of those in `claims`. */
  private val volumeOfStore = {
    val store = settings.text("spark.mooring.local.store.dir").getOrElse("")
    val mounted = claims.keys.flatMap(volume => conf.getOption(s"${ExecutorPods.ClaimPrefix}$volume.mount.path").map(volume -> _))
    mounted.filter { case (_, path) => s"$store/".startsWith(s"$path/") }.maxByOption(_._2.length).map(_._1)
  }

  /** `executor` is Spark's id; one that is no number stands for several executors, which have one pod template. */
  def amended(executor: String, spark: SparkPod): SparkPod = {
    val place = places.filter(_ => executor.forall(_.isDigit)).map(_.placeOf(executor, claims.nonEmpty))
    val claimed = place.flatMap(_.number).fold(Map.empty[String, String]) { number =>
      claims.map { case (volume, name) => volume -> name.replace(ExecutorPods.NumberInName, number.toString) }
    }
    val pod = place.fold(spark.pod)(found => withClaims(withNodes(spark.pod, found), claimed))
    new SparkPod(pod, withVariables(spark.container, volumeOfStore.flatMap(claimed.get)))
  }

  private def withNodes(pod: Pod, place: PodPlace): Pod = {
    val terms = place.node.toSeq.map(ExecutorPods.In -> _) ++ place.avoided.toSeq.sorted.map(ExecutorPods.NotIn -> _)
    terms.filter(_._2.matches(ExecutorPods.NodeName)).foldLeft(pod) { case (amended, (operator, node)) =>
      val term = new NodeSelectorTermBuilder().addNewMatchField().withKey("metadata.name").withOperator(operator)
        .withValues(node).endMatchField().build()
      new PodBuilder(amended).editOrNewSpec().editOrNewAffinity().editOrNewNodeAffinity()
        .addNewPreferredDuringSchedulingIgnoredDuringExecution().withWeight(ExecutorPods.Weight).withPreference(term)
        .endPreferredDuringSchedulingIgnoredDuringExecution().endNodeAffinity().endAffinity().endSpec().build()
    }
  }

  private def withClaims(pod: Pod, claimed: Map[String, String]): Pod = {
    val amended = new PodBuilder(pod).build()
    for (volume <- amended.getSpec.getVolumes.asScala; claim <- claimed.get(volume.getName); source <- Option(volume.getPersistentVolumeClaim))
      source.setClaimName(claim)
    amended
  }

  private def withVariables(container: Container, claim: Option[String]): Container = {
    val has = container.getEnv.asScala.map(_.getName).toSet
    val fromPod = Seq(Location.NodeVariable -> "spec.nodeName") ++
      Option.when(settings.text(Location.ZoneKey).contains("kubernetes"))(Location.ZoneVariable -> s"metadata.labels['${Location.ZoneLabelName}']")
    val variables = fromPod.map { case (name, field) =>
      new EnvVarBuilder().withName(name).withNewValueFrom().withNewFieldRef("v1", field).endValueFrom().build()
    } ++ claim.map(name => new EnvVarBuilder().withName(Names.VolumeVariable).withValue(name).build())
    new ContainerBuilder(container).addAllToEnv(variables.filterNot(variable => has.contains(variable.getName)).asJava).build()
  }
}

private object ExecutorPods {
  private val ClaimPrefix = "spark.kubernetes.executor.volumes.persistentVolumeClaim."
  private val ClaimName = """([^.]+)\.options\.claimName""".r
  private val NumberInName = "SPARK_EXECUTOR_ID"
  private val In = "In"
  private val NotIn = "NotIn"
  private val Weight = 100 // the most that Kubernetes takes

  /** Kubernetes rejects a pod that names a node otherwise. A list of an earlier run may have other names. */
  private val NodeName = "[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
}
