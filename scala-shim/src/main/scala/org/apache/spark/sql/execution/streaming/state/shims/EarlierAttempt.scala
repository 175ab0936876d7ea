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
 * What an earlier attempt at a batch has left of its state, offered to the operators of the batch's repetition.
 *
 * A driver may end after the batch's sink has taken it and before its commit is logged. Repeated, the batch is skipped
 * by a sink that has it (files, Delta), so nothing is computed. State of format 1 is then found by its version. That of
 * format 2 has unique ids, which Spark knows from the tasks that ran; without any it ends the query, and so at each
 * start. The ids are in the names of the state's files; those that are older than the batch's offsets are of another
 * batch. Where the batch is computed after all, what was offered is forgotten before its first task.
 */
final class EarlierAttempt private (offered: Seq[CollectionAccumulator[StatefulOpStateStoreCheckpointInfo]]) {
  private val forgotten = new AtomicBoolean

  def forget(): Unit = if (forgotten.compareAndSet(false, true)) offered.foreach(_.reset())
}

object EarlierAttempt {
  private val StateFile = """(\d+)_([^.]+)\.(?:zip|changelog)""".r

  /** Offers what there is to those of `operators` that write state, when it is whole; they are those of the final plan. */
  def offer(operators: Seq[SparkPlan]): EarlierAttempt = {
    val writers = operators.collect {
      case w: StateStoreWriter if w.stateInfo.isDefined && StatefulOperatorStateInfo.enableStateStoreCheckpointIds(w.conf) => w
    }
    val found = writers.map(writer => writer -> versionsOf(writer, writer.session.sessionState.newHadoopConf()))
    for ((writer, versions) <- found; version <- versions) writer.checkpointInfoAccumulator.add(version)
    new EarlierAttempt(found.collect { case (writer, versions) if versions.nonEmpty => writer.checkpointInfoAccumulator })
  }

  /** What each partition has; nothing when one of them has nothing, as a sink then can not have the batch. */
  private def versionsOf(writer: StateStoreWriter, conf: Configuration): Seq[StatefulOpStateStoreCheckpointInfo] = {
    val info = writer.getStateInfo
    val offsets = new Path(new Path(info.checkpointLocation).getParent, s"offsets/${info.storeVersion}")
    val began = offsets.getFileSystem(conf).getFileStatus(offsets).getModificationTime
    // Of a global limit one partition has state.
    val partitions = if (writer.outputPartitioning.numPartitions == 1) 1 else info.numPartitions
    // An attempt that was cut off most likely lacks the last ones.
    val found = Iterator.range(partitions - 1, -1, -1).map(versionOf(writer, _, began, conf)).takeWhile(_.isDefined)
    val versions = found.flatten.toSeq
    if (versions.length == partitions) versions else Nil
  }

  private def versionOf(writer: StateStoreWriter, partition: Int, began: Long, conf: Configuration) = {
    val info = writer.getStateInfo
    val version = info.storeVersion + 1
    val ids = writer.stateStoreNames.map(name => newestId(directory(info, partition, name), version, began, conf))
    Option.when(ids.forall(_.isDefined))(
      StatefulOpStateStoreCheckpointInfo(partition, version, Some(ids.flatten.toArray), info.getStateStoreCkptId(partition)))
  }

  private def directory(info: StatefulOperatorStateInfo, partition: Int, store: String): Path = {
    val ofPartition = new Path(info.checkpointLocation, s"${info.operatorId}/$partition")
    if (store == StateStoreId.DEFAULT_STORE_NAME) ofPartition else new Path(ofPartition, store)
  }

  /** Of several attempts at one batch each has left valid state; the last one's is taken. */
  private def newestId(directory: Path, version: Long, began: Long, conf: Configuration): Option[String] = {
    val files = try directory.getFileSystem(conf).listStatus(directory).toSeq catch { case _: FileNotFoundException => Nil }
    val ids = files.map(file => file.getPath.getName -> file.getModificationTime).collect {
      case (StateFile(number, id), modified) if number == version.toString && modified >= began => modified -> id
    }
    ids.maxOption.map(_._2)
  }
}
