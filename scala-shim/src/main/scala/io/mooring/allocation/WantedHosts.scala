package io.mooring.allocation

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import scala.jdk.CollectionConverters._

import io.mooring.agent.DriverFiles
import io.mooring.common.{Json, Log}
import io.mooring.election.{LeaderOnlyWrites, Leadership}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.SparkConf

/**
 * The file that tells the next start of this application on which hosts it wants executors: one host for each executor, the most
 * important first. Python decides the hosts. The file is named by the application's name; the last application of that name wrote it. Of
 * several drivers of one job only the one that leads writes it.
 *
 * Threads of `ExecutorRequests` call it. Exceptions of Hadoop's file system pass through.
 *
 * @param metadata where the user has the agent's records
 */
private[allocation] final class WantedHosts(conf: SparkConf, hadoopConf: Configuration, metadata: Option[String]) {
  private val name = WantedHosts.fileName(conf.get("spark.app.name", ""))
  private lazy val files = new DriverFiles(directory, hadoopConf)

  /** Beside the records where they lie on a file system, else beside the session's checkpoints, else in the user's home. */
  private def directory: String = metadata.filterNot(place => Leadership.isShared(Some(place))).map(new Path(_))
    .orElse(conf.getOption("spark.sql.streaming.checkpointLocation").map(new Path(_, "_mooring")))
    .getOrElse(new Path(FileSystem.get(hadoopConf).getHomeDirectory, ".mooring"))
    .suffix("/" + WantedHosts.Directory).toString

  /** None where there is no file. A file that is damaged, or of another version, is reported and not used. */
  def read(): Option[Seq[String]] = Option(files.read(name, WantedHosts.MostBytes)).flatMap { bytes =>
    val hosts = try WantedHosts.parse(new String(bytes, UTF_8))
    catch { case e: com.fasterxml.jackson.core.JacksonException => Left(e.getOriginalMessage) }
    hosts.left.foreach(fault => Log.once("wanted-hosts", s"$directory/$name is not used ($fault): executors are asked for on any hosts"))
    hosts.toOption
  }

  /** LeadershipLostException when another driver of this job leads: the file is that driver's. */
  def write(hosts: Seq[String]): Unit = {
    LeaderOnlyWrites.check(name)
    files.writeAtomic(name, Json.write(Map("version" -> WantedHosts.Version, "hosts" -> hosts)).getBytes(UTF_8))
  }
}

private object WantedHosts {
  val Directory = "allocation"
  private val Version = 1
  private val MostBytes = 1 << 20
  private val MostLetters = 80

  /** What is readable of the application's name, and a number by which names differ that look alike. */
  def fileName(application: String): String = {
    val number = MessageDigest.getInstance("SHA-256").digest(application.getBytes(UTF_8)).take(4).map(byte => f"$byte%02x").mkString
    s"wanted-hosts-${application.replaceAll("[^A-Za-z0-9_.-]", "-").take(MostLetters)}-$number.json"
  }

  /** Left with what is wrong. */
  def parse(json: String): Either[String, Seq[String]] = {
    val node = Json.read(json)
    val hosts = node.path("hosts")
    if (node.path("version").asInt(-1) != Version) Left(s"it has version ${node.path("version").asText("none")}, expected $Version")
    else if (!hosts.isArray || hosts.elements.asScala.exists(!_.isTextual)) Left("it has no list of hosts")
    else Right(hosts.elements.asScala.map(_.asText).toSeq)
  }
}
