package io.mooring.common

import java.util.jar.{Attributes, Manifest}

/**
 * The attributes in the manifest of Mooring's jar. It uses nothing of Scala's library: it also has to work in a Spark with another
 * Scala. Any thread may read it.
 */
private[mooring] object JarManifest {
  private lazy val attributes: Attributes = {
    val manifests = getClass.getClassLoader.getResources("META-INF/MANIFEST.MF")
    var found = new Attributes
    while (manifests.hasMoreElements && found.isEmpty) {
      val stream = manifests.nextElement().openStream()
      try {
        val main = new Manifest(stream).getMainAttributes
        if (main.getValue("Implementation-Title") == "Mooring") found = main
      } finally stream.close()
    }
    found
  }

  /** The value of an attribute; empty where Mooring's classes do not come from its jar, or the jar can not be read. */
  def attribute(name: String): String =
    try {
      val value = attributes.getValue(name)
      if (value == null) "" else value
    } catch { case _: java.io.IOException => "" }
}
