package io.mooring.common

import java.io.File
import java.util.jar.{Attributes, JarFile}

/**
 * The attributes in the manifest of Mooring's jar. It uses nothing of Scala's library: it also has to work in a Spark with another
 * Scala. Any thread may read it.
 */
private[mooring] object JarManifest {
  private lazy val attributes: Attributes = {
    val jar = new File(getClass.getProtectionDomain.getCodeSource.getLocation.toURI)
    if (jar.isFile) {
      val opened = new JarFile(jar)
      try opened.getManifest.getMainAttributes
      finally opened.close()
    } else new Attributes // a folder of class files
  }

  /** The value of an attribute; empty where Mooring's classes do not come from its jar, or the jar can not be read. */
  def attribute(name: String): String =
    try {
      val value = attributes.getValue(name)
      if (value == null) "" else value
    } catch { case _: Exception => "" } // not a file: the jar was loaded from elsewhere, and nothing is known of it
}
