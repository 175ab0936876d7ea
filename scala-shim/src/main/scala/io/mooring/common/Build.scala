package io.mooring.common

import java.util.jar.Manifest

import scala.jdk.CollectionConverters._
import scala.util.Using

/** The versions in the manifest of Mooring's jar. Any thread may read them. */
object Build {
  private lazy val attributes: Map[String, String] = FailOpen.otherwise("look at its jar", Map.empty[String, String]) {
    val manifests = getClass.getClassLoader.getResources("META-INF/MANIFEST.MF").asScala
    manifests.map(url => Using.resource(url.openStream())(new Manifest(_)).getMainAttributes)
      .find(_.getValue("Implementation-Title") == "Mooring")
      .fold(Map.empty[String, String])(_.asScala.map { case (name, value) => name.toString -> value.toString }.toMap)
  }

  /** Mooring's version; empty when its classes do not come from its jar. */
  def version: String = attributes.getOrElse("Implementation-Version", "")

  /** The version of Spark that the jar was built for; empty when Mooring's classes do not come from its jar. */
  def spark: String = attributes.getOrElse("Built-For-Spark", "")
}
