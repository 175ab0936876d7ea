package org.apache.spark.shims

import java.lang.management.ManagementFactory
import javax.management.ObjectName

import scala.util.control.NonFatal

import org.apache.spark.SparkConf
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeAndComment, CodeGenerator}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

/**
 * What an executor has loaded and compiled by the time it works: the names of its classes, and the sources of its generated code. An
 * executor that joins loads and compiles the same before its first task, so that no batch waits for a cold JVM. No code is run, not
 * even a class's initializer.
 *
 * Called by threads of the executor plugin. Depends on the JVM's diagnostic command `vmClassHierarchy`, and on `CodeGenerator`'s
 * cache in Spark 4.0 to 4.3. Without it the first tasks of a new executor take longer.
 */
final case class WarmupProfile(classes: Seq[String], sources: Seq[String]) {

  /**
   * Loads and compiles all of it, until the thread is interrupted. Called with the tasks' class loader as the thread's own. What fails is
   * left to the first task.
   */
  def attend(conf: SparkConf): Unit = SQLConf.withExistingConf(WarmupProfile.sqlConf(conf)) {
    val loader = Utils.getContextOrSparkClassLoader
    for (source <- sources if isToGoOn) WarmupProfile.asFarAsPossible(CodeGenerator.compile(new CodeAndComment(source, Map.empty)))
    // Asking for constructors links the class, which takes as long as loading it.
    for (name <- classes if isToGoOn) WarmupProfile.asFarAsPossible(Class.forName(name, false, loader).getDeclaredConstructors)
  }

  private def isToGoOn: Boolean = !Thread.currentThread.isInterrupted
}

object WarmupProfile {
  val Nothing: WarmupProfile = WarmupProfile(Nil, Nil)

  /** The profile of this executor. The JVM pauses for some ten milliseconds to list its classes. */
  def ofThisExecutor(): WarmupProfile = WarmupProfile(loaded, compiled)

  /** The loaded classes. JDK classes are left out, as they come from the JDK's own archive; hidden ones, as they have no names. */
  private def loaded: Seq[String] = {
    val listed = ManagementFactory.getPlatformMBeanServer.invoke(new ObjectName("com.sun.management:type=DiagnosticCommand"),
      "vmClassHierarchy", Array[Object](Array.empty[String]), Array(classOf[Array[String]].getName))
    listed.toString.linesIterator.collect { case Named(name) => name }.toSeq.distinct
  }

  private val Named = raw"[| ]*(?:\|--)?([\w.$$]+)/0x[0-9a-f]+(?: \(.*\))?\s*".r

  /** The generated code, without code that was compiled against the classes of one session: other sessions can not use it. */
  private def compiled: Seq[String] = if (!Capability.WarmUpByGeneratedCode.isOn) Nil else SparkInternals.generatedCode
    .collect { case (loader, code) if loader.get eq Utils.getContextOrSparkClassLoader => code.body }

  /** The application's SQL settings, as tasks have them: the first compilation fixes the size of Spark's code cache. */
  private def sqlConf(conf: SparkConf): SQLConf = {
    val sql = new SQLConf
    conf.getAll.foreach { case (key, value) => if (key.startsWith("spark.sql.")) sql.setConfString(key, value) }
    sql
  }

  /** Runs `work`; false when it fails. */
  def asFarAsPossible(work: => Any): Boolean =
    try { work; true }
    catch { case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] || e.isInstanceOf[StackOverflowError] => false }
}
