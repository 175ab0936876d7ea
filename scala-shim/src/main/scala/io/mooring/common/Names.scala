package io.mooring.common

/** Names that stand in configurations and on disk. */
object Names {
  val Prefix = "spark.mooring."
  val QueryIdProperty = "sql.streaming.queryId"
  val Plugin = "io.mooring.MooringPlugin"
  val Provider = "io.mooring.HostAffinityStateStoreProvider"
  val FileManager = "io.mooring.MooringCheckpointFileManager"
  val Extensions = "io.mooring.MooringExtensions"
  /** What the driver tells its executors when a catalogue is kept. */
  val Catalogued = "catalogued"
  val QueryListener = "io.mooring.QueryStartWatch"

  /** Where the driver leaves the user's own checkpoint file manager for the executors. Set by us alone. */
  val UsersFileManager = "spark.plugins.internal.mooring.checkpointFileManagerClass"

  /** A host's own place for local stores; stronger than the setting, which all hosts share. */
  val LocalStoreVariable = "MOORING_LOCAL_STORE_DIR"

  /** The format of the copies of a running query's state, as a stream; and its option, the id of that query. */
  val StandbySource = "mooring-standby"
  val StandbyQuery = "query"
}
