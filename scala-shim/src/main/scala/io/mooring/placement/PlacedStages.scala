package io.mooring.placement

import java.util.concurrent.ConcurrentHashMap

import io.mooring.common.Location
import org.apache.spark.SparkContext
import org.apache.spark.scheduler.StageInfo
import org.apache.spark.scheduler.shims.StageLineage

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
