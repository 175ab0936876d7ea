package org.apache.spark.shims

import java.lang.ref.WeakReference
import java.lang.reflect.{AccessibleObject, Field, Method}
import java.util.{Map => JMap}

import org.apache.spark.scheduler.Task
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeAndComment, CodeGenerator}
import org.apache.spark.sql.execution.streaming.checkpointing.CommitLog
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.execution.streaming.state.RocksDB
import org.apache.spark.sql.internal.SQLConf

/**
 * Everything that is private in Spark 4.2 and that Mooring reaches by reflection. Each member is looked up when it is first
 * asked for: one that is missing throws there, and the others work. Nothing else in Mooring looks up members of Spark's.
 */
private[spark] object SparkInternals {

  // A streaming query.

  /** `StreamExecution.sink`. */
  lazy val querySink: Field = field(classOf[StreamExecution], "sink")

  /** `StreamExecution.uniqueSources`: what the query asks for new data, and how much of it. */
  lazy val queryUniqueSources: Field = compiledField(classOf[StreamExecution], "uniqueSources")

  /** `StreamExecution.triggerClock`. */
  lazy val queryTriggerClock: Field = compiledField(classOf[StreamExecution], "triggerClock")

  /** `MicroBatchExecution.sources`. */
  lazy val querySources: Field = field(classOf[MicroBatchExecution], "sources")

  /** `MicroBatchExecution.extraOptions`: the options of the query's writer. */
  lazy val queryWriterOptions: Field = field(classOf[MicroBatchExecution], "extraOptions")

  /** `MicroBatchExecution.watermarkTracker`. */
  lazy val queryWatermarkTracker: Field = compiledField(classOf[MicroBatchExecution], "watermarkTracker")

  /** `MicroBatchExecution.watermarkPropagator`. */
  lazy val queryWatermarkPropagator: Field = compiledField(classOf[MicroBatchExecution], "watermarkPropagator")

  /** `CommitLog.defaultVersion`: the version that the log's next entries are written in. */
  lazy val commitLogVersion: Field = field(classOf[CommitLog], "defaultVersion")

  /** The names of the state store providers that `transformWithState` runs on. */
  lazy val transformWithStateProviders: Field = found(classOf[TransformWithStateExecBase].getDeclaredFields
    .find(_.getName.endsWith("SUPPORTED_STATE_STORE_PROVIDERS")), "SUPPORTED_STATE_STORE_PROVIDERS")

  // The settings of a session.

  /** `SQLConf.settings`. */
  lazy val sqlConfSettings: Field = field(classOf[SQLConf], "settings")

  /** `SQLConf.reader`. */
  lazy val sqlConfReader: Field = field(classOf[SQLConf], "reader")

  // A state store.

  /** Methods of `RocksDB`, looked up together, so that all of it is found to be as expected, or none of it is used. */
  lazy val rocksDB: RocksDBMethods = new RocksDBMethods

  final class RocksDBMethods private[SparkInternals] () {
    private def method(name: String, parameters: Class[_]*): Method =
      accessible(classOf[RocksDB].getDeclaredMethod(name, parameters: _*))

    val replayChangelog: Method = method("replayChangelog", classOf[Array[(Long, Option[String])]])
    val db: Method = method("db")
    val writeOptions: Method = method("writeOptions")
    val families: Method = method("colFamilyIdToNameMap")
    val prefixed: Method = method("encodeStateRowWithPrefix", classOf[Array[Byte]], classOf[String])
    val keys: Method = method("numKeysOnWritingVersion")
    val internalKeys: Method = method("numInternalKeysOnWritingVersion")
    val setKeys: Seq[Method] = both("numKeys")
    val setInternalKeys: Seq[Method] = both("numInternalKeys")

    /** What a roll-back returns to, and what the next version begins with. */
    private def both(name: String): Seq[Method] =
      Seq("OnLoadedVersion", "OnWritingVersion").map(which => method(s"$name${which}_$$eq", classOf[Long]))
  }

  /**
   * `RocksDB.lastSnapshotVersion` and its setter; None where this Spark has other ones. Named with its class before it where
   * Spark's own inner classes use it.
   */
  lazy val rocksDBLastSnapshotVersion: Option[(Method, Method)] =
    classOf[RocksDB].getDeclaredMethods.filter(_.getName.matches("(.*\\$)?lastSnapshotVersion(_\\$eq)?")).sortBy(_.getName).toSeq match {
      case Seq(get, set) if get.getReturnType == classOf[Long] && set.getParameterTypes.sameElements(Seq(classOf[Long])) =>
        Some(accessible(get) -> accessible(set))
      case _ => None
    }

  // A task that waits or runs.

  /** `preferredLocs` of either kind of tasks; None where it has none. */
  def taskPreferredLocations(task: Task[_]): Option[Field] = taskField(task, "preferredLocs")

  /** `taskBinary` of either kind of tasks: its code, a broadcast. None where it has none. */
  def taskBinary(task: Task[_]): Option[Field] = taskField(task, "taskBinary")

  private def taskField(task: Task[_], name: String): Option[Field] =
    task.getClass.getDeclaredFields.find(isNamed(_, name)).map(accessible)

  // Generated code.

  /** What `CodeGenerator` has compiled in this JVM, by the class loader that it was compiled against: a cache of Guava's, under a name of Spark's own. */
  def generatedCode: JMap[(WeakReference[ClassLoader], CodeAndComment), AnyRef] = {
    val cache = valueOf(valueOf(CodeGenerator, "cache"), "cache")
    accessible(cache.getClass.getMethod("asMap")).invoke(cache).asInstanceOf[JMap[(WeakReference[ClassLoader], CodeAndComment), AnyRef]]
  }

  private def valueOf(instance: AnyRef, name: String): AnyRef = {
    val fields = Iterator.iterate[Class[_]](instance.getClass)(_.getSuperclass).takeWhile(_ != null).flatMap(_.getDeclaredFields)
    found(fields.find(isNamed(_, name)), s"${instance.getClass.getName} has no $name").get(instance)
  }

  private def field(of: Class[_], name: String): Field = accessible(of.getDeclaredField(name))

  /** One that may have its class's name before its own. */
  private def compiledField(of: Class[_], name: String): Field =
    found(of.getDeclaredFields.find(isNamed(_, name)), s"${of.getName}.$name")

  private def isNamed(field: Field, name: String) = field.getName == name || field.getName.endsWith(s"$$$name")

  private def found(field: Option[Field], name: String): Field = accessible(field.getOrElse(throw new NoSuchFieldException(name)))

  private def accessible[T <: AccessibleObject](member: T): T = {
    member.setAccessible(true)
    member
  }
}
