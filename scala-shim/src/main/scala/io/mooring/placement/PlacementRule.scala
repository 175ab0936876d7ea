package io.mooring.placement

import scala.util.control.NonFatal

import io.mooring.common.{Log, Names}
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{CoalesceExec, SparkPlan, UnionExec}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.streaming.state.shims.{OperatorFacts, StreamShim, StreamShims}

/**
 * Places the tasks of a batch: puts a `PlacedExec` on the topmost stateful operator of each stage. Below that operator, all
 * operators of the stage have the same partition numbers. Above it, a union or a coalesce may renumber the partitions.
 *
 * Spark applies the rule to the physical plan of every micro-batch, on the driver, in the stream's thread, before the batch.
 * A query in real-time mode is not placed. Depends on `StreamShims.statefulOperator` and `onStreamThread`. Without the rule, Spark places all tasks as it does in stock.
 */
private[mooring] object PlacementRule extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    try ifItRuns(plan)
    catch {
      case NonFatal(e) => // an InterruptedException passes through: the query is being stopped
        Log.failed("placement-rule", e)(s"a plan could not be placed ($e): its tasks run where Spark puts them")
        plan
    }

  private def ifItRuns(plan: SparkPlan): SparkPlan = {
    val operators = plan.collect(Function.unlift(StreamShims.statefulOperator))
    if (operators.isEmpty || !StreamShims.onStreamThread) plan
    else PlacementService.current.fold(plan) { driver =>
      val query = plan.session.sparkContext.getLocalProperty(Names.QueryIdProperty)
      if (StreamShims.query(query).exists(isOf(_, operators))) placed(plan, query, operators, driver) else plan
    }
  }

  /** Whether the plan is one that the query runs. To explain a plan, Spark may make another one, under an id that no run has. */
  private def isOf(query: StreamShim, operators: Seq[OperatorFacts]): Boolean = query.runId == operators.head.runId && !query.isRealTime

  private def placed(plan: SparkPlan, query: String, operators: Seq[OperatorFacts], driver: PlacementService): SparkPlan = {
    try driver.planned(query, operators)
    catch {
      case NonFatal(e) => // an InterruptedException passes through: the query is being stopped
        Log.failed("placement-rule", e)(s"a query could not be told to the agent ($e): it runs where Spark puts it")
    }
    place(plan, query, operators.exists(driver.isRepeated), isStagePlaced = false)
  }

  /** `isStagePlaced` tells whether a node above, in the same stage, is placed already. */
  private def place(plan: SparkPlan, query: String, isRepeated: Boolean, isStagePlaced: Boolean): SparkPlan =
    StreamShims.statefulOperator(plan) match {
      case Some(operator) if !isStagePlaced =>
        PlacedExec(placeChildren(plan, query, isRepeated, isStagePlaced = true), query, operator, isRepeated)
      case _ =>
        val placed = placeChildren(plan, query, isRepeated, isStagePlaced)
        if (prefersHostsOnly(placed) && hasPlacedInStage(placed)) GatheredExec(placed) else placed
    }

  private def placeChildren(plan: SparkPlan, query: String, isRepeated: Boolean, isStagePlaced: Boolean): SparkPlan =
    plan.mapChildren(place(_, query, isRepeated, isStagePlaced && !plan.isInstanceOf[Exchange]))

  /** Whether Spark's own preference for the tasks of this node names only hosts, where the tasks below prefer executors. */
  private def prefersHostsOnly(plan: SparkPlan): Boolean = plan match {
    case _: CoalesceExec => true
    case union: UnionExec => !union.outputPartitioning.isInstanceOf[UnknownPartitioning] // it joins partitions of equal numbers
    case _ => false
  }

  private def hasPlacedInStage(plan: SparkPlan): Boolean =
    plan.isInstanceOf[PlacedExec] || !plan.isInstanceOf[Exchange] && plan.children.exists(hasPlacedInStage)
}
