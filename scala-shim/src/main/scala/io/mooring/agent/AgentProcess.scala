package io.mooring.agent

import java.io.{BufferedReader, File, IOException, InputStreamReader}
import java.net.URI
import java.nio.file.Path
import java.util.concurrent.{ConcurrentLinkedDeque, TimeUnit}

import scala.jdk.CollectionConverters._

import io.mooring.common.{Daemon, Log}
import org.apache.spark.SparkConf
import org.apache.spark.shims.GatewayShim

/**
 * The agent beside the driver: started, watched, started again with back-off, stopped with the application.
 *
 * One daemon thread does all of it. Queries do not notice: they go on with the last plan.
 */
final class AgentProcess(conf: SparkConf, bridge: Bridge, python: Option[String], silenceSeconds: Long) {
  private val gateway = new GatewayShim(conf)
  private val code: Path = AgentCode.unpack()
  private val lastWords = new ConcurrentLinkedDeque[String]()
  @volatile private var stopping = false
  @volatile private var hopeless = false
  @volatile private var isGivenUp = false
  @volatile private var process: Option[Process] = None

  private val watcher = Daemon.start("mooring-agent-watch")(watch())

  /** Whether an agent runs, or is about to be started: then a plan may come. */
  def isExpected: Boolean = !stopping && (!hopeless || bridge.isGreeted)

  def stop(): Unit = {
    stopping = true
    watcher.interrupt()
    watcher.join(TimeUnit.SECONDS.toMillis(5))
    gateway.close()
    AgentCode.delete(code)
  }

  private def watch(): Unit = {
    var failures = 0
    try {
      while (!stopping && !isGivenUp) {
        val started = System.nanoTime()
        val ending = runOnce()
        if (!stopping && !bridge.isGreeted && AgentProcess.isMissing(lastWord)) giveUp(lastWord)
        else if (!stopping) {
          val livedLong = System.nanoTime() - started > TimeUnit.SECONDS.toNanos(AgentProcess.StableSeconds)
          failures = if (livedLong) 1 else failures + 1
          hopeless = failures > 1
          val pause = math.min(1L << math.min(failures - 1, 10), AgentProcess.LongestPauseSeconds)
          Thread.sleep(TimeUnit.SECONDS.toMillis(pause))
          // Only now: a signal that ends the application may have reached the agent first.
          report(s"the agent $ending; queries keep their places; it is started again, $pause s later", failures)
        }
      }
    } catch {
      case _: InterruptedException => // the application ends
      case e: IOException =>
        giveUp(e.toString)
    } finally process.foreach(end)
  }

  private def lastWord: String = Option(lastWords.peekLast()).getOrElse("")

  /** What an agent lacks will not come while the application runs. */
  private def giveUp(why: String): Unit = {
    hopeless = true
    isGivenUp = true
    Log.troubleOnce("no-agent", s"no agent could be started ($why): tasks run where Spark puts them; the hosts still keep " +
      "state files. Put a Python 3.10 or later that finds pyspark and py4j (SPARK_HOME, or pip install pyspark) on the driver's " +
      "host, or name it in spark.mooring.agent.python")
  }

  /** Says it with the agent's last words, but not for ever: an agent that can not live is not news each time. */
  private def report(message: String, failures: Int): Unit = {
    val words = if (lastWords.isEmpty) "" else lastWords.asScala.mkString("; its last words:\n  ", "\n  ", "")
    if (failures < AgentProcess.FailuresTold) Log.trouble(message + words)
    else if (failures == AgentProcess.FailuresTold)
      Log.trouble(s"$message, and so on; that is not said again until one has lived for ${AgentProcess.StableSeconds} s$words")
  }

  /** Runs one agent to its end and tells how it ended. IOException where there is no such interpreter at all. */
  private def runOnce(): String = {
    bridge.agentLaunched()
    val child = try launch()
    catch { case e: IOException if !AgentProcess.isForGood(e) => return s"could not be started ($e)" }
    process = Some(child)
    lastWords.clear()
    val reader = forwardOutput(child)
    var silentBefore = false // one look is not enough: this process may have been stopped itself until a moment ago
    while (!child.waitFor(1, TimeUnit.SECONDS)) {
      // Before its first word an agent has Python and its libraries to load.
      val patience = if (bridge.isGreeted) silenceSeconds else math.max(silenceSeconds, AgentProcess.StartSeconds)
      val silent = bridge.secondsSinceHeard > patience
      if (silent && silentBefore) {
        child.destroyForcibly().waitFor()
        return s"was silent for more than $patience s and was killed"
      }
      silentBefore = silent
    }
    reader.join(1000)
    s"ended with exit code ${child.exitValue()}"
  }

  private def launch(): Process = {
    val builder = new ProcessBuilder(interpreter, "-m", "mooring.agent").redirectErrorStream(true)
    builder.directory(code.getParent.toFile) // `-m` looks into the working directory first: this one holds only our code
    val env = builder.environment()
    val paths = Seq(code.toString, GatewayShim.sparkPythonPath) ++ usersFiles ++ Option(env.get("PYTHONPATH"))
    env.put("PYTHONPATH", paths.filter(_.nonEmpty).mkString(File.pathSeparator))
    env.put("PYTHONUNBUFFERED", "YES")
    env.put("PYSPARK_GATEWAY_PORT", gateway.port.toString)
    env.put("PYSPARK_GATEWAY_SECRET", gateway.secret) // in the environment, as Spark's PythonRunner does
    builder.start()
  }

  /** What the user gave as `--py-files`, where it lies on this host: a grouper of the user's may be in it. */
  private def usersFiles: Seq[String] = conf.get("spark.submit.pyFiles", "").split(',').toSeq.map(_.trim).collect {
    case path if path.startsWith("file:") => URI.create(path).getPath
    case path if path.startsWith("/") => path
  }.map(path => if (path.endsWith(".py")) new File(path).getParent else path).distinct

  /** As Spark chooses the Python of a driver. */
  private def interpreter: String = {
    val driver = Seq(conf.getOption("spark.pyspark.driver.python"), conf.getOption("spark.pyspark.python"),
      sys.env.get("PYSPARK_DRIVER_PYTHON"), sys.env.get("PYSPARK_PYTHON")).flatten
    // A notebook's driver may be `jupyter` or `ipython`, which is no interpreter for us.
    val chosen = python.orElse(driver.find(name => new File(name).getName.matches("(python|pypy).*"))).getOrElse("python3")
    if (chosen.contains(File.separator)) new File(chosen).getAbsolutePath else chosen
  }

  private def forwardOutput(child: Process): Thread = Daemon.start("mooring-agent-output") {
    val lines = new BufferedReader(new InputStreamReader(child.getInputStream))
    try Iterator.continually(lines.readLine()).takeWhile(_ != null).foreach { line =>
      lastWords.addLast(line)
      if (lastWords.size > AgentProcess.LastWords) lastWords.pollFirst()
    } catch { case _: IOException => } // the pipe closes with the process
  }

  /** Closing its standard input is the agent's sign to end. */
  private def end(child: Process): Unit = {
    try child.getOutputStream.close()
    catch { case _: IOException => } // it is gone already
    Thread.interrupted() // the wait below must not be cut short
    if (!child.waitFor(3, TimeUnit.SECONDS)) child.destroyForcibly()
    ()
  }
}

object AgentProcess {
  /** No such file, or not executable: waiting does not help. Anything else, such as no memory to fork, may pass. */
  private def isForGood(e: IOException): Boolean = Seq("error=2,", "error=13,").exists(String.valueOf(e.getMessage).contains(_))

  /** Whether this is Python's word on a module that it does not have, or can not use. */
  private def isMissing(word: String): Boolean = word.startsWith("ImportError: ") || word.startsWith("ModuleNotFoundError: ")

  private val StartSeconds = 30L
  private val StableSeconds = 60L
  private val LongestPauseSeconds = 30L
  private val LastWords = 20
  private val FailuresTold = 3
}
