package io.mooring

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Path

import scala.io.{Codec, Source}

import com.fasterxml.jackson.databind.JsonNode
import io.mooring.common.Json
import org.apache.spark.shims.{FileProofs, NotUnderstood}

/**
 * A process that reads files of a checkpoint for the command line: a question in each line of its input, as JSON, and the
 * answers in the lines of its output (docs/internals.md). It ends with its input.
 */
object Proofs extends App {
  for (line <- Source.fromInputStream(System.in)(Codec(UTF_8)).getLines()) {
    System.out.write((Json.write(answer(Json.read(line))) + "\n").getBytes(UTF_8))
    System.out.flush()
  }

  private def answer(question: JsonNode): Map[String, Any] =
    try {
      val codec = question.path("codec").asText("lz4")
      if (question.has("prove")) {
        FileProofs.prove(Path.of(question.get("prove").asText()), codec)
        Map.empty
      } else Map("versions" -> FileProofs.lineage(Path.of(question.get("lineage").asText()), codec))
    } catch {
      case e: NotUnderstood => Map("unknown" -> e.getMessage)
      // whatever a damaged file makes of its reader, as an allocation of its length, is what was asked for
      case e: Throwable => Map("fault" -> s"${e.getClass.getSimpleName}: ${e.getMessage}")
    }
}
