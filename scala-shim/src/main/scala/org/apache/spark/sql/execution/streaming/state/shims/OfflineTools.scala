package org.apache.spark.sql.execution.streaming.state.shims

import java.util.{AbstractMap, Collections, HashMap, Map => JMap, Set => JSet, WeakHashMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.config.ConfigReader
import org.apache.spark.shims.{Capability, SparkInternals}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.internal.SQLConf

/**
 * Spark's own tools that read or rewrite the state of a checkpoint outside of its query: the state data source, and the offline
 * repartition with its rewriter. These tools take the format of the state from the session's settings. Queries with Mooring take it
 * from the checkpoint, so the setting may be wrong. This object makes the setting right for the thread that runs a tool: that thread
 * sees, in every session, the format of the checkpoint that the tool has opened. Other threads see the settings as they are.
 *
 * Depends on the class names of the tools in Spark 4.0 to 4.3, found on the call stack, and on `SQLConf.settings` and `SQLConf.reader`.
 * Without it the tools fail, or find no state, where the session's format is not the checkpoint's.
 */
object OfflineTools {
  private val Repartition = "org.apache.spark.sql.execution.streaming.state.OfflineStateRepartitionRunner"
  private val Tools = Set(Repartition, "org.apache.spark.sql.execution.streaming.state.StateRewriter",
    "org.apache.spark.sql.execution.datasources.v2.state.StateDataSource")

  /** Whether the caller was called by one of these tools. */
  def areOnThread: Boolean = isCaller(Tools.contains)

  /** Whether the caller was called by the offline repartition. */
  def isRepartition: Boolean = isCaller(Repartition.equals(_))

  private def isCaller(className: String => Boolean): Boolean = StackWalker.getInstance()
    .walk[java.lang.Boolean](frames => frames.anyMatch(frame => className(frame.getClassName)))

  /** Remembers a session of the application, by a weak reference. Called before the session is used. */
  def follow(session: SparkSession): Unit = sessions.synchronized {
    sessions.add(session)
    ()
  }

  private val sessions = Collections.newSetFromMap(new WeakHashMap[SparkSession, java.lang.Boolean])

  // The format of the checkpoint that the thread's tool has opened. It stays when the tool has ended, so `format` looks for the tool.
  private val opened = new ThreadLocal[String]

  /**
   * The tool on this thread has opened a checkpoint of this format, and has not read the setting yet.
   *
   * @param failOpen runs the work for one session, and catches its failure, so that the work for other sessions follows
   */
  def open(format: Int)(failOpen: (=> Unit) => Unit): Unit = {
    opened.set(format.toString)
    for (session <- sessions.synchronized(sessions.asScala.toList)) failOpen {
      if (!session.sparkContext.isStopped) SettingsOfTools.wrapSettingsOf(session.asInstanceOf[ClassicSession].sessionState.conf)
    }
  }

  /** The tool on this thread opens another checkpoint, whose format is not known yet. */
  def forget(): Unit = opened.remove()

  /** The format of the checkpoint that the tool on this thread has opened; None where no tool runs. */
  def format: Option[String] = Option(opened.get).filter { _ =>
    val runs = areOnThread
    if (!runs) opened.remove()
    runs
  }
}

/** A session's settings, with the format of the checkpoint for the thread of a tool. */
private final class SettingsOfTools(settings: JMap[String, String]) extends AbstractMap[String, String] {
  override def get(key: Object): String =
    if (key == StreamShims.FormatKey) OfflineTools.format.getOrElse(settings.get(key)) else settings.get(key)

  override def containsKey(key: Object): Boolean =
    settings.containsKey(key) || key == StreamShims.FormatKey && OfflineTools.format.isDefined

  override def put(key: String, value: String): String = settings.put(key, value)
  override def remove(key: Object): String = settings.remove(key)
  override def clear(): Unit = settings.clear()

  /** A copy: Spark only reads it, and other threads may write settings meanwhile. */
  override def entrySet(): JSet[JMap.Entry[String, String]] = settings.synchronized {
    val all = new HashMap[String, String](settings)
    OfflineTools.format.foreach(all.put(StreamShims.FormatKey, _))
    Collections.unmodifiableMap(all).entrySet()
  }
}

private object SettingsOfTools {

  /** Wraps the session's settings, once. Spark reads a setting by its key from `settings`, and by its entry from `reader`. */
  def wrapSettingsOf(conf: SQLConf): Unit = if (Capability.FormatForTools.isOn) synchronized {
    SparkInternals.sqlConfSettings.member.get(conf) match {
      case _: SettingsOfTools =>
      case plain: JMap[_, _] =>
        val ours = new SettingsOfTools(plain.asInstanceOf[JMap[String, String]])
        val reads = new ConfigReader(ours)
        SparkInternals.sqlConfSettings.member.set(conf, ours)
        SparkInternals.sqlConfReader.member.set(conf, reads)
    }
  }
}
