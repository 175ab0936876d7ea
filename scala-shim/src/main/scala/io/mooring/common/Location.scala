package io.mooring.common

import java.io.IOException
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

/**
 * Where an executor is, and in which zone, as `location.provider` and `zone.provider` say; the same rules as in
 * `mooring/locality.py`. `ask` asks a Python class of the user's: its answer, or why there is none.
 */
final class Location(
    environment: String => Option[String],
    ask: String => Either[String, String],
    labels: Path = Location.LabelsFile) {

  /** The location as the executor knows it; empty, and said once why, where that is the host after all. */
  def of(provider: Option[String]): String =
    if (Location.isHost(provider)) ""
    else answered(Location.Key, provider.toSeq.flatMap(_.split('/')).map {
      case "host" => Right(Location.Host)
      case "kubernetes" => variable(Location.NodeVariable)
      case Location.FromEnvironment(name) => variable(name)
      case module => ask(module)
    }, "the host is the location")

  /** The zone; empty where nobody is asked, and where there is no answer, which is said once. */
  def zone(provider: Option[String]): String = provider.fold("") { spec =>
    val answer = spec match {
      case "kubernetes" => variable(Location.ZoneVariable).orElse(zoneLabel)
      case Location.FromEnvironment(name) => variable(name)
      case module => ask(module)
    }
    answered(Location.ZoneKey, Seq(answer), "its zone is not known")
  }

  private def answered(key: String, parts: Seq[Either[String, String]], otherwise: String): String =
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

  /** How a task asks for an executor. Spark cuts this text at the first underscore: a host with one can only be named as a host. */
  def ofExecutor(host: String, executor: String): String = if (host.contains("_")) host else s"executor_${host}_$executor"

  val Key = "spark.mooring.location.provider"
  val ZoneKey = "spark.mooring.zone.provider"

  /** Stands for the host in a location that is put together: the driver knows its name, an executor does not. */
  val Host = "{host}"

  private val NodeVariable = "NODE_NAME"
  private val ZoneVariable = "NODE_ZONE"
  private val LabelsFile = Path.of("/etc/podinfo/labels")
  private val FromEnvironment = "env:(.+)".r
  private val ZoneLabel = "topology\\.kubernetes\\.io/zone=\"(.*)\"".r

  def isHost(provider: Option[String]): Boolean = provider.forall(_ == "host")
}
