package org.apache.spark.shims

import java.util.concurrent.FutureTask

import org.apache.spark.SparkConf
import org.apache.spark.api.python.{Py4JServer, PythonUtils}

/**
 * The Py4J gateway by which the agent's Python process calls the driver: the one that Spark's `PythonRunner` uses, which is
 * private to Spark. Called by the driver plugin. Without it there is no agent.
 */
final class GatewayShim(conf: SparkConf) {
  // Made by a daemon thread, so that the server's threads are daemons too. Other threads would keep a driver alive whose job has ended
  // without stopping its session.
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
