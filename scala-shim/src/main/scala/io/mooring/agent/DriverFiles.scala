package io.mooring.agent

import java.io.FileNotFoundException

import io.mooring.common.Json
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.shims.StreamShims

/**
 * One flat directory on any storage that can hold a checkpoint: the agent's records, the logs and notes of a checkpoint, or a drain's
 * markers. It uses the application's credentials. It writes as Spark writes its checkpoints, so that no reader sees half a file.
 *
 * Called by the thread that serves the agent, and by streams' threads. Exceptions of Hadoop's file system pass through.
 *
 * @param hadoopConf the application's
 */
final class DriverFiles(directory: String, hadoopConf: Configuration) {
  private val path = new Path(directory)
  private val conf = {
    val copy = new Configuration(hadoopConf)
    copy.unset(StreamShims.FileManagerKey)
    copy
  }
  private val fileSystem = path.getFileSystem(conf)
  private lazy val files = CheckpointFileManager.create(path, conf)

  /** The plain path where the directory lies on a local or mounted file system, else empty. */
  def localPath: String = if (fileSystem.getScheme == "file") fileSystem.makeQualified(path).toUri.getPath else ""

  /** `[{"name", "size", "modified": milliseconds}]`, empty when there is no such directory. */
  def list(): String = Json.write(found.map(f =>
    Map("name" -> f.getPath.getName, "size" -> f.getLen, "modified" -> f.getModificationTime)))

  def names: Seq[String] = found.map(_.getPath.getName)

  private def found = (try files.list(path).toSeq catch { case _: FileNotFoundException => Nil }).filter(_.isFile)

  /** The file's first `limit` bytes, or null when there is none. */
  def read(name: String, limit: Int): Array[Byte] =
    try {
      val in = files.open(new Path(path, name))
      try in.readNBytes(limit)
      finally in.close()
    } catch { case _: FileNotFoundException => null }

  /** Writes a new file. False where it exists. */
  def create(name: String, bytes: Array[Byte]): Boolean =
    try {
      write(name, bytes, overwrite = false)
      true
    } catch { case _: FileAlreadyExistsException => false }

  def writeAtomic(name: String, bytes: Array[Byte]): Unit = write(name, bytes, overwrite = true)

  private def write(name: String, bytes: Array[Byte], overwrite: Boolean): Unit = {
    if (!files.exists(path)) files.mkdirs(path)
    val out = files.createAtomic(new Path(path, name), overwriteIfPossible = overwrite)
    try {
      out.write(bytes)
      out.close()
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }

  def delete(name: String): Unit = files.delete(new Path(path, name))
}
