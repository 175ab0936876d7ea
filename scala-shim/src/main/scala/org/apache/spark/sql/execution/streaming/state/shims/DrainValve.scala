package org.apache.spark.sql.execution.streaming.state.shims

import java.util.concurrent.{CountDownLatch, Semaphore, TimeUnit}

import scala.collection.immutable.ListMap
import scala.util.control.NonFatal

import org.apache.spark.shims.{Capability, SparkInternals}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming.{CompositeReadLimit, MicroBatchStream, Offset, ReadLimit, ReadMinRows, SparkDataStream}
import org.apache.spark.sql.connector.read.streaming.{SupportsAdmissionControl, SupportsTriggerAvailableNow}
import org.apache.spark.sql.execution.streaming.AvailableNowTrigger
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQueryException}
import org.apache.spark.util.{Clock, SystemClock, Utils}

/**
 * Ends one running query at the edge of a batch: it stops the intake, lets the query catch up, and flushes the state.
 *
 * The valve is one more source of the query. It has no data, and it is the first source that Spark asks. It acts only where
 * Spark itself decides on the next batch (`MicroBatchExecution.constructNextBatch`, Spark 4.0 to 4.3): on the stream's thread, with
 * the query's progress lock. It never cuts a batch, makes no batch, and asks no source for offsets. Spark asks each source
 * from where its last batch ended, and runs a batch of the answer before it asks again.
 *
 * The valve depends on three things in `constructNextBatch`: the order of `uniqueSources`, the offsets of the sources being
 * added to `endOffsets` by `++`, and `endOffsets.exists` telling whether there is anything new.
 * It needs private fields of `StreamExecution` and `MicroBatchExecution`, through SparkInternals (`Capability.Drain`). Without the valve
 * a query can be stopped only as Spark stops it: in the middle of a batch, with its windows open.
 *
 * `State` describes what the valve does in each state.
 *
 * @param intake whether anything more is read; `Later` holds the query until `end` or `giveUp` is called
 */
final class DrainValve private (private val execution: MicroBatchExecution, intake: Intake, log: DrainLog, begun: Ending) {
  import DrainValve._

  // Changed by the stream's thread alone; to `Removed` with the lock of this object.
  @volatile private var state: State = if (intake.isInstanceOf[Intake.Later]) Held else Open
  private val released = new CountDownLatch(if (state == Held) 1 else 0)
  @volatile private var zeroInput = intake != Intake.All
  private var isGivenUp = false // with the lock of this object
  @volatile private var ending = begun

  /**
   * Requests this ending. The ending that was requested before stays, unless the new one has more haste. A held query is
   * released; with `zeroInput` it reads no more input. False when the valve is not in the query any more. Called by any thread.
   */
  def end(how: Ending, zeroInput: Boolean): Boolean = synchronized {
    if (state != Removed) {
      if (how.haste > ending.haste) {
        ending = how
        if (how == Ending.Now) stopNow()
      }
      if (isHeld) {
        this.zeroInput = if (ending == Ending.Drained) zeroInput else ending != Ending.AfterAvailable
        released.countDown()
      }
    }
    state != Removed
  }

  /** The drain for which the query is held is not wanted any more. The query continues without the valve. Called by any thread. */
  def giveUp(): Unit = synchronized {
    if (isHeld) {
      isGivenUp = true
      released.countDown()
    }
  }

  /** Whether the query reads nothing and runs no batch until `end` or `giveUp` is called. */
  def isHeld: Boolean = released.getCount > 0

  private def stopNow(): Unit = {
    val last =
      try execution.commitLog.getLatestBatchId().getOrElse(-1L)
      catch { case NonFatal(_) => -1L } // a log that can not be read does not keep the query from being stopped
    log.stopped(last, Ending.Now)
    stopInBackground()
  }

  private var pausedSources = Map.empty[SparkDataStream, ReadLimit] // Spark does not ask these; they are stopped with the query
  private var mustPrepare = false // whether the sources have no end until `freeze` prepares them for one

  /** The valve as a source: Spark asks it before all other sources, each time that it looks for a next batch. */
  private object gate extends MicroBatchStream with SupportsAdmissionControl {
    override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
      beforeSources(execution.getLatestExecutionContext())
      null // the valve has no data of its own
    }
    override def latestOffset(): Offset = null
    override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = Array.empty
    override def createReaderFactory(): PartitionReaderFactory = throw new UnsupportedOperationException(toString)
    override def initialOffset(): Offset = null
    override def deserializeOffset(json: String): Offset = throw new UnsupportedOperationException(json)
    override def commit(end: Offset): Unit = ()
    override def stop(): Unit = pausedSources.keys.foreach(source => Utils.tryLogNonFatalError(source.stop()))
    override def toString: String = "Mooring's drain"
  }

  /**
   * Called just before Spark asks the query's sources for their newest offsets: moves the state on, and puts an object in the
   * place of the batch's end offsets that will see the answers. Does not return when the query is to end now.
   */
  private def beforeSources(context: StreamExecutionContext): Unit = {
    val wasHeld = state == Held
    if (wasHeld) awaitRelease()
    if (ending == Ending.AfterBatch) stopQuery(context.batchId)
    // Spark goes through the list of sources that it made before `awaitRelease` changed it. It asks the new ones at its next look.
    val areSourcesNew = state == Removed || wasHeld && !zeroInput
    if (state == Open && !areSourcesNew) freeze(context.batchId)
    val known = context.endOffsets.baseMap
    context.endOffsets =
      if (!areSourcesNew) new OffsetsWithQuestion(known, isFlushWanted(context, _))
      else if (execution.trigger == AvailableNowTrigger) new OffsetsWithQuestion(known, _ => true) // without a batch, availableNow ends
      else new StreamProgress(known)
  }

  /** Puts the valve into the query. Called with the progress lock. No source is called: the stream's thread may be reading from one. */
  private def install(): Unit = {
    if (zeroInput) pause(sourcesNow)
    else if (execution.trigger == AvailableNowTrigger) setSources(sourcesNow.toSeq, withGate = true)
    else readUntilFrozen(sourcesNow)
    if (state != Held) skipTriggerWaits()
  }

  /** From now on the query does not wait for its next trigger. */
  private def skipTriggerWaits(): Unit = execution.triggerClock match {
    case waking: WakingClock => waking.wake()
    case _ => // the query waits for its next trigger
  }

  /** Which sources Spark asks from its next look on, and whether it asks this valve before them. */
  private def setSources(sources: Seq[(SparkDataStream, ReadLimit)], withGate: Boolean): Unit =
    SparkInternals.queryUniqueSources.member.set(execution, ListMap.from(Option.when(withGate)(gate -> ReadLimit.allAvailable()) ++ sources))

  /** Has Spark ask these sources until `freeze`, each with the limit that it needs then. */
  private def readUntilFrozen(sources: Map[SparkDataStream, ReadLimit]): Unit = {
    mustPrepare = true
    setSources(sources.toSeq.map {
      case (wrapped: AvailableNowDataStreamWrapper, _) => wrapped.delegate -> ReadLimit.allAvailable()
      case (able: SupportsTriggerAvailableNow, limit) => able -> withoutMinimum(limit)
      case (other, _) => other -> ReadLimit.allAvailable()
    }, withGate = true)
  }

  /** Has Spark ask these sources no more, from its next look on. */
  private def pause(sources: Iterable[(SparkDataStream, ReadLimit)]): Unit = {
    pausedSources ++= sources
    setSources(sourcesNow.toSeq.filterNot { case (source, _) => (source eq gate) || pausedSources.contains(source) }, withGate = true)
  }

  /**
   * Blocks the stream's thread while the query is held. Afterwards the valve is open. If a release is not possible any more, the
   * valve is removed, or the query is to end.
   */
  private def awaitRelease(): Unit = {
    val Intake.Later(isReleasePossible, endsUnreleased) = intake match {
      case later: Intake.Later => later
      case _ => Intake.Later(() => false, endsUnreleased = false) // the query is not held
    }
    while (!released.await(LookAgainMs, TimeUnit.MILLISECONDS) && isReleasePossible()) {}
    synchronized {
      if (!isHeld && !isGivenUp) state = Open
      else if (endsUnreleased) ending = Ending.AfterBatch
      else state = Removed
      if (state == Removed || !zeroInput) {
        if (state == Removed) setSources(pausedSources.toSeq, withGate = false)
        else readUntilFrozen(pausedSources) // with any trigger, the query reads all input that there is now, not only the input that there was at its start
        pausedSources = Map.empty
      }
    }
    if (state == Open) skipTriggerWaits()
  }

  private def sourcesNow = SparkInternals.queryUniqueSources.member.get(execution).asInstanceOf[Map[SparkDataStream, ReadLimit]]

  /** Stops the intake. Spark still asks its sources in this look: a source that is paused here ends at that answer. */
  private def freeze(next: Long): Unit = {
    if (mustPrepare) pause(sourcesNow.filter {
      case (able: SupportsTriggerAvailableNow, _) =>
        able.prepareForTriggerAvailableNow()
        false
      case (source, _) => source ne gate
    })
    state = Frozen(idleAt = None)
    log.frozen(next, ending, zeroInput)
  }

  /**
   * Whether a flush is to run as the next batch, although the sources have nothing new. `found` are the batch's end offsets, with
   * the answers of the sources. Does not return when the query is to end now.
   */
  private def isFlushWanted(context: StreamExecutionContext, found: StreamProgress): Boolean = {
    val next = context.batchId
    val isNew = found.exists { case (source, offset) => !context.startOffsets.get(source).contains(offset) }
    state match {
      case Frozen(_) if isNew => false // Spark runs a batch for that by itself
      case Frozen(idleAt) if ending == Ending.AfterAvailable =>
        if (idleAt.contains(next)) stopQuery(next)
        state = Frozen(idleAt = Some(next)) // Spark may run a batch without data; if it runs none, it looks for this batch again
        false
      case Frozen(_) if next == 0 || !hasState => stopQuery(next)
      case Frozen(_) =>
        log.caughtUp(next, watermarks.currentWatermark)
        flush(next, flushes = 1)
      case Flushing(flushes) =>
        val operators = progressOfLast(context)
        val rowsLeft = operators.map(_.numRowsTotal).sum
        log.flushed(next - 1, operators.map(_.numRowsRemoved).sum, rowsLeft)
        if (rowsLeft == 0 && !operators.exists(setsTimers)) stopQuery(next)
        else if (flushes < MostFlushes && operators.exists(hasChanged)) flush(next, flushes + 1)
        else if (watermarks.currentWatermark < LastMs && rowsLeft > 0) flush(next, MostFlushes) // for rows beyond all steps
        else stopQuery(next)
      case Held | Open | Removed => false
    }
  }

  /** Has Spark run batch `next` with a watermark that is far ahead. Always true. */
  private def flush(next: Long, flushes: Int): Boolean = {
    val ahead = if (flushes == MostFlushes) LastMs else math.max(FirstMs + (flushes - 1) * StepMs, watermarks.currentWatermark)
    state = Flushing(flushes)
    pause(sourcesNow.removed(gate)) // rows that are read now would count as late
    // A look that led to no batch has noted watermarks for batch `next`, which are from before this one.
    SparkInternals.queryWatermarkPropagator.member.get(execution).asInstanceOf[WatermarkPropagator].purge(next)
    watermarks.setWatermark(ahead)
    if (usesProcessingTime) SparkInternals.queryTriggerClock.member.set(execution, new FixedClock(realClock, ahead))
    true
  }

  private def watermarks = SparkInternals.queryWatermarkTracker.member.get(execution).asInstanceOf[WatermarkTracker]
  private lazy val realClock = execution.triggerClock

  private def stopInBackground(): Unit = {
    val stopping = new Thread(() => execution.stop(), "mooring-drain-stop")
    stopping.setDaemon(true)
    stopping.start()
  }

  /** Stops the query before batch `next`. Blocks the stream's thread until the stop interrupts it. */
  private def stopQuery(next: Long): Nothing = {
    if (ending == Ending.Drained) log.drained(next - 1) else log.stopped(next - 1, ending)
    stopInBackground()
    new CountDownLatch(1).await()
    throw new IllegalStateException("not reached")
  }

  /** The progress of the last batch's operators, from its plan: `recentProgress` may be set to keep none. */
  private def progressOfLast(context: StreamExecutionContext): Seq[StateOperatorProgress] =
    context.executionPlan.executedPlan.collect { case writer: StateStoreWriter => writer.getProgress() }

  private lazy val hasState = new StreamShim(execution).isStateful

  private def usesProcessingTime = execution.analyzedPlan.exists {
    case groups: FlatMapGroupsWithState => groups.timeout == ProcessingTimeTimeout
    case groups: FlatMapGroupsInPandasWithState => groups.timeout == ProcessingTimeTimeout
    case transform: TransformWithState => transform.timeMode == ProcessingTime
    case transform: Operators.TransformWithStateInPython => transform.timeMode == ProcessingTime
    case _ => false
  }
}

object DrainValve {

  /**
   * The watermarks of flushes: the first one (in the year 5000), the step between two, and the last one (the end of 9999). A
   * step is fifty years, so that a timer that another timer sets is due in the next flush. Spark adds to watermarks in floating
   * point and in microseconds, and shows them to Python: greater ones overflow.
   */
  val FirstMs: Long = 95617584000000L
  val LastMs: Long = 253402300799000L
  val StepMs: Long = 1577880000000L

  /** A valve begins as `Held` or `Open`. From each state the query may also be stopped. */
  private sealed trait State

  /** The query reads nothing and runs no batch. Next: `Open` when `end` is called, else `Removed`. */
  private case object Held extends State

  /** The query runs. Next: `Frozen`, when Spark looks for its next batch. */
  private case object Open extends State

  /**
   * The intake is stopped: sources that support `Trigger.AvailableNow` are prepared for it, other sources are asked once more, for
   * all their input. The query runs on, under its own limits, until there is nothing new. `idleAt` is the batch that had nothing new at
   * the last look. Next: `Flushing`, when the query is drained and has state.
   */
  private final case class Frozen(idleAt: Option[Long]) extends State

  /**
   * The watermark is far ahead; and if the query has timers by processing time, the clock is, too. A batch runs, the `flushes`-th.
   * More batches follow, each further ahead, while the last one has changed anything. Next: `Flushing` again.
   */
  private final case class Flushing(flushes: Int) extends State

  /** The valve is not in the query any more. The query continues as if no drain had been requested. */
  private case object Removed extends State

  /** The most batches that flush: a query whose timers always set new timers is stopped after these. */
  val MostFlushes = 90

  private val LookAgainMs = 200L

  /** Called on the stream's thread before the query has its triggers: a later drain need not wait for the next trigger. */
  def prepare(query: StreamShim): Unit = query.execution match {
    case micro: MicroBatchExecution if Capability.Drain.isOn && micro.triggerClock.getClass == classOf[SystemClock] =>
      SparkInternals.queryTriggerClock.member.set(micro, new WakingClock)
    case _ => // the query has a test's clock, or does not run in batches
  }

  /**
   * Begins to end a query that runs; returns at once. Left says why the query can not end in this way. If that shows only later, `failed` is
   * called with the reason, by another thread that has the progress lock. The query then runs on without the valve.
   */
  def begin(query: StreamShim, ending: Ending, log: DrainLog)(failed: String => Unit): Either[String, DrainValve] =
    for (execution <- EndableQueries.executionOf(query, ending)) yield {
      val valve = new DrainValve(execution, Intake.All, log, ending)
      if (ending == Ending.Now) valve.stopNow() else holdAndInstall(valve, failed)
      valve
    }

  /**
   * Begins to end a query that is starting. Called on the stream's thread, before the query's sources are made: the query runs no
   * batch before the valve is in it. Left says why the query can not end in this way; `failed` is as in `begin`.
   *
   * @param intake which input is read, besides the input of a batch that an earlier run has begun
   */
  def beginAtStart(query: StreamShim, ending: Ending, intake: Intake, log: DrainLog)(failed: String => Unit): Either[String, DrainValve] =
    for (execution <- EndableQueries.executionOf(query, ending)) yield {
      val valve = new DrainValve(execution, intake, log, ending)
      holdAndInstall(valve, failed).acquireUninterruptibly()
      valve
    }

  /**
   * Installs the valve once the query's sources are made. Until then another thread has the progress lock, so that the query
   * begins no batch; the semaphore has a permit as soon as that thread has the lock.
   */
  private def holdAndInstall(valve: DrainValve, failed: String => Unit): Semaphore = {
    val held = new Semaphore(0)
    val holder = new Thread(() => valve.execution.withProgressLocked {
      held.release()
      try if (hasSources(valve.execution)) valve.install()
      catch { case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => failed(s"the drain could not be put into it ($e)") }
    }, "mooring-drain-start")
    holder.setDaemon(true)
    holder.start()
    held
  }

  /** Waits until the query's sources are made; false when the query ends before. */
  private def hasSources(execution: MicroBatchExecution): Boolean =
    try {
      execution.awaitInitialization(Long.MaxValue)
      execution.isActive
    } catch { case _: StreamingQueryException => false }

  /** Whether a flush has changed anything. An aggregation without a key updates its row in every batch, which does not count. */
  private def hasChanged(operator: StateOperatorProgress): Boolean = operator.numRowsRemoved > 0 || setsTimers(operator) ||
    (operator.numRowsUpdated > 0 && operator.operatorName != "stateStoreSave")

  /** Whether timers have fired or were set. Timers are not rows of state, and a timer that fires may set another one. */
  private def setsTimers(operator: StateOperatorProgress): Boolean =
    Seq("numExpiredTimers", "numRegisteredTimers").exists(operator.customMetrics.getOrDefault(_, 0L) > 0)

  /** The limit without a minimum of rows: a source that waits for more rows would look as if it had none. */
  private def withoutMinimum(limit: ReadLimit): ReadLimit = limit match {
    case _: ReadMinRows => ReadLimit.allAvailable()
    case all: CompositeReadLimit => ReadLimit.compositeLimit(all.getReadLimits.filterNot(_.isInstanceOf[ReadMinRows]))
    case ofPython if ofPython.toString.contains("\"ReadMinRows\"") => ReadLimit.allAvailable() // the limit's name, in JSON
    case other => other
  }

  /**
   * Stands in the place of a batch's end offsets. Spark adds the answers of the sources by `++`, once: then `isBatchWanted`
   * decides whether a batch is to run in any case.
   */
  private final class OffsetsWithQuestion(known: Map[SparkDataStream, Offset], isBatchWanted: StreamProgress => Boolean)
    extends StreamProgress(known) {
    override def ++(found: IterableOnce[(SparkDataStream, Offset)]): StreamProgress = {
      val all = super.++(found)
      if (isBatchWanted(all)) new AlwaysNew(all.baseMap) else all
    }
  }

  /** Offsets that Spark takes for new: `isNewDataAvailable` asks by `exists`. */
  private final class AlwaysNew(offsets: Map[SparkDataStream, Offset]) extends StreamProgress(offsets) {
    override def exists(p: ((SparkDataStream, Offset)) => Boolean): Boolean = true
  }

  /** The clock of timers and timeouts during a flush: the time stands still, far ahead, so that all of them are due. */
  private final class FixedClock(real: Clock, ms: Long) extends Clock {
    override def getTimeMillis(): Long = ms
    override def nanoTime(): Long = real.nanoTime()
    override def waitTillTime(targetTime: Long): Long = real.waitTillTime(targetTime)
  }
}
