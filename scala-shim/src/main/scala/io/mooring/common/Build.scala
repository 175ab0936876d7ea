package io.mooring.common

/** The versions in the manifest of Mooring's jar. Any thread may read them. */
object Build {

  /** Mooring's version; empty when its classes do not come from its jar. */
  def version: String = JarManifest.attribute("Implementation-Version")

  /** The version of Spark that the jar was built for; empty when Mooring's classes do not come from its jar. */
  def spark: String = JarManifest.attribute("Built-For-Spark")

  /** The line of that Spark, such as `4.2`. */
  def line: String = spark.split('.').take(2).mkString(".")
}
