package io.mooring.placement

import scala.util.control.NonFatal

import io.mooring.common.{Log, Names}
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{CoalesceExec, SparkPlan, UnionExec}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.streaming.state.shims.StreamShims

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
