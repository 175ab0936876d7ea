package org.apache.spark.sql.execution.streaming.state.shims

import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.shims.{Capability, SparkInternals}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.operators.stateful.{StatefulOperator, StateStoreWriter}
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, QueryExecutionThread, StreamExecution}
import org.apache.spark.sql.execution.streaming.state.{RocksDBStateStoreProvider, StateStoreId}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.{SerializableConfiguration, Utils}

/**
 * A running query, as far as Mooring needs it. Its logs are read once, when they are first asked for.
 *
 * Called by the stream's thread, and by threads of the driver plugin. Depends on members of `StreamExecution` and
 * `MicroBatchExecution`: `offsetLog`, `commitLog`, `sink`, `analyzedPlan`; and on `CheckpointLogs` and `Operators`.
 */
final class StreamShim private[shims] (private[shims] val execution: StreamExecution) {
  private lazy val session = Operators.sessionOf(execution)

  /** The same query, as a shim that reads the logs again. */
  def withFreshLogs: StreamShim = new StreamShim(execution)

  def id: String = execution.id.toString
  def runId: String = execution.runId.toString
  def name: String = Option(execution.name).getOrElse("")
  def checkpoint: String = execution.resolvedCheckpointRoot

  /** The query's name, else its id. */
  def label: String = if (name.isEmpty) id else name

  /** A setting in the stream's own copy of the session's settings. A batch reads them when it is planned. */
  def setting(key: String): Option[String] = session.conf.getOption(key)
  def isSet(key: String): Boolean = session.sessionState.conf.contains(key)
  def set(key: String, value: String): Unit = session.sessionState.conf.setConfString(key, value)

  /** Whether the run is active. False as soon as the query is asked to stop. */
  def isActive: Boolean = execution.isActive

  /** Whether a batch is under way, or is being prepared. False while the query waits for its next trigger. */
  def isInBatch: Boolean = execution.status.isTriggerActive

  /** Whether Spark counts this run among its active queries. Not so any more when its end is reported. */
  def isRegistered: Boolean = session.sharedState.activeStreamingQueries.get(execution.id) eq execution

  /** Returns when the query has stopped. */
  def stop(): Unit = execution.stop()

  /** How this query reads its checkpoint. */
  def checkpointAccess: CheckpointAccess = CheckpointAccess.of(session)

  /** Whether the query keeps state, by the rule by which Spark switches adaptive execution off (`MicroBatchExecution`). */
  def isStateful: Boolean = execution.analyzedPlan.exists {
    case _: Aggregate | _: Deduplicate | _: DeduplicateWithinWatermark | _: Distinct | _: GlobalLimit |
        _: FlatMapGroupsWithState | _: FlatMapGroupsInPandasWithState | _: TransformWithState |
        _: Operators.TransformWithStateInPython => true
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _ => false
  }

  /**
   * Whether the query runs in real-time mode. Spark allows only operators that it knows there, so such a query is not placed, and its
   * state stays on Spark's own provider: with another one Spark would not write changelogs.
   */
  def isRealTime: Boolean = execution match {
    case micro: MicroBatchExecution => Operators.isRealTime(micro.trigger)
    case _ => false
  }

  /** Whether Mooring's state store provider can run all of its operators in this Spark. */
  def mayUseOurProvider: Boolean = !isRealTime && Capability.HostStore.isOn && (Capability.TransformWithState.isOn || !execution.analyzedPlan.exists {
    case _: TransformWithState | _: Operators.TransformWithStateInPython => true
    case _ => false
  })

  private lazy val newestBegun = execution.offsetLog.getLatest()
  // Not the query's own log, which fixes its format from the settings when it is first used.
  private lazy val commits = CheckpointLogs.commits(session, new Path(checkpoint, "commits").toString)
  private lazy val newestCommitted = try commits.getLatest() catch { case _: java.io.FileNotFoundException => None }

  /** Whether each version of the query's state has a unique id: checkpoint format v2. */
  def hasUniqueIds: Boolean = session.sessionState.conf.stateStoreCheckpointFormatVersion >= 2

  /** The sources, as Spark describes them in the query's progress; none before they are made. */
  def sourcesAsDescribed: Seq[String] = execution match {
    case micro: MicroBatchExecution if Capability.OrderOfDrains.isOn =>
      SparkInternals.querySources.member.get(micro).asInstanceOf[Seq[SparkDataStream]].map(_.toString)
    case _ => Nil
  }

  /** Whether the query's sources are made. True for a query that does not run in micro-batches. */
  def hasItsSources: Boolean = execution match {
    case _: MicroBatchExecution if Capability.OrderOfDrains.isOn => sourcesAsDescribed.nonEmpty
    case _ => true
  }

  /** The sink, described as a source of the sink's output would be: with a qualified path, or with the topic. */
  def sinkAsDescribed: String = execution.sink.toString match {
    case described @ StreamShims.SinkOfFiles(kind, path) => try s"$kind[${qualified(new Path(path))}]" catch { case NonFatal(_) => described } // the file system can not be reached
    case other => StreamShims.topicOf(execution).fold(other)(topic => s"KafkaSink[Subscribe[$topic]]")
  }

  /**
   * The sink may have batches up to `until` already, and skip them without computing them. Such batches are then computed beside
   * the sink. `wasComputed` tells whether tasks have computed a batch. Called before the first batch.
   */
  def completeBatches(until: Long)(wasComputed: Long => Boolean): Unit =
    if (Capability.RepeatedBatches.isOn) CompletingSink.wrapSinkOf(execution, until, wasComputed)

  private def qualified(path: Path): Path = path.getFileSystem(session.sessionState.newHadoopConf()).makeQualified(path)

  /** Whether the query reads a source with this format. */
  def reads(format: String): Boolean = execution.analyzedPlan.exists {
    case relation: StreamingRelationV2 => relation.sourceName == format
    case _ => false
  }

  /** The input rows of batches from `first` on, as far as Spark keeps their progress. */
  def rowsSince(first: Long): Long = execution.recentProgress.filter(_.batchId >= first).map(_.numInputRows).sum

  /** The rows of state after the last batch that has progress. */
  def stateRows: Long = Option(execution.lastProgress).fold(0L)(_.stateOperators.map(_.numRowsTotal).sum)

  /**
   * The stateful operators of the newest committed batch, from their metadata in the checkpoint; none before the first commit. The
   * number of partitions is from the offset log, as in Spark: a repartition leaves an old number in some operators' metadata.
   */
  def operatorsInCheckpoint: Seq[OperatorFacts] = lastCommitted.toSeq.flatMap { batch =>
    val conf = new SerializableConfiguration(session.sessionState.newHadoopConf())
    val partitions = execution.offsetLog.get(batch).flatMap(CheckpointLogs.setting(_, SQLConf.SHUFFLE_PARTITIONS.key)).map(_.toInt)
    new StateMetadataPartitionReader(checkpoint, conf, batch).allOperatorStateMetadata.toSeq.map { operator =>
      val stores = CheckpointLogs.storesOf(operator)
      OperatorFacts(operator.operatorInfo.operatorId, partitions.getOrElse(stores.map(_.numPartitions).max), s"$checkpoint/state",
        runId, batch + 1, stores.map(_.storeName))
    }
  }

  /** The newest committed batch when the logs were read. */
  def lastCommitted: Option[Long] = newestCommitted.map(_._1)

  /** The end offsets of a batch, a JSON text for each source; null for a source without data. */
  def offsets(batch: Long): Seq[String] =
    execution.offsetLog.get(batch).toSeq.flatMap(CheckpointLogs.offsets(_))

  /** The unique ids of a committed batch's state, by operator, partition and store; none in checkpoint format v1. */
  def stateIds(batch: Long): Map[Long, Array[Array[String]]] =
    newestCommitted.filter(_._1 == batch).map(_._2).orElse(commits.get(batch)).flatMap(_.stateUniqueIds).getOrElse(Map.empty)

  /** The batch that was begun and not committed, if any. */
  def unfinishedBatch: Option[Long] =
    newestBegun.collect { case (batch, _) if newestCommitted.forall(_._1 < batch) => batch }

  /** The provider's class name in the newest offset log entry, or None for a new checkpoint. */
  def providerInCheckpoint: Option[String] =
    newestBegun.map { case (_, entry) =>
      CheckpointLogs.setting(entry, SQLConf.STATE_STORE_PROVIDER_CLASS.key).getOrElse("")
    }

  /** 2 when the newest commit names unique ids of state versions, else 1; None when nothing was committed. */
  def formatInCheckpoint: Option[Int] =
    newestCommitted.map { case (_, commit) => CheckpointLogs.formatOf(commit) }

  /** The format of state with which a new query begins, where the user has chosen none. */
  def formatToBeginWith: Int = if (beganInFormat1 || !Operators.mayHaveFormat2(execution.analyzedPlan)) 1 else 2

  /** Whether the first batch was not committed, and has left state of format 1. The sink may have that batch. */
  def beganInFormat1: Boolean = newestBegun.nonEmpty && {
    val ofFirst = new Path(checkpoint, "state/0/0")
    val files = ofFirst.getFileSystem(session.sessionState.newHadoopConf())
    def plain(directory: Path): Boolean = files.listStatus(directory).exists { file =>
      if (file.isDirectory) file.getPath.getName != "SSTs" && plain(file.getPath) else file.getPath.getName.matches("1\\.(zip|changelog)")
    }
    try plain(ofFirst) catch { case _: java.io.FileNotFoundException => false }
  }

  /**
   * Sets the format of the checkpoint's state. The commit log of a new checkpoint was made before any listener is called, with a
   * version from the settings at that time; so the log's version is set as well, where the log has one.
   */
  def setFormat(version: Int): Unit = if (Capability.FormatOfState.isOn) {
    set(StreamShims.FormatKey, version.toString)
    SparkInternals.commitLogVersion.foreach(_.setInt(execution.commitLog, version))
  }
}

object StreamShims {
  private[shims] val SinkOfFiles = """((?:File|Delta)Sink)\[(.*)\]""".r

  /** The option `topic` of a query's writer. */
  private[shims] def topicOf(execution: StreamExecution): Option[String] = execution match {
    case micro: MicroBatchExecution if Capability.OrderOfDrains.isOn =>
      SparkInternals.queryWriterOptions.member.get(micro).asInstanceOf[Map[String, String]].get("topic")
    case _ => None
  }

  val ProviderKey: String = SQLConf.STATE_STORE_PROVIDER_CLASS.key
  val FormatKey: String = SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key
  val FileManagerKey: String = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key
  val StockRocksDB: String = classOf[RocksDBStateStoreProvider].getName
  val HdfsBacked: String = SQLConf.STATE_STORE_PROVIDER_CLASS.defaultValueString

  /** The running query with this id, from any session of the application. */
  def query(id: String): Option[StreamShim] =
    SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession)
      .flatMap(s => Option(s.sharedState.activeStreamingQueries.get(UUID.fromString(id))))
      .map(new StreamShim(_))

  /** The id of the query whose task this thread runs, if any. */
  def queryOfTask: Option[String] = Option(TaskContext.get()).flatMap(task => Option(task.getLocalProperty(StreamExecution.QUERY_ID_KEY)))

  /** All running queries of the application. */
  def running: Seq[StreamShim] = SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession).toSeq
    .flatMap(_.sharedState.activeStreamingQueries.values().asScala.map(new StreamShim(_)))

  /** Whether this class can be loaded in the application. */
  def isLoadable(className: String): Boolean = Utils.classIsLoadable(className)

  /** Whether the caller is a stream's own thread. A batch reader of the stream's logs is not. */
  def onStreamThread: Boolean = Thread.currentThread().isInstanceOf[QueryExecutionThread]

  /** The query whose stream thread the caller is on, as in `foreachBatch`. */
  def ofThisThread: Option[StreamShim] = for {
    session <- SparkSession.getActiveSession
    id <- Option(session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY))
    shim <- query(id)
  } yield shim

  /** The facts of `plan`, if it is a stateful operator of a stream. */
  def statefulOperator(plan: SparkPlan): Option[OperatorFacts] = plan match {
    case operator: StatefulOperator =>
      operator.stateInfo.map { info =>
        val stores = operator match {
          case writer: StateStoreWriter => Operators.storesOf(writer)
          case _ => Nil
        }
        OperatorFacts(info.operatorId, info.numPartitions, info.checkpointLocation, info.queryRunId.toString,
          info.storeVersion, stores)
      }
    case _ => None
  }
}

/**
 * A stateful operator of a planned batch.
 *
 * @param stateDir the checkpoint's `state` directory
 * @param stores   the names of the stores that the operator writes
 */
final case class OperatorFacts(
    id: Long, partitions: Int, stateDir: String, runId: String, batch: Long, stores: Seq[String]) {

  /** Where the checkpoint keeps a store of a partition. */
  def directory(partition: Int, store: String): String =
    if (store == StateStoreId.DEFAULT_STORE_NAME) s"$stateDir/$id/$partition" else s"$stateDir/$id/$partition/$store"
}
