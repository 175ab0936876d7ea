package io.mooring.common

import java.util.concurrent.ConcurrentHashMap

import com.codahale.metrics.{Gauge, MetricRegistry}

/** Mooring's numbers in Spark's metrics system, under the plugin's source. */
object Metrics {
  private val values = new ConcurrentHashMap[String, java.lang.Double]()

  private val names = Seq("preferred-host-requests", "any-host-requests", "host-affinity-match-pct",
    "restore-bytes-local", "restore-bytes-remote", "moves")

  @volatile private var registry: Option[MetricRegistry] = None
  private var agents = Set.empty[String]

  /** Registers the gauges that every application has; Spark's sinks read the registry again and again. */
  def register(sparks: MetricRegistry): Unit = {
    registry = Some(sparks)
    values.clear() // of an application before, in the same JVM
    names.foreach(set(_, 0.0))
  }

  /** The registry of the driver part of this JVM. Spark has named its gauges by the application's id, or is about to. */
  def ofDriver: Option[MetricRegistry] = registry

  /** Registers a gauge of an executor's, which is asked when Spark's sinks ask. */
  def register(sparks: MetricRegistry, name: String, value: () => Double): Unit = {
    sparks.gauge(s"mooring.$name", () => new Gauge[Double] { override def getValue: Double = value() })
    ()
  }

  /** All gauges of the agent: of those that it had set and are not among them nothing is known any more. */
  def setAgents(gauges: Map[String, Double]): Unit = synchronized {
    for (name <- agents -- gauges.keySet if values.remove(name) != null) registry.foreach(_.remove(s"mooring.$name"))
    gauges.foreach { case (name, value) => set(name, value) }
    agents = gauges.keySet
  }

  /** Sets a gauge; one that is new, as of a task, is registered with that. */
  def set(name: String, value: Double): Unit =
    if (values.put(name, value) == null)
      registry.foreach(_.gauge(s"mooring.$name", () => new Gauge[Double] { override def getValue: Double = values.get(name) }))
}
