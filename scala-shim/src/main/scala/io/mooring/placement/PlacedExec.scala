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
import org.apache.spark.sql.execution.streaming.state.shims.{DrainMetric, EarlierAttempt, OperatorFacts, ProvidersOfTransformWithState, RestoreMetrics}

/**
 * A plan node whose tasks prefer the executors that the plan names. Rows, order and partitioning are those of `child`.
 *
 * Made by `PlacementRule` and executed by the stream's thread, on the driver. `ProvidersOfTransformWithState` depends on a private set of
 * `transformWithState`, through SparkInternals; without access to that set, such queries run on Spark's own provider.
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

  /**
   * No metrics. Spark asks every node of the final plan for its metrics before it gives the batch to the sink. That is the
   * moment at which `earlierAttempt` has to be offered, as a sink may skip the batch.
   */
  override lazy val metrics: Map[String, SQLMetric] = {
    earlierAttempt
    Map.empty
  }

  override protected def doExecute(): RDD[InternalRow] = {
    ProvidersOfTransformWithState.allow(child, Names.Provider)
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

/**
 * The rows of `parent`, with the preference of the plan. For the preference of a stage, Spark's scheduler asks the RDDs from
 * the last one back, and takes the first answer. So this RDD is asked before the RDD of the state store.
 *
 * On the driver, the thread that sends tasks asks for preferences and serializes this object. Tasks call `compute`.
 */
final class PlacedRDD[T: ClassTag](
    parent: RDD[T], private[placement] val query: String, private[placement] val batch: Long, restoreMetrics: RestoreMetrics.OfStage,
    @transient earlierAttempt: Option[EarlierAttempt]) extends RDD[T](parent) {
  setName(PlacedStages.nameOf(query, batch))

  override protected def getPartitions: Array[Partition] = parent.partitions

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    RestoreMetrics.duringTask(context, restoreMetrics)
    parent.iterator(split, context)
  }

  /**
   * Spark serializes the RDD before it sends the first task. From now on the batch is computed by tasks, so the versions of an
   * earlier attempt are withdrawn.
   */
  private def writeObject(out: ObjectOutputStream): Unit = {
    PlacementService.current.foreach(_.computes(query, batch))
    FailOpen.otherwise("record of the state in each task", ())(PlacedStages.addStagesOf(this))
    if (earlierAttempt != null) earlierAttempt.foreach(_.withdraw())
    out.defaultWriteObject()
  }

  /** Empty without a plan: then the preference of Spark's state store coordinator holds. */
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    PlacedStages.preference(sparkContext, wanted(split.index))

  private[placement] def state(partition: Int): PlacedState = PlacedState(id, query, batch, partition)

  /** The executor, as (id, host), on which the plan wants this partition of the state now. Noted as the wanted executor. */
  private[placement] def wanted(partition: Int): Option[(String, String)] = {
    val preferred = PlacementService.current.flatMap(_.table.preferred(query, partition))
    preferred match {
      case Some((executor, _)) => PlacedStages.setWanted(state(partition), executor)
      case None => PlacedStages.clearWanted(state(partition)) // an earlier stage of the batch may have been placed
    }
    preferred
  }
}
