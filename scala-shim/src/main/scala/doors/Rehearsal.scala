package org.apache.spark.sql.execution.streaming.state.mooring

import java.nio.ByteBuffer

import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeAndComment, CodeGenerator}
import org.apache.spark.sql.execution.{SparkPlan, WholeStageCodegenExec}
import org.apache.spark.sql.execution.exchange.{Exchange, ShuffleExchangeExec}
import org.apache.spark.util.Utils

/**
 * What an executor that joins a running query has to load and compile before its first task can begin: the code that was
 * generated for the last batch, and the stages that have no state, as tasks are sent. The code is compiled and the stages
 * are read, which loads their classes; none of it is run.
 */
final case class Rehearsal(sources: Seq[String], stages: Seq[Array[Byte]]) {

  /** In an executor. Whatever can not be done now, as the user's classes come with the first task, is done then. */
  def attend(): Unit = {
    val serializer = SparkEnv.get.closureSerializer.newInstance()
    val loader = Utils.getContextOrSparkClassLoader
    sources.foreach(source => Rehearsal.asFarAsPossible(CodeGenerator.compile(new CodeAndComment(source, Map.empty))))
    stages.foreach(stage => Rehearsal.asFarAsPossible(serializer.deserialize[AnyRef](ByteBuffer.wrap(stage), loader)))
  }
}

object Rehearsal {

  /** In the driver, of a plan that has been executed. */
  def of(executed: SparkPlan): Rehearsal = {
    val serializer = SparkEnv.get.closureSerializer.newInstance()
    val sources = executed.collect { case stage: WholeStageCodegenExec => stage.doCodeGen()._2.body }
    val stages = executed.collect { case exchange: ShuffleExchangeExec if !exchange.child.exists(_.isInstanceOf[Exchange]) =>
      val sent = serializer.serialize[AnyRef]((exchange.shuffleDependency.rdd, exchange.shuffleDependency))
      val bytes = new Array[Byte](sent.remaining)
      sent.get(bytes)
      bytes
    }
    Rehearsal(sources, stages)
  }

  private def asFarAsPossible(work: => Any): Unit =
    try { work; () }
    catch { case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => }
}
