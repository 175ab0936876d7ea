package org.apache.spark.sql.execution.streaming.state.shims

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.state.{StateStoreCustomMetric, StateStoreCustomSizeMetric, StateStoreCustomTimingMetric}

/**
 * What was read to open state stores, as custom metrics of the operators in `StreamingQueryProgress`.
 *
 * Spark makes the metrics that a provider supports, for each operator. A store of Mooring can not fill them in, as the class that
 * reports them is private to Spark. So the placed plan node gives its operators' metrics to its tasks, which add to them.
 *
 * Threads: the stream's thread on the driver (`of`), tasks (`duringTask`, `opened`). Depends on `StatefulOperator.metrics`.
 */
object RestoreMetrics {
  private val BytesLocal = "mooring.restore-bytes-local"
  private val BytesRemote = "mooring.restore-bytes-remote"
  private val Milliseconds = "mooring.restore-ms"

  private[shims] val supported: Seq[StateStoreCustomMetric] = Seq(
    StateStoreCustomSizeMetric(BytesLocal, "Mooring: bytes of state files taken from the host"),
    StateStoreCustomSizeMetric(BytesRemote, "Mooring: bytes of state files fetched from the checkpoint"),
    StateStoreCustomTimingMetric(Milliseconds, "Mooring: time to open state stores that had to read files"))

  /** Metrics by operator id and name, for the operators of one stage. */
  type OfStage = Map[Long, Map[String, SQLMetric]]

  /**
   * The metrics of the stateful operators among `operators`, where the provider is Mooring's. An aggregation has two nodes of one
   * operator, one that restores and one that saves: the node that saves has the metrics.
   */
  def of(operators: Seq[SparkPlan]): OfStage = {
    val found = for {
      operator <- operators.collect { case stateful: StatefulOperator => stateful }
      info <- operator.stateInfo
      metrics = operator.metrics.filter { case (name, _) => supported.exists(_.name == name) } if metrics.nonEmpty
    } yield info.operatorId -> metrics
    found.toMap
  }

  private val ofTask = new ConcurrentHashMap[Long, OfStage]()

  /** What the task's stores read until the task ends is added to these metrics. */
  def duringTask(context: TaskContext, metrics: OfStage): Unit = if (metrics.nonEmpty) {
    ofTask.merge(context.taskAttemptId(), metrics, (before, more) => before ++ more) // a stage may place several operators
    context.addTaskCompletionListener[Unit](_ => { ofTask.remove(context.taskAttemptId()); () })
    ()
  }

  /** The task of the calling thread has opened a store. */
  def opened(storeDir: Path, bytesLocal: Long, bytesRemote: Long, milliseconds: Long): Unit = for {
    task <- Option(TaskContext.get())
    stage <- Option(ofTask.get(task.taskAttemptId()))
    operator <- operatorOf(storeDir)
    metrics <- stage.get(operator)
    (name, value) <- Seq(BytesLocal -> bytesLocal, BytesRemote -> bytesRemote, Milliseconds -> milliseconds)
  } metrics.get(name).foreach(_ += value)

  private val StoreDir = """.*/state/(\d+)/\d+(?:/[^/]+)?""".r

  private def operatorOf(storeDir: Path): Option[Long] = storeDir.toUri.getPath match {
    case StoreDir(operator) => Some(operator.toLong)
    case _ => None
  }
}
