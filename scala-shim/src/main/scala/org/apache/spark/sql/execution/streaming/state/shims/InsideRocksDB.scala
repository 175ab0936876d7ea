package org.apache.spark.sql.execution.streaming.state.shims

import java.lang.reflect.{InvocationTargetException, Method}
import java.util.{Map => JMap}

import org.rocksdb.{WriteOptions, RocksDB => NativeRocksDB}

import org.apache.spark.sql.execution.streaming.state.RocksDB

/** What is private in an instance of Spark 4.2's. It may throw what reflection throws, at its making. */
private final class InsideRocksDB(store: RocksDB) {
  private val methods = InsideRocksDB.methods

  def db: NativeRocksDB = call(methods.db)
  def writeOptions: WriteOptions = call(methods.writeOptions)
  def families: JMap[Short, String] = call(methods.families)

  /** With all that stock does on the way: it looks every key up to count them. */
  def replayChangelog(versions: Seq[(Long, String)]): Unit = {
    call[Any](methods.replayChangelog, versions.map { case (version, id) => (version, Option(id)) }.toArray)
    ()
  }

  /** As the store has the key of a column family. */
  def prefixed(key: Array[Byte], family: String): Array[Byte] = call(methods.prefixed, key, family)

  def counts: KeyCounts = KeyCounts(call[Long](methods.keys), call[Long](methods.internalKeys))

  def setCounts(counts: KeyCounts): Unit = {
    methods.setKeys.foreach(call[Any](_, Long.box(counts.keys)))
    methods.setInternalKeys.foreach(call[Any](_, Long.box(counts.internal)))
  }

  private def call[T](method: Method, arguments: AnyRef*): T =
    try method.invoke(store, arguments: _*).asInstanceOf[T]
    catch { case e: InvocationTargetException => throw e.getCause }
}

private object InsideRocksDB {
  /** Looked up together, so that all of it is found to be as expected, or none of it is used. */
  private lazy val methods = new Methods

  /** Named with its class before it where Spark's own inner classes use it. */
  private lazy val lastSnapshot: Option[(Method, Method)] =
    classOf[RocksDB].getDeclaredMethods.filter(_.getName.matches("(.*\\$)?lastSnapshotVersion(_\\$eq)?")).sortBy(_.getName).toSeq match {
      case Seq(get, set) if get.getReturnType == classOf[Long] && set.getParameterTypes.sameElements(Seq(classOf[Long])) =>
        Seq(get, set).foreach(_.setAccessible(true))
        Some(get -> set)
      case _ => None
    }

  /** The version from which stock counts to the next snapshot; None where this Spark has another way to count. */
  def lastSnapshotOf(store: RocksDB): Option[Long] = lastSnapshot.map { case (get, _) => get.invoke(store).asInstanceOf[Long] }

  /** Nothing is done where this Spark has another way to count. */
  def setLastSnapshot(store: RocksDB, version: Long): Unit = lastSnapshot.foreach { case (_, set) => set.invoke(store, Long.box(version)) }

  private final class Methods {
    private def method(name: String, parameters: Class[_]*): Method = {
      val found = classOf[RocksDB].getDeclaredMethod(name, parameters: _*)
      found.setAccessible(true)
      found
    }

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
}
