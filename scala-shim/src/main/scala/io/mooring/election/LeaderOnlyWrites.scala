package io.mooring.election

/**
 * Guards what only the leader of a job's drivers may write: an entry of a checkpoint's log, of a file sink's log, or a
 * drain's marker. Streams' threads call it before each such write. A driver of a job without an election writes unguarded.
 */
object LeaderOnlyWrites {
  private final case class Current(leadership: Leadership, agentIsExpected: () => Boolean)

  @volatile private var current: Option[Current] = None
  // A driver that has lost may end its application while a last batch is under way.
  @volatile private var lost: Option[Current] = None

  /** The driver part begins, with the election that it takes part in, or ends (None). */
  private[mooring] def use(leadership: Option[Leadership], agentIsExpected: () => Boolean): Unit = {
    lost = current.filter(_.leadership.isLost)
    current = leadership.map(Current(_, agentIsExpected))
  }

  /** LeadershipLostException when another driver leads; may wait until the agent has told who leads. */
  def check(what: String): Unit =
    current.orElse(lost).foreach(_.leadership.check(what)(current.exists(_.agentIsExpected())))
}
