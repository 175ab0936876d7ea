package org.apache.spark.sql.execution.streaming.state.shims

import java.io.FileNotFoundException
import java.util.concurrent.atomic.AtomicBoolean

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.{StatefulOperatorStateInfo, StatefulOpStateStoreCheckpointInfo, StateStoreWriter}
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.util.CollectionAccumulator

/**
 * The state that an earlier attempt at a batch has written, offered to the operators when the batch is repeated.
 *
 * A driver may end after the sink has taken a batch and before the commit is logged. When the batch is repeated, a sink that has it
 * (files, Delta) skips it, so no task runs. State of checkpoint format 1 is then found by its version. State of format 2 has unique
 * ids, which Spark learns from tasks; without ids it ends the query, at each start again. Here the ids are read from the names of the
 * state's files. Files that are older than the batch's offsets belong to another batch. If the batch is computed after all,
 * `withdraw` is called before its first task.
 *
 * Called by the stream's thread. Depends on `StateStoreWriter.checkpointInfoAccumulator`, and on the names of state files, in
 * Spark 4.0 to 4.3. Without it such a query can not be started again.
 */
final class EarlierAttempt private (offered: Seq[CollectionAccumulator[StatefulOpStateStoreCheckpointInfo]]) {
  private val isWithdrawn = new AtomicBoolean

  /** Takes the versions back, as tasks compute the batch and report versions of their own. Called before the first task. */
  def withdraw(): Unit = if (isWithdrawn.compareAndSet(false, true)) offered.foreach(_.reset())
}

object EarlierAttempt {
  private val StateFile = """(\d+)_([^.]+)\.(?:zip|changelog)""".r

  /** Offers complete state of an earlier attempt to those of `operators` that write state. They are the operators of the final plan. */
  def offer(operators: Seq[SparkPlan]): EarlierAttempt = {
    val writers = operators.collect {
      case w: StateStoreWriter if w.stateInfo.isDefined && StatefulOperatorStateInfo.enableStateStoreCheckpointIds(w.conf) => w
    }
    val found = writers.map(writer => writer -> versionsOf(writer, writer.session.sessionState.newHadoopConf()))
    for ((writer, versions) <- found; version <- versions) writer.checkpointInfoAccumulator.add(version)
    new EarlierAttempt(found.collect { case (writer, versions) if versions.nonEmpty => writer.checkpointInfoAccumulator })
  }

  /** The versions of all partitions; none when a partition has no version, as then no sink can have the batch. */
  private def versionsOf(writer: StateStoreWriter, conf: Configuration): Seq[StatefulOpStateStoreCheckpointInfo] = {
    val info = writer.getStateInfo
    val offsets = new Path(new Path(info.checkpointLocation).getParent, s"offsets/${info.storeVersion}")
    val began = offsets.getFileSystem(conf).getFileStatus(offsets).getModificationTime
    // A global limit has state in one partition only.
    val partitions = if (writer.outputPartitioning.numPartitions == 1) 1 else info.numPartitions
    // From the last partition on: an attempt that was cut off most likely lacks that one.
    val found = Iterator.range(partitions - 1, -1, -1).map(versionOf(writer, _, began, conf)).takeWhile(_.isDefined)
    val versions = found.flatten.toSeq
    if (versions.length == partitions) versions else Nil
  }

  private def versionOf(writer: StateStoreWriter, partition: Int, began: Long, conf: Configuration) = {
    val info = writer.getStateInfo
    val version = info.storeVersion + 1
    val ids = Operators.storesOf(writer).map(name => newestId(directory(info, partition, name), version, began, conf))
    Option.when(ids.forall(_.isDefined))(
      StatefulOpStateStoreCheckpointInfo(partition, version, Some(ids.flatten.toArray), info.getStateStoreCkptId(partition)))
  }

  private def directory(info: StatefulOperatorStateInfo, partition: Int, store: String): Path = {
    val ofPartition = new Path(info.checkpointLocation, s"${info.operatorId}/$partition")
    if (store == StateStoreId.DEFAULT_STORE_NAME) ofPartition else new Path(ofPartition, store)
  }

  /** Each of several attempts at a batch has left valid state: the newest is taken. */
  private def newestId(directory: Path, version: Long, began: Long, conf: Configuration): Option[String] = {
    val files = try directory.getFileSystem(conf).listStatus(directory).toSeq catch { case _: FileNotFoundException => Nil }
    val ids = files.map(file => file.getPath.getName -> file.getModificationTime).collect {
      case (StateFile(number, id), modified) if number == version.toString && modified >= began => modified -> id
    }
    ids.maxOption.map(_._2)
  }
}
