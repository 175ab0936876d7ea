package io.mooring

import java.util.concurrent.atomic.AtomicBoolean

import io.mooring.common.JarManifest
import org.apache.spark.{SPARK_VERSION, SparkConf}
import org.slf4j.LoggerFactory

/**
 * Compares the Spark that runs with the Spark that this jar was built for, before any other class of Mooring is loaded: classes that
 * extend Spark's would fail there, in the middle of a task. It uses nothing of Scala's library, as Spark 3.5 may run with Scala 2.12.
 */
private[mooring] object SparkOfJar {
  private val Key = "spark.mooring.other.spark"
  private val log = LoggerFactory.getLogger("io.mooring.Mooring")
  private val isTold = new AtomicBoolean // both parts of the plugin may be in one JVM

  /**
   * Whether Mooring can run in this JVM. If not, the log says why, and what to do. Called once in each part of the plugin.
   * IllegalArgumentException when it can not, and the setting `spark.mooring.other.spark` is `fail` or not known.
   */
  def fits(conf: SparkConf): Boolean = {
    val problem = problemOf(JarManifest.attribute("Built-For-Spark"), JarManifest.attribute("Lines-Of-Spark"), SPARK_VERSION, isDatabricks(conf))
    val choice = conf.get(Key, "off")
    if (problem == null) {
      sayIfNew(JarManifest.attribute("Tried-With-Spark"), SPARK_VERSION)
      true
    } else if (choice == "try") {
      tell(problem + ". " + Key + "=try: it runs all the same")
      true
    } else if (choice == "fail") throw new IllegalArgumentException("Mooring: " + problem + " (" + Key + "=fail)")
    else if (choice != "off") throw new IllegalArgumentException("Mooring: " + Key + "=" + choice + ": expected off, fail or try")
    else {
      tell(problem + ". It is off in this application, which runs as on stock Spark")
      false
    }
  }

  private def tell(message: String): Unit = if (isTold.compareAndSet(false, true)) log.warn("Mooring: " + message)

  /** Why a jar that was built for one Spark does not fit another one; null when it fits. `lines` have a jar, such as `4.1 4.2`. */
  private[mooring] def problemOf(builtFor: String, lines: String, running: String, isDatabricks: Boolean): String =
    if (isDatabricks) "the Databricks Runtime has state stores and a scheduler of its own, which Mooring does not know"
    else if (builtFor.isEmpty || lineOf(builtFor) == lineOf(running)) null
    else "its jar was built for Spark " + lineOf(builtFor) + ", and this is Spark " + running + ": " + whatToDo(lines, lineOf(running))

  private def whatToDo(lines: String, line: String): String =
    if (has(lines, line)) "take the jar that `mooring jar --spark " + line + "` prints"
    else "there is no jar for it, only for Spark " + lines.replace(" ", ", ")

  /** Whether this word is in a list with spaces between the words. */
  private def has(words: String, word: String): Boolean = (" " + words + " ").contains(" " + word + " ")

  private def sayIfNew(tried: String, running: String): Unit =
    if (!tried.isEmpty && !has(tried, running) && isTold.compareAndSet(false, true))
      log.info("Mooring: Spark " + running + " was not tried with this version, which was tried with " + tried.replace(" ", ", "))

  /** Major and minor version. */
  private def lineOf(version: String): String = {
    val first = version.indexOf('.')
    val second = version.indexOf('.', first + 1)
    if (second < 0) version else version.substring(0, second)
  }

  /** The runtime's own marks: an environment variable on each node, and a setting of the cluster. */
  private def isDatabricks(conf: SparkConf): Boolean =
    System.getenv("DATABRICKS_RUNTIME_VERSION") != null || conf.contains("spark.databricks.clusterUsageTags.sparkVersion")
}
