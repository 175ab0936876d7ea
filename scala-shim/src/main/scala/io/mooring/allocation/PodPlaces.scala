package io.mooring.allocation

import scala.collection.mutable

/**
 * Chooses the place of each new executor pod: the node that the pod prefers, and the number of its claim. It gives a place that no living
 * pod has.
 *
 * Spark's thread that makes pods calls `placeOf`, and the thread that serves the agent calls `want`.
 *
 * @param total  how many executors the application asks for; 0 where that changes
 * @param living the executors whose pods are made and have not ended; None where that is not known, and then pods get no places
 */
private[mooring] final class PodPlaces(total: Int, living: () => Option[Set[String]]) {
  private var wanted = HostsWanted(Nil)
  private val places = mutable.Map[String, PodPlace]() // by executor, of pods that may live

  def want(hosts: HostsWanted): Unit = synchronized { wanted = hosts }

  /** The place of a new executor, or the one that it has got before. */
  def placeOf(executor: String, withClaim: Boolean): PodPlace = synchronized {
    living().fold(PodPlace.none) { alive =>
      val place = places.getOrElse(executor, freePlace(alive, withClaim))
      places(executor) = place
      place
    }
  }

  private def freePlace(alive: Set[String], withClaim: Boolean): PodPlace = {
    places.filterInPlace { case (id, _) => alive.contains(id) }
    val hosts = if (total > 0) wanted.hosts.take(total) else wanted.hosts
    val taken = alive.toSeq.flatMap(id => wanted.at.get(id).orElse(places.get(id).flatMap(_.node)))
    val number = Option.when(withClaim) {
      val numbers = places.values.flatMap(_.number).toSet
      Iterator.from(1).find(!numbers.contains(_)).get
    }
    PodPlace(hosts.diff(taken).headOption, wanted.avoided, number)
  }
}

/**
 * @param node    the node that the pod prefers
 * @param avoided the nodes that the pod avoids, if it can
 * @param number  the number of its claim, from 1 on
 */
private[mooring] final case class PodPlace(node: Option[String], avoided: Set[String], number: Option[Int])

private object PodPlace {
  val none: PodPlace = PodPlace(None, Set.empty, None)
}
