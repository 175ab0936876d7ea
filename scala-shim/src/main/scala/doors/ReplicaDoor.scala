package org.apache.spark.sql.execution.streaming.state.mooring

import org.apache.hadoop.conf.Configuration

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.util.{SerializableConfiguration, Utils}

/** How a watched query reads its checkpoint, for executors that read it as well. Made on the driver. */
final class CheckpointAccess private[mooring] (
    conf: Broadcast[SerializableConfiguration], val codec: String, val hasChecksums: Boolean) extends Serializable {
  def hadoopConf: Configuration = conf.value.value
}

/** The replica query of one watched query, as Spark runs it; its own checkpoint ends with it. */
final class Replica private[mooring] (watched: StreamDoor, source: String, option: String) {
  private val scratch = Utils.createTempDir(namePrefix = "mooring-standby")
  private val query = watched.newSession().readStream.format(source).option(option, watched.id).load()
    .writeStream.format("noop").queryName(s"standby of ${if (watched.name.isEmpty) watched.id.take(8) else watched.name}")
    .option("checkpointLocation", scratch.toURI.toString).start()

  def isActive: Boolean = query.isActive

  /** Why it ended by itself, if it did. */
  def failure: Option[Throwable] = query.exception

  def stop(): Unit =
    try query.stop()
    finally Utils.deleteRecursively(scratch)
}

private[mooring] object CheckpointAccess {
  def of(door: StreamDoor): CheckpointAccess = {
    val session = door.newSession()
    val stores = StateStoreConf(door.sqlConf)
    new CheckpointAccess(session.sparkContext.broadcast(new SerializableConfiguration(door.hadoopConf)),
      stores.compressionCodec, stores.checkpointFileChecksumEnabled)
  }
}
