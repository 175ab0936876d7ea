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
import org.apache.spark.sql.execution.streaming.checkpointing.{CommitLog, OffsetMap, OffsetSeq, OffsetSeqMetadata}
import org.apache.spark.sql.execution.streaming.operators.stateful.{StatefulOperator, StateStoreWriter}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, QueryExecutionThread, StreamExecution}
import org.apache.spark.sql.execution.streaming.state.{RocksDBStateStoreProvider, StateStoreId}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.{SerializableConfiguration, Utils}

/** A query as far as Mooring has to know it; its logs as they are at the first look. */
final class StreamShim private[shims] (private[shims] val execution: StreamExecution) {
  private val session = execution.sparkSessionForStream // protected[sql]

  /** The same query, whose logs are looked at anew. */
  def another: StreamShim = new StreamShim(execution)

  def id: String = execution.id.toString
  def runId: String = execution.runId.toString
  def name: String = Option(execution.name).getOrElse("")
  def checkpoint: String = execution.resolvedCheckpointRoot

  /** How people know it: its name, else its id. */
  def label: String = if (name.isEmpty) id else name

  /** The stream's own copy of the session's settings; a batch reads them when it is planned. */
  def setting(key: String): Option[String] = session.conf.getOption(key)
  def isSet(key: String): Boolean = session.sessionState.conf.contains(key)
  def set(key: String, value: String): Unit = session.sessionState.conf.setConfString(key, value)

  /** Whether this run goes on: no longer from the moment that it is told to stop. */
  def isActive: Boolean = execution.isActive

  /** Returns when the query has stopped. */
  def stop(): Unit = execution.stop()

  /** How this query reads its checkpoint. */
  def checkpointAccess: CheckpointAccess = CheckpointAccess.of(session)

  /** As Spark itself decides whether to switch adaptive execution off (MicroBatchExecution). */
  def isStateful: Boolean = execution.analyzedPlan.exists {
    case _: Aggregate | _: Deduplicate | _: DeduplicateWithinWatermark | _: Distinct | _: GlobalLimit |
        _: FlatMapGroupsWithState | _: FlatMapGroupsInPandasWithState | _: TransformWithState |
        _: TransformWithStateInPySpark => true
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _ => false
  }

  /** Whether Mooring's state store provider can run all of its operators in this Spark. */
  def mayUseOurProvider: Boolean = Capability.TransformWithState.isOn || !execution.analyzedPlan.exists {
    case _: TransformWithState | _: TransformWithStateInPySpark => true
    case _ => false
  }

  private lazy val begun = execution.offsetLog.getLatest()
  // A log of our own: the query's own fixes its format from the settings when it is first touched.
  private lazy val commits = new CommitLog(session, new Path(checkpoint, "commits").toString, readOnly = true)
  private lazy val committed = try commits.getLatest() catch { case _: java.io.FileNotFoundException => None }

  /** Whether each version of its state has an id of its own: checkpoint format v2. */
  def hasUniqueIds: Boolean = session.sessionState.conf.stateStoreCheckpointFormatVersion >= 2

  /** As Spark describes them in the query's progress; none before they are made. */
  def sourcesAsDescribed: Seq[String] = execution match {
    case micro: MicroBatchExecution if Capability.OrderOfDrains.isOn => SparkInternals.querySources.get(micro).asInstanceOf[Seq[SparkDataStream]].map(_.toString)
    case _ => Nil
  }

  /** Whether its sources are made, or are none that can be known. */
  def hasItsSources: Boolean = execution match {
    case _: MicroBatchExecution if Capability.OrderOfDrains.isOn => sourcesAsDescribed.nonEmpty
    case _ => true
  }

  /** The same of its sink, but with a whole path, or with the topic, by which a source is told to read it. */
  def sinkAsDescribed: String = execution.sink.toString match {
    case described @ StreamShims.SinkOfFiles(kind, path) => try s"$kind[${qualified(new Path(path))}]" catch { case NonFatal(_) => described } // out of reach
    case other => StreamShims.topicOf(execution).fold(other)(topic => s"KafkaSink[Subscribe[$topic]]")
  }

  /**
   * Up to a batch the sink may take each for one that it has, and not compute it: then that is done without it.
   * `wasComputed` tells whether it was. Before the first batch.
   */
  def completeBatches(until: Long)(wasComputed: Long => Boolean): Unit =
    if (Capability.RepeatedBatches.isOn) CompletingSink.putBefore(execution, until, wasComputed)

  private def qualified(path: Path): Path = path.getFileSystem(session.sessionState.newHadoopConf()).makeQualified(path)

  /** Whether it reads a source that was named by this format. */
  def reads(format: String): Boolean = execution.analyzedPlan.exists {
    case relation: StreamingRelationV2 => relation.sourceName == format
    case _ => false
  }

  /** Rows that came in with the batches from `first` on, of those whose progress is kept. */
  def rowsSince(first: Long): Long = execution.recentProgress.filter(_.batchId >= first).map(_.numInputRows).sum

  /** Rows of state after the last batch of which there is progress. */
  def stateRows: Long = Option(execution.lastProgress).fold(0L)(_.stateOperators.map(_.numRowsTotal).sum)

  /**
   * The stateful operators of the newest batch that was committed, by what they have written of themselves; none before. The
   * number of partitions is that of the offset log, which Spark goes by: a repartition leaves some descriptions as they were.
   */
  def operatorsInCheckpoint: Seq[OperatorFacts] = lastCommitted.toSeq.flatMap { batch =>
    val conf = new SerializableConfiguration(session.sessionState.newHadoopConf())
    val partitions = execution.offsetLog.get(batch).flatMap(_.metadataOpt)
      .flatMap(OffsetSeqMetadata.readValueOpt(_, SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL)).map(_.toInt)
    new StateMetadataPartitionReader(checkpoint, conf, batch).allOperatorStateMetadata.toSeq.map { operator =>
      val stores = operator.stateStoresMetadata
      OperatorFacts(operator.operatorInfo.operatorId, partitions.getOrElse(stores.map(_.numPartitions).max), s"$checkpoint/state",
        runId, batch + 1, stores.map(_.storeName))
    }
  }

  /** The newest batch that was committed, at the first look. */
  def lastCommitted: Option[Long] = committed.map(_._1)

  /** The offsets that a batch has reached, a JSON text for each source; null for one that had nothing yet. */
  def offsets(batch: Long): Seq[String] =
    execution.offsetLog.get(batch).toSeq.flatMap { entry =>
      entry match {
        case positions: OffsetSeq => positions.offsets.map(_.map(_.json).orNull)
        case named: OffsetMap => named.offsetsMap.toSeq.sortBy(_._1).map(_._2.map(_.json).orNull)
      }
    }

  /** The unique ids of the state that a committed batch has left: operator, partition, store; none in format v1. */
  def stateIds(batch: Long): Map[Long, Array[Array[String]]] =
    committed.filter(_._1 == batch).map(_._2).orElse(commits.get(batch)).flatMap(_.stateUniqueIds).getOrElse(Map.empty)

  /** The batch that was begun and not committed, if there is one. */
  def unfinishedBatch: Option[Long] =
    begun.collect { case (batch, _) if committed.forall(_._1 < batch) => batch }

  /** The provider's class name in the newest offset log entry, or None for a new checkpoint. */
  def providerInCheckpoint: Option[String] =
    begun.map { case (_, entry) =>
      entry.metadataOpt.flatMap(_.conf.get(SQLConf.STATE_STORE_PROVIDER_CLASS.key)).getOrElse("")
    }

  /** 2 when the newest commit names unique ids of state versions, else 1; None when nothing was committed. */
  def formatInCheckpoint: Option[Int] =
    committed.map { case (_, commit) => if (commit.stateUniqueIds.exists(_.nonEmpty)) 2 else 1 }

  /** Whether a first batch that was not committed has left state of format 1: its sink may have the batch. */
  def beganInFormat1: Boolean = begun.nonEmpty && {
    val ofFirst = new Path(checkpoint, "state/0/0")
    val files = ofFirst.getFileSystem(session.sessionState.newHadoopConf())
    def plain(directory: Path): Boolean = files.listStatus(directory).exists { file =>
      if (file.isDirectory) file.getPath.getName != "SSTs" && plain(file.getPath) else file.getPath.getName.matches("1\\.(zip|changelog)")
    }
    try plain(ofFirst) catch { case _: java.io.FileNotFoundException => false }
  }

  /**
   * Decides the format of the checkpoint's state. For a new checkpoint the query has made its commit log before any
   * listener is called, with the version of that moment in it; so the log is told as well.
   */
  def setFormat(version: Int): Unit = if (Capability.FormatOfState.isOn) {
    set(StreamShims.FormatKey, version.toString)
    SparkInternals.commitLogVersion.setInt(execution.commitLog, version)
  }
}

object StreamShims {
  private[shims] val SinkOfFiles = """((?:File|Delta)Sink)\[(.*)\]""".r

  /** The topic that a query's writer names in its options. */
  private[shims] def topicOf(execution: StreamExecution): Option[String] = execution match {
    case micro: MicroBatchExecution if Capability.OrderOfDrains.isOn => SparkInternals.queryWriterOptions.get(micro).asInstanceOf[Map[String, String]].get("topic")
    case _ => None
  }

  val ProviderKey: String = SQLConf.STATE_STORE_PROVIDER_CLASS.key
  val FormatKey: String = SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key
  val FileManagerKey: String = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key
  val StockRocksDB: String = classOf[RocksDBStateStoreProvider].getName
  val HdfsBacked: String = SQLConf.STATE_STORE_PROVIDER_CLASS.defaultValueString

  /** The running query with this id, in whatever session of the application it was started. */
  def query(id: String): Option[StreamShim] =
    SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession)
      .flatMap(s => Option(s.sharedState.activeStreamingQueries.get(UUID.fromString(id))))
      .map(new StreamShim(_))

  /** The id of the query that this thread runs a task of, if any. */
  def queryOfTask: Option[String] = Option(TaskContext.get()).flatMap(task => Option(task.getLocalProperty(StreamExecution.QUERY_ID_KEY)))

  /** Every query of the application that runs. */
  def running: Seq[StreamShim] = SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession).toSeq
    .flatMap(_.sharedState.activeStreamingQueries.values().asScala.map(new StreamShim(_)))

  /** Whether a class is among the application's own jars. */
  def isLoadable(className: String): Boolean = Utils.classIsLoadable(className)

  /** Whether the caller is a running stream's own thread (as opposed to a batch reader of its logs). */
  def onStreamThread: Boolean = Thread.currentThread().isInstanceOf[QueryExecutionThread]

  /** The query on whose thread the caller runs, as in `foreachBatch`. */
  def ofThisThread: Option[StreamShim] = for {
    session <- SparkSession.getActiveSession
    id <- Option(session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY))
    shim <- query(id)
  } yield shim

  /** The stateful operators below `plan` as (operator id, state store names, partitions, checkpoint/state, run, batch). */
  def statefulOperator(plan: SparkPlan): Option[OperatorFacts] = plan match {
    case operator: StatefulOperator =>
      operator.stateInfo.map { info =>
        val stores = operator match {
          case writer: StateStoreWriter => writer.stateStoreNames
          case _ => Nil
        }
        OperatorFacts(info.operatorId, info.numPartitions, info.checkpointLocation, info.queryRunId.toString,
          info.storeVersion, stores)
      }
    case _ => None
  }

  /**
   * Lets `transformWithState` run on our provider, which is stock RocksDB underneath. The operator checks the class's
   * name against a private set when it executes; so this is called just before, on the very instance.
   */
  def allowProvider(plan: SparkPlan, className: String): Unit = plan.foreach {
    case operator: TransformWithStateExecBase if Capability.TransformWithState.isOn =>
      try {
        val field = SparkInternals.transformWithStateProviders
        field.set(operator, field.get(operator).asInstanceOf[Set[String]] + className)
      } catch {
        case NonFatal(e) =>
          throw new IllegalStateException("this Spark's transformWithState accepts no other state store provider", e)
      }
    case _ =>
  }
}

/** What a planned stateful operator says of itself; `stores` are the names of those it writes. */
final case class OperatorFacts(
    id: Long, partitions: Int, stateDir: String, runId: String, batch: Long, stores: Seq[String]) {

  /** Where the checkpoint keeps a store of one partition. */
  def directory(partition: Int, store: String): String =
    if (store == StateStoreId.DEFAULT_STORE_NAME) s"$stateDir/$id/$partition" else s"$stateDir/$id/$partition/$store"
}
