package io.mooring.localstore

/**
 * Which files of one state store its host needs to go on, or to open the store again: those of the newest two versions
 * of which a snapshot was saved, and the changelogs since the older one. Two, as a batch may be repeated from the version
 * before. What only older versions need is the checkpoint's alone: a host would hold a hundred versions of the state else.
 * Archives stay longer: they are small, and Spark's maintenance reads them. It removes them together with the checkpoint's own.
 */
private[mooring] final class NewestSnapshots {
  // Version, and its SST and log files; the newest save first. A batch that runs its plan twice commits a version twice,
  // by two ids, and the first may be the one that counts.
  private var snapshots = List.empty[(Long, Set[String])]
  private var known = Set.empty[String] // of these files, what may be kept here

  /** The store was opened from this snapshot, of which and of others the host keeps some files. */
  def opened(version: Long, files: Set[String], kept: Set[String]): Unit = synchronized {
    snapshots = (version -> files) :: snapshots.filter(_._1 == version + 1)
    known = kept ++ snapshots.flatMap(_._2)
  }

  /** A snapshot was saved; one of an older version may be saved after one that is newer. */
  def saved(version: Long, files: Set[String]): Unit = synchronized {
    val all = ((version -> files) :: snapshots).take(NewestSnapshots.Most)
    val newest = all.map(_._1).distinct.sorted.takeRight(2)
    snapshots = all.filter { case (of, _) => newest.contains(of) }
    known ++= files
  }

  /** Of the files that are kept, those that nobody needs. */
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
