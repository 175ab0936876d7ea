package io.mooring.placement

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.mooring.common.Location
import org.apache.spark.SparkContext
import org.apache.spark.scheduler.StageInfo
import org.apache.spark.scheduler.shims.StageLineage

/** One partition of a query's state, which a task computes. A task has one such partition as a rule, and several above a coalesce. */
final case class PlacedState(rdd: Int, query: String, batch: Long, partition: Int)

/**
 * For each placed stage that runs: which partitions of state each task computes, and on which executor each partition is wanted.
 * `ClusterWatch` redirects waiting tasks by it, and counts where tasks ran.
 *
 * On the driver only. The thread that sends tasks writes it. Spark's listener threads and threads that redirect tasks read and
 * write it. Depends on `StageLineage`. Without it, no task is redirected, and no task counts as placed.
 */
object PlacedStages {
  /** The executors on which the state of one RDD is wanted. */
  final class Wanted(val query: String, val batch: Long) {
    private[PlacedStages] val executors = new ConcurrentHashMap[Int, String]() // partition of the state -> executor
    private[PlacedStages] val ended = ConcurrentHashMap.newKeySet[Int]() // partitions whose task has ended well

    /** The executors that are wanted for tasks that have not ended well. */
    def awaited: Seq[String] = executors.asScala.collect { case (partition, executor) if !ended.contains(partition) => executor }.toSeq
  }

  private val NamePrefix = "mooring " // of the name of a placed RDD
  private val Named = s"$NamePrefix(.*) batch (\\d+)".r

  private[placement] def nameOf(query: String, batch: Long): String = s"$NamePrefix$query batch $batch"

  /** The query and the batch of a placed stage; None for any other stage. */
  def batchOf(stage: StageInfo): Option[(String, Long)] =
    stage.rddInfos.map(_.name).collectFirst { case Named(query, batch) => query -> batch.toLong }

  private val wantedByRdd = new ConcurrentHashMap[Int, Wanted]()
  private val stages = new ConcurrentHashMap[Int, Stage]() // by stage id

  /** `states` maps a task, by its partition in the stage, to the partitions of state that it computes. */
  private final case class Stage(query: String, batch: Long, attempt: Int, states: Int => Seq[PlacedState])

  private[placement] def setWanted(state: PlacedState, executor: String): Unit = {
    val wanted = wantedByRdd.computeIfAbsent(state.rdd, _ => new Wanted(state.query, state.batch))
    wanted.executors.put(state.partition, executor)
    wanted.ended.remove(state.partition) // the task is about to be sent, or waits
    ()
  }

  private[placement] def clearWanted(state: PlacedState): Unit =
    Option(wantedByRdd.get(state.rdd)).foreach(_.executors.remove(state.partition))

  /**
   * The state's task has ended well, in this attempt at the stage. It counts unless a newer attempt, or a later stage of the batch, may
   * compute the state again: Spark's listeners hear of an end later than the thread that sends tasks.
   */
  def taskEnded(state: PlacedState, stage: Int, attempt: Int): Unit =
    if (isNewest(stage, attempt)) Option(wantedByRdd.get(state.rdd)).foreach(_.ended.add(state.partition))

  private def isNewest(stage: Int, attempt: Int): Boolean = Option(stages.get(stage)).exists { ended =>
    ended.attempt == attempt &&
      !stages.asScala.exists { case (id, other) => id > stage && other.query == ended.query && other.batch == ended.batch }
  }

  /** The state's task had ended well, and is to run again. */
  def taskRunsAgain(state: PlacedState): Unit = Option(wantedByRdd.get(state.rdd)).foreach(_.ended.remove(state.partition))

  /** The executor on which the state is wanted; None when its task may run anywhere. */
  def wantedExecutor(state: PlacedState): Option[String] =
    Option(wantedByRdd.get(state.rdd)).flatMap(wanted => Option(wanted.executors.get(state.partition)))

  /** Whether any partition of the state's RDD is or was wanted on an executor. */
  def isPlaced(state: PlacedState): Boolean = wantedByRdd.containsKey(state.rdd)

  /** The wanted executors of those of these RDDs that are placed. */
  def wantedOf(rdds: Seq[Int]): Seq[Wanted] = rdds.flatMap(id => Option(wantedByRdd.get(id)))

  /** Adds the stages that compute this RDD. Spark's scheduler is about to send their tasks. */
  private[placement] def addStagesOf(rdd: PlacedRDD[_]): Unit = for (sent <- StageLineage.stagesOf(rdd.sparkContext, rdd)) {
    val states: Int => Seq[PlacedState] = StageLineage.withSamePartitions[PlacedRDD[_]](sent.last) match {
      case Some(placed) =>
        val first = placed.state(0)
        task => Seq(first.copy(partition = task))
      case None =>
        val ofTasks = sent.last.partitions.indices.map { task =>
          StageLineage.nearest[PlacedRDD[_]](sent.last, task).map { case (placed, partition) => placed.state(partition) }
        }
        // A task runs on one executor. Its states that are wanted on others are not placed.
        for ((states, task) <- ofTasks.zipWithIndex if states.flatMap(wantedExecutor).distinct.size > 1) {
          val isPreferred = StageLineage.prefers(rdd.sparkContext, sent.last, task, hostOf)
          for (state <- states; executor <- wantedExecutor(state) if !isPreferred(executor)) clearWanted(state)
        }
        ofTasks
    }
    stages.put(sent.stage, Stage(rdd.query, rdd.batch, sent.attempt, states))
  }

  private def hostOf(executor: String) = PlacementService.current.flatMap(_.table.hostOf(executor))

  /** The partitions of state that a task of a placed stage computes; empty for any other stage. */
  def statesOf(stage: Int, partition: Int): Seq[PlacedState] =
    Option(stages.get(stage)).fold(Seq.empty[PlacedState])(_.states(partition))

  /**
   * For each task of a placed stage the usable executors, as (id, host). The first one is that on which most of the task's states
   * are wanted. None for any other stage.
   */
  def candidates(stage: Int, table: PlacementTable): Option[Int => Seq[(String, String)]] =
    Option(stages.get(stage)).map(_.states).map { statesOf => task =>
      val rows = statesOf(task).map(state => table.candidates(state.query, state.partition))
      (mostFrequent(rows.flatMap(_.headOption)) ++ rows.flatten).toSeq.distinct
    }

  /**
   * Notes that a task was redirected to the executor, or to any executor (None). Of several states, those count as wanted on the
   * executor whose row has it first.
   */
  def setRedirected(stage: Int, partition: Int, executor: Option[String], table: PlacementTable): Unit = {
    val states = statesOf(stage, partition)
    for (state <- states) executor.filter { to =>
      states.size == 1 || table.preferred(state.query, state.partition).exists(_._1 == to)
    } match {
      case Some(to) => setWanted(state, to)
      case None => clearWanted(state)
    }
  }

  /**
   * The preferred location that Spark's scheduler is given for an executor, as (id, host). None is given in local mode: its
   * backend offers its one executor only when a task ends. If some tasks had a preference, other tasks might prefer a host that
   * the backend does not know. They would wait for `spark.locality.wait`, and then for an offer that never comes.
   */
  private[placement] def preference(context: SparkContext, wanted: Option[(String, String)]): Seq[String] =
    if (context.isLocal) Nil else wanted.map { case (executor, host) => Location.ofExecutor(host, executor) }.toSeq

  /** The most frequent element; of several, the first one. */
  private[placement] def mostFrequent[T](all: Seq[T]): Option[T] = all.distinct.maxByOption(element => all.count(_ == element))

  /**
   * This attempt at the stage has ended well. The wanted executors of its RDDs stay until the batch is over: another action of
   * `foreachBatch` may compute these RDDs, at the same time or next.
   */
  def stageEnded(stage: Int, attempt: Int): Unit = {
    stages.computeIfPresent(stage, (_, known) => if (known.attempt > attempt) known else null)
    ()
  }

  /**
   * A batch of the query has ended. All stages of earlier batches are over: also stages that failed, and stages whose end event
   * was lost. The next batch may be under way already.
   */
  def forgetBefore(query: String, batch: Long): Unit = {
    wantedByRdd.values.removeIf(wanted => wanted.query == query && wanted.batch < batch)
    stages.values.removeIf(stage => stage.query == query && stage.batch < batch)
    ()
  }

  /** The query has ended, and all its stages are over. */
  def queryEnded(query: String): Unit = {
    wantedByRdd.values.removeIf(_.query == query)
    stages.values.removeIf(_.query == query)
    ()
  }
}
