package io.mooring.agent

import java.io.{BufferedReader, File, IOException, InputStreamReader}
import java.net.{URI, URISyntaxException}
import java.nio.file.Path
import java.util.concurrent.{ConcurrentLinkedDeque, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.mooring.common.{Daemon, Log}
import org.apache.spark.SparkConf
import org.apache.spark.shims.GatewayShim

/**
 * Runs the agent's process beside the driver. Kills an agent that is silent. Starts an agent that has ended again, each time after
 * a longer pause. Stops the agent with the application.
 *
 * One daemon thread does all of this. Depends on Spark's Py4J gateway, through `GatewayShim`. While no agent runs, queries
 * continue with the last plan. Without a Python that can run the agent, tasks run where Spark puts them.
 *
 * @param python         the interpreter that the user has chosen for the agent
 * @param silenceSeconds how long an agent may be silent before it is killed
 */
final class AgentProcess(conf: SparkConf, bridge: Bridge, python: Option[String], silenceSeconds: Long) {
  private val gateway = new GatewayShim(conf)
  private val code: Path = AgentCode.unpack()
  private val lastLines = new ConcurrentLinkedDeque[String]()
  @volatile private var stopping = false
  @volatile private var isFailing = false // the last starts have failed
  @volatile private var isGivenUp = false
  @volatile private var process: Option[Process] = None

  private val watcher = Daemon.start("mooring-agent-watch")(watch())

  /** Whether an agent runs, or is about to be started: then a plan may come. */
  def isExpected: Boolean = !stopping && (!isFailing || bridge.isGreeted)

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
        if (!stopping && !bridge.isGreeted && AgentProcess.isMissingModule(lastLine)) giveUp(lastLine)
        else if (!stopping) {
          val livedLong = System.nanoTime() - started > TimeUnit.SECONDS.toNanos(AgentProcess.StableSeconds)
          failures = if (livedLong) 1 else failures + 1
          isFailing = failures > 1
          val pause = math.min(1L << math.min(failures - 1, 10), AgentProcess.LongestPauseSeconds)
          Thread.sleep(TimeUnit.SECONDS.toMillis(pause))
          // After the pause: a signal that ends the application may have reached the agent first, and its end is no fault then.
          report(s"the agent $ending; queries keep their places; it is started again, $pause s later", failures)
        }
      }
    } catch {
      case _: InterruptedException => // the application ends
      case NonFatal(e) => // no interpreter, or a setting that no process can be started with
        giveUp(e.toString)
    } finally process.foreach(end)
  }

  private def lastLine: String = Option(lastLines.peekLast()).getOrElse("")

  /** Starts no agent any more: the missing Python or module will not appear while the application runs. */
  private def giveUp(why: String): Unit = {
    isFailing = true
    isGivenUp = true
    Log.troubleOnce("no-agent", s"no agent could be started ($why): tasks run where Spark puts them; the hosts still keep " +
      "state files. Put a Python 3.10 or later on the driver's host, or name it in spark.mooring.agent.python")
  }

  /** Logs the agent's end with its last lines of output. After `FailuresLogged` ends in a row, nothing is logged. */
  private def report(message: String, failures: Int): Unit = {
    val output = if (lastLines.isEmpty) "" else lastLines.asScala.mkString("; its last words:\n  ", "\n  ", "")
    if (failures < AgentProcess.FailuresLogged) Log.trouble(message + output)
    else if (failures == AgentProcess.FailuresLogged)
      Log.trouble(s"$message, and so on; that is not said again until one has lived for ${AgentProcess.StableSeconds} s$output")
  }

  /** Runs one agent until it ends. Returns how it ended, for the log. IOException where there is no such interpreter. */
  private def runOnce(): String = {
    bridge.agentLaunched()
    val child = try launch()
    catch { case e: IOException if !AgentProcess.isForGood(e) => return s"could not be started ($e)" }
    process = Some(child)
    lastLines.clear()
    val reader = forwardOutput(child)
    var wasSilent = false // at the last look; one look is not enough, as this process itself may have been stopped until a moment ago
    while (!child.waitFor(1, TimeUnit.SECONDS)) {
      // Before its first call an agent has Python and its libraries to load.
      val longestSilence = if (bridge.isGreeted) silenceSeconds else math.max(silenceSeconds, AgentProcess.StartSeconds)
      val silent = bridge.secondsSinceLastCall > longestSilence
      if (silent && wasSilent) {
        child.destroyForcibly().waitFor()
        return s"was silent for more than $longestSilence s and was killed"
      }
      wasSilent = silent
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

  /** The user's `--py-files` that lie on this host: a grouper of the user's may be in them. */
  private def usersFiles: Seq[String] = conf.get("spark.submit.pyFiles", "").split(',').toSeq.map(_.trim).collect {
    case path if path.startsWith("file:") => localPath(path)
    case path if path.startsWith("/") => path
  }.map(path => if (path.endsWith(".py")) new File(path).getParent else path).distinct

  /** The path of a `file:` URI. In Spark's own form a space is `%20`; a user may have written it as it is. */
  private def localPath(uri: String): String =
    try new URI(uri).getPath
    catch { case _: URISyntaxException => uri.stripPrefix("file:") }

  /** The agent's Python: the setting, else the driver's Python as Spark chooses it. */
  private def interpreter: String = {
    val driver = Seq(conf.getOption("spark.pyspark.driver.python"), conf.getOption("spark.pyspark.python"),
      sys.env.get("PYSPARK_DRIVER_PYTHON"), sys.env.get("PYSPARK_PYTHON")).flatten
    // The driver of a notebook may be `jupyter` or `ipython`, which can not run a module.
    val chosen = python.orElse(driver.find(name => new File(name).getName.matches("(python|pypy).*"))).getOrElse("python3")
    if (chosen.contains(File.separator)) new File(chosen).getAbsolutePath else chosen
  }

  private def forwardOutput(child: Process): Thread = Daemon.start("mooring-agent-output") {
    val lines = new BufferedReader(new InputStreamReader(child.getInputStream))
    try Iterator.continually(lines.readLine()).takeWhile(_ != null).foreach { line =>
      lastLines.addLast(line)
      if (lastLines.size > AgentProcess.LastLines) lastLines.pollFirst()
    } catch { case _: IOException => } // the pipe closes with the process
  }

  /** Closes the agent's standard input, at which the agent ends. Kills an agent that does not end within three seconds. */
  private def end(child: Process): Unit = {
    try child.getOutputStream.close()
    catch { case _: IOException => } // it has ended already
    Thread.interrupted() // clears the flag, which would end the wait below at once
    if (!child.waitFor(3, TimeUnit.SECONDS)) child.destroyForcibly()
    ()
  }
}

object AgentProcess {
  /** Whether the file is missing or not executable. Any other failure, such as no memory to fork, may pass. */
  private def isForGood(e: IOException): Boolean = Seq("error=2,", "error=13,").exists(String.valueOf(e.getMessage).contains(_))

  /** Whether Python's last line says that a module is missing, or can not be used. */
  private def isMissingModule(line: String): Boolean = line.startsWith("ImportError: ") || line.startsWith("ModuleNotFoundError: ")

  private val StartSeconds = 30L
  private val StableSeconds = 60L
  private val LongestPauseSeconds = 30L
  private val LastLines = 20
  private val FailuresLogged = 3
}
