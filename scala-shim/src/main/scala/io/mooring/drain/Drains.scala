package io.mooring.drain

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import io.mooring.agent.{Bridge, DriverFiles, StartWaitBudget}
import io.mooring.common.{FailOpen, Json, Log}
import io.mooring.election.LeaderOnlyWrites

import org.apache.spark.sql.execution.streaming.state.shims.{DrainLog, DrainValve, Ending, Intake, StreamShim, StreamShims}

/**
 * The drains of this application's queries. A checkpoint says how far one has come, in files of `_mooring`, so that it
 * goes on at the next start, and so that nobody starts from a drained checkpoint without knowing:
 *
 *     draining.json   a drain is under way; `phase` is asked, frozen or flushing; `after`, when it is asked, are the
 *                     checkpoints, by query, that are to be drained before
 *     to-drain.json   written by `mooring drain --checkpoint`: the next start drains it, without any new input
 *     drained.json    it is over, with the last batch; `with` are the checkpoints that are drained with it: until all are,
 *                     a start of this one ends at once, so that the application can be started to go on with theirs
 *     reset.json      the watermark is forgotten that the log's entries of the batches from `from` to `to` name;
 *                     `watermark` (ms) is to be read instead
 */
final class Drains(bridge: Bridge, application: () => String, resume: String, onStart: Boolean, patience: StartWaitBudget) {
  import Drains._

  private val under = new ConcurrentHashMap[String, Option[DrainValve]]() // the runs that are ended; None: it was refused
  private val undone = new ConcurrentHashMap[String, Long]() // checkpoint -> until where it went back once
  private val checkpoints = new ConcurrentHashMap[String, String]() // by query, of all that this application has started
  private val together = ConcurrentHashMap.newKeySet[String]() // the checkpoints that this application was to drain
  private val flushesFrom = new ConcurrentHashMap[String, Long]() // run -> its first batch that flushes
  private val held = new ConcurrentHashMap[String, (StreamShim, DrainValve)]() // the runs that were held as somebody has asked
  private val fed = ConcurrentHashMap.newKeySet[String]() // the runs that were to be drained after others
  private val closed = ConcurrentHashMap.newKeySet[String]() // runs whose intake has stopped, of those that are drained
  private val shims = new ConcurrentHashMap[String, StreamShim]() // by run, of those that are ended by it, until they are over
  private val failed = ConcurrentHashMap.newKeySet[String]() // queries that ended before their drain was over
  private val atTheirEnd = ConcurrentHashMap.newKeySet[String]() // runs that are drained or stopped, and are about to be over
  private var over = 0
  private var isAwaited = true // whether somebody may still say
  private var wanted: Option[Seq[Option[String]]] = None // of which queries a drain is asked for; None while nobody has said

  /**
   * Has a running query end; heard twice, it is done once, and sooner when it is asked for sooner. One that has ended is
   * left to whoever looks which run. One that is held since its start goes on, with `zeroInput` without reading anything;
   * but what others have let out for it, as was said before, it reads.
   */
  def begin(query: String, how: Ending, zeroInput: Boolean): Unit = for (shim <- StreamShims.query(query)) synchronized {
    val readsNothing = zeroInput && !fed.contains(shim.runId)
    val isUnderWay = Option(under.get(shim.runId)).flatten.exists(_.end(how, readsNothing))
    if (!isUnderWay && begun(shim, DrainValve.begin(shim, how, new Told(shim))).isDefined) notOwed(shim)
  }

  /** Of these queries, by name or id, or of all (None), a drain is asked for: one that starts meanwhile is held. */
  def asked(of: Seq[Option[String]]): Unit = synchronized {
    if (of.isEmpty && wanted.exists(_.nonEmpty)) {
      over += 1
      failed.forEach(query => bridge.over(s"drain $query")) // the next drain is another: nobody waits for them in that
      failed.clear()
    }
    wanted = Some(of)
    for ((shim, valve) <- held.values.asScala if !isAsked(shim)) {
      if (valve.isHeld) shims.remove(shim.runId) // its end is an ordinary one
      valve.giveUp()
    }
    notifyAll()
  }

  private def isAsked(shim: StreamShim) = wanted.exists(_.exists(_.forall(Set(shim.id, shim.name))))

  /** How often all that was asked for was over, drained or not. */
  def timesOver: Int = synchronized(over)

  private def markersOf(checkpoint: String) = new Markers(bridge.files(s"$checkpoint/$Directory"))

  /** What was noted when it was asked for is given up. */
  private def notOwed(shim: StreamShim): Unit = markersOf(shim.checkpoint).delete(DrainingFile)

  /** Notes what is to be drained, each query once those are that it names: as long as that is not over, their starts go on. */
  def owe(after: Map[String, Seq[String]]): Unit = synchronized {
    val shims = after.keys.toSeq.flatMap(StreamShims.query(_))
    shims.filter(shim => after(shim.id).nonEmpty).foreach(shim => fed.add(shim.runId))
    shims.foreach(shim => together.add(shim.checkpoint))
    for (shim <- shims if !Option(under.get(shim.runId)).exists(_.forall(!_.isHeld))) FailOpen.otherwise("note what is to be drained", ()) {
      new Told(shim).asked(after(shim.id).flatMap(id => Option(checkpoints.get(id)).map(id -> _)).toMap)
    }
  }

  /** Why it was refused, if it was. */
  private def begun(shim: StreamShim, valve: Either[String, DrainValve]): Option[String] = {
    under.put(shim.runId, valve.toOption)
    if (valve.isRight) shims.put(shim.runId, shim)
    valve.left.toOption.map { reason =>
      Log.warn(s"query ${shim.label} can not be ended so: $reason")
      tell(shim, "refused", "reason" -> reason)
      reason
    }
  }

  /** The last batch that the query had begun before it went back to an earlier one: its sink may remember it. */
  def undoneUntil(checkpoint: String): Option[Long] = Option.when(undone.containsKey(checkpoint))(undone.get(checkpoint))

  /** On the thread of a stream that starts: what its checkpoint says of a drain. */
  def atStart(shim: StreamShim): Unit = {
    resets.remove(shim.checkpoint)
    refusals.remove(shim.checkpoint)
    undone.remove(shim.checkpoint)
    checkpoints.put(shim.id, shim.checkpoint)
    DrainValve.prepare(shim)
    try {
      val markers = markersOf(shim.checkpoint)
      markers.read(RestoringFile) match {
        case None =>
          markers.read(UndoneFile).foreach(note => undone.put(shim.checkpoint, note.get("until").asLong()))
          goOn(shim, markers)
        case Some(note) =>
          val batch = note.path("to-batch").asText()
          refusals.put(shim.checkpoint, s"${shim.checkpoint} is on its way back to batch $batch and not there yet: " +
            s"`mooring restore ${shim.checkpoint} --to-batch $batch` goes on with that")
      }
      if (whyNotToStart(shim.checkpoint).isEmpty && !under.containsKey(shim.runId)) hold(shim, markers)
    } catch {
      case NonFatal(_) if !shim.isActive => // it was stopped while it started: it begins no batch
      case NonFatal(e) => refusals.put(shim.checkpoint, s"what ${shim.checkpoint}/$Directory says of a drain or a restore can not be read ($e): " +
        "a drained checkpoint would count every new event as late. Try again, or remove the file")
    }
  }

  /**
   * A drain of it may have been asked for before it starts: then it reads nothing until the agent says that it is its
   * turn, as those that feed it may have to be drained before. The agent is waited for, once, to say what is asked for.
   */
  private def hold(shim: StreamShim, markers: Markers): Unit = synchronized {
    val isNoted = markers.read(WantedFile).isDefined
    val isToEnd = onStart || isNoted // it is started for its drain only
    val about = s"start of ${shim.runId}"
    if (isNoted) tellOwed(shim, Nil, isHeld = true)
    if (!isToEnd && patience.isHopeful && (wanted.isEmpty && isAwaited && shim.isStateful || isAsked(shim))) {
      bridge.tell(Map("event" -> "QueryStarting", "query" -> shim.id, "run" -> shim.runId, "checkpoint" -> shim.checkpoint), Some(about))
      if (wanted.isEmpty) patience.spend(shim.runId)(most => awaitWord(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(most) / 2))
      isAwaited = false
    }
    if (isToEnd && !patience.isHopeful)
      refusals.put(shim.checkpoint, "it is to be drained at its start, and there is no agent to say when: see spark.mooring.agent.python")
    else if (isToEnd || isAsked(shim)) {
      val valve = DrainValve.beginAtStart(shim, Ending.Drained, Intake.Later(() => patience.isHopeful, isToEnd), new Told(shim))
      if (!isToEnd) valve.foreach(one => held.put(shim.runId, shim -> one))
      for (reason <- begun(shim, valve))
        if (isToEnd) refusals.put(shim.checkpoint, s"it is to be drained at its start, and can not be: $reason")
        else Log.warn(s"query ${shim.label} starts although a drain was asked for: $reason")
    } else bridge.over(about)
  }

  /** With the lock, which is free meanwhile. */
  private def awaitWord(end: Long): Unit =
    try while (wanted.isEmpty && patience.isHopeful && System.nanoTime() < end) wait(LookAgainMs)
    catch { case _: InterruptedException => } // the query is being stopped, and sees that next; Spark drops a listener that passes it on

  /** A run is over; `error` is what Spark says of one that failed. */
  def ended(run: String, error: Option[String]): Unit = {
    bridge.over(s"drain owed to $run")
    patience.ended(run)
    val isAtItsEnd = atTheirEnd.remove(run)
    under.remove(run)
    Seq(closed, fed).foreach(_.remove(run))
    held.remove(run)
    bridge.over(s"start of $run")
    flushesFrom.remove(run)
    // Spark may tell the end of a run after the next one has started.
    for (shim <- Option(shims.remove(run)) if !isAtItsEnd && !shims.values.asScala.exists(_.id == shim.id)) {
      failed.add(shim.id)
      tell(shim, "failed", "writes" -> Seq(shim.sinkAsDescribed),
        "reason" -> error.fold("nothing failed: it ended by itself, or was stopped")(text => s"it failed: ${firstLine(text)}"))
    }
  }

  private def firstLine(text: String) = text.linesIterator.nextOption().getOrElse("").take(MostOfAnError)

  private def goOn(shim: StreamShim, markers: Markers): Unit = {
    def isOfNow(marker: JsonNode) = shim.lastCommitted.exists(_ <= marker.get("batch").asLong())
    markers.read(DrainedFile).filter(isOfNow) match {
      case Some(drained) =>
        Seq(DrainingFile, WantedFile).foreach(markers.delete) // left behind when it ended just then
        val last = drained.get("batch").asLong()
        val isUnderWay = onStart || checkpointsWith(drained).exists(markersOf(_).read(DrainingFile).isDefined)
        if (resume == "reset") markers.write(ResetFile, Map("from" -> last, "to" -> last, "watermark" -> 0))
        else if (resume != "true" && !(isUnderWay && endsAgain(shim, last)))
          refusals.put(shim.checkpoint, s"the checkpoint ${shim.checkpoint} was drained: its state " +
            "is flushed, and its watermark so far ahead that every new event would count as late. Start with a new checkpoint, " +
            "or set spark.mooring.resume.drained to reset (go on from its offsets with a fresh watermark) or to true")
      case None => markers.read(DrainingFile) match {
        case Some(draining) if draining.get("phase").asText() == "asked" =>
          if (resume == "reset") notOwed(shim)
          else if (!onStart) owed(shim, draining)
          else checkpointsWith(draining).foreach(together.add) // it is drained as all are
        case Some(draining) if resume == "reset" =>
          val begun = draining.get("batch").asLong() + 1
          markers.write(ResetFile, Map("from" -> begun, "to" -> (begun + DrainValve.MostFlushes), "watermark" -> draining.get("watermark").asLong()))
          markers.delete(DrainingFile)
        case Some(draining) =>
          val flushes = draining.get("phase").asText() == "flushing"
          if (flushes) flushesFrom.put(shim.runId, draining.get("batch").asLong() + 1)
          checkpointsWith(draining).foreach(together.add)
          tellOwed(shim, Nil)
          goOnWith(shim, if (flushes || draining.path("zero-input").asBoolean()) Intake.Nothing else Intake.All)
        case None =>
      }
    }
    for (reset <- markers.read(ResetFile))
      resets.put(shim.checkpoint, Reset(reset.get("from").asLong(), reset.get("to").asLong(), reset.get("watermark").asLong()))
  }

  /** It was to be drained, and was not told so any more: it waits for those that come before it, as it would have. */
  private def owed(shim: StreamShim, draining: JsonNode): Unit = synchronized {
    checkpointsWith(draining).foreach(together.add)
    val missing = draining.get("after").properties().asScala.filter(e => markersOf(e.getValue.asText).read(DrainedFile).isEmpty)
    Log.info(s"query ${shim.label} was to be drained when it ended" + (if (missing.isEmpty) "" else ": it waits for those that feed it"))
    tellOwed(shim, missing.map(_.getKey).toSeq)
    if (missing.isEmpty)
      for (reason <- begun(shim, DrainValve.beginAtStart(shim, Ending.Drained, Intake.All, new Told(shim)))) {
        notOwed(shim)
        Log.warn(s"query ${shim.label} goes on without the drain that was asked for: $reason")
      }
  }

  private def checkpointsWith(marker: JsonNode): Seq[String] = Option(marker.get("with")).toSeq.flatMap(_.asScala.map(_.asText))

  private def tellOwed(shim: StreamShim, after: Seq[String], isHeld: Boolean = false): Unit = bridge.tell(
    Map("event" -> "DrainOwed", "query" -> shim.id, "after" -> after, "held" -> isHeld), about = Some(s"drain owed to ${shim.runId}"))

  /** It is drained: has it end before its first batch, if that can be. */
  private def endsAgain(shim: StreamShim, last: Long): Boolean = synchronized {
    Log.info(s"query ${shim.label} was drained before: it ends at once")
    begun(shim, DrainValve.beginAtStart(shim, Ending.AfterBatch, Intake.Nothing, new DrainLog {
      override def frozen(next: Long, ending: Ending, zeroInput: Boolean): Unit = ()
      override def caughtUp(next: Long, watermarkMs: Long): Unit = ()
      override def flushed(batch: Long, removed: Long, left: Long): Unit = ()
      override def drained(last: Long): Unit = ()
      override def stopped(next: Long, how: Ending): Unit = tell(shim, "drained", "batch" -> last)
    })).isEmpty
  }

  private def goOnWith(shim: StreamShim, intake: Intake): Unit = synchronized {
    if (!under.containsKey(shim.runId))
      for (reason <- begun(shim, DrainValve.beginAtStart(shim, Ending.Drained, intake, new Told(shim))))
        refusals.put(shim.checkpoint, s"a drain of it is not over, and can not go on: $reason")
  }

  private def tell(shim: StreamShim, phase: String, more: (String, Any)*): Unit = {
    if (Set("drained", "stopped")(phase)) atTheirEnd.add(shim.runId)
    bridge.tell(Map[String, Any]("event" -> "DrainProgressed", "query" -> shim.id, "name" -> shim.name, "run" -> shim.runId,
      "phase" -> phase) ++ more, about = Some(s"drain ${shim.id}"))
  }

  /** Whether a batch of the query on whose thread this is asked lets out what was held back, such as windows that are not full. */
  def letsOut(batch: Long): Boolean = StreamShims.ofThisThread.exists(shim => flushesFrom.getOrDefault(shim.runId, Long.MaxValue) <= batch)

  /** How far the drain of a run is in a batch: 0 before, 1 when it catches up, 2 when it lets out what was held back. */
  def stateOf(run: String, batch: Long): Int =
    if (flushesFrom.getOrDefault(run, Long.MaxValue) <= batch) 2 else if (closed.contains(run)) 1 else 0

  private final class Told(shim: StreamShim) extends DrainLog {
    private lazy val markers = markersOf(shim.checkpoint)
    private val first = shim.lastCommitted.fold(0L)(_ + 1) // the first batch that is counted
    private var rows, stateLeft = 0L
    private var flushes = 0
    private var frozenAt, caughtUpAt = 0L // milliseconds since 1970

    def asked(before: Map[String, String]): Unit = mark(DrainingFile, first - 1, "phase" -> "asked", "after" -> before)

    // A flush that an earlier run has begun keeps its mark: the watermark from before it, and its first batch.
    private def goesOn = flushesFrom.containsKey(shim.runId)

    override def frozen(next: Long, ending: Ending, zeroInput: Boolean): Unit = {
      frozenAt = System.currentTimeMillis()
      if (ending == Ending.Drained) {
        if (!goesOn) mark(DrainingFile, next - 1, "phase" -> "frozen", "zero-input" -> zeroInput)
        closed.add(shim.runId)
      }
      say("frozen", next - 1, "its intake is stopped")
    }

    override def caughtUp(next: Long, watermarkMs: Long): Unit = {
      caughtUpAt = System.currentTimeMillis()
      if (!goesOn) {
        mark(DrainingFile, next - 1, "phase" -> "flushing", "watermark" -> watermarkMs)
        flushesFrom.put(shim.runId, next)
      }
      say("caught-up", next - 1, "all that had come in was processed")
    }

    override def flushed(batch: Long, removed: Long, left: Long): Unit = {
      rows += removed
      stateLeft = left
      flushes += 1
      say("flushed", batch, s"$removed rows of state went, $left are left")
    }

    override def drained(last: Long): Unit = {
      mark(DrainedFile, last, "frozen-at" -> frozenAt, "caught-up-at" -> caughtUpAt, "flush-batches" -> flushes, "state-rows-flushed" -> rows, "state-rows-left" -> stateLeft)
      Seq(DrainingFile, WantedFile).foreach(markers.delete)
      say("drained", last, s"it stops after $flushes batches in which $rows rows of state went; $stateLeft are left")
    }

    override def stopped(last: Long, how: Ending): Unit = {
      stateLeft = shim.stateRows
      say("stopped", last, s"it stops (${how.name}); $stateLeft rows of state are kept")
    }

    private def say(phase: String, batch: Long, what: String): Unit = {
      Log.info(s"drain of query ${shim.label}, batch $batch: $what")
      tell(shim, phase, "batch" -> batch, "batches" -> math.max(0, batch + 1 - first), "rows" -> shim.rowsSince(first),
        "flushed" -> rows, "left" -> stateLeft, "flushes" -> flushes)
    }

    private def mark(file: String, last: Long, more: (String, Any)*): Unit = {
      LeaderOnlyWrites.check(file)
      markers.write(file, Map[String, Any]("at" -> System.currentTimeMillis(), "deployment" -> application(), "query" -> shim.id,
        "name" -> shim.name, "batch" -> last, "offsets" -> shim.offsets(last),
        "with" -> (together.asScala.toSeq :+ shim.checkpoint).distinct.sorted) ++ more)
    }
  }
}

object Drains {

  val Directory = "_mooring"
  val WantedFile = "to-drain.json"
  val DrainingFile = "draining.json"
  val DrainedFile = "drained.json"
  val ResetFile = "reset.json"
  private val UndoneFile = "undone.json" // of `mooring restore`, for good
  private val RestoringFile = "restoring.json" // of `mooring restore`, while it is at it

  /** What the log's entries of some batches are to be read as. */
  private final case class Reset(from: Long, to: Long, watermarkMs: Long)

  private val refusals = new ConcurrentHashMap[String, String]() // checkpoint -> why no query may start from it
  private val resets = new ConcurrentHashMap[String, Reset]()

  /** On a stream's thread, before it reads its logs: throws where it may not start. */
  def checkMayStart(checkpoint: String): Unit =
    whyNotToStart(checkpoint).foreach(reason => throw new IllegalStateException(reason))

  def whyNotToStart(checkpoint: String): Option[String] = Option(refusals.get(checkpoint))

  /** The watermark that the logs' entry of a batch is to be read with, where it is another than it says. */
  def watermarkInstead(checkpoint: String, batch: String): Option[Long] =
    for (reset <- Option(resets.get(checkpoint)); number <- batch.toLongOption if reset.from <= number && number <= reset.to)
      yield reset.watermarkMs

  /** What lies there is listed first: a start asks for many that are not there, and storage may take long to answer. */
  private final class Markers(files: DriverFiles) {
    private var listed: Option[Set[String]] = None // until something is written

    /** None when there is no such file. */
    def read(name: String): Option[JsonNode] = Option.when(names(name))(files.read(name, MostBytes)).flatMap(Option(_))
      .map(bytes => Json.read(new String(bytes, UTF_8)))

    def write(name: String, content: Map[String, Any]): Unit = {
      listed = None
      files.writeAtomic(name, Json.write(content).getBytes(UTF_8))
    }

    def delete(name: String): Unit = {
      listed = None
      files.delete(name)
    }

    private def names: Set[String] = listed.getOrElse {
      val found = files.names.toSet
      listed = Some(found)
      found
    }
  }

  private val MostBytes = 1 << 20
  private val MostOfAnError = 300
  private val LookAgainMs = 100L
}
