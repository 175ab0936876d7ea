package io.mooring.election

import io.mooring.common.Json

/**
 * One report of the agent about the election. The class `Standing` of the agent's Python code has the same fields.
 *
 * @param leader    the leading driver, for messages; in state Refused the fault in an option of the store
 * @param saidAt    when the agent looked, in milliseconds since 1970 by the wall clock, which runs while a host sleeps
 * @param goodForMs how long after `saidAt` the report is valid, whatever other drivers do
 * @param contested whether another driver waits for its turn
 * @param epoch     in state Leading: stays the same as long as no other driver has led
 */
final case class Standing(
    state: Standing.State, leader: String, saidAt: Long, goodForMs: Long, contested: Boolean, epoch: String)

object Standing {
  sealed trait State
  /** Another driver leads, and this driver waits for its turn. */
  case object Waiting extends State
  /** This driver leads. */
  case object Leading extends State
  /** The agent has no connection to the store at the moment; or no report has come yet. */
  case object Unknown extends State
  /** The agent takes part in no election. */
  case object NoElection extends State
  /** An option of the store is wrong; `leader` has the message for the user. */
  case object Refused extends State

  /** The standing before the agent's first report. */
  val NotReported: Standing = Standing(Unknown, "", 0, 0, contested = false, "")

  private val byName = Map("waiting" -> Waiting, "leading" -> Leading, "unknown" -> Unknown, "none" -> NoElection,
    "refused" -> Refused)

  def parse(json: String): Standing = {
    val read = Json.read(json)
    Standing(byName.getOrElse(read.get("state").asText(), Unknown), read.get("leader").asText(), read.get("said-at").asLong(),
      read.get("good-for-ms").asLong(), read.get("contested").asBoolean(), read.get("epoch").asText())
  }
}
