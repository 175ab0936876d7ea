package io.mooring.common

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.network.util.JavaUtils

/** One row of `settings.json`, which is made from `python/mooring/settings` when the jar is built. */
final case class Setting(
    key: String, kind: String, default: Option[String], minimum: Option[Long], maximum: Option[Long],
    values: Seq[String], isPrefix: Boolean, pattern: Option[String])

/** A setting is wrong, and the application does not start. The message is for the user. */
final class InvalidSettingException(message: String) extends IllegalArgumentException(message)

/**
 * Checks and reads the application's `spark.mooring.*` settings. The table of settings is the one that Python reads as well. Made by the
 * plugin in each JVM; any thread may read it.
 */
final class SettingsTable(rows: Seq[Setting], conf: Map[String, String]) {
  private val byKey = rows.filterNot(_.isPrefix).map(r => r.key -> r).toMap
  private val prefixes = rows.filter(_.isPrefix).map(_.key)

  /** Throws InvalidSettingException for the first key or value that is wrong. */
  def check(): Unit = conf.toSeq.sorted.foreach {
    case (key, value) if key.startsWith(Names.Prefix) && !prefixes.exists(key.startsWith) =>
      byKey.get(key) match {
        case None =>
          throw new InvalidSettingException(SettingsTable.shown(key, value) +
            s": there is no such setting; nearest valid name: ${SettingsTable.nearest(key, byKey.keys)}")
        case Some(row) => checkValue(row, value)
      }
    case _ =>
  }

  def text(key: String): Option[String] = conf.get(key).orElse(byKey(key).default)
  def isOn(key: String): Boolean = text(key).exists(_.toBoolean)
  def milliseconds(key: String): Long = text(key).map(JavaUtils.timeStringAsMs).getOrElse(0L)

  /** How many copies of each task's state are kept, beside the task's own. */
  def copies: Int = text("spark.mooring.standby.replication.factor").fold(0)(_.toInt - 1)

  def count(key: String): Int = text(key).fold(0)(_.toInt)

  def bytes(key: String): Option[Long] = text(key).map(JavaUtils.byteStringAsBytes)

  private def checkValue(row: Setting, value: String): Unit = {
    def refuse(expected: String, nearest: String): Nothing = throw new InvalidSettingException(
      SettingsTable.shown(row.key, value) + s": expected $expected; nearest valid value: $nearest")
    def range(kind: String, unit: String): Unit = SettingsTable.parsed(row, value).map(_.toLong) match {
      case None => refuse(kind, row.default.getOrElse("none, leave the key out"))
      case Some(n) =>
        row.minimum.filter(n < _).foreach(m => refuse(s"$kind, at least $m$unit", s"$m$unit"))
        row.maximum.filter(n > _).foreach(m => refuse(s"$kind, at most $m$unit", s"$m$unit"))
    }
    row.kind match {
      case "boolean" => if (SettingsTable.parsed(row, value).isEmpty) refuse("true or false", row.default.getOrElse("false"))
      case "integer" => range("a whole number", "")
      case "duration" => range("a duration such as 500ms, 10s or 5m", "ms")
      case "size" => range("a size such as 64m or 10g", "b")
      case _ =>
        val valid = row.pattern.fold(row.values.isEmpty || row.values.contains(value))(value.matches)
        if (value.isEmpty || !valid)
          refuse(row.values.mkString(" or "), SettingsTable.nearestText(row, value))
    }
  }
}

object SettingsTable {
  /** For a text, `values` may describe the valid values, and not list them. Then only the default is known to be valid. */
  private def nearestText(row: Setting, value: String): String =
    if (row.kind == "enum") nearest(value, row.default.toSeq ++ row.values)
    else row.default.getOrElse("none, leave the key out")

  def read(conf: Map[String, String]): SettingsTable = {
    val stream = getClass.getClassLoader.getResourceAsStream("settings.json")
    val rows = try Json.read(new String(stream.readAllBytes(), "UTF-8")).elements().asScala.map(row).toSeq
    finally stream.close()
    new SettingsTable(rows, conf)
  }

  private def row(node: JsonNode): Setting = {
    def field(name: String) = Option(node.get(name)).filterNot(_.isNull)
    Setting(node.get("key").asText(), node.get("type").asText(), field("default").map(_.asText()),
      field("min").map(_.asLong()), field("max").map(_.asLong()),
      field("values").toSeq.flatMap(_.elements().asScala.map(_.asText())), field("prefix").exists(_.asBoolean()),
      field("pattern").map(_.asText()))
  }

  /** The value as text, in the unit of the row's kind: milliseconds or bytes. None when it is not of that kind. */
  private def parsed(row: Setting, value: String): Option[String] = Try(row.kind match {
    case "boolean" => value.toBoolean.toString
    case "integer" => value.toLong.toString
    case "duration" => JavaUtils.timeStringAsMs(value).toString
    case "size" => JavaUtils.byteStringAsBytes(value).toString
    case _ => value
  }).toOption

  private val Secret = "(?i).*(secret|password|passphrase|token|access.?key|credential|auth|jaas|[.]pem).*"

  private def shown(key: String, value: String): String = if (key.matches(Secret)) s"$key (its value is hidden)" else s"$key=$value"

  /** The candidate that differs from `text` by the fewest single-letter edits. */
  def nearest(text: String, candidates: Iterable[String]): String = candidates.minBy(c => (edits(text, c), c))

  private def edits(a: String, b: String): Int = {
    val first = (0 to b.length).toVector
    a.foldLeft(first) { (row, letter) =>
      b.indices.scanLeft(row.head + 1) { (left, j) =>
        Seq(left + 1, row(j + 1) + 1, row(j) + (if (letter == b(j)) 0 else 1)).min
      }.toVector
    }.last
  }
}
