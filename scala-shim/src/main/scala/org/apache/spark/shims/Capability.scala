package org.apache.spark.shims

/**
 * A capability that needs private members of Spark. `SparkInternals` declares which members each capability needs. If the Spark of this JVM
 * lacks one of them, the capability is off, and everything else works.
 *
 * @param name      the capability, for the log
 * @param withoutIt what happens while the capability is off, for the log
 */
sealed abstract class Capability(val name: String, val withoutIt: String) {

  /** Whether this Spark has all members that the capability needs. The answer never changes within a JVM. */
  def isOn: Boolean = lacks.isEmpty

  /** Why the capability is off, for a message to the user. */
  def whyOff: String = s"this Spark lacks ${lacks.mkString(" and ")}"

  private[shims] def lacks: Seq[String] = SparkInternals.missing.filter(_.capability == this).map(_.name)
}

object Capability {

  /** Whether queries can run on Mooring's state store provider. */
  def isOurProviderUsable: Boolean = QuerySettings.isOn && HostStore.isOn

  case object QuerySettings extends Capability("host affinity",
    "queries run as on stock Spark")

  case object HostStore extends Capability("local store",
    "queries run on Spark's own state store provider")

  case object Drain extends Capability("drain",
    "queries can only be stopped at once (now); another way to end one is refused")

  case object OrderOfDrains extends Capability("order of drains",
    "queries are drained without regard to which one feeds which")

  case object RepeatedBatches extends Capability("repetition of batches that a sink remembers",
    "after `mooring restore`, a sink that remembers a batch may keep its state from being computed, as on stock Spark")

  case object FormatOfState extends Capability("choice of the state's format",
    "each query has the format that its session names, as on stock Spark")

  case object FormatForTools extends Capability("format of the state for Spark's own tools",
    "they read a checkpoint in the format that their session names, as on stock Spark")

  case object TransformWithState extends Capability("host affinity of transformWithState",
    "queries with transformWithState run on Spark's own state store provider")

  case object OpenCopies extends Capability("open copies of state",
    "copies are plain files, and an executor that takes over first opens RocksDB")

  case object SnapshotTurns extends Capability("snapshots at versions of each partition's own",
    "all partitions make their snapshots in the same batch, as on stock Spark")

  case object Redirection extends Capability("redirection of waiting tasks",
    "tasks that wait for a lost executor wait for spark.locality.wait, as on stock Spark")

  case object ExecutorsOnHosts extends Capability("request of executors on hosts",
    "YARN gives executors on any hosts, as on stock Spark")

  case object HintsOfHosts extends Capability("request of executors on hosts with dynamic allocation",
    "with dynamic allocation YARN gives executors on any hosts, as on stock Spark")

  case object PlacesOfPods extends Capability("places of executor pods",
    "pods of executors prefer no node, and claims have the numbers of executors, as on stock Spark")

  case object WarmUpByTasks extends Capability("warm-up by the code of running tasks",
    "an executor that joins reads a task's code with its first task")

  case object WarmUpByGeneratedCode extends Capability("warm-up by generated code",
    "an executor that joins compiles generated code with its first task")
}
