package io.mooring

import io.mooring.checkpoint.CheckpointFilesShim
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** The name by which Spark makes a `CheckpointFilesShim`, by reflection: one for each log and each state store. */
final class MooringCheckpointFileManager(path: Path, conf: Configuration) extends CheckpointFilesShim(path, conf)
