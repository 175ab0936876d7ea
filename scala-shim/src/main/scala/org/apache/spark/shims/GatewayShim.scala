package org.apache.spark.shims

import java.util.concurrent.FutureTask

import org.apache.spark.SparkConf
import org.apache.spark.api.python.{Py4JServer, PythonUtils}

/** The gateway through which Spark's own PythonRunner lets a Python process in (private[spark]). */
final class GatewayShim(conf: SparkConf) {
  // Py4J starts to listen when it is made, and its threads are daemons only when a daemon makes it; others would keep a
  // driver alive whose job has ended without stopping its session.
  private val server: Py4JServer = {
    val made = new FutureTask[Py4JServer](() => {
      val server = new Py4JServer(conf)
      server.start()
      server
    })
    val maker = new Thread(made, "mooring-gateway-start")
    maker.setDaemon(true)
    maker.start()
    made.get()
  }

  def port: Int = server.getListeningPort
  def secret: String = server.secret
  def close(): Unit = server.shutdown()
}

object GatewayShim {
  def sparkPythonPath: String = PythonUtils.sparkPythonPath
}
