package io.mooring.restore

import java.io.{FileNotFoundException, IOException}
import java.nio.channels.ClosedByInterruptException

import scala.util.Using
import scala.util.control.NonFatal

import io.mooring.checkpoint.CheckpointFilesShim
import io.mooring.localstore.HostStoreFiles
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.spark.shims.CpuThrottle
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, CopiedVersion, KeyCounts, StateFiles}

/**
 * A version of one state store that was committed; its unique id, where the checkpoint's format has one; how many keys it
 * has, where its owner's word of that has come.
 */
final case class StoreVersion(directory: String, version: Long, id: Option[String], counts: Option[KeyCounts])

/**
 * This host's copy of one state store: the very files that a provider opening its newest version would ask for, kept in
 * the host store. Called by one thread at a time.
 *
 * A version is whole when all of them are there; each is read again and again until then, so a file that the owner's
 * maintenance has removed meanwhile costs one round. What the newest two versions do not need is let go of.
 *
 * @param isAhead whether the files are those of a store that this executor is about to open itself
 * @param rests and waits between files, until it has a version for the first time
 */
private[mooring] final class StoreCopy(
    directory: Path, shelf: HostStoreFiles, access: CheckpointAccess, pace: Pace, open: OpenCopy, streams: Streams = OneStream,
    isAhead: Boolean = false, rests: Option[CpuThrottle] = None) {
  private val files: FileSystem = directory.getFileSystem(access.hadoopConf)
  private lazy val checkpoint = new CheckpointFilesShim(directory, access.hadoopConf)

  private var needed = Map.empty[String, Long] // name -> bytes, of the newest whole version
  private var byChangelog = access.writesChangelogs // how the last version was written, most likely
  private var listed = Option.empty[(String, Seq[(String, Long)])] // the last snapshot, and what its archive names
  private var withoutArchive = Option.empty[String] // the base of a lineage that was found to have no snapshot yet

  def bytes: Long = needed.values.sum

  /**
   * Fetches what is missing, and answers how many bytes that were. FileNotFoundException when the version can not be had.
   * `isHeld` tells whether the copy is still this executor's: else somebody else may use the files by now.
   */
  def bringTo(wanted: StoreVersion, isHeld: => Boolean): Long =
    try fetched(wanted, isHeld)
    finally open.endTurn()

  /** What is open, and nobody's yet, goes on by changelogs; no other file is fetched. A task may be about to come. */
  def goOn(wanted: StoreVersion): Unit =
    try for (id <- wanted.id if open.isWaiting) needed = new Round(isHurried = true).wentOn(wanted.version, id, wanted.counts)
    finally open.endTurn()

  private def fetched(wanted: StoreVersion, isHeld: => Boolean): Long = {
    val (round, began) = (new Round, System.nanoTime())
    try fetched(round, wanted, isHeld)
    finally if (isAhead) shelf.came(round.names, (System.nanoTime() - began) / 1000000)
  }

  private def fetched(round: Round, wanted: StoreVersion, isHeld: => Boolean): Long = {
    val now = wanted.id match {
      case _ if wanted.version == 0 => Map.empty[String, Long]
      case Some(id) => round.uniquelyNamed(wanted.version, id, wanted.counts)
      case None => round.snapshotBefore(wanted.version)
    }
    // Of what was here when the round began: what came meanwhile is an active's.
    if (isHeld) shelf.forget(round.present.keySet -- now.keySet -- needed.keySet)
    shelf.touch()
    needed = now
    // What is damaged goes, and comes anew with the next version.
    if (!round.opened.forall(opened(_, isHeld))) now.keys.foreach(shelf.sound(_, readIt = true))
    round.fetched
  }

  /** The wait may have been for the batch in which its task came here. */
  private def opened(copied: CopiedVersion, isHeld: => Boolean): Boolean = {
    if (!open.isOpen) open.awaitQuiet(isHeld)
    !isHeld || open.bringTo(copied)
  }

  /** Its files stay until something else needs the room. */
  def close(): Unit = open.close()

  private final class Round(isHurried: Boolean = false) {
    val present: Map[String, Long] = shelf.kept
    private var brought = Map.empty[String, Long]
    var fetched = 0L

    def names: Set[String] = brought.keySet

    /** How an instance opens the version, where that is by a changelog. */
    var opened = Option.empty[CopiedVersion]

    /** Of format v2: the version's own snapshot, else its changelog and all it builds on. */
    def uniquelyNamed(version: Long, id: String, counts: Option[KeyCounts]): Map[String, Long] = {
      val base = s"${version}_$id"
      if (present.contains(s"$base.zip")) snapshot(base)
      else Seq(byChangelog, !byChangelog).iterator.flatMap { changelogFirst =>
        if (changelogFirst) fetch(s"$base.changelog").map { own => byChangelog = true; own ++ byLineage(version, id, counts) }
        else fetch(s"$base.zip").map { _ => byChangelog = false; snapshot(base) }
      }.nextOption().getOrElse(throw new FileNotFoundException(s"$directory has no version $base any more"))
    }

    /** What an open copy goes on by; else the newest snapshot that this host has or can get, and the changelogs after it. */
    private def byLineage(version: Long, id: String, counts: Option[KeyCounts]): Map[String, Long] =
      lineage(version, id, counts) match {
        case None =>
          opened = Some(CopiedVersion(Seq(version -> id), hasColumnFamilies = true, counts))
          snapshot(s"${version}_$id")
        case Some(copied) => goneOn(copied).getOrElse(fromSnapshot(s"${version}_$id", earlier(copied), copied))
      }

    /** None for a version that has made a column family: it has a snapshot besides, which alone tells of that. */
    private def lineage(version: Long, id: String, counts: Option[KeyCounts]): Option[CopiedVersion] = {
      val read = lineageIn(s"${version}_$id.changelog")
      Option.unless(read.hasColumnFamilies && fetch(s"${version}_$id.zip").isDefined)(
        CopiedVersion(read.versions :+ (version -> id), read.hasColumnFamilies, counts))
    }

    private def lineageIn(changelog: String) = StateFiles.lineage(checkpoint, new Path(directory, changelog), access.codec)

    private def earlier(copied: CopiedVersion) = (copied.before ++ copied.versions.init).map { case (version, id) => s"${version}_$id" }

    /** What the version needs, when the open copy could go on to it. */
    private def goneOn(read: CopiedVersion): Option[Map[String, Long]] = {
      val copied = if (open.isOpen) uncut(read) else read
      val versions = earlier(copied)
      val missed = versions.reverse.takeWhile(name => !needed.contains(s"$name.changelog")).reverse
      val isThere = open.isOpen && missed.size < versions.size // else it stands at none of them
      val changelogs = if (isThere) fetchAll(missed.map(name => s"$name.changelog")) else Nil
      Option.when(isThere && changelogs.forall(_.isDefined) && open.goOn(copied))(needed ++ changelogs.flatten.flatten)
    }

    /**
     * Once a snapshot is uploaded the lineages of later versions begin with it. A copy that has missed its version stands at
     * none of these, but may go on by that version's own changelog, which leads on to the versions before.
     */
    private def uncut(read: CopiedVersion): CopiedVersion = {
      val isCut = !read.hasColumnFamilies && !earlier(read).exists(name => needed.contains(s"$name.changelog"))
      val first = read.versions.headOption.filter(_ => isCut).map { case (version, id) => s"${version}_$id.changelog" }
      try first.filter(fetch(_).isDefined).fold(read) { name =>
        read.copy(before = lineageIn(name).versions)
      } catch {
        case e: ClosedByInterruptException => throw e
        case NonFatal(_) => read // nobody else needs that changelog: it may be damaged, and the snapshot is there
      }
    }

    /** What is needed then; the same as before when it could not. */
    def wentOn(version: Long, id: String, counts: Option[KeyCounts]): Map[String, Long] = {
      val gone = for (own <- fetch(s"${version}_$id.changelog"); copied <- lineage(version, id, counts); all <- goneOn(copied)) yield all ++ own
      gone.getOrElse(needed)
    }

    private def fromSnapshot(changelog: String, versions: Seq[String], copied: CopiedVersion): Map[String, Long] = {
      val (base, later) = baseOf(changelog, versions)
      opened = Some(copied)
      base.fold(Map.empty[String, Long])(snapshot) ++ fetchAll(later.map(name => s"$name.changelog")).zip(later).flatMap {
        case (found, name) => found.getOrElse(throw new FileNotFoundException(s"$directory has no $name.changelog any more"))
      }
    }

    private def baseOf(changelog: String, versions: Seq[String]): (Option[String], Seq[String]) = {
      val isFirst = versions.isEmpty && changelog.startsWith("1_") // of all: it needs its own changelog only
      if (versions.isEmpty && !isFirst) throw new FileNotFoundException(s"$changelog.changelog names no earlier version")
      val base = versions.reverseIterator.find(name => present.contains(s"$name.zip"))
        .orElse(versions.headOption.filter(hasSnapshot)).orElse(if (isFirst) None else newestUploadedLate(versions))
      if (base.isEmpty && !isFirst && !versions.head.startsWith("1_")) // only the first versions of all have no snapshot before them
        throw new FileNotFoundException(s"$directory has no snapshot before $changelog any more")
      base -> base.fold(versions)(found => versions.drop(versions.indexOf(found) + 1))
    }

    /** After the last of them was begun, so that they do not begin with it. It is looked for when their first changelog is gone. */
    private def newestUploadedLate(versions: Seq[String]): Option[String] =
      if (fetch(s"${versions.head}.changelog").isDefined) None
      else {
        val there = directoryListing.map(_.getPath.getName).toSet
        versions.reverseIterator.find(name => there.contains(s"$name.zip"))
      }

    /** Before the first snapshot a lineage begins with a changelog. */
    private def hasSnapshot(name: String): Boolean = !withoutArchive.contains(name) && {
      val found = fetch(s"$name.zip").isDefined
      withoutArchive = Option.when(!found)(name)
      found
    }

    private def snapshot(name: String): Map[String, Long] = {
      val archive = fetch(s"$name.zip").getOrElse(throw new FileNotFoundException(s"$directory has no $name.zip any more"))
      if (!listed.exists(_._1 == name))
        listed = Some(name -> Using.resource(checkpoint.open(new Path(directory, s"$name.zip")))(StateFiles.neededBy))
      archive ++ immutable(listed.fold(Seq.empty[(String, Long)])(_._2))
    }

    /** Of format v1, whose archives and changelogs are not kept, as a retried batch writes them again. */
    def snapshotBefore(version: Long): Map[String, Long] = {
      val archive = new Path(directory, s"$version.zip")
      val newest = if (files.exists(archive)) Some(archive) else newestBefore(version)
      newest.fold(Map.empty[String, Long])(path => immutable(Using.resource(files.open(path))(StateFiles.neededBy)))
    }

    private def newestBefore(version: Long): Option[Path] = directoryListing.map(_.getPath)
      .filter(_.getName.endsWith(".zip")).flatMap(path => path.getName.stripSuffix(".zip").toLongOption.map(_ -> path))
      .filter(_._1 <= version).maxByOption(_._1).map(_._2)

    /** A partition that has no state in this operator has no directory. */
    private def directoryListing: Array[FileStatus] =
      try files.listStatus(directory) catch { case _: FileNotFoundException => Array.empty }

    private def immutable(listed: Seq[(String, Long)]): Map[String, Long] = fetchAll(listed.map(_._1)).zip(listed).flatMap {
      case (files, (path, bytes)) =>
        val found = files.getOrElse(throw new FileNotFoundException(s"$directory has no $path any more"))
        for ((name, length) <- found if length != bytes) {
          shelf.forget(name)
          throw new IOException(s"$directory/$path has $length bytes and should have $bytes")
        }
        found
    }.toMap

    /** The file's name and length, when this host has it or gets it; None when the checkpoint has it not. */
    private def fetch(path: String): Option[Map[String, Long]] = fetchAll(Seq(path)).head

    /** Of each path the file's name and length, and those of its checksum, if it has one in a file of its own. */
    private def fetchAll(paths: Seq[String]): Seq[Option[Map[String, Long]]] = {
      val found = here(paths)
      val names = found.toMap
      val proofs = if (access.hasChecksums) here(for ((path, name) <- found if path == name) yield s"$path.crc").toMap else Map.empty[String, String]
      paths.map { path =>
        names.get(path).map(name => Map(name -> length(name)) ++ proofs.get(s"$path.crc").map(proof => proof -> length(proof)))
      }
    }

    /** The paths of the files that are here, now at the latest, and their names. What is kept is proved when it is used. */
    private def here(paths: Seq[String]): Seq[(String, String)] = {
      val named = paths.map(path => path -> path.substring(path.lastIndexOf('/') + 1))
      val missing = named.filterNot { case (_, name) => isHere(name) }
      val resting = rests.filter(_ => needed.isEmpty)
      def comes(path: String, name: String) = resting.fold(bring(path, name, isHurried))(_.around(bring(path, name)))
      val came = streams.atOnce(missing.map { case (path, name) => () => comes(path, name).map(name -> _) }).flatten
      fetched += came.map(_._2).sum
      brought ++= came
      named.filter { case (_, name) => isHere(name) }
    }

    private def isHere(name: String): Boolean = present.contains(name) || brought.contains(name)
    private def length(name: String): Long = present.getOrElse(name, brought(name))
  }

  /** The length of the file; None when the checkpoint has it not. By any thread. */
  private def bring(path: String, name: String, isHurried: Boolean = false): Option[Long] =
    try {
      val bytes = Using.resource(files.open(new Path(directory, path)))(shelf.take(name, _))
        .getOrElse(throw new IOException("there is no room"))
      pace.spent(bytes, isHurried)
      Some(bytes)
    } catch { case _: FileNotFoundException => None }
}

/** How several files are fetched: one after the other, or some at once. What fails is thrown when all have ended, or before. */
private[mooring] trait Streams {
  def atOnce[T](work: Seq[() => T]): Seq[T]
}

private object OneStream extends Streams {
  override def atOnce[T](work: Seq[() => T]): Seq[T] = work.map(_())
}

/** Lets no more than so many bytes a second pass, over all threads: who has taken some waits until they are paid for, or others do. */
private[mooring] final class Pace(bytesPerSecond: Long) {
  private var paidUntil = System.nanoTime()

  def spent(bytes: Long, isHurried: Boolean): Unit = {
    val wait = synchronized {
      paidUntil = math.max(paidUntil, System.nanoTime()) + (bytes.toDouble / bytesPerSecond * 1e9).toLong
      paidUntil - System.nanoTime()
    }
    if (wait > 0 && !isHurried) Thread.sleep(wait / 1000000)
  }
}
