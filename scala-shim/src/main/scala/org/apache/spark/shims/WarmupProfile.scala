package org.apache.spark.shims

import java.lang.management.ManagementFactory
import javax.management.ObjectName

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkConf
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeAndComment, CodeGenerator}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

/**
 * What an executor has loaded and compiled by the time it works: the names of its classes, and the sources of its
 * generated code. One that joins loads and compiles the same before its first task, so that no batch waits for a cold
 * JVM. Nothing is run, not even the initializer of a class.
 */
final case class WarmupProfile(classes: Seq[String], sources: Seq[String]) {

  /** With the class loader of the tasks as the thread's own, until it is done or interrupted. What can not be had now comes with the first task. */
  def attend(conf: SparkConf): Unit = SQLConf.withExistingConf(WarmupProfile.sqlConf(conf)) {
    val loader = Utils.getContextOrSparkClassLoader
    for (source <- sources if goesOn) WarmupProfile.asFarAsPossible(CodeGenerator.compile(new CodeAndComment(source, Map.empty)))
    // To ask for constructors links a class, which takes as long as to load it.
    for (name <- classes if goesOn) WarmupProfile.asFarAsPossible(Class.forName(name, false, loader).getDeclaredConstructors)
  }

  private def goesOn: Boolean = !Thread.currentThread.isInterrupted
}

object WarmupProfile {
  val Nothing: WarmupProfile = WarmupProfile(Nil, Nil)

  /** Of the executor that this is. The JVM stops for some ten milliseconds to list its classes. */
  def ofThisExecutor(): WarmupProfile = WarmupProfile(loaded, compiled)

  /** Those of the JDK come from its own archive, and are not worth a word; hidden ones have no name to ask for. */
  private def loaded: Seq[String] = {
    val listed = ManagementFactory.getPlatformMBeanServer.invoke(new ObjectName("com.sun.management:type=DiagnosticCommand"),
      "vmClassHierarchy", Array[Object](Array.empty[String]), Array(classOf[Array[String]].getName))
    listed.toString.linesIterator.collect { case Named(name) => name }.toSeq.distinct
  }

  private val Named = raw"[| ]*(?:\|--)?([\w.$$]+)/0x[0-9a-f]+(?: \(.*\))?\s*".r

  /** What was compiled against a session's own classes another session can not use. */
  private def compiled: Seq[String] = if (!Capability.WarmUpByGeneratedCode.isOn) Nil else SparkInternals.generatedCode.keySet.asScala
    .collect { case (loader, code) if loader.get eq Utils.getContextOrSparkClassLoader => code.body }.toSeq

  /** As in tasks: who compiles first decides for how many pieces of code there is room. */
  private def sqlConf(conf: SparkConf): SQLConf = {
    val sql = new SQLConf
    conf.getAll.foreach { case (key, value) => if (key.startsWith("spark.sql.")) sql.setConfString(key, value) }
    sql
  }

  /** Whether it was possible; else it comes with the first task, or never. */
  def asFarAsPossible(work: => Any): Boolean =
    try { work; true }
    catch { case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] || e.isInstanceOf[StackOverflowError] => false }
}
