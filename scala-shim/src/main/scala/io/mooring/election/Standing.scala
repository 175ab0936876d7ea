package io.mooring.election

import io.mooring.common.Json

/**
 * What the agent knows of the election at one moment. `Standing` of the agent's Python code is the same.
 *
 * @param leader    who leads, for a message; in state Refused what is wrong with an option of the store
 * @param saidAt    milliseconds since 1970 at which the agent looked; a host that sleeps does not stop that clock
 * @param goodForMs how long from then on the standing holds, whatever other drivers do
 * @param contested whether another driver waits for its turn
 * @param epoch     when this driver leads: stays the same while no other driver has led
 */
final case class Standing(
    state: Standing.State, leader: String, saidAt: Long, goodForMs: Long, contested: Boolean, epoch: String)

object Standing {
  sealed trait State
  /** Another driver leads, and this one waits for its turn. */
  case object Waiting extends State
  case object Leading extends State
  /** The agent has no connection to the store at the moment, or has not reported yet. */
  case object Unknown extends State
  /** The agent can take part in no election. */
  case object NoElection extends State
  /** An option of the store is wrong: `leader` says which, for the user. */
  case object Refused extends State

  /** Before the agent's first report. */
  val NotReported: Standing = Standing(Unknown, "", 0, 0, contested = false, "")

  private val byName = Map("waiting" -> Waiting, "leading" -> Leading, "unknown" -> Unknown, "none" -> NoElection,
    "refused" -> Refused)

  def parse(json: String): Standing = {
    val read = Json.read(json)
    Standing(byName.getOrElse(read.get("state").asText(), Unknown), read.get("leader").asText(), read.get("said-at").asLong(),
      read.get("good-for-ms").asLong(), read.get("contested").asBoolean(), read.get("epoch").asText())
  }
}
