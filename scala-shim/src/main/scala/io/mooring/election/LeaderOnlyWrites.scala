package io.mooring.election

/**
 * Guards the writes that only the leader of a job's drivers may make: entries of a checkpoint's logs and of a file sink's log, and
 * markers of a drain.
 *
 * Streams' threads call `check` before each such write. It uses nothing of Spark. A driver that takes part in no election writes
 * without a check.
 */
object LeaderOnlyWrites {
  private final case class Current(leadership: Leadership, agentIsExpected: () => Boolean)

  @volatile private var current: Option[Current] = None
  // The election that the last application of this JVM has lost, or led until its end. A last batch may be under way while it ends.
  @volatile private var over: Option[Current] = None

  /** Sets the election that the driver plugin takes part in; None when the plugin ends, or takes part in none. */
  private[mooring] def use(leadership: Option[Leadership], agentIsExpected: () => Boolean): Unit = {
    over = current.filter(_.leadership.isOver)
    current = leadership.map(Current(_, agentIsExpected))
  }

  /**
   * Throws LeadershipLostException when another driver leads or may lead. May wait for a report of the agent. `what` names the write, for
   * the message.
   */
  def check(what: String): Unit =
    current.orElse(over).foreach(_.leadership.check(what)(current.exists(_.agentIsExpected())))
}
