package io.mooring.placement

import java.io.ObjectOutputStream

import scala.reflect.ClassTag
import scala.util.control.NonFatal

import io.mooring.common.{FailOpen, Log, Names}
import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.state.shims.{DrainMetric, EarlierAttempt, OperatorFacts, RestoreMetrics, StreamShims}

/**
 * Runs its child where the plan wants it. Rows, order and partitioning are the child's.
 *
 * @param isRepeated whether an earlier run of the query has begun this batch and not committed it
 */
final case class PlacedExec(child: SparkPlan, query: String, operator: OperatorFacts, isRepeated: Boolean)
  extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  @transient private lazy val earlierAttempt: Option[EarlierAttempt] =
    try Option.when(isRepeated)(EarlierAttempt.offer(operatorsOfStage(child)))
    catch {
      case NonFatal(e) =>
        Log.failed("earlier-attempt", e)(s"what the last run has left of batch ${operator.batch} could not be looked at ($e)")
        None
    }

  /** None; but Spark asks every node of the final plan, before it gives the batch to the sink. */
  override lazy val metrics: Map[String, SQLMetric] = {
    earlierAttempt
    Map.empty
  }

  override protected def doExecute(): RDD[InternalRow] = {
    StreamShims.allowProvider(child, Names.Provider)
    val operators = operatorsOfStage(child)
    PlacementService.current.foreach(driver => DrainMetric.set(operators, driver.drainStateOf(operator.runId, operator.batch)))
    val restoreMetrics = RestoreMetrics.of(operators)
    PlacementService.current.foreach(_.batchIsPlaced())
    new PlacedRDD(child.execute(), query, operator.batch, restoreMetrics, earlierAttempt)
  }

  private def operatorsOfStage(plan: SparkPlan): Seq[SparkPlan] =
    if (plan.isInstanceOf[Exchange]) Nil else plan +: plan.children.flatMap(operatorsOfStage)

  override protected def withNewChildInternal(newChild: SparkPlan): PlacedExec = copy(child = newChild)
}

/** The scheduler asks the first RDD of a stage that has a preference; this one stands before the state store's own. */
final class PlacedRDD[T: ClassTag](
    parent: RDD[T], private[placement] val query: String, private[placement] val batch: Long, restoreMetrics: RestoreMetrics.OfStage,
    @transient earlierAttempt: Option[EarlierAttempt]) extends RDD[T](parent) {
  setName(PlacedStages.nameOf(query, batch))

  override protected def getPartitions: Array[Partition] = parent.partitions

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    RestoreMetrics.duringTask(context, restoreMetrics)
    parent.iterator(split, context)
  }

  /** On the driver, before the first task: what the tasks report counts, and nothing else. */
  private def writeObject(out: ObjectOutputStream): Unit = {
    PlacementService.current.foreach(_.computes(query, batch))
    FailOpen.otherwise("record of the state in each task", ())(PlacedStages.sent(this))
    if (earlierAttempt != null) earlierAttempt.foreach(_.forget())
    out.defaultWriteObject()
  }

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    PlacedStages.preference(sparkContext, wanted(split.index)) // else the coordinator's stands

  private[placement] def state(partition: Int): PlacedState = PlacedState(id, query, batch, partition)

  /** The executor, as (id, host), on which the plan wants this partition of the state now. */
  private[placement] def wanted(partition: Int): Option[(String, String)] = {
    val found = PlacementService.current.flatMap(_.table.preferred(query, partition))
    for ((executor, _) <- found) PlacedStages.wanted(id, query, batch, partition, executor)
    found
  }
}
