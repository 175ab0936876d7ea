package org.apache.spark.sql.execution.streaming.state.mooring

import org.apache.spark.SparkConf
import org.apache.spark.api.python.{Py4JServer, PythonUtils}

/** The gateway through which Spark's own PythonRunner lets a Python process in (private[spark]). */
final class GatewayDoor(conf: SparkConf) {
  private val server = new Py4JServer(conf)
  server.start()

  def port: Int = server.getListeningPort
  def secret: String = server.secret
  def close(): Unit = server.shutdown()
}

object GatewayDoor {
  def sparkPythonPath: String = PythonUtils.sparkPythonPath
}
