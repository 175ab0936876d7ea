package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.shims.Capability
import org.apache.spark.sql.execution.streaming.{AvailableNowTrigger, OneTimeTrigger}
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.streaming.Trigger

/** Which queries can be ended in which way, by their triggers. Called by any thread. */
private[shims] object EndableQueries {

  /** The execution of a query that can be ended in this way. Left says why it can not. */
  def executionOf(query: StreamShim, ending: Ending): Either[String, MicroBatchExecution] = query.execution match {
    case micro: MicroBatchExecution => whyNot(micro.trigger, ending).toLeft(micro)
    case _ => Left("it runs in continuous mode: only queries that run in batches can be ended; the application can stop it")
  }

  private def whyNot(trigger: Trigger, ending: Ending): Option[String] = (trigger, ending) match {
    case (_, Ending.Now) => None
    case _ if !Capability.Drain.isOn => Some(s"${Capability.Drain.whyOff}; it can be stopped (now)")
    case _ if Operators.isRealTime(trigger) => Some("it runs in real-time mode: only queries that run in batches can be ended so; it can be stopped (now)")
    case (OneTimeTrigger, _) => Some("its trigger is once: it ends after its batch by itself; use availableNow to drain it")
    case (AvailableNowTrigger, Ending.AfterAvailable) => Some("its trigger is availableNow: it ends after what is available by itself")
    case _ => None
  }
}
