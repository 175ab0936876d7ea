package io.mooring.common

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** Reads and writes the JSON that passes between the JVM and the agent: maps, sequences, strings, numbers and booleans. Any thread. */
object Json {
  private val mapper = new ObjectMapper()

  def read(json: String): JsonNode = mapper.readTree(json)

  def write(value: Any): String = mapper.writeValueAsString(toJava(value))

  private def toJava(value: Any): Any = value match {
    case map: Map[_, _] => map.map { case (k, v) => k.toString -> toJava(v) }.asJava
    case items: Iterable[_] => items.map(toJava).toSeq.asJava
    case other => other
  }
}
