package io.mooring.restore

import java.io.{FileNotFoundException, IOException}
import java.nio.channels.ClosedByInterruptException

import scala.util.Using
import scala.util.control.NonFatal

import io.mooring.checkpoint.CheckpointFiles
import io.mooring.localstore.{ArchiveStamp, FetchAhead, HostStoreFiles}
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.spark.shims.CpuThrottle
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, CopiedVersion, KeyCounts, StateFiles}

/**
 * A committed version of one state store.
 *
 * @param directory the store's directory in the checkpoint
 * @param id        the version's unique id; None in checkpoint format v1
 * @param counts    the numbers of keys, if the executor that wrote the version has reported them by now
 */
final case class StoreVersion(directory: String, version: Long, id: Option[String], counts: Option[KeyCounts])

/**
 * This host's copy of one state store. It consists of the files that a provider needs to open the store's newest version, in the host's
 * store; and of an open RocksDB instance, if `instance` has one.
 *
 * A version is complete when all its files are here. Spark's maintenance on the store's executor may remove a file from the checkpoint
 * meanwhile. Then this attempt fails, and the next attempt is for a newer version. Files that the newest two versions do not need are
 * removed.
 *
 * Called by one thread at a time: a thread of `Copies`, a thread of `Prefetch`, or a task that opens the store. Depends on `StateFiles`:
 * the formats of archives and changelogs. Without it, a task that comes to this host fetches its state from the checkpoint.
 *
 * @param instance the store's open instance, if there is one
 * @param isAhead  whether a task of this executor is about to open the store itself
 * @param throttle slows the fetching down until the copy has its first complete version
 */
private[mooring] final class StoreCopy(
    directory: Path, hostFiles: HostStoreFiles, access: CheckpointAccess, pace: Pace, instance: OpenCopy, streams: Streams = OneStream,
    isAhead: Boolean = false, throttle: Option[CpuThrottle] = None) {
  private val files: FileSystem = directory.getFileSystem(access.hadoopConf)
  private lazy val checkpoint = new CheckpointFiles(directory, access.hadoopConf)

  private var needed = Map.empty[String, Long] // the files of the newest complete version: name -> bytes
  private var isChangelogLikely = access.writesChangelogs // whether the last version was a changelog; most likely the next one is, too
  private var listed = Option.empty[(String, Seq[(String, Long)])] // the last snapshot, and the files that its archive names
  private var withoutSnapshot = Option.empty[String] // the version that was last found to have no snapshot in the checkpoint

  def bytes: Long = needed.values.sum

  /**
   * Fetches the files of this version that are missing here, and advances the open instance. Returns the number of fetched bytes.
   * FileNotFoundException when the version is not complete in the checkpoint.
   *
   * @param isHeld whether this executor is still to hold the copy. If not, a task here may use the files: then none is removed, and the
   *               instance is left alone
   */
  def fetch(wanted: StoreVersion, isHeld: => Boolean): Long =
    try fetchAndOpen(wanted, isHeld)
    finally instance.endTurn()

  /**
   * Brings the copy to this version, if no provider has taken it over. The task may come at any moment, so an open instance is only
   * advanced by changelogs. Of plain files, the missing ones are fetched; a task that opens the store meanwhile waits for them.
   */
  def advanceBeforeUse(wanted: StoreVersion): Unit =
    try {
      if (instance.isWaiting)
        for (id <- wanted.id) needed = new Attempt(isHurried = true).afterAdvance(wanted.version, id, wanted.counts)
      else if (!instance.isOpen && needed.nonEmpty) fetchBeforeUse(wanted)
    } finally instance.endTurn()

  /** An exception is thrown to the caller. A task that waits for the files does not get it, and fetches them itself. */
  private def fetchBeforeUse(wanted: StoreVersion): Unit = {
    var failure = Option.empty[Throwable]
    def fetch(): Unit =
      try fetchAndOpen(new Attempt(isHurried = true), wanted, isHeld = false)
      catch { case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => failure = Some(e) }
    hostFiles.expect(new FetchAhead(fetch(), _)).await()
    failure.foreach(throw _)
  }

  private def fetchAndOpen(wanted: StoreVersion, isHeld: => Boolean): Long = {
    val (attempt, began) = (new Attempt, System.nanoTime())
    try fetchAndOpen(attempt, wanted, isHeld)
    finally if (isAhead) hostFiles.fetchedAhead(attempt.names, (System.nanoTime() - began) / 1000000)
  }

  private def fetchAndOpen(attempt: Attempt, wanted: StoreVersion, isHeld: => Boolean): Long = {
    val filesOfVersion = wanted.id match {
      case _ if wanted.version == 0 => Map.empty[String, Long]
      case Some(id) => attempt.filesInFormat2(wanted.version, id, wanted.counts)
      case None => attempt.filesInFormat1(wanted.version)
    }
    // Only files that were here when the attempt began are removed: a file that came meanwhile may belong to a task that runs here.
    if (isHeld) hostFiles.forget(attempt.present.keySet -- filesOfVersion.keySet -- needed.keySet)
    hostFiles.touch()
    needed = filesOfVersion
    // When the instance could not be opened, `checked` removes damaged files. They are fetched again with the next version.
    if (!attempt.versionToOpen.forall(openOrAdvance(_, isHeld))) filesOfVersion.keys.foreach(hostFiles.checked(_, readIt = true))
    attempt.fetched
  }

  /** False when the instance could not be opened. The task may come here during the wait; then the copy is not held any more. */
  private def openOrAdvance(copied: CopiedVersion, isHeld: => Boolean): Boolean = {
    if (!instance.isOpen) instance.awaitIdle(isHeld)
    !isHeld || instance.advanceOrOpen(copied)
  }

  /** Closes the open instance. The files stay until the host's store needs room. */
  def close(): Unit = instance.close()

  /**
   * One attempt to get a version. Maps of files have names and lengths.
   *
   * @param isHurried whether the limit of bytes per second does not hold: a task is about to need the files
   */
  private final class Attempt(isHurried: Boolean = false) {
    val present: Map[String, Long] = hostFiles.kept // the files that were here when the attempt began
    private var newFiles = Map.empty[String, Long] // the files that this attempt has fetched
    var fetched = 0L // bytes

    def names: Set[String] = newFiles.keySet

    /** The version at which the open instance is to be opened, when it could not be advanced; None when there is nothing to open. */
    var versionToOpen = Option.empty[CopiedVersion]

    /** The files that a version of checkpoint format v2 needs: its snapshot, or its changelog and the versions that this builds on. */
    def filesInFormat2(version: Long, id: String, counts: Option[KeyCounts]): Map[String, Long] = {
      val stem = s"${version}_$id"
      if (present.contains(s"$stem.zip")) snapshot(stem)
      else Seq(isChangelogLikely, !isChangelogLikely).iterator.flatMap { isChangelog =>
        if (isChangelog) fetch(s"$stem.changelog").map { own => isChangelogLikely = true; own ++ filesOfLineage(version, id, counts) }
        else fetch(s"$stem.zip").map { _ => isChangelogLikely = false; snapshot(stem) }
      }.nextOption().getOrElse(throw new FileNotFoundException(s"$directory has no version $stem any more"))
    }

    /**
     * The files of the versions that a changelog builds on. If the open instance could be advanced: the changelogs by which it was. Else:
     * the newest snapshot that there is, and the changelogs after it.
     */
    private def filesOfLineage(version: Long, id: String, counts: Option[KeyCounts]): Map[String, Long] =
      lineage(version, id, counts) match {
        case None =>
          versionToOpen = Some(CopiedVersion(Seq(version -> id), hasColumnFamilies = true, counts))
          snapshot(s"${version}_$id")
        case Some(copied) => advanced(copied).getOrElse(fromSnapshot(s"${version}_$id", earlier(copied), copied))
      }

    /** The versions that this version builds on. None for a version that has made a column family: only its snapshot has the family. */
    private def lineage(version: Long, id: String, counts: Option[KeyCounts]): Option[CopiedVersion] = {
      val read = lineageIn(s"${version}_$id.changelog")
      Option.unless(read.hasColumnFamilies && fetch(s"${version}_$id.zip").isDefined)(
        CopiedVersion(read.versions :+ (version -> id), read.hasColumnFamilies, counts))
    }

    private def lineageIn(changelog: String) = StateFiles.lineage(checkpoint, new Path(directory, changelog), access.codec)

    private def earlier(copied: CopiedVersion) = (copied.before ++ copied.versions.init).map { case (version, id) => s"${version}_$id" }

    /** Advances the open instance. The files that the version then needs; None when the instance could not be advanced. */
    private def advanced(read: CopiedVersion): Option[Map[String, Long]] = {
      val copied = if (instance.isOpen) withVersionsBefore(read) else read
      val versions = earlier(copied)
      val missed = versions.reverse.takeWhile(name => !needed.contains(s"$name.changelog")).reverse
      val isAtOneOfThem = instance.isOpen && missed.size < versions.size // the instance is at one of the earlier versions
      val changelogs = if (isAtOneOfThem) fetchAll(missed.map(name => s"$name.changelog")) else Nil
      Option.when(isAtOneOfThem && changelogs.forall(_.isDefined) && instance.advance(copied))(needed ++ changelogs.flatten.flatten)
    }

    /**
     * The version, with the versions before its lineage added. Once a snapshot is uploaded, the lineages of later versions begin with the
     * snapshot's version. A copy that has missed that version is at no version of the lineage. But the changelog of the snapshot's version
     * names the versions before it.
     */
    private def withVersionsBefore(read: CopiedVersion): CopiedVersion = {
      val isCut = !read.hasColumnFamilies && !earlier(read).exists(name => needed.contains(s"$name.changelog"))
      val first = read.versions.headOption.filter(_ => isCut).map { case (version, id) => s"${version}_$id.changelog" }
      try first.filter(fetch(_).isDefined).fold(read) { name =>
        read.copy(before = lineageIn(name).versions)
      } catch {
        case e: ClosedByInterruptException => throw e
        case NonFatal(_) => read // the changelog may be damaged: the snapshot is used instead
      }
    }

    /** Advances the open instance by changelogs only. The files that are then needed; those of before when it could not be advanced. */
    def afterAdvance(version: Long, id: String, counts: Option[KeyCounts]): Map[String, Long] = {
      val files = for {
        own <- fetch(s"${version}_$id.changelog")
        copied <- lineage(version, id, counts)
        all <- advanced(copied)
      } yield all ++ own
      files.getOrElse(needed)
    }

    private def fromSnapshot(stem: String, versions: Seq[String], copied: CopiedVersion): Map[String, Long] = {
      val (base, later) = baseOf(stem, versions)
      versionToOpen = Some(copied)
      base.fold(Map.empty[String, Long])(snapshot) ++ fetchAll(later.map(name => s"$name.changelog")).zip(later).flatMap {
        case (found, name) => found.getOrElse(throw new FileNotFoundException(s"$directory has no $name.changelog any more"))
      }
    }

    /**
     * The snapshot to begin with, if any, and the versions after it whose changelogs are needed. `stem` names the version that builds
     * on `versions`, as its files are named without their endings.
     */
    private def baseOf(stem: String, versions: Seq[String]): (Option[String], Seq[String]) = {
      val isFirst = versions.isEmpty && stem.startsWith("1_") // the checkpoint's first version needs its own changelog only
      if (versions.isEmpty && !isFirst) throw new FileNotFoundException(s"$stem.changelog names no earlier version")
      val base = versions.reverseIterator.find(name => present.contains(s"$name.zip"))
        .orElse(versions.headOption.filter(hasSnapshot)).orElse(if (isFirst) None else newestUploadedLate(versions))
      if (base.isEmpty && !isFirst && !versions.head.startsWith("1_")) // only the checkpoint's first versions have no snapshot before them
        throw new FileNotFoundException(s"$directory has no snapshot before $stem any more")
      base -> base.fold(versions)(found => versions.drop(versions.indexOf(found) + 1))
    }

    /**
     * The newest of these versions with a snapshot in the checkpoint. A lineage does not begin with a snapshot that was uploaded after the
     * lineage's last version was begun. Such a snapshot is looked for only when the lineage's first changelog is gone.
     */
    private def newestUploadedLate(versions: Seq[String]): Option[String] =
      if (fetch(s"${versions.head}.changelog").isDefined) None
      else {
        val inCheckpoint = directoryListing.map(_.getPath.getName).toSet
        versions.reverseIterator.find(name => inCheckpoint.contains(s"$name.zip"))
      }

    /** Whether the version has a snapshot. False for the first version of a lineage that was written before the first snapshot. */
    private def hasSnapshot(name: String): Boolean = !withoutSnapshot.contains(name) && {
      val found = fetch(s"$name.zip").isDefined
      withoutSnapshot = Option.when(!found)(name)
      found
    }

    private def snapshot(name: String): Map[String, Long] = {
      val archive = fetch(s"$name.zip").getOrElse(throw new FileNotFoundException(s"$directory has no $name.zip any more"))
      if (!listed.exists(_._1 == name))
        listed = Some(name -> Using.resource(checkpoint.open(new Path(directory, s"$name.zip")))(StateFiles.neededBy))
      archive ++ immutable(listed.fold(Seq.empty[(String, Long)])(_._2))
    }

    /**
     * The files of a version of format v1: those of its newest snapshot. Archives and changelogs are not kept, as a repeated batch
     * overwrites them.
     */
    def filesInFormat1(version: Long): Map[String, Long] = {
      val archive = new Path(directory, s"$version.zip")
      val newest = if (files.exists(archive)) Some(archive) else newestBefore(version)
      newest.fold(Map.empty[String, Long])(path => immutable(Using.resource(ArchiveStamp.asThisJvmReads(path.getName, files.open(path)))(StateFiles.neededBy)))
    }

    private def newestBefore(version: Long): Option[Path] = directoryListing.map(_.getPath)
      .filter(_.getName.endsWith(".zip")).flatMap(path => path.getName.stripSuffix(".zip").toLongOption.map(_ -> path))
      .filter(_._1 <= version).maxByOption(_._1).map(_._2)

    /** Empty where there is no directory: the operator has no state in this partition. */
    private def directoryListing: Array[FileStatus] =
      try files.listStatus(directory) catch { case _: FileNotFoundException => Array.empty }

    private def immutable(listed: Seq[(String, Long)]): Map[String, Long] = fetchAll(listed.map(_._1)).zip(listed).flatMap {
      case (files, (path, bytes)) =>
        val found = files.getOrElse(throw new FileNotFoundException(s"$directory has no $path any more"))
        for ((name, length) <- found if length != bytes) {
          hostFiles.forget(name)
          throw new IOException(s"$directory/$path has $length bytes and should have $bytes")
        }
        found
    }.toMap

    /** The file's name and length, once the host has the file; None when the checkpoint does not have it. */
    private def fetch(path: String): Option[Map[String, Long]] = fetchAll(Seq(path)).head

    /**
     * For each path: name and length of the file and of its checksum file, if it has one. None when the checkpoint does not have the
     * file.
     */
    private def fetchAll(paths: Seq[String]): Seq[Option[Map[String, Long]]] = {
      val found = fetchMissing(paths)
      val names = found.toMap
      val checksums =
        if (access.hasChecksums) fetchMissing(for ((path, name) <- found if path == name) yield s"$path.crc").toMap
        else Map.empty[String, String]
      paths.map { path =>
        names.get(path).map(name => Map(name -> length(name)) ++ checksums.get(s"$path.crc").map(file => file -> length(file)))
      }
    }

    /**
     * Fetches the files that are missing here. Returns path and name of each file that is here afterwards. Kept files are not checked
     * now, but when they are used.
     */
    private def fetchMissing(paths: Seq[String]): Seq[(String, String)] = {
      val named = paths.map(path => path -> path.substring(path.lastIndexOf('/') + 1))
      val missing = named.filterNot { case (_, name) => isHere(name) }
      val throttleNow = throttle.filter(_ => needed.isEmpty)
      def fetchNow(path: String, name: String) = throttleNow.fold(fetchFile(path, name, isHurried))(_.run(fetchFile(path, name)))
      val nowHere = streams.atOnce(missing.map { case (path, name) => () => fetchNow(path, name).map(name -> _) }).flatten
      fetched += nowHere.map(_._2).sum
      newFiles ++= nowHere
      named.filter { case (_, name) => isHere(name) }
    }

    private def isHere(name: String): Boolean = present.contains(name) || newFiles.contains(name)
    private def length(name: String): Long = present.getOrElse(name, newFiles(name))
  }

  /** Fetches a file. Returns its length; None when the checkpoint does not have it. Called by any thread. */
  private def fetchFile(path: String, name: String, isHurried: Boolean = false): Option[Long] =
    try {
      val bytes = Using.resource(files.open(new Path(directory, path)))(hostFiles.keepStream(name, _))
        .getOrElse(throw new IOException("there is no room"))
      if (!isHurried) pace.spent(bytes)
      Some(bytes)
    } catch { case _: FileNotFoundException => None }
}

/**
 * How several files are fetched: one after the other, or several at once. `atOnce` throws when a fetch fails, at the latest when all have
 * ended.
 */
private[mooring] trait Streams {
  def atOnce[T](work: Seq[() => T]): Seq[T]
}

private object OneStream extends Streams {
  override def atOnce[T](work: Seq[() => T]): Seq[T] = work.map(_())
}

/** Limits the bytes per second of all threads together. A thread waits after it has fetched bytes. */
private[mooring] final class Pace(bytesPerSecond: Long) {
  private var paidUntil = System.nanoTime() // when all bytes that were fetched so far would be fetched at the limit

  def spent(bytes: Long): Unit = {
    val wait = synchronized {
      paidUntil = math.max(paidUntil, System.nanoTime()) + (bytes.toDouble / bytesPerSecond * 1e9).toLong
      paidUntil - System.nanoTime()
    }
    if (wait > 0) Thread.sleep(wait / 1000000)
  }
}
