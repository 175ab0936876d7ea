package io.mooring.warmup

import org.apache.spark.shims.WarmupProfile

/**
 * What executors that join the running queries are to load and compile before their first task: what one has told that
 * works there. An executor is asked once for each run of a query, after some batches. Driver only.
 */
final class WarmupProfiles {
  private final class Run(val id: String) {
    var batches = 0
    var executors = Set.empty[String] // of its last batch
    var asked = Option.empty[String]
    var told = WarmupProfile.Nothing
  }
  private val runs = scala.collection.mutable.Map[String, Run]() // by query

  def batchEnded(query: String, id: String, executors: Set[String]): Unit = synchronized {
    val run = runs.get(query).filter(_.id == id).getOrElse(new Run(id))
    run.batches += 1
    run.executors = executors
    runs(query) = run
  }

  def ended(query: String, id: String): Unit = synchronized(runs.filterInPlace((of, run) => of != query || run.id != id))

  /** Whether this executor is asked now. One that is gone before it answers is not waited for. */
  def isAsked(executor: String): Boolean = synchronized {
    val lacking = runs.values.filter { run =>
      run.batches >= WarmupProfiles.Batches && run.executors(executor) && !run.asked.exists(run.executors)
    }
    lacking.foreach(_.asked = Some(executor))
    lacking.nonEmpty
  }

  def told(executor: String, rehearsal: WarmupProfile): Unit =
    synchronized(runs.values.filter(_.asked.contains(executor)).foreach(_.told = rehearsal))

  /** For an executor that joins now. */
  def now: WarmupProfile = synchronized {
    val all = runs.values.map(_.told).toSeq.distinct
    WarmupProfile(all.flatMap(_.classes).distinct, all.flatMap(_.sources).distinct)
  }
}

object WarmupProfiles {
  private val Batches = 10 // then the code for state that is there, snapshots and maintenance has run
}
