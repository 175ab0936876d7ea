package org.apache.spark.shims

import java.lang.ref.WeakReference
import java.lang.reflect.{Field, Method}
import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.Task
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend
import org.apache.spark.sql.catalyst.expressions.codegen.CodeAndComment
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.execution.streaming.state.RocksDB
import org.apache.spark.sql.internal.SQLConf

/**
 * All private members of Spark that Mooring reaches by reflection: here those that all lines of Spark have, and in `CommitLogVersion`
 * and `InternalsOfLine` those that differ. No other file of Mooring looks up members of Spark. Each member
 * is declared with the capability that needs it, and looked up when it is first used: a missing member throws there. Code that can
 * work without a member asks its `Capability` first whether it is on. Called by any thread.
 */
private[spark] object SparkInternals extends PrivateMembers with CommitLogVersion with InternalsOfLine {

  // A streaming query.

  val querySink = field("StreamExecution.sink", Capability.RepeatedBatches)(classOf[StreamExecution])

  /** The sources that the query asks for new data, each with its read limit. */
  val queryUniqueSources = field("StreamExecution.uniqueSources", Capability.Drain)(classOf[StreamExecution])
  val queryTriggerClock = field("StreamExecution.triggerClock", Capability.Drain)(classOf[StreamExecution])
  val queryWatermarkTracker = field("MicroBatchExecution.watermarkTracker", Capability.Drain)(classOf[MicroBatchExecution])
  val queryWatermarkPropagator = field("MicroBatchExecution.watermarkPropagator", Capability.Drain)(classOf[MicroBatchExecution])
  val querySources = field("MicroBatchExecution.sources", Capability.OrderOfDrains)(classOf[MicroBatchExecution])

  /** The options of the query's writer. */
  val queryWriterOptions = field("MicroBatchExecution.extraOptions", Capability.OrderOfDrains)(classOf[MicroBatchExecution])

  // The settings of a session.

  val sqlConfSettings = field("SQLConf.settings", Capability.FormatForTools)(classOf[SQLConf])
  val sqlConfReader = field("SQLConf.reader", Capability.FormatForTools)(classOf[SQLConf])

  // A state store.

  /** Methods of `RocksDB`. They are looked up together: when one is missing, none is used. */
  lazy val rocksDB: RocksDBMethods = new RocksDBMethods

  final class RocksDBMethods private[SparkInternals] () {
    val replayChangelog: Method = replayOfChangelog.member
    val db: Method = nativeDB.member
    val writeOptions: Method = optionsOfWrites.member
    val families: Method = columnFamilies.member
    val prefixed: Method = encodedKey.member
    val keys: Method = keysWritten.member
    val internalKeys: Method = internalKeysWritten.member
    val setKeys: Seq[Method] = settersOfKeys.map(_.member)
    val setInternalKeys: Seq[Method] = settersOfInternalKeys.map(_.member)
  }

  private val replayOfChangelog = methodOfRocksDB("replayChangelog", classOf[Array[(Long, Option[String])]])
  private val nativeDB = methodOfRocksDB("db")
  private val optionsOfWrites = methodOfRocksDB("writeOptions")
  private val columnFamilies = methodOfRocksDB("colFamilyIdToNameMap")
  private val encodedKey = methodOfRocksDB("encodeStateRowWithPrefix", classOf[Array[Byte]], classOf[String])
  private val keysWritten = methodOfRocksDB("numKeysOnWritingVersion")
  private val internalKeysWritten = methodOfRocksDB("numInternalKeysOnWritingVersion")
  private val settersOfKeys = bothSetters("numKeys")
  private val settersOfInternalKeys = bothSetters("numInternalKeys")

  /** The setters of a count for the loaded version, to which a roll-back returns, and for the version that is written. */
  private def bothSetters(name: String): Seq[Access[Method]] =
    Seq("OnLoadedVersion", "OnWritingVersion").map(which => methodOfRocksDB(s"$name${which}_$$eq", classOf[Long]))

  private def methodOfRocksDB(name: String, parameters: Class[_]*): Access[Method] =
    access(s"RocksDB.$name", Capability.OpenCopies)(accessible(classOf[RocksDB].getDeclaredMethod(name, parameters: _*)))

  /**
   * `RocksDB.lastSnapshotVersion` and its setter; None where this Spark has others. The compiler puts the class's name before
   * theirs when inner classes use them.
   */
  def rocksDBLastSnapshotVersion: Option[(Method, Method)] = lastSnapshotVersion.ifThere
  private val lastSnapshotVersion = access("RocksDB.lastSnapshotVersion", Capability.SnapshotTurns) {
    classOf[RocksDB].getDeclaredMethods.filter(_.getName.matches("(.*\\$)?lastSnapshotVersion(_\\$eq)?")).sortBy(_.getName).toSeq match {
      case Seq(get, set) if get.getReturnType == classOf[Long] && set.getParameterTypes.sameElements(Seq(classOf[Long])) =>
        accessible(get) -> accessible(set)
      case others => throw new NoSuchMethodException(others.map(_.getName).mkString(", "))
    }
  }

  // The scheduler on YARN. None where this Spark has no YARN.

  def applicationMaster: Option[Field] = masterOfYarn.ifThere.flatten
  def expectedExecutors: Option[Field] = expectedOnYarn.ifThere.flatten
  private val masterOfYarn = fieldOfYarn("amEndpoint")
  private val expectedOnYarn = fieldOfYarn("totalExpectedExecutors")
  def requestedExecutors: Option[Field] = requestedTotals.ifThere
  private val requestedTotals =
    field("CoarseGrainedSchedulerBackend.requestedTotalExecutorsPerResourceProfile", Capability.ExecutorsOnHosts)(classOf[CoarseGrainedSchedulerBackend])

  /** The hosts that each running stage prefers, as the manager of dynamic allocation has them. */
  def placementHints: Option[Field] = hintsOfStages.ifThere
  private val hintsOfStages = access("ExecutorAllocationListener.stageAttemptToExecutorPlacementHints", Capability.HintsOfHosts) {
    compiledField(uninitialized("org.apache.spark.ExecutorAllocationManager$ExecutorAllocationListener"), "stageAttemptToExecutorPlacementHints")
  }

  private def fieldOfYarn(name: String): Access[Option[Field]] =
    access(s"YarnSchedulerBackend.$name", Capability.ExecutorsOnHosts) {
      ifPresent("org.apache.spark.scheduler.cluster.YarnSchedulerBackend").map(compiledField(_, name))
    }

  // The pods of executors on Kubernetes. None where this Spark has no Kubernetes.

  def podAllocator: Option[Field] = allocatorOfPods.ifThere.flatten
  def podsJustCreated: Option[Field] = createdPods.ifThere.flatten
  def podsKnownToScheduler: Option[Field] = knownPods.ifThere.flatten
  def podsSeen: Option[Field] = seenPods.ifThere.flatten
  private val allocatorOfPods = fieldOfPods("KubernetesClusterSchedulerBackend", "podAllocator")
  private val createdPods = fieldOfPods("ExecutorPodsAllocator", "newlyCreatedExecutors")
  private val knownPods = fieldOfPods("ExecutorPodsAllocator", "schedulerKnownNewlyCreatedExecs")
  private val seenPods = fieldOfPods("ExecutorPodsAllocator", "lastSnapshot")

  private def fieldOfPods(of: String, name: String): Access[Option[Field]] =
    access(s"$of.$name", Capability.PlacesOfPods) {
      ifPresent(s"org.apache.spark.scheduler.cluster.k8s.$of").map(compiledField(_, name))
    }

  // A task that waits or runs.

  /** `preferredLocs` of `ShuffleMapTask` or `ResultTask`; None for another kind of task. */
  def taskPreferredLocations(task: Task[_]): Option[Field] = preferredLocations.ifThere.flatMap(_.get(task.getClass.getName))
  private val preferredLocations = access("Task.preferredLocs", Capability.Redirection)(fieldsOfTasks("preferredLocs"))

  /** `taskBinary` of `ShuffleMapTask` or `ResultTask`: the task's code, a broadcast. None for another kind of task. */
  def taskBinary(task: Task[_]): Option[Field] = code.ifThere.flatMap(_.get(task.getClass.getName))
  private val code = access("Task.taskBinary", Capability.WarmUpByTasks)(fieldsOfTasks("taskBinary"))

  private def fieldsOfTasks(name: String): Map[String, Field] = Seq("ShuffleMapTask", "ResultTask").map { kind =>
    val of = uninitialized(s"org.apache.spark.scheduler.$kind")
    of.getName -> compiledField(of, name)
  }.toMap

  // Generated code.

  /** The code that `CodeGenerator` has compiled in this JVM, by class loader. The cache is Guava's, under a package name of Spark. */
  def generatedCode: Seq[(WeakReference[ClassLoader], CodeAndComment)] = compiledCode.member()
  private val compiledCode = access("CodeGenerator.cache", Capability.WarmUpByGeneratedCode) {
    val generator = uninitialized("org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$")
    val ofGenerator = compiledField(generator, "cache")
    val classes = Iterator.iterate[Class[_]](ofGenerator.getType)(_.getSuperclass).takeWhile(_ != null)
    val ofGuava = found(classes.flatMap(_.getDeclaredFields).find(isNamed(_, "cache")), s"${ofGenerator.getType.getName}.cache")
    val asMap = ofGuava.getType.getMethod("asMap")
    () => asMap.invoke(ofGuava.get(ofGenerator.get(generator.getField("MODULE$").get(null)))).asInstanceOf[JMap[AnyRef, AnyRef]]
      .keySet.asScala.toSeq.collect { case KeyOfCode(loader, code) => loader -> code }
  }
}

/** A key of the cache of generated code: a tuple with the class loader and the code, and from Spark 4.3 on something between them. */
private object KeyOfCode {
  def unapply(key: Any): Option[(WeakReference[ClassLoader], CodeAndComment)] = key match {
    case parts: Product =>
      val loader = parts.productIterator.collectFirst { case reference: WeakReference[_] => reference.asInstanceOf[WeakReference[ClassLoader]] }
      val code = parts.productIterator.collectFirst { case code: CodeAndComment => code }
      loader.zip(code)
    case _ => None
  }
}
