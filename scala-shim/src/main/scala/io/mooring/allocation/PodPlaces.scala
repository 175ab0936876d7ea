package io.mooring.allocation

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorAdded, SparkListenerExecutorRemoved}

/**
 * Chooses the place of each new executor pod: the node that the pod prefers, and the number of its claim. It gives a place that no other
 * executor has.
 *
 * Spark's thread that makes pods calls `placeOf`, the thread that serves the agent `want`, and a listener thread the rest.
 *
 * @param total  how many executors the application asks for; 0 where that changes
 * @param waitMs how long `placeOf` waits for the removal of a lost executor: Spark may make the pod of its successor before
 * @param nowMs  a clock that does not go back
 */
private[mooring] final class PodPlaces(total: Int, waitMs: Long = PodPlaces.WaitMs,
    nowMs: () => Long = () => TimeUnit.NANOSECONDS.toMillis(System.nanoTime())) extends SparkListener {
  import PodPlaces._

  private var wanted = HostsWanted(Nil)
  private val held = mutable.LinkedHashMap[String, Held]() // by executor, the oldest first, without the removed ones
  private val removedIds = mutable.Set[String]() // ids are not used again

  def want(hosts: HostsWanted): Unit = synchronized {
    wanted = hosts
    for ((executor, node) <- hosts.at if !removedIds.contains(executor))
      held(executor) = held.getOrElse(executor, Held(None, None)).copy(node = Some(node), isHere = true)
  }

  override def onExecutorAdded(added: SparkListenerExecutorAdded): Unit = synchronized {
    held.updateWith(added.executorId)(_.map(_.copy(isHere = true)))
    ()
  }

  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = synchronized {
    removedIds += removed.executorId
    held -= removed.executorId
    notifyAll()
  }

  /** The place of a new executor. Blocks for at most `waitMs`. */
  def placeOf(executor: String, withClaim: Boolean): PodPlace = synchronized {
    awaitRemoval()
    forgetFailedPod()
    val wantedNow = if (total > 0) wanted.hosts.take(total) else wanted.hosts
    val node = wantedNow.diff(held.values.flatMap(_.node).toSeq).headOption
    val number = Option.when(withClaim) {
      val taken = held.values.flatMap(_.number).toSet
      Iterator.from(1).find(!taken.contains(_)).get
    }
    held(executor) = Held(node, number)
    PodPlace(node, wanted.avoided, number)
  }

  /** Where all executors seem to be here, one of them is lost and its removal is not noted yet. */
  private def awaitRemoval(): Unit = {
    val until = nowMs() + waitMs
    while (total > 0 && held.values.count(_.isHere) >= total && nowMs() < until) wait(math.max(1, until - nowMs()))
  }

  /** Where as many pods as are wanted were made, and some are no executors yet, the oldest of these has failed. */
  private def forgetFailedPod(): Unit = if (total > 0 && held.size >= total) held.find(!_._2.isHere).foreach(held -= _._1)
}

/**
 * @param node    the node that the pod prefers
 * @param avoided the nodes that the pod avoids, if it can
 * @param number  the number of its claim, from 1 on
 */
private[mooring] final case class PodPlace(node: Option[String], avoided: Set[String], number: Option[Int])

private object PodPlaces {
  private val WaitMs = 1000L

  /** What an executor has; `isHere` once it has registered. */
  private final case class Held(node: Option[String], number: Option[Int], isHere: Boolean = false)
}
