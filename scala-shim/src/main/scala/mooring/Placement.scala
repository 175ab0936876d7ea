package io.mooring

import java.io.ObjectOutputStream
import java.util.concurrent.ConcurrentHashMap

import scala.reflect.ClassTag
import scala.util.control.NonFatal

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.StageInfo
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.state.mooring.{DrainMetric, EarlierAttempt, OperatorFacts, RestoreMetrics, StreamDoors}

/** Appended to `spark.sql.extensions` by the driver part. */
final class MooringExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectColumnar(_ => new ColumnarRule {
      override def postColumnarTransitions: Rule[SparkPlan] = PlacementRule
    })
}

/**
 * Spark runs this on every micro-batch's physical plan, on the driver, in the stream's thread, before the batch. It
 * puts a `PlacedExec` on the topmost stateful operator of each stage: above it the partitions may be renumbered (a
 * union, a coalesce), below it all operators of the stage share them.
 */
private object PlacementRule extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = {
    val operators = plan.collect(Function.unlift(StreamDoors.statefulOperator))
    if (operators.isEmpty || !StreamDoors.onStreamThread) plan
    else Driver.current.fold(plan) { driver =>
      val query = plan.session.sparkContext.getLocalProperty(Names.QueryIdProperty)
      try driver.queries.planned(query, operators)
      catch {
        case NonFatal(e) => // an interruption is not: the query is being stopped
          Say.failed("placement-rule", e)(s"a query could not be told to the agent ($e): it runs where Spark puts it")
      }
      place(plan, query, operators.exists(driver.queries.isRepeated), stageHasOne = false)
    }
  }

  private def place(plan: SparkPlan, query: String, isRepeated: Boolean, stageHasOne: Boolean): SparkPlan =
    StreamDoors.statefulOperator(plan) match {
      case Some(operator) if !stageHasOne =>
        PlacedExec(below(plan, query, isRepeated, stageHasOne = true), query, operator, isRepeated)
      case _ => below(plan, query, isRepeated, stageHasOne)
    }

  private def below(plan: SparkPlan, query: String, isRepeated: Boolean, stageHasOne: Boolean): SparkPlan =
    plan.mapChildren(place(_, query, isRepeated, stageHasOne && !plan.isInstanceOf[Exchange]))
}

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
        Say.failed("earlier-attempt", e)(s"what the last run has left of batch ${operator.batch} could not be looked at ($e)")
        None
    }

  /** None; but Spark asks every node of the final plan, before it gives the batch to the sink. */
  override lazy val metrics: Map[String, SQLMetric] = {
    earlierAttempt
    Map.empty
  }

  override protected def doExecute(): RDD[InternalRow] = {
    StreamDoors.allowProvider(child, Names.Provider)
    val operators = operatorsOfStage(child)
    Driver.current.foreach(driver => DrainMetric.set(operators, driver.drains.stateOf(operator.runId, operator.batch)))
    val restoreMetrics = RestoreMetrics.of(operators)
    Driver.current.foreach(_.batchIsPlaced())
    new PlacedRDD(child.execute(), query, operator.batch, restoreMetrics, earlierAttempt)
  }

  private def operatorsOfStage(plan: SparkPlan): Seq[SparkPlan] =
    if (plan.isInstanceOf[Exchange]) Nil else plan +: plan.children.flatMap(operatorsOfStage)

  override protected def withNewChildInternal(newChild: SparkPlan): PlacedExec = copy(child = newChild)
}

/** The scheduler asks the first RDD of a stage that has a preference; this one stands before the state store's own. */
final class PlacedRDD[T: ClassTag](
    parent: RDD[T], query: String, batch: Long, restoreMetrics: RestoreMetrics.OfStage,
    @transient earlierAttempt: Option[EarlierAttempt]) extends RDD[T](parent) {
  setName(s"${PlacedStages.Name}$query batch $batch")

  override protected def getPartitions: Array[Partition] = parent.partitions

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    RestoreMetrics.duringTask(context, restoreMetrics)
    parent.iterator(split, context)
  }

  /** On the driver, before the first task: what the tasks report counts, and nothing else. */
  private def writeObject(out: ObjectOutputStream): Unit = {
    Driver.current.foreach(_.queries.computes(query, batch))
    if (earlierAttempt != null) earlierAttempt.foreach(_.forget())
    out.defaultWriteObject()
  }

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    Driver.current.flatMap(_.table.preferred(query, split.index)) match {
      case Some((executor, host)) =>
        PlacedStages.wanted(id, query, batch, split.index, executor)
        Seq(Location.ofExecutor(host, executor))
      case None => Nil // the state store coordinator's own preference stands
    }
}

/** Which executor each task of a placed stage was wanted on, until the stage ends. Driver only. */
object PlacedStages {
  final class Wanted(val query: String, val batch: Long) {
    val executors = new ConcurrentHashMap[Int, String]()
  }

  private[mooring] val Name = "mooring " // what the name of a placed RDD begins with

  def isPlaced(stage: StageInfo): Boolean = stage.rddInfos.exists(_.name.startsWith(Name))

  private val byRdd = new ConcurrentHashMap[Int, Wanted]()

  def wanted(rdd: Int, query: String, batch: Long, partition: Int, executor: String): Unit = {
    byRdd.computeIfAbsent(rdd, _ => new Wanted(query, batch)).executors.put(partition, executor)
    ()
  }

  def find(rdds: Seq[Int]): Option[Wanted] = rdds.iterator.flatMap(id => Option(byRdd.get(id))).nextOption()

  def forget(rdds: Seq[Int]): Unit = rdds.foreach(byRdd.remove(_))

  /** The query has ended, and with it stages that failed. */
  def forget(query: String): Unit = { byRdd.values.removeIf(_.query == query); () }
}
