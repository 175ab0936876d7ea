package io.mooring.placement

import java.io.ObjectOutputStream
import java.util.concurrent.ConcurrentHashMap

import scala.reflect.ClassTag
import scala.util.control.NonFatal

import io.mooring.common.{FailOpen, Location, Names, Log}
import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.StageInfo
import org.apache.spark.scheduler.shims.StageLineage
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{CoalesceExec, SparkPlan, UnaryExecNode, UnionExec}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.state.shims.{DrainMetric, EarlierAttempt, OperatorFacts, RestoreMetrics, StreamShims}

/**
 * Spark runs this on every micro-batch's physical plan, on the driver, in the stream's thread, before the batch. It
 * puts a `PlacedExec` on the topmost stateful operator of each stage: above it the partitions may be renumbered (a
 * union, a coalesce), below it all operators of the stage share them.
 */
private[mooring] object PlacementRule extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = {
    val operators = plan.collect(Function.unlift(StreamShims.statefulOperator))
    if (operators.isEmpty || !StreamShims.onStreamThread) plan
    else PlacementService.current.fold(plan) { driver =>
      val query = plan.session.sparkContext.getLocalProperty(Names.QueryIdProperty)
      try driver.planned(query, operators)
      catch {
        case NonFatal(e) => // an interruption is not: the query is being stopped
          Log.failed("placement-rule", e)(s"a query could not be told to the agent ($e): it runs where Spark puts it")
      }
      place(plan, query, operators.exists(driver.isRepeated), stageHasOne = false)
    }
  }

  private def place(plan: SparkPlan, query: String, isRepeated: Boolean, stageHasOne: Boolean): SparkPlan =
    StreamShims.statefulOperator(plan) match {
      case Some(operator) if !stageHasOne =>
        PlacedExec(below(plan, query, isRepeated, stageHasOne = true), query, operator, isRepeated)
      case _ =>
        val placed = below(plan, query, isRepeated, stageHasOne)
        if (keepsHostsOnly(placed) && holdsPlaced(placed)) GatheredExec(placed) else placed
    }

  private def below(plan: SparkPlan, query: String, isRepeated: Boolean, stageHasOne: Boolean): SparkPlan =
    plan.mapChildren(place(_, query, isRepeated, stageHasOne && !plan.isInstanceOf[Exchange]))

  /** Whether Spark's own preference for the node's tasks names a host only, where the tasks below prefer executors. */
  private def keepsHostsOnly(plan: SparkPlan): Boolean = plan match {
    case _: CoalesceExec => true
    case union: UnionExec => !union.outputPartitioning.isInstanceOf[UnknownPartitioning] // it joins partitions of one number
    case _ => false
  }

  private def holdsPlaced(plan: SparkPlan): Boolean =
    plan.isInstanceOf[PlacedExec] || !plan.isInstanceOf[Exchange] && plan.children.exists(holdsPlaced)
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

/** Above a union or a coalesce. Each of its tasks prefers the executor on which the plan wants most of the task's state. */
final case class GatheredExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = new GatheredRDD(child.execute())
  override protected def withNewChildInternal(newChild: SparkPlan): GatheredExec = copy(child = newChild)
}

final class GatheredRDD[T: ClassTag](parent: RDD[T]) extends RDD[T](parent) {
  override protected def getPartitions: Array[Partition] = parent.partitions
  override def compute(split: Partition, context: TaskContext): Iterator[T] = parent.iterator(split, context)

  /** Empty without a plan: then the parent's own preference holds. */
  override protected def getPreferredLocations(split: Partition): Seq[String] = {
    val wanted = StageLineage.nearest[PlacedRDD[_]](parent, split.index).flatMap { case (rdd, partition) => rdd.wanted(partition) }
    PlacedStages.preference(sparkContext, PlacedStages.mostOf(wanted))
  }
}

/** A partition of a query's state that a task computes: one as a rule, several above a coalesce. */
final case class PlacedState(rdd: Int, query: String, batch: Long, partition: Int)

/** Which executor each task of a placed stage was wanted on, until the stage ends. Driver only. */
object PlacedStages {
  final class Wanted(val query: String, val batch: Long) {
    val executors = new ConcurrentHashMap[Int, String]() // by the partition of the state
  }

  private[placement] val Name = "mooring " // what the name of a placed RDD begins with

  private val Named = s"$Name(.*) batch (\\d+)".r

  private[placement] def nameOf(query: String, batch: Long): String = s"$Name$query batch $batch"

  /** The query and the batch of a placed stage; None of another one. */
  def batchOf(stage: StageInfo): Option[(String, Long)] =
    stage.rddInfos.map(_.name).collectFirst { case Named(query, batch) => query -> batch.toLong }

  private val byRdd = new ConcurrentHashMap[Int, Wanted]()
  private val sentStages = new ConcurrentHashMap[Int, SentStage]()

  private final case class SentStage(query: String, batch: Long, attempt: Int, states: Int => Seq[PlacedState])

  def wanted(rdd: Int, query: String, batch: Long, partition: Int, executor: String): Unit = {
    byRdd.computeIfAbsent(rdd, _ => new Wanted(query, batch)).executors.put(partition, executor)
    ()
  }

  /** Spark's scheduler is about to send the tasks of a stage that computes this RDD. */
  private[placement] def sent(rdd: PlacedRDD[_]): Unit = for (sent <- StageLineage.stagesOf(rdd.sparkContext, rdd)) {
    val states: Int => Seq[PlacedState] = StageLineage.sameNumbers[PlacedRDD[_]](sent.last) match {
      case Some(placed) =>
        val first = placed.state(0)
        task => Seq(first.copy(partition = task))
      case None =>
        val ofTasks = sent.last.partitions.indices.map { task =>
          StageLineage.nearest[PlacedRDD[_]](sent.last, task).map { case (placed, partition) => placed.state(partition) }
        }
        for ((states, task) <- ofTasks.zipWithIndex if states.flatMap(wanted).distinct.size > 1) {
          val isPreferred = StageLineage.prefers(rdd.sparkContext, sent.last, task, hostOf)
          for (state <- states; executor <- wanted(state) if !isPreferred(executor)) unwanted(state)
        }
        ofTasks
    }
    sentStages.put(sent.stage, SentStage(rdd.query, rdd.batch, sent.attempt, states))
  }

  private def hostOf(executor: String) = PlacementService.current.flatMap(_.table.hostOf(executor))

  /** What the task of this partition of a placed stage computes; empty of another stage. */
  def statesOf(stage: Int, partition: Int): Seq[PlacedState] =
    Option(sentStages.get(stage)).fold(Seq.empty[PlacedState])(_.states(partition))

  /** Whether tasks of the state's stage were told where to go. */
  def isSent(state: PlacedState): Boolean = byRdd.containsKey(state.rdd)

  /** The executor on which the plan wants the state, if the task was told to go there. */
  def wanted(state: PlacedState): Option[String] =
    Option(byRdd.get(state.rdd)).flatMap(stage => Option(stage.executors.get(state.partition)))

  /** For each task of a placed stage the usable executors, as (id, host), first that on which most of its states are wanted. */
  def candidates(stage: Int, table: PlacementTable): Option[Int => Seq[(String, String)]] =
    Option(sentStages.get(stage)).map(_.states).map { statesOf => task =>
      val rows = statesOf(task).map(state => table.candidates(state.query, state.partition))
      (mostOf(rows.flatMap(_.headOption)) ++ rows.flatten).toSeq.distinct
    }

  /** The task goes to the executor; None for any. Of several states, it goes there for those whose first executor that is. */
  def redirected(stage: Int, partition: Int, executor: Option[String], table: PlacementTable): Unit = {
    val states = statesOf(stage, partition)
    for (state <- states) executor.filter { to =>
      states.size == 1 || table.preferred(state.query, state.partition).exists(_._1 == to)
    } match {
      case Some(to) => wanted(state.rdd, state.query, state.batch, state.partition, to)
      case None => unwanted(state)
    }
  }

  private def unwanted(state: PlacedState): Unit = Option(byRdd.get(state.rdd)).foreach(_.executors.remove(state.partition))

  /**
   * For an executor, as (id, host), what Spark's scheduler is told. Nothing in local mode: its backend offers its one executor
   * only when a task ends. Beside tasks with a preference, those without one may prefer a host that it does not know, wait
   * for `spark.locality.wait`, and then for an offer that never comes.
   */
  private[placement] def preference(context: SparkContext, wanted: Option[(String, String)]): Seq[String] =
    if (context.isLocal) Nil else wanted.map { case (executor, host) => Location.ofExecutor(host, executor) }.toSeq

  /** The one that is there most often, of several the first. */
  private[placement] def mostOf[T](all: Seq[T]): Option[T] = all.distinct.maxByOption(one => all.count(_ == one))

  def find(rdds: Seq[Int]): Seq[Wanted] = rdds.flatMap(id => Option(byRdd.get(id)))

  /** The attempt at the stage has ended well. */
  def forget(stage: Int, attempt: Int, rdds: Seq[Int]): Unit = {
    rdds.foreach(byRdd.remove(_))
    sentStages.computeIfPresent(stage, (_, sent) => if (sent.attempt > attempt) sent else null)
    ()
  }

  /**
   * A batch of the query has ended, and with it all stages of earlier ones: those that failed, for good, and those of
   * whose end nothing was heard. The next batch may be under way already.
   */
  def forgetBefore(query: String, batch: Long): Unit = {
    byRdd.values.removeIf(one => one.query == query && one.batch < batch)
    sentStages.values.removeIf(one => one.query == query && one.batch < batch)
    ()
  }

  /** The query has ended, and with it stages that failed. */
  def forget(query: String): Unit = {
    byRdd.values.removeIf(_.query == query)
    sentStages.values.removeIf(_.query == query)
    ()
  }
}
