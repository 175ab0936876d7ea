package io.mooring.warmup

import org.apache.spark.shims.WarmupProfile

/**
 * Collects, in the driver, the classes and the generated code that an executor that joins is to load and compile before its first
 * task. For each run of a query, one executor that has run the query's tasks for ten batches is asked once for its profile.
 *
 * Spark's listener thread calls `batchEnded` and `ended`; RPC threads call the other methods. When an executor does not answer, the
 * profile of its run stays empty.
 */
final class WarmupProfiles {
  private final class Run(val id: String) {
    var batches = 0
    var executors = Set.empty[String] // of its last batch
    var asked = Option.empty[String]
    var profile = WarmupProfile.Nothing
  }
  private val runs = scala.collection.mutable.Map[String, Run]() // by query

  def batchEnded(query: String, id: String, executors: Set[String]): Unit = synchronized {
    val run = runs.get(query).filter(_.id == id).getOrElse(new Run(id))
    run.batches += 1
    run.executors = executors
    runs(query) = run
  }

  def ended(query: String, id: String): Unit = synchronized(runs.filterInPlace((of, run) => of != query || run.id != id))

  /** Whether this executor is to report its profile now. Where the executor that was asked is lost, another one is asked. */
  def isAsked(executor: String): Boolean = synchronized {
    val lacking = runs.values.filter { run =>
      run.batches >= WarmupProfiles.Batches && run.executors(executor) && !run.asked.exists(run.executors)
    }
    lacking.foreach(_.asked = Some(executor))
    lacking.nonEmpty
  }

  def reported(executor: String, profile: WarmupProfile): Unit =
    synchronized(runs.values.filter(_.asked.contains(executor)).foreach(_.profile = profile))

  /** For an executor that joins now: the profiles of all runs, put together. */
  def now: WarmupProfile = synchronized {
    val all = runs.values.map(_.profile).toSeq.distinct
    WarmupProfile(all.flatMap(_.classes).distinct, all.flatMap(_.sources).distinct)
  }
}

object WarmupProfiles {
  private val Batches = 10 // by then the code for existing state, for snapshots and for maintenance has run
}
