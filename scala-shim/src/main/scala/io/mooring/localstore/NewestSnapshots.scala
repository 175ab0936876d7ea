package io.mooring.localstore

/**
 * Decides which files of one state store the host keeps: those of the newest two versions with a snapshot, and the changelogs since the
 * older one. Two versions, as a batch may be repeated from the version before. Without this rule a host would keep all versions that the
 * checkpoint retains, a hundred by default. Archives are kept longer: they are small, and Spark's maintenance reads them. It removes them
 * here when it removes them from the checkpoint.
 *
 * Called by the thread that uses the store, and by Spark's maintenance.
 */
private[mooring] final class NewestSnapshots {
  // Versions with their SST files and RocksDB's own log files, the last uploaded first. A batch that runs its plan twice commits a version
  // twice, with two ids, and either may be the valid one.
  private var snapshots = List.empty[(Long, Set[String])]
  private var known = Set.empty[String] // of these files: those that this host may keep

  /** The store was opened from this snapshot. `kept` are all files of the store that the host keeps. */
  def opened(version: Long, files: Set[String], kept: Set[String]): Unit = synchronized {
    snapshots = (version -> files) :: snapshots.filter(_._1 == version + 1)
    known = kept ++ snapshots.flatMap(_._2)
  }

  /** A snapshot was uploaded. An older version may be uploaded after a newer one. */
  def uploaded(version: Long, files: Set[String]): Unit = synchronized {
    val all = ((version -> files) :: snapshots).take(NewestSnapshots.Most)
    val newest = all.map(_._1).distinct.sorted.takeRight(2)
    snapshots = all.filter { case (uploaded, _) => newest.contains(uploaded) }
    known ++= files
  }

  /** Those of the kept files that are not needed any more. */
  def superseded(kept: Set[String]): Set[String] = synchronized {
    val versions = snapshots.map(_._1).distinct
    val needed = snapshots.flatMap(_._2).toSet
    known = known.filter(name => needed(name) || kept(name))
    if (versions.size < 2) Set.empty
    else kept.filter { name =>
      known(name) && !needed(name) && !HostStore.isOfVersion(name) ||
        HostStore.versionOfChangelog(name).exists(_ < versions.min)
    }
  }
}

private object NewestSnapshots {
  private val Most = 8
}
