package io.mooring.common

import java.util.concurrent.ConcurrentHashMap

import com.codahale.metrics.{Gauge, MetricRegistry}

/** Mooring's gauges in Spark's metrics system, under the plugin's source. Called by any thread of the driver, and by the executor plugin. */
object Metrics {
  private val values = new ConcurrentHashMap[String, java.lang.Double]()

  private val names = Seq("preferred-host-requests", "any-host-requests", "host-affinity-match-pct",
    "restore-bytes-local", "restore-bytes-remote", "moves")

  @volatile private var registry: Option[MetricRegistry] = None
  private var namesOfAgent = Set.empty[String] // the gauges that the agent has set last; with the lock

  /** Registers the gauges that every application has. */
  def register(ofDriver: MetricRegistry): Unit = {
    registry = Some(ofDriver)
    values.clear() // the values of an earlier application in the same JVM
    names.foreach(set(_, 0.0))
  }

  /** The registry of the plugin's part in the driver, in this JVM. Spark puts the application's id into the names of its gauges. */
  def ofDriver: Option[MetricRegistry] = registry

  /** Registers a gauge of an executor. `value` is called whenever a sink of Spark reads the gauge. */
  def register(ofExecutor: MetricRegistry, name: String, value: () => Double): Unit = {
    ofExecutor.gauge(s"mooring.$name", () => new Gauge[Double] { override def getValue: Double = value() })
    ()
  }

  /** Sets all gauges of the agent. Gauges of an earlier call that are not among these are removed. */
  def setAgents(gauges: Map[String, Double]): Unit = synchronized {
    for (name <- namesOfAgent -- gauges.keySet if values.remove(name) != null) registry.foreach(_.remove(s"mooring.$name"))
    gauges.foreach { case (name, value) => set(name, value) }
    namesOfAgent = gauges.keySet
  }

  /** Sets a gauge, and registers it if it is new. */
  def set(name: String, value: Double): Unit =
    if (values.put(name, value) == null)
      registry.foreach(_.gauge(s"mooring.$name", () => new Gauge[Double] { override def getValue: Double = values.get(name) }))
}
