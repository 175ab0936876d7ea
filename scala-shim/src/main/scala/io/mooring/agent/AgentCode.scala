package io.mooring.agent

import java.io.IOException
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

import io.mooring.common.Log

/** Mooring's Python code, which the jar carries, as a zip for the PYTHONPATH of a child process: the agent, or `UsersPython`. */
object AgentCode {

  /** Writes the zip into a new directory that only this user may read. IOException where there is no room. */
  def unpack(): Path = {
    val zip = Files.createTempDirectory("mooring-agent-").resolve("mooring-agent.zip") // 0700
    val stream = getClass.getClassLoader.getResourceAsStream("mooring-agent.zip")
    try Files.copy(stream, zip)
    finally stream.close()
    zip.toFile.deleteOnExit()
    zip
  }

  /** Removes the zip's directory, with all files that a child process has written there. */
  def delete(zip: Path): Unit =
    try {
      Using.resource(Files.list(zip.getParent))(_.iterator().asScala.toSeq).foreach(Files.deleteIfExists)
      Files.deleteIfExists(zip.getParent)
      ()
    } catch {
      case e: IOException => Log.info(s"a temporary directory stays behind ($e)") // nothing depends on it
    }
}
