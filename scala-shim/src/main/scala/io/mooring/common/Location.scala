package io.mooring.common

import java.io.IOException
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

/**
 * Finds the location and the zone of an executor, by the settings `location.provider` and `zone.provider`. The rules are those of
 * `python/mooring/locality.py`. The executor plugin calls it once, at its start.
 *
 * @param environment the executor's environment variables
 * @param ask         asks a Python class of the user's (`module:Class`): Right with the answer, Left with the reason why there is none
 * @param labels      the file with the labels of the Kubernetes pod
 * @param volume      the name of the volume with the local store, as the store has it: Left with the reason why there is none
 */
final class Location(
    environment: String => Option[String],
    ask: String => Either[String, String],
    labels: Path = Location.LabelsFile,
    volume: => Either[String, String] = Left("there is no local store")) {

  /** The location; may contain `Location.Host`. Empty when the host is the location: by the setting, or with a warning when no answer came. */
  def of(provider: Option[String]): String =
    if (Location.isHost(provider)) ""
    else joined(Location.Key, provider.toSeq.flatMap(_.split('/')).map {
      case "host" => Right(Location.Host)
      case "kubernetes" => variable(Location.NodeVariable)
      case Location.Volume => variable(Names.VolumeVariable).orElse(volume)
      case Location.FromEnvironment(name) => variable(name)
      case module => ask(module)
    }, "the host is the location")

  /** The zone. Empty without a provider; empty, with a warning, when no answer came. */
  def zone(provider: Option[String]): String = provider.fold("") { spec =>
    val answer = spec match {
      case "kubernetes" => variable(Location.ZoneVariable).orElse(zoneLabel)
      case Location.FromEnvironment(name) => variable(name)
      case module => ask(module)
    }
    joined(Location.ZoneKey, Seq(answer), "its zone is not known")
  }

  private def joined(key: String, parts: Seq[Either[String, String]], otherwise: String): String =
    parts.collectFirst { case Left(reason) => reason } match {
      case Some(reason) =>
        Log.once(key, s"$key: $reason; $otherwise")
        ""
      case None => parts.flatMap(_.toOption).mkString("/")
    }

  private def variable(name: String): Either[String, String] =
    environment(name).map(_.trim).filter(_.nonEmpty).toRight(s"the environment variable $name is not set here")

  private def zoneLabel: Either[String, String] =
    try Files.readAllLines(labels).asScala.collectFirst { case Location.ZoneLabel(zone) if zone.trim.nonEmpty => zone.trim }
      .toRight(s"neither ${Location.ZoneVariable} nor $labels names the zone")
    catch { case e: IOException => Left(s"${Location.ZoneVariable} is not set here, and $labels can not be read ($e)") }
}

object Location {

  /** An executor as a preferred location of a task. Spark splits this text at the first underscore: a host with an underscore can only be named as a host. */
  def ofExecutor(host: String, executor: String): String = if (host.contains("_")) host else s"executor_${host}_$executor"

  val Key = "spark.mooring.location.provider"
  val ZoneKey = "spark.mooring.zone.provider"

  /** Stands for the executor's host in a location of several parts. The driver puts the host's name in, as an executor does not know it. */
  val Host = "{host}"

  val Volume = "volume"
  val NodeVariable = "NODE_NAME"
  val ZoneVariable = "NODE_ZONE"
  val ZoneLabelName = "topology.kubernetes.io/zone"
  private val LabelsFile = Path.of("/etc/podinfo/labels")
  private val FromEnvironment = "env:(.+)".r
  private val ZoneLabel = "topology\\.kubernetes\\.io/zone=\"(.*)\"".r

  /** Whether locations that this provider names have a Kubernetes node among their parts. */
  def hasNode(provider: Option[String]): Boolean = provider.exists(_.split('/').exists(Set("kubernetes", s"env:$NodeVariable")))

  /** Whether each executor has a volume of its own. */
  def isVolume(provider: Option[String]): Boolean = provider.exists(_.split('/').contains(Volume))

  def isHost(provider: Option[String]): Boolean = provider.forall(_ == "host")
}
