package io.mooring

import io.mooring.checkpoint.CheckpointFiles
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** The class that Spark makes by reflection, from its name in the settings: one for each log and each state store. See `CheckpointFiles`. */
final class MooringCheckpointFileManager(path: Path, conf: Configuration) extends CheckpointFiles(path, conf)
