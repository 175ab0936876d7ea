package io.mooring.common

/** Names in configurations and on disk. They must not change: settings and checkpoints of users contain them. */
object Names {
  val Prefix = "spark.mooring."
  val QueryIdProperty = "sql.streaming.queryId"
  val Plugin = "io.mooring.MooringPlugin"
  val Provider = "io.mooring.HostAffinityStateStoreProvider"
  val FileManager = "io.mooring.MooringCheckpointFileManager"
  val Extensions = "io.mooring.MooringExtensions"
  /** The key by which the driver's plugin tells the executors' plugins that a catalogue is kept. */
  val Catalogued = "catalogued"
  val QueryListener = "io.mooring.QueryStartWatch"
  val AllocationListener = "io.mooring.AllocationListener"
  val ExecutorPodStep = "io.mooring.ExecutorPodStep"

  /** The setting in which the driver keeps the user's own checkpoint file manager, for the executors. Only Mooring sets it. */
  val UsersFileManager = "spark.plugins.internal.mooring.checkpointFileManagerClass"

  /** The environment variable for a host's own place of its local store. It overrides the setting, which all hosts share. */
  val LocalStoreVariable = "MOORING_LOCAL_STORE_DIR"

  /** The environment variable with the name of the volume that the local store lies on. */
  val VolumeVariable = "MOORING_VOLUME"

  /** The format name of the streaming source of copies (`StandbySource`), and its option: the id of the query that is copied. */
  val StandbySource = "mooring-standby"
  val StandbyQuery = "query"
}
