package org.apache.spark.sql.execution.streaming.state.shims

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicReference

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkEnv
import org.apache.spark.shims.CpuThrottle
import org.apache.spark.sql.execution.streaming.state.{RocksDBConf, RocksDBEventForwarder, StateStoreId}
import org.apache.spark.util.Utils

/**
 * A version of one state store whose files are all here: the versions since a snapshot, oldest first, the version itself
 * last; and how many keys that one has, if its owner has told. `before` are those that the first one builds on, for an
 * open copy that stands at one of these.
 */
final case class CopiedVersion(
    versions: Seq[(Long, String)], hasColumnFamilies: Boolean, counts: Option[KeyCounts], before: Seq[(Long, String)] = Nil)

/**
 * The open copies of state stores that run elsewhere: RocksDB instances at a committed version, each of which waits for
 * the provider that takes it over. Spark's registry of providers, its coordinator and its maintenance know none of them,
 * and none can write to the checkpoint before it is taken over: it is loaded for reading only.
 */
object OpenStores {
  private val RestsForMs = 10000L

  private val held = new ConcurrentHashMap[String, OpenStore]() // by the directory in the checkpoint, of which ids are unique

  def count: Int = held.size

  /** Whether there is one of the store with this directory. */
  def has(directory: String): Boolean = held.containsKey(directory)

  /** Whether stores opened with this access have changelogs to go on by, and versions that can be told apart. */
  def areOf(access: CheckpointAccess): Boolean =
    access.stores.enableStateStoreCheckpointIds && access.writesChangelogs

  /** Opens the copy, which takes as long as any opening; `ended` is called once, when it is taken over or dropped. */
  def open(directory: Path, partition: Int, copied: CopiedVersion, access: CheckpointAccess, watcher: SnapshotLoadWatcher)(
      ended: => Unit): OpenStore = {
    val name = s"standby of $directory"
    val local = Utils.createExecutorLocalTempDir(SparkEnv.get.conf, s"mooring-standby-$partition")
    val reports = new ReportsOnceTaken(partition)
    val shim =
      try new RocksDBShim(watcher, directory.toString, RocksDBConf(access.stores), local, access.hadoopConf, name,
        copied.hasColumnFamilies, enableStateStoreCheckpointIds = true, partition, Some(reports), None)
      catch {
        case e: Throwable =>
          Utils.deleteRecursively(local)
          throw e
      }
    try {
      // Up to the snapshot first: what came after it need not be counted.
      val (version, id) = shim.newestSnapshotHere(copied.versions).getOrElse(copied.versions.last)
      val rests = new CpuThrottle(RestsForMs)
      rests.around(shim.load(version, Some(id), readOnly = true, loadEmpty = false))
      if (!goOnUnhurriedly(shim, version, copied, rests))
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

  /** One version after the other from that which is loaded, with waits and rests between them. */
  private def goOnUnhurriedly(shim: RocksDBShim, loaded: Long, copied: CopiedVersion, rests: CpuThrottle): Boolean = {
    val ends = copied.versions.indices.filter(copied.versions(_)._1 > loaded).map(_ + 1)
    ends.dropRight(1).forall(end => rests.around(shim.goOn(copied.versions.take(end), copied.counts))) &&
      shim.goOn(copied.versions, copied.counts)
  }

  /** The copy of this directory's store, for a provider that would make an instance with these arguments. */
  private[shims] def take(
      directory: String, conf: RocksDBConf, hasColumnFamilies: Boolean, hasIds: Boolean, partition: Int,
      forwarder: Option[RocksDBEventForwarder]): Option[RocksDBShim] = Option(held.get(directory)).flatMap { copy =>
    if (hasIds && copy.isLike(conf, partition, hasColumnFamilies)) copy.take(forwarder)
    else {
      copy.giveUp() // closing it takes time, and Spark lets no other store be asked for meanwhile
      None
    }
  }

  private[shims] def forget(copy: OpenStore): Unit = { held.remove(copy.directory, copy); () }
}

/**
 * One open copy. It is its maker's until it ends, once: a provider takes it over, at any moment, or it is dropped. The
 * instance has a lock of its own, so a provider that takes it over while it goes on loads after that.
 */
final class OpenStore private[shims] (
    private[shims] val directory: String, shim: RocksDBShim, reports: ReportsOnceTaken, partition: Int,
    hasColumnFamilies: Boolean, ended: () => Unit) {
  import OpenStore._

  private val state = new AtomicReference[State](Held)

  /** A provider has it. */
  def isTaken: Boolean = state.get == Taken

  /**
   * Goes on to the version by the changelogs since the one it stands at; false when that can not be, as when it has ended.
   * What is thrown leaves it fit only to be dropped.
   */
  def goOn(copied: CopiedVersion): Boolean =
    try shim.exclusively {
      state.get == Held && copied.hasColumnFamilies == hasColumnFamilies &&
        shim.goOn(copied.versions, copied.counts, copied.before)
    } finally closeIfDropped()

  /** Whether one that is opened now would begin with a newer snapshot, and should, although this one can still go on. */
  def isDated(copied: CopiedVersion): Boolean = shim.isDated(copied.versions)

  /** Closes it, or has it closed by the thread that is at it. */
  def drop(): Unit = {
    giveUp()
    closeIfDropped()
  }

  /** Nobody is to take it over; its maker closes it when it comes to it the next time, to bring it on or to drop it. */
  private[shims] def giveUp(): Unit = if (state.compareAndSet(Held, Dropped)) {
    OpenStores.forget(this)
    ended()
  }

  private[shims] def isLike(conf: RocksDBConf, ofPartition: Int, withColumnFamilies: Boolean): Boolean =
    conf.copy(stateStoreConf = shim.conf.stateStoreConf) == shim.conf && ofPartition == partition &&
      withColumnFamilies == hasColumnFamilies

  /** The instance, which is the caller's from now on: to be loaded, and closed. */
  private[shims] def take(forwarder: Option[RocksDBEventForwarder]): Option[RocksDBShim] =
    Option.when(state.compareAndSet(Held, Taken)) {
      OpenStores.forget(this)
      ended()
      reports.to = forwarder
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

/** What a store tells the coordinator of is told by the provider that has taken it over. */
private[shims] final class ReportsOnceTaken(partition: Int)
  extends RocksDBEventForwarder(ReportsOnceTaken.NoRun, StateStoreId("", 0, partition)) {
  @volatile var to: Option[RocksDBEventForwarder] = None
  override def reportSnapshotUploaded(version: Long): Unit = to.foreach(_.reportSnapshotUploaded(version))
}

private object ReportsOnceTaken {
  val NoRun: String = new java.util.UUID(0, 0).toString
}
