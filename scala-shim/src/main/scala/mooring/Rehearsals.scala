package io.mooring

import java.lang.ref.WeakReference
import java.util.Base64
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.state.mooring.Rehearsal

/**
 * The last executed plans of the queries that run, for executors that join them. An executor asks before it takes its
 * first task, so that no batch waits for its cold JVM. Driver only.
 */
object Rehearsals {
  private val executed = new ConcurrentHashMap[String, WeakReference[SparkPlan]]() // query id -> of its last batch

  def ran(query: String, plan: SparkPlan): Unit = { executed.put(query, new WeakReference(plan)); () }

  def ended(query: String): Unit = { executed.remove(query); () }

  /** The answer to an executor: empty while no query runs. */
  def answer(): String = Json.write(Map("rehearsals" -> executed.values.asScala.toSeq.flatMap(plan => Option(plan.get)).map { plan =>
    val rehearsal = Aside.otherwise("rehearsal", Rehearsal(Nil, Nil))(Rehearsal.of(plan))
    Map("sources" -> rehearsal.sources, "stages" -> rehearsal.stages.map(Base64.getEncoder.encodeToString))
  }))

  def parse(answer: String): Seq[Rehearsal] = Json.read(answer).get("rehearsals").elements().asScala.map { one =>
    Rehearsal(one.get("sources").elements().asScala.map(_.asText()).toSeq,
      one.get("stages").elements().asScala.map(stage => Base64.getDecoder.decode(stage.asText())).toSeq)
  }.toSeq
}
