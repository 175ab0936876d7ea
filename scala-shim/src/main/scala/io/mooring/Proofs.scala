package io.mooring

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Path

import scala.io.{Codec, Source}

import com.fasterxml.jackson.databind.JsonNode
import io.mooring.common.Json
import org.apache.spark.shims.{FileProofs, NotUnderstood}

/**
 * The main class of a process that reads files of a checkpoint for the command line. Each line of its input is a question, as JSON; each
 * line of its output is the answer (docs/internals.md). The process ends at the end of its input. It runs without a Spark application, on
 * one thread. Depends on `FileProofs`.
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
      // any failure of the reader is an answer: a damaged length, for example, may lead to an OutOfMemoryError
      case e: Throwable => Map("fault" -> s"${e.getClass.getSimpleName}: ${e.getMessage}")
    }
}
