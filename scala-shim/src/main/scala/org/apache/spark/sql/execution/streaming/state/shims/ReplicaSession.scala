package org.apache.spark.sql.execution.streaming.state.shims

import java.util.Properties

import org.apache.hadoop.conf.Configuration

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper
import org.apache.spark.sql.execution.streaming.state.{RocksDBConf, StateStoreConf}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.ui.StreamingQueryStatusListener
import org.apache.spark.util.{SerializableConfiguration, Utils}

/** How a query with standbys reads its checkpoint, for executors that read the same checkpoint. Made on the driver. */
final class CheckpointAccess private (conf: Broadcast[(SerializableConfiguration, StateStoreConf)]) extends Serializable {
  def hadoopConf: Configuration = conf.value._1.value
  def codec: String = stores.compressionCodec
  def hasChecksums: Boolean = RocksDBSettings.haveFileChecksums(stores)

  def writesChangelogs: Boolean = RocksDBConf(stores).enableChangelogCheckpointing

  /** The settings that the providers of the query's stores have. */
  private[shims] def stores: StateStoreConf = conf.value._2

  /** Equal for copies of the same access. */
  def id: Long = conf.id
}

object CheckpointAccess {
  private[shims] def of(session: SparkSession): CheckpointAccess = {
    val conf = new SerializableConfiguration(session.sessionState.newHadoopConf())
    new CheckpointAccess(session.sparkContext.broadcast((conf, StateStoreConf(session.sessionState.conf))))
  }
}

/**
 * The session of all replica queries of the application. Its only listener is that of Spark's streaming tab: the user's listeners
 * are not called for queries that are not the user's. Called by the thread of `Standbys`. Depends on session settings of Spark 4.0 to 4.3;
 * without it there are no copies.
 *
 * @param stopMs how long a replica query may take to stop
 */
final class ReplicaSession(stopMs: Long) {
  private val session = {
    val own = SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession)
      .getOrElse(throw new IllegalStateException("there is no session yet")).newSession()
    own.sessionState.conf.setConf(SQLConf.STREAMING_STOP_TIMEOUT, stopMs)
    // The logs are on the driver's own disk. There Spark's default file manager starts some forty processes a batch, this one a few.
    own.sessionState.conf.setConfString(StreamShims.FileManagerKey, classOf[FileSystemBasedCheckpointFileManager].getName)
    // The query only scans. Adaptive execution and generated code would take longer in each batch than the scan itself.
    own.sessionState.conf.setConf(SQLConf.ADAPTIVE_EXECUTION_ENABLED, false)
    own.sessionState.conf.setConf(SQLConf.WHOLESTAGE_CODEGEN_ENABLED, false)
    own.streams.listListeners().filterNot(_.isInstanceOf[StreamingQueryStatusListener]).foreach(own.streams.removeListener)
    own
  }

  /**
   * Starts a query that reads `source`. The value of `option` is the id of the query that is copied. Names are unique in a session,
   * but the user's queries may be in several sessions, and two of them may have one name.
   */
  def replicate(query: String, name: String, source: String, option: String): Replica = {
    val plain = s"standby of $name"
    val isTaken = session.streams.active.exists(_.name == plain)
    new Replica(session, query, if (isTaken) s"$plain (${query.take(8)})" else plain, source, option, stopMs)
  }
}

/** The replica query of one copied query. Its own checkpoint is deleted when it stops. */
final class Replica private[shims] (
    session: SparkSession, query: String, name: String, source: String, option: String, stopMs: Long) {
  private val scratch = Utils.createTempDir(namePrefix = "mooring-standby")
  private val running =
    try marked(session.readStream.format(source).option(option, query).load()
      .writeStream.format("noop").queryName(name).option("checkpointLocation", scratch.toURI.toString).start())
    catch {
      case e: Throwable =>
        Utils.deleteRecursively(scratch)
        throw e
    }

  /** The query's thread inherits the local properties of the thread that starts it, and so do its stages. */
  private def marked[T](start: => T): T = {
    session.sparkContext.setLocalProperty(Replica.Property, query)
    try start
    finally session.sparkContext.setLocalProperty(Replica.Property, null)
  }

  def isActive: Boolean = running.isActive

  /** Why the query ended by itself, if it did. */
  def failure: Option[Throwable] = running.exception

  /**
   * Ends the query, and waits for the end of its thread. While the application ends, Spark's `stop` marks the query as stopped, and throws
   * before it interrupts the thread. That is done here then: otherwise the query would log an error when its source or the scheduler is gone.
   */
  def stop(): Unit =
    try running.stop()
    catch { case _: IllegalStateException if session.sparkContext.isStopped => endThread() }
    finally Utils.deleteRecursively(scratch)

  private def endThread(): Unit = running match {
    case wrapper: StreamingQueryWrapper =>
      val thread = wrapper.streamingQuery.queryExecutionThread
      thread.interrupt()
      thread.join(stopMs)
    case _ => // `start` of a classic session returns no other kind
  }
}

object Replica {
  private val Property = "mooring.replica.of"

  /** Whether a stage with these properties is one of a replica query. */
  def hasStage(properties: Properties): Boolean = properties.getProperty(Property) != null
}
