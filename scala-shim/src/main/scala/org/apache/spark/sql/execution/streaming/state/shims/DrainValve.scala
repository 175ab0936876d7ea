package org.apache.spark.sql.execution.streaming.state.shims

import java.util.concurrent.{CountDownLatch, Semaphore, TimeUnit}

import scala.collection.immutable.ListMap

import org.apache.spark.shims.{Capability, SparkInternals}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming.{CompositeReadLimit, MicroBatchStream, Offset, ReadLimit, ReadMinRows, SparkDataStream}
import org.apache.spark.sql.connector.read.streaming.{SupportsAdmissionControl, SupportsTriggerAvailableNow}
import org.apache.spark.sql.execution.streaming.{AvailableNowTrigger, OneTimeTrigger, RealTimeTrigger}
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQueryException, Trigger}
import org.apache.spark.util.{Clock, SystemClock, Utils}

/**
 * Stops the intake of a running query at the edge of a batch, lets it catch up, and flushes its state.
 *
 * All of it happens where Spark itself decides on the next batch, on the stream's thread and under its progress lock:
 * the valve is one more source of the query, without data, that is asked first; and what it puts in the place of the
 * batch's end offsets tells Spark to run a batch although there is nothing new. No batch is cut, none is made by us.
 * It asks no source for offsets: Spark does, as ever. So each source is asked from where its last batch ended, and is
 * given a batch of what it answers before it is asked again.
 *
 *  1. Freeze: sources that support Trigger.AvailableNow are prepared for it. Others are asked once more, for all they have.
 *  2. Catch up: the query goes on, under its own limits, until there is nothing new.
 *  3. Flush: the watermark, and where timers go by it the time, is far ahead; a batch runs for it, and more of them,
 *     each further ahead, while a batch has changed anything.
 *  4. Stop, idle.
 *
 * One that is held at its start reads nothing until it is released.
 *
 * @param intake whether anything is read any more; Later has it held until somebody says
 */
final class DrainValve private (private val execution: MicroBatchExecution, intake: Intake, log: DrainLog, begun: Ending) {
  import DrainValve._

  private var phase: Phase = if (intake.isInstanceOf[Intake.Later]) Held else Open // the stream's thread's
  private val released = new CountDownLatch(if (phase == Held) 1 else 0)
  @volatile private var zeroInput = intake != Intake.All
  private var isGivenUp, isGone = false // with the lock of this
  private var idleBefore = -1L // the batch that there was nothing for at the last look
  @volatile private var ending = begun

  /**
   * Has the query end so, if that is sooner than was asked before. One that is held goes on, with nothing new at all where
   * `zeroInput`. False when the valve is not in the query any more.
   */
  def end(how: Ending, zeroInput: Boolean): Boolean = synchronized {
    if (!isGone) {
      if (how.haste > ending.haste) {
        ending = how
        if (how == Ending.Now) stopNow()
      }
      if (isHeld) {
        this.zeroInput = if (ending == Ending.Drained) zeroInput else ending != Ending.AfterAvailable
        released.countDown()
      }
    }
    !isGone
  }

  /** Nobody asks any more for what it is held for. */
  def giveUp(): Unit = synchronized {
    if (isHeld) {
      isGivenUp = true
      released.countDown()
    }
  }

  /** Whether it reads nothing, and does nothing else, until it is told. */
  def isHeld: Boolean = released.getCount > 0

  private def stopNow(): Unit = {
    log.stopped(execution.commitLog.getLatestBatchId().getOrElse(-1L), Ending.Now)
    stop()
  }
  private var notAsked = Map.empty[SparkDataStream, ReadLimit] // sources of which nothing is read, to be stopped with the query
  private var isToPrepare = false // whether the sources go on without an end until they are frozen

  /** Asked by Spark before all other sources, each time that it looks for a next batch. */
  private object gate extends MicroBatchStream with SupportsAdmissionControl {
    override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
      val context = execution.getLatestExecutionContext()
      val wasHeld = phase == Held
      if (wasHeld) awaitRelease()
      if (ending == Ending.AfterBatch) end(context.batchId)
      val areAskedNext = phase == Held || wasHeld && !zeroInput // Spark has its list of those that it asks now
      if (phase == Open && !areAskedNext) freeze(context.batchId)
      val known = context.endOffsets.baseMap
      context.endOffsets =
        if (!areAskedNext) new Question(known, found => isFlushWanted(context, found))
        else if (execution.trigger == AvailableNowTrigger) new Question(known, _ => true) // else it would end
        else new StreamProgress(known)
      null // no data of its own
    }
    override def latestOffset(): Offset = null
    override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = Array.empty
    override def createReaderFactory(): PartitionReaderFactory = throw new UnsupportedOperationException(toString)
    override def initialOffset(): Offset = null
    override def deserializeOffset(json: String): Offset = throw new UnsupportedOperationException(json)
    override def commit(end: Offset): Unit = ()
    override def stop(): Unit = notAsked.keys.foreach(source => Utils.tryLogNonFatalError(source.stop()))
    override def toString: String = "Mooring's drain"
  }

  /** Under the progress lock. It asks no source anything: the stream's thread may be reading from it. */
  private def install(): Unit = {
    if (zeroInput) askNoMore(live)
    else if (execution.trigger == AvailableNowTrigger) ask(live.toSeq, andGate = true)
    else askUntilFrozen(live)
    if (phase != Held) hurry()
  }

  /** It waits for no trigger any more. */
  private def hurry(): Unit = execution.triggerClock match {
    case waking: WakingClock => waking.wake()
    case _ => // waits for its next trigger
  }

  /** This valve first, and these sources, from Spark's next look on. */
  private def ask(sources: Seq[(SparkDataStream, ReadLimit)], andGate: Boolean): Unit =
    SparkInternals.queryUniqueSources.set(execution, ListMap.from(Option.when(andGate)(gate -> ReadLimit.allAvailable()) ++ sources))

  /** These sources, each as it is to be asked once it is frozen. */
  private def askUntilFrozen(sources: Map[SparkDataStream, ReadLimit]): Unit = {
    isToPrepare = true
    ask(sources.toSeq.map {
      case (wrapped: AvailableNowDataStreamWrapper, _) => wrapped.delegate -> ReadLimit.allAvailable()
      case (able: SupportsTriggerAvailableNow, limit) => able -> withoutLeast(limit)
      case (other, _) => other -> ReadLimit.allAvailable()
    }, andGate = true)
  }

  /** Not these any more, of those that are asked. */
  private def askNoMore(sources: Iterable[(SparkDataStream, ReadLimit)]): Unit = {
    notAsked ++= sources
    ask(live.toSeq.filterNot { case (source, _) => (source eq gate) || notAsked.contains(source) }, andGate = true)
  }

  /** Once it is told what to do; where nobody can say any more, the valve goes and the query goes on, or it ends. */
  private def awaitRelease(): Unit = {
    val (isToBeHoped, endsWithoutHope) = intake match {
      case Intake.Later(hope, ends) => (hope, ends)
      case _ => (() => false, false) // it is not held
    }
    while (!released.await(LookAgainMs, TimeUnit.MILLISECONDS) && isToBeHoped()) {}
    synchronized {
      if (!isHeld && !isGivenUp) phase = Open
      else if (endsWithoutHope) ending = Ending.AfterBatch
      else isGone = true
      if (isGone || !zeroInput) {
        if (isGone) ask(notAsked.toSeq, andGate = false)
        else askUntilFrozen(notAsked) // by any trigger: what there is now, not what there was at the start
        notAsked = Map.empty
      }
    }
    if (phase == Open) hurry()
  }

  private def live = SparkInternals.queryUniqueSources.get(execution).asInstanceOf[Map[SparkDataStream, ReadLimit]]

  /** Before Spark asks the sources of this look: what those answer that are asked no more is where they end. */
  private def freeze(next: Long): Unit = {
    if (isToPrepare) askNoMore(live.filter {
      case (able: SupportsTriggerAvailableNow, _) =>
        able.prepareForTriggerAvailableNow()
        false
      case (source, _) => source ne gate
    })
    phase = Frozen
    log.frozen(next, ending, zeroInput)
  }

  /** Whether a batch is to run although nothing new has come in. Does not return when the drain is over. */
  private def isFlushWanted(context: StreamExecutionContext, found: StreamProgress): Boolean = {
    val next = context.batchId
    val isNew = found.exists { case (source, offset) => !context.startOffsets.get(source).contains(offset) }
    phase match {
      case Frozen if isNew => false // Spark sees for itself that there is a batch to run
      case Frozen if ending == Ending.AfterAvailable =>
        if (idleBefore == next) end(next)
        idleBefore = next // Spark may owe a batch without data; if it does not, it looks again for this one
        false
      case Frozen if next == 0 || !hasState => end(next)
      case Frozen =>
        log.caughtUp(next, watermarks.currentWatermark)
        flush(next, flushes = 1)
      case Flushing(flushes) =>
        val operators = progressOfLast(context)
        val left = operators.map(_.numRowsTotal).sum
        log.flushed(next - 1, operators.map(_.numRowsRemoved).sum, left)
        if (left == 0 && !operators.exists(setsTimers)) end(next)
        else if (flushes < MostFlushes && operators.exists(hasChanged)) flush(next, flushes + 1)
        else if (watermarks.currentWatermark < LastMs && left > 0) flush(next, MostFlushes) // what lies beyond all steps
        else end(next)
      case _ => false
    }
  }

  private def flush(next: Long, flushes: Int): Boolean = {
    val ahead = if (flushes == MostFlushes) LastMs else math.max(FirstMs + (flushes - 1) * StepMs, watermarks.currentWatermark)
    phase = Flushing(flushes)
    askNoMore(live.removed(gate)) // what is read now would count as late
    // What a look without a batch has noted of the next one's watermarks is of the old watermark.
    SparkInternals.queryWatermarkPropagator.get(execution).asInstanceOf[WatermarkPropagator].purge(next)
    watermarks.setWatermark(ahead)
    if (usesProcessingTime) SparkInternals.queryTriggerClock.set(execution, new FarAhead(realClock, ahead))
    true
  }

  private def watermarks = SparkInternals.queryWatermarkTracker.get(execution).asInstanceOf[WatermarkTracker]
  private lazy val realClock = execution.triggerClock

  private def stop(): Unit = {
    val stopping = new Thread(() => execution.stop(), "mooring-drain-stop")
    stopping.setDaemon(true)
    stopping.start()
  }

  private def end(next: Long): Nothing = {
    if (ending == Ending.Drained) log.drained(next - 1) else log.stopped(next - 1, ending)
    stop()
    new CountDownLatch(1).await() // until it is interrupted, as by every stop
    throw new IllegalStateException("not reached")
  }

  /** What the operators of the last batch say of it; the query's own progress may be kept for no batch. */
  private def progressOfLast(context: StreamExecutionContext): Seq[StateOperatorProgress] =
    context.executionPlan.executedPlan.collect { case writer: StateStoreWriter => writer.getProgress() }

  private lazy val hasState = new StreamShim(execution).isStateful

  private def usesProcessingTime = execution.analyzedPlan.exists {
    case groups: FlatMapGroupsWithState => groups.timeout == ProcessingTimeTimeout
    case groups: FlatMapGroupsInPandasWithState => groups.timeout == ProcessingTimeTimeout
    case transform: TransformWithState => transform.timeMode == ProcessingTime
    case transform: TransformWithStateInPySpark => transform.timeMode == ProcessingTime
    case _ => false
  }
}

object DrainValve {

  /**
   * The watermark of the first flush, in the year 5000; of the last one, at the end of 9999; and the step between two:
   * fifty years, so that a timer that a timer sets is due in the next flush. Spark adds to watermarks, in floating point
   * and in microseconds, and shows them to Python: what is greater overflows somewhere.
   */
  val FirstMs: Long = 95617584000000L
  val LastMs: Long = 253402300799000L
  val StepMs: Long = 1577880000000L

  private sealed trait Phase
  private case object Held extends Phase
  private case object Open extends Phase
  private case object Frozen extends Phase
  private final case class Flushing(flushes: Int) extends Phase

  /** A query whose timers set new timers for ever is ended after so many batches. */
  val MostFlushes = 90

  private val LookAgainMs = 200L

  /** Before a query's triggers are made, on its own thread: a drain will not have to wait for the next one. */
  def prepare(query: StreamShim): Unit = query.execution match {
    case micro: MicroBatchExecution if Capability.Drain.isOn && micro.triggerClock.getClass == classOf[SystemClock] =>
      SparkInternals.queryTriggerClock.set(micro, new WakingClock)
    case _ => // a test's clock, or no batches
  }

  /** Ends a query that runs; returns at once. Left says why it can not be ended so, if it can not. */
  def begin(query: StreamShim, ending: Ending, log: DrainLog): Either[String, DrainValve] =
    for (execution <- endable(query, ending)) yield {
      val valve = new DrainValve(execution, Intake.All, log, ending)
      if (ending == Ending.Now) valve.stopNow() else holdAndInstall(valve)
      valve
    }

  /**
   * Ends a query that is starting, as by a drain; on the stream's own thread, before its sources are made: it begins no batch before
   * the valve is there.
   *
   * @param intake besides what a batch that was begun before is to read
   */
  def beginAtStart(query: StreamShim, ending: Ending, intake: Intake, log: DrainLog): Either[String, DrainValve] =
    for (execution <- endable(query, ending)) yield {
      val valve = new DrainValve(execution, intake, log, ending)
      holdAndInstall(valve).acquireUninterruptibly()
      valve
    }

  /** Installs a valve once the query's sources are made, and keeps it from its next batch until then; it is kept when there is a permit. */
  private def holdAndInstall(valve: DrainValve): Semaphore = {
    val held = new Semaphore(0)
    val holder = new Thread(() => valve.execution.withProgressLocked {
      held.release()
      if (comesUp(valve.execution)) valve.install()
    }, "mooring-drain-start")
    holder.setDaemon(true)
    holder.start()
    held
  }

  /** Waits until the query's sources are made; false when it fails before. */
  private def comesUp(execution: MicroBatchExecution): Boolean =
    try {
      execution.awaitInitialization(Long.MaxValue)
      execution.isActive
    } catch { case _: StreamingQueryException => false }

  private def endable(query: StreamShim, ending: Ending): Either[String, MicroBatchExecution] = query.execution match {
    case micro: MicroBatchExecution => refused(micro.trigger, ending).toLeft(micro)
    case _ => Left("it runs in continuous mode: only queries that run in batches can be ended so; it can be stopped (now)")
  }

  private def refused(trigger: Trigger, ending: Ending): Option[String] = (trigger, ending) match {
    case (_, Ending.Now) => None
    case _ if !Capability.Drain.isOn => Some(s"${Capability.Drain.whyOff}; it can be stopped (now)")
    case (_: RealTimeTrigger, _) => Some("it runs in real-time mode: only queries that run in batches can be ended so; it can be stopped (now)")
    case (OneTimeTrigger, _) => Some("its trigger is once: it ends after its batch by itself; use availableNow to drain it")
    case (AvailableNowTrigger, Ending.AfterAvailable) => Some("its trigger is availableNow: it ends after what is available by itself")
    case _ => None
  }

  /** Whether a flush has done anything; an aggregation without a key updates its row in every batch. */
  private def hasChanged(operator: StateOperatorProgress): Boolean = operator.numRowsRemoved > 0 || setsTimers(operator) ||
    (operator.numRowsUpdated > 0 && operator.operatorName != "stateStoreSave")

  /** Timers are not rows of state, and one that fires may set another. */
  private def setsTimers(operator: StateOperatorProgress): Boolean =
    Seq("numExpiredTimers", "numRegisteredTimers").exists(operator.customMetrics.getOrDefault(_, 0L) > 0)

  /** A source that waits for a least number of rows would look as if it had none. */
  private def withoutLeast(limit: ReadLimit): ReadLimit = limit match {
    case _: ReadMinRows => ReadLimit.allAvailable()
    case all: CompositeReadLimit => ReadLimit.compositeLimit(all.getReadLimits.filterNot(_.isInstanceOf[ReadMinRows]))
    case ofPython if ofPython.toString.contains("\"ReadMinRows\"") => ReadLimit.allAvailable() // its name, in JSON
    case other => other
  }

  /** In the place of a batch's end offsets: hears what the sources have found, once, and may ask for a batch all the same. */
  private final class Question(known: Map[SparkDataStream, Offset], isBatchWanted: StreamProgress => Boolean)
    extends StreamProgress(known) {
    override def ++(found: IterableOnce[(SparkDataStream, Offset)]): StreamProgress = {
      val all = super.++(found)
      if (isBatchWanted(all)) new SomethingNew(all.baseMap) else all
    }
  }

  /** Offsets that Spark takes for new: it asks by `exists`. */
  private final class SomethingNew(offsets: Map[SparkDataStream, Offset]) extends StreamProgress(offsets) {
    override def exists(p: ((SparkDataStream, Offset)) => Boolean): Boolean = true
  }

  /** What timers and timeouts go by: all of them are due. */
  private final class FarAhead(real: Clock, ms: Long) extends Clock {
    override def getTimeMillis(): Long = ms
    override def nanoTime(): Long = real.nanoTime()
    override def waitTillTime(targetTime: Long): Long = real.waitTillTime(targetTime)
  }
}
