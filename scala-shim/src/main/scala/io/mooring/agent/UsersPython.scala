package io.mooring.agent

import java.io.{File, IOException}
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import org.apache.spark.SparkConf

/**
 * Asks a Python class of the user's for the location or the zone of an executor. The executor plugin calls it at its start; a child
 * process runs the class, and is killed after ten seconds. Without an answer, the executor's host is its location, and its zone is
 * not known.
 */
object UsersPython {
  private val LongestSeconds = 10L

  /** Right with the answer of `users` (`module:Class`), Left with the reason why there is none. Python finds the module on the executor's PYTHONPATH. */
  def ask(users: String, conf: SparkConf): Either[String, String] =
    try {
      val code = AgentCode.unpack()
      try run(users, interpreter(conf), code)
      finally AgentCode.delete(code)
    } catch {
      case e: IOException => Left(s"$users could not be asked ($e)")
    }

  private def run(users: String, python: String, code: Path): Either[String, String] = {
    val answer = code.resolveSibling("answer")
    val complaint = code.resolveSibling("complaint")
    val builder = new ProcessBuilder(python, "-m", "mooring.locality", users)
    builder.directory(code.getParent.toFile).redirectOutput(answer.toFile).redirectError(complaint.toFile)
    val inherited = Option(builder.environment().get("PYTHONPATH")).filter(_.nonEmpty)
    builder.environment().put("PYTHONPATH", (code.toString +: inherited.toSeq).mkString(File.pathSeparator))
    val child = builder.start()
    child.getOutputStream.close()
    if (!child.waitFor(LongestSeconds, TimeUnit.SECONDS)) {
      child.destroyForcibly().waitFor()
      Left(s"$users did not answer within $LongestSeconds s")
    } else if (child.exitValue() == 0) Right(Files.readString(answer).trim)
    else Left(s"$users has no answer: ${lastLine(Files.readString(complaint))}")
  }

  private def lastLine(text: String): String = text.trim.linesIterator.toSeq.lastOption.getOrElse("it ended without a word")

  /** The Python that Spark's executors use. */
  private def interpreter(conf: SparkConf): String =
    conf.getOption("spark.pyspark.python").orElse(sys.env.get("PYSPARK_PYTHON")).getOrElse("python3")
}
