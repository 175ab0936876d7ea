package io.mooring

/**
 * Which files of one state store its host needs to go on, or to open the store again: those of the newest two snapshots
 * that were saved, and what was written since the older one. Two, as a batch may be repeated from the version before.
 * What only older versions need is the checkpoint's alone: a host would hold a hundred versions of the state else.
 */
private final class NewestSnapshots {
  private var saved = List.empty[(Long, Set[String])] // version, and its SST and log files; the newest first
  private var known = Set.empty[String] // of these files, what may be kept here

  /** The store was opened from this snapshot, of which and of others the host keeps some files. */
  def opened(version: Long, files: Set[String], kept: Set[String]): Unit = synchronized {
    saved = List(version -> files)
    known = kept ++ files
  }

  /** A snapshot was saved. */
  def saved(version: Long, files: Set[String]): Unit = synchronized {
    saved = ((version -> files) :: saved.filter(_._1 < version)).take(2)
    known ++= files
  }

  /** Of the files that are kept, those that nobody needs. */
  def superseded(kept: Set[String]): Set[String] = synchronized {
    if (saved.size < 2) Set.empty
    else {
      val needed = saved.flatMap(_._2).toSet
      val gone = kept.filter { name =>
        HostStore.versionOf(name).fold(known(name) && !needed(name))(_ < saved.last._1)
      }
      known = known.intersect(needed)
      gone
    }
  }
}
