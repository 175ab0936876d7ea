package org.apache.spark.sql.execution.streaming.state.shims

import java.util.Properties

import org.apache.hadoop.conf.Configuration

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.{RocksDBConf, StateStoreConf}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.ui.StreamingQueryStatusListener
import org.apache.spark.util.{SerializableConfiguration, Utils}

/** How a watched query reads its checkpoint, for executors that read it as well. Made on the driver. */
final class CheckpointAccess private (conf: Broadcast[(SerializableConfiguration, StateStoreConf)]) extends Serializable {
  def hadoopConf: Configuration = conf.value._1.value
  def codec: String = stores.compressionCodec
  def hasChecksums: Boolean = stores.checkpointFileChecksumEnabled

  def writesChangelogs: Boolean = RocksDBConf(stores).enableChangelogCheckpointing

  /** As the providers of the query's stores have it. */
  private[shims] def stores: StateStoreConf = conf.value._2

  /** The same for all that are the same. */
  def id: Long = conf.id
}

object CheckpointAccess {
  private[shims] def of(session: SparkSession): CheckpointAccess = {
    val conf = new SerializableConfiguration(session.sessionState.newHadoopConf())
    new CheckpointAccess(session.sparkContext.broadcast((conf, StateStoreConf(session.sessionState.conf))))
  }
}

/**
 * The session of all replica queries of the application; `stopMs` is how long one may take to stop. Of listeners it
 * has the one of Spark's streaming tab: the user's are not told of queries that are not the user's.
 */
final class ReplicaSession(stopMs: Long) {
  private val session = {
    val own = SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession)
      .getOrElse(throw new IllegalStateException("there is no session yet")).newSession()
    own.sessionState.conf.setConf(SQLConf.STREAMING_STOP_TIMEOUT, stopMs)
    // Their logs are on the driver's own disk, where Spark's usual file manager begins some forty processes a batch, this one a few.
    own.sessionState.conf.setConfString(StreamShims.FileManagerKey, classOf[FileSystemBasedCheckpointFileManager].getName)
    // A scan and no more: what plans and compiles it anew in every batch takes longer than running it.
    own.sessionState.conf.setConf(SQLConf.ADAPTIVE_EXECUTION_ENABLED, false)
    own.sessionState.conf.setConf(SQLConf.WHOLESTAGE_CODEGEN_ENABLED, false)
    own.streams.listListeners().filterNot(_.isInstanceOf[StreamingQueryStatusListener]).foreach(own.streams.removeListener)
    own
  }

  /**
   * Starts a query that reads `source`, which learns by `option` of the query that it follows. In a session names are
   * unique; two sessions of the user's may have queries of one name.
   */
  def replicate(query: String, name: String, source: String, option: String): Replica = {
    val plain = s"standby of $name"
    val isTaken = session.streams.active.exists(_.name == plain)
    new Replica(session, query, if (isTaken) s"$plain (${query.take(8)})" else plain, source, option)
  }
}

/** The replica query of one watched query, as Spark runs it; its own checkpoint ends with it. */
final class Replica private[shims] (session: SparkSession, query: String, name: String, source: String, option: String) {
  private val scratch = Utils.createTempDir(namePrefix = "mooring-standby")
  private val running =
    try marked(session.readStream.format(source).option(option, query).load()
      .writeStream.format("noop").queryName(name).option("checkpointLocation", scratch.toURI.toString).start())
    catch {
      case e: Throwable =>
        Utils.deleteRecursively(scratch)
        throw e
    }

  /** The query's thread has the properties of the one that starts it, and so have its stages. */
  private def marked[T](start: => T): T = {
    session.sparkContext.setLocalProperty(Replica.Property, query)
    try start
    finally session.sparkContext.setLocalProperty(Replica.Property, null)
  }

  def isActive: Boolean = running.isActive

  /** Why it ended by itself, if it did. */
  def failure: Option[Throwable] = running.exception

  /** Where the application ends, its threads and its directory end with the JVM. */
  def stop(): Unit = if (!session.sparkContext.isStopped) {
    try running.stop()
    finally Utils.deleteRecursively(scratch)
  }
}

object Replica {
  private val Property = "mooring.replica.of"

  /** Whether a stage with these properties is one of a replica query. */
  def hasStage(properties: Properties): Boolean = properties.getProperty(Property) != null
}
