package org.apache.spark.sql.execution.streaming.state.shims

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicReference

import org.apache.hadoop.fs.Path

import org.apache.spark.shims.CpuThrottle
import org.apache.spark.sql.execution.streaming.state.RocksDBConf
import org.apache.spark.util.Utils

/**
 * A version of one state store whose files are all on this host.
 *
 * @param versions the versions since a snapshot, with their ids, oldest first; the version itself is the last
 * @param counts   the numbers of keys in the version, if the executor that wrote it has reported them
 * @param before   versions that the first one of `versions` builds on, for an open copy that is at one of these
 */
final case class CopiedVersion(
    versions: Seq[(Long, String)], hasColumnFamilies: Boolean, counts: Option[KeyCounts], before: Seq[(Long, String)] = Nil)

/**
 * The open copies on this executor of state stores that run elsewhere: RocksDB instances at a committed version, each of which
 * waits for the provider that takes it over. Spark's registry of providers, its coordinator and its maintenance do not know
 * these instances. A copy is loaded for reading only, so it can not write to the checkpoint before it is taken over.
 *
 * Threads: the threads of `Copies` open and advance copies; the task's thread takes them (`RocksDBProviderShim.instanceFor`).
 * Depends on `RocksDB` with checkpoint ids and changelogs. Without open copies, a copy is plain files, and the
 * executor that takes over must first open RocksDB.
 */
object OpenStores {
  private val ThrottledForMs = 10000L

  private val held = new ConcurrentHashMap[String, OpenStore]() // by the store's directory in the checkpoint, which is unique

  def count: Int = held.size

  /** Whether there is an open copy of the store in this directory. */
  def has(directory: String): Boolean = held.containsKey(directory)

  /** Whether stores with this access can have open copies: they need changelogs, and versions with unique ids. */
  def arePossible(access: CheckpointAccess): Boolean =
    access.stores.enableStateStoreCheckpointIds && access.writesChangelogs

  /** Opens a copy, which takes as long as any opening. `ended` is called once, when the copy is taken over or dropped. */
  def open(directory: Path, partition: Int, copied: CopiedVersion, access: CheckpointAccess, observer: StoreObserver)(
      ended: => Unit): OpenStore = {
    val local = Directories.ofStore(s"mooring-standby-$partition")
    val reports = new ReportsAfterTakeOver(partition)
    val shim =
      try new RocksDBShim(observer, RocksDBArguments.ofCopy(directory.toString, RocksDBConf(access.stores), local, access.hadoopConf,
        copied.hasColumnFamilies, partition, reports))
      catch {
        case e: Throwable =>
          Utils.deleteRecursively(local)
          throw e
      }
    try {
      // Stock Spark loads the snapshot alone. The versions after it are replayed by `Replay`, which need not count keys.
      val (version, id) = shim.newestSnapshotHere(copied.versions).getOrElse(copied.versions.last)
      val throttle = new CpuThrottle(ThrottledForMs)
      try throttle.run(shim.loadCopy(version, id))
      finally shim.passToAnotherThread()
      if (!advanceThrottled(shim, version, copied, throttle))
        throw new IllegalStateException(s"from version $version the changelogs do not lead to ${copied.versions.last._1}")
    } catch {
      case e: Throwable =>
        shim.close()
        throw e
    }
    val opened = new OpenStore(directory.toString, shim, reports, partition, copied.hasColumnFamilies, () => ended)
    Option(held.put(opened.directory, opened)).foreach(_.drop())
    opened
  }

  /** Advances a store by one version at a time, and is throttled before each. */
  private def advanceThrottled(shim: RocksDBShim, loaded: Long, copied: CopiedVersion, throttle: CpuThrottle): Boolean = {
    val ends = copied.versions.indices.filter(copied.versions(_)._1 > loaded).map(_ + 1)
    ends.dropRight(1).forall(end => throttle.run(shim.advance(copied.versions.take(end), copied.counts))) &&
      shim.advance(copied.versions, copied.counts)
  }

  /**
   * Takes the copy of the store in this directory, for a provider that would make an instance with these arguments. A copy with
   * other arguments is dropped. Called by the task's thread, with Spark's lock of all providers: so nothing is closed here.
   */
  private[shims] def take(arguments: RocksDBArguments): Option[RocksDBShim] = Option(held.get(arguments.directory)).flatMap { copy =>
    if (arguments.hasUniqueIds && copy.isLike(arguments)) copy.take(arguments)
    else {
      copy.end()
      None
    }
  }

  private[shims] def forget(copy: OpenStore): Unit = { held.remove(copy.directory, copy); () }
}

/**
 * One open copy. It ends once: a provider takes it, at any moment, or it is dropped. The instance has a lock of its own, so a
 * provider that takes the copy while it is advanced loads after that.
 */
final class OpenStore private[shims] (
    private[shims] val directory: String, shim: RocksDBShim, reports: ReportsAfterTakeOver, partition: Int,
    hasColumnFamilies: Boolean, ended: () => Unit) {
  import OpenStore._

  private val state = new AtomicReference[State](Held)

  /** Whether a provider has taken the copy over. */
  def isTaken: Boolean = state.get == Taken

  /**
   * Advances the copy to the version by the changelogs since its own version; false when it can not, or has ended. After an
   * exception the copy can only be dropped.
   */
  def advance(copied: CopiedVersion): Boolean =
    try shim.exclusively {
      state.get == Held && copied.hasColumnFamilies == hasColumnFamilies &&
        shim.advance(copied.versions, copied.counts, copied.before)
    } finally closeIfDropped()

  /** Whether the copy should be opened again from a newer snapshot, although it can still be advanced. */
  def isOutdated(copied: CopiedVersion): Boolean = shim.isOutdated(copied.versions)

  /** Ends the copy. It is closed now, or by the thread that is using it. */
  def drop(): Unit = {
    end()
    closeIfDropped()
  }

  /** Ends the copy without closing it. `advance` and `drop` close it. */
  private[shims] def end(): Unit = if (state.compareAndSet(Held, Dropped)) {
    OpenStores.forget(this)
    ended()
  }

  private[shims] def isLike(arguments: RocksDBArguments): Boolean =
    RocksDBSettings.areSame(arguments.conf, shim.conf) && arguments.partition == partition && arguments.hasColumnFamilies == hasColumnFamilies

  /** The instance, which the caller loads and closes from now on. None when the copy has ended. */
  private[shims] def take(arguments: RocksDBArguments): Option[RocksDBShim] =
    Option.when(state.compareAndSet(Held, Taken)) {
      OpenStores.forget(this)
      ended()
      reports.passOn(arguments)
      shim.takenOver()
      shim
    }

  private def closeIfDropped(): Unit = if (state.get == Dropped) shim.closeIfFree()
}

private object OpenStore {
  sealed trait State
  case object Held extends State
  case object Taken extends State
  case object Dropped extends State
}
