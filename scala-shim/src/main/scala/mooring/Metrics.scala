package io.mooring

import java.util.concurrent.ConcurrentHashMap

import com.codahale.metrics.{Gauge, MetricRegistry}

/** Mooring's numbers in Spark's metrics system, under the plugin's source. */
object Metrics {
  private val values = new ConcurrentHashMap[String, java.lang.Double]()

  private val names = Seq("preferred-host-requests", "any-host-requests", "host-affinity-match-pct",
    "restore-bytes-local", "restore-bytes-remote", "moves")

  /** Registers the gauges; Spark reads the registry once, after the driver part started. */
  def register(registry: MetricRegistry): Unit = names.foreach { name =>
    values.putIfAbsent(name, 0.0)
    registry.register(s"mooring.$name", new Gauge[Double] { override def getValue: Double = values.get(name) })
  }

  def set(name: String, value: Double): Unit = { values.put(name, value); () }
}
