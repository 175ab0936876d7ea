package io.mooring.placement

import scala.reflect.ClassTag

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.shims.StageLineage
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * A node above a union or a coalesce, where one task may compute several partitions of state. Each of its tasks prefers the
 * executor on which the plan wants most of these partitions.
 *
 * Made by `PlacementRule` on the driver; tasks run its RDD. Depends on `StageLineage`. Without this node, such tasks prefer
 * only a host.
 */
final case class GatheredExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = new GatheredRDD(child.execute())
  override protected def withNewChildInternal(newChild: SparkPlan): GatheredExec = copy(child = newChild)
}

/** The rows of `parent`, with the preference that `GatheredExec` describes. The scheduler's thread asks for the preference. */
final class GatheredRDD[T: ClassTag](parent: RDD[T]) extends RDD[T](parent) {
  override protected def getPartitions: Array[Partition] = parent.partitions
  override def compute(split: Partition, context: TaskContext): Iterator[T] = parent.iterator(split, context)

  /** Empty without a plan: then the preference of `parent` holds. */
  override protected def getPreferredLocations(split: Partition): Seq[String] = {
    val wanted = StageLineage.nearest[PlacedRDD[_]](parent, split.index).flatMap { case (rdd, partition) => rdd.wanted(partition) }
    PlacedStages.preference(sparkContext, PlacedStages.mostFrequent(wanted))
  }
}
