package io.mooring.drain

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import io.mooring.agent.{Bridge, DriverFiles, Patience}
import io.mooring.common.{Aside, Json, Say}
import io.mooring.driver.Driver

import org.apache.spark.sql.execution.streaming.state.shims.{DrainLog, DrainValve, Ending, Intake, StreamDoor, StreamDoors}

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
final class Drains(bridge: Bridge, application: () => String, resume: String, onStart: Boolean, patience: Patience) {
  import Drains._

  private val under = new ConcurrentHashMap[String, Option[DrainValve]]() // the runs that are ended; None: it was refused
  private val undone = new ConcurrentHashMap[String, Long]() // checkpoint -> until where it went back once
  private val checkpoints = new ConcurrentHashMap[String, String]() // by query, of all that this application has started
  private val together = ConcurrentHashMap.newKeySet[String]() // the checkpoints that this application was to drain
  private val flushesFrom = new ConcurrentHashMap[String, Long]() // run -> its first batch that flushes
  private val held = new ConcurrentHashMap[String, (StreamDoor, DrainValve)]() // the runs that were held as somebody has asked
  private val fed = ConcurrentHashMap.newKeySet[String]() // the runs that were to be drained after others
  private val closed = ConcurrentHashMap.newKeySet[String]() // runs whose intake has stopped, of those that are drained
  private val doors = new ConcurrentHashMap[String, StreamDoor]() // by run, of those that are ended by it, until they are over
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
  def begin(query: String, how: Ending, zeroInput: Boolean): Unit = for (door <- StreamDoors.query(query)) synchronized {
    val readsNothing = zeroInput && !fed.contains(door.runId)
    val isUnderWay = Option(under.get(door.runId)).flatten.exists(_.end(how, readsNothing))
    if (!isUnderWay && begun(door, DrainValve.begin(door, how, new Told(door))).isDefined) notOwed(door)
  }

  /** Of these queries, by name or id, or of all (None), a drain is asked for: one that starts meanwhile is held. */
  def asked(of: Seq[Option[String]]): Unit = synchronized {
    if (of.isEmpty && wanted.exists(_.nonEmpty)) {
      over += 1
      failed.forEach(query => bridge.over(s"drain $query")) // the next drain is another: nobody waits for them in that
      failed.clear()
    }
    wanted = Some(of)
    for ((door, valve) <- held.values.asScala if !isAsked(door)) {
      if (valve.isHeld) doors.remove(door.runId) // its end is an ordinary one
      valve.giveUp()
    }
    notifyAll()
  }

  private def isAsked(door: StreamDoor) = wanted.exists(_.exists(_.forall(Set(door.id, door.name))))

  /** How often all that was asked for was over, drained or not. */
  def timesOver: Int = synchronized(over)

  private def markersOf(checkpoint: String) = new Markers(bridge.files(s"$checkpoint/$Directory"))

  /** What was noted when it was asked for is given up. */
  private def notOwed(door: StreamDoor): Unit = markersOf(door.checkpoint).delete(DrainingFile)

  /** Notes what is to be drained, each query once those are that it names: as long as that is not over, their starts go on. */
  def owe(after: Map[String, Seq[String]]): Unit = synchronized {
    val doors = after.keys.toSeq.flatMap(StreamDoors.query(_))
    doors.filter(door => after(door.id).nonEmpty).foreach(door => fed.add(door.runId))
    doors.foreach(door => together.add(door.checkpoint))
    for (door <- doors if !Option(under.get(door.runId)).exists(_.forall(!_.isHeld))) Aside.otherwise("note what is to be drained", ()) {
      new Told(door).asked(after(door.id).flatMap(id => Option(checkpoints.get(id)).map(id -> _)).toMap)
    }
  }

  /** Why it was refused, if it was. */
  private def begun(door: StreamDoor, valve: Either[String, DrainValve]): Option[String] = {
    under.put(door.runId, valve.toOption)
    if (valve.isRight) doors.put(door.runId, door)
    valve.left.toOption.map { reason =>
      Say.warn(s"query ${door.label} can not be ended so: $reason")
      tell(door, "refused", "reason" -> reason)
      reason
    }
  }

  /** The last batch that the query had begun before it went back to an earlier one: its sink may remember it. */
  def undoneUntil(checkpoint: String): Option[Long] = Option.when(undone.containsKey(checkpoint))(undone.get(checkpoint))

  /** On the thread of a stream that starts: what its checkpoint says of a drain. */
  def atStart(door: StreamDoor): Unit = {
    resets.remove(door.checkpoint)
    refusals.remove(door.checkpoint)
    undone.remove(door.checkpoint)
    checkpoints.put(door.id, door.checkpoint)
    DrainValve.prepare(door)
    try {
      val markers = markersOf(door.checkpoint)
      markers.read(RestoringFile) match {
        case None =>
          markers.read(UndoneFile).foreach(note => undone.put(door.checkpoint, note.get("until").asLong()))
          goOn(door, markers)
        case Some(note) =>
          val batch = note.path("to-batch").asText()
          refusals.put(door.checkpoint, s"${door.checkpoint} is on its way back to batch $batch and not there yet: " +
            s"`mooring restore ${door.checkpoint} --to-batch $batch` goes on with that")
      }
      if (whyNotToStart(door.checkpoint).isEmpty && !under.containsKey(door.runId)) hold(door, markers)
    } catch {
      case NonFatal(_) if !door.isActive => // it was stopped while it started: it begins no batch
      case NonFatal(e) => refusals.put(door.checkpoint, s"what ${door.checkpoint}/$Directory says of a drain or a restore can not be read ($e): " +
        "a drained checkpoint would count every new event as late. Try again, or remove the file")
    }
  }

  /**
   * A drain of it may have been asked for before it starts: then it reads nothing until the agent says that it is its
   * turn, as those that feed it may have to be drained before. The agent is waited for, once, to say what is asked for.
   */
  private def hold(door: StreamDoor, markers: Markers): Unit = synchronized {
    val isNoted = markers.read(WantedFile).isDefined
    val isToEnd = onStart || isNoted // it is started for its drain only
    val about = s"start of ${door.runId}"
    if (isNoted) tellOwed(door, Nil, isHeld = true)
    if (!isToEnd && patience.isHopeful && (wanted.isEmpty && isAwaited && door.isStateful || isAsked(door))) {
      bridge.tell(Map("event" -> "QueryStarting", "query" -> door.id, "run" -> door.runId, "checkpoint" -> door.checkpoint), Some(about))
      if (wanted.isEmpty) patience.spend(door.runId)(most => awaitWord(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(most) / 2))
      isAwaited = false
    }
    if (isToEnd && !patience.isHopeful)
      refusals.put(door.checkpoint, "it is to be drained at its start, and there is no agent to say when: see spark.mooring.agent.python")
    else if (isToEnd || isAsked(door)) {
      val valve = DrainValve.beginAtStart(door, Ending.Drained, Intake.Later(() => patience.isHopeful, isToEnd), new Told(door))
      if (!isToEnd) valve.foreach(one => held.put(door.runId, door -> one))
      for (reason <- begun(door, valve))
        if (isToEnd) refusals.put(door.checkpoint, s"it is to be drained at its start, and can not be: $reason")
        else Say.warn(s"query ${door.label} starts although a drain was asked for: $reason")
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
    for (door <- Option(doors.remove(run)) if !isAtItsEnd && !doors.values.asScala.exists(_.id == door.id)) {
      failed.add(door.id)
      tell(door, "failed", "writes" -> Seq(door.sinkAsDescribed),
        "reason" -> error.fold("nothing failed: it ended by itself, or was stopped")(text => s"it failed: ${firstLine(text)}"))
    }
  }

  private def firstLine(text: String) = text.linesIterator.nextOption().getOrElse("").take(MostOfAnError)

  private def goOn(door: StreamDoor, markers: Markers): Unit = {
    def isOfNow(marker: JsonNode) = door.lastCommitted.exists(_ <= marker.get("batch").asLong())
    markers.read(DrainedFile).filter(isOfNow) match {
      case Some(drained) =>
        Seq(DrainingFile, WantedFile).foreach(markers.delete) // left behind when it ended just then
        val last = drained.get("batch").asLong()
        val isUnderWay = onStart || checkpointsWith(drained).exists(markersOf(_).read(DrainingFile).isDefined)
        if (resume == "reset") markers.write(ResetFile, Map("from" -> last, "to" -> last, "watermark" -> 0))
        else if (resume != "true" && !(isUnderWay && endsAgain(door, last)))
          refusals.put(door.checkpoint, s"the checkpoint ${door.checkpoint} was drained: its state " +
            "is flushed, and its watermark so far ahead that every new event would count as late. Start with a new checkpoint, " +
            "or set spark.mooring.resume.drained to reset (go on from its offsets with a fresh watermark) or to true")
      case None => markers.read(DrainingFile) match {
        case Some(draining) if draining.get("phase").asText() == "asked" =>
          if (resume == "reset") notOwed(door)
          else if (!onStart) owed(door, draining)
          else checkpointsWith(draining).foreach(together.add) // it is drained as all are
        case Some(draining) if resume == "reset" =>
          val begun = draining.get("batch").asLong() + 1
          markers.write(ResetFile, Map("from" -> begun, "to" -> (begun + DrainValve.MostFlushes), "watermark" -> draining.get("watermark").asLong()))
          markers.delete(DrainingFile)
        case Some(draining) =>
          val flushes = draining.get("phase").asText() == "flushing"
          if (flushes) flushesFrom.put(door.runId, draining.get("batch").asLong() + 1)
          checkpointsWith(draining).foreach(together.add)
          tellOwed(door, Nil)
          goOnWith(door, if (flushes || draining.path("zero-input").asBoolean()) Intake.Nothing else Intake.All)
        case None =>
      }
    }
    for (reset <- markers.read(ResetFile))
      resets.put(door.checkpoint, Reset(reset.get("from").asLong(), reset.get("to").asLong(), reset.get("watermark").asLong()))
  }

  /** It was to be drained, and was not told so any more: it waits for those that come before it, as it would have. */
  private def owed(door: StreamDoor, draining: JsonNode): Unit = synchronized {
    checkpointsWith(draining).foreach(together.add)
    val missing = draining.get("after").properties().asScala.filter(e => markersOf(e.getValue.asText).read(DrainedFile).isEmpty)
    Say.info(s"query ${door.label} was to be drained when it ended" + (if (missing.isEmpty) "" else ": it waits for those that feed it"))
    tellOwed(door, missing.map(_.getKey).toSeq)
    if (missing.isEmpty)
      for (reason <- begun(door, DrainValve.beginAtStart(door, Ending.Drained, Intake.All, new Told(door)))) {
        notOwed(door)
        Say.warn(s"query ${door.label} goes on without the drain that was asked for: $reason")
      }
  }

  private def checkpointsWith(marker: JsonNode): Seq[String] = Option(marker.get("with")).toSeq.flatMap(_.asScala.map(_.asText))

  private def tellOwed(door: StreamDoor, after: Seq[String], isHeld: Boolean = false): Unit = bridge.tell(
    Map("event" -> "DrainOwed", "query" -> door.id, "after" -> after, "held" -> isHeld), about = Some(s"drain owed to ${door.runId}"))

  /** It is drained: has it end before its first batch, if that can be. */
  private def endsAgain(door: StreamDoor, last: Long): Boolean = synchronized {
    Say.info(s"query ${door.label} was drained before: it ends at once")
    begun(door, DrainValve.beginAtStart(door, Ending.AfterBatch, Intake.Nothing, new DrainLog {
      override def frozen(next: Long, ending: Ending, zeroInput: Boolean): Unit = ()
      override def caughtUp(next: Long, watermarkMs: Long): Unit = ()
      override def flushed(batch: Long, removed: Long, left: Long): Unit = ()
      override def drained(last: Long): Unit = ()
      override def stopped(next: Long, how: Ending): Unit = tell(door, "drained", "batch" -> last)
    })).isEmpty
  }

  private def goOnWith(door: StreamDoor, intake: Intake): Unit = synchronized {
    if (!under.containsKey(door.runId))
      for (reason <- begun(door, DrainValve.beginAtStart(door, Ending.Drained, intake, new Told(door))))
        refusals.put(door.checkpoint, s"a drain of it is not over, and can not go on: $reason")
  }

  private def tell(door: StreamDoor, phase: String, more: (String, Any)*): Unit = {
    if (Set("drained", "stopped")(phase)) atTheirEnd.add(door.runId)
    bridge.tell(Map[String, Any]("event" -> "DrainProgressed", "query" -> door.id, "name" -> door.name, "run" -> door.runId,
      "phase" -> phase) ++ more, about = Some(s"drain ${door.id}"))
  }

  /** Whether a batch of the query on whose thread this is asked lets out what was held back, such as windows that are not full. */
  def letsOut(batch: Long): Boolean = StreamDoors.ofThisThread.exists(door => flushesFrom.getOrDefault(door.runId, Long.MaxValue) <= batch)

  /** How far the drain of a run is in a batch: 0 before, 1 when it catches up, 2 when it lets out what was held back. */
  def stateOf(run: String, batch: Long): Int =
    if (flushesFrom.getOrDefault(run, Long.MaxValue) <= batch) 2 else if (closed.contains(run)) 1 else 0

  private final class Told(door: StreamDoor) extends DrainLog {
    private lazy val markers = markersOf(door.checkpoint)
    private val first = door.lastCommitted.fold(0L)(_ + 1) // the first batch that is counted
    private var rows, stateLeft = 0L
    private var flushes = 0
    private var frozenAt, caughtUpAt = 0L // milliseconds since 1970

    def asked(before: Map[String, String]): Unit = mark(DrainingFile, first - 1, "phase" -> "asked", "after" -> before)

    // A flush that an earlier run has begun keeps its mark: the watermark from before it, and its first batch.
    private def goesOn = flushesFrom.containsKey(door.runId)

    override def frozen(next: Long, ending: Ending, zeroInput: Boolean): Unit = {
      frozenAt = System.currentTimeMillis()
      if (ending == Ending.Drained) {
        if (!goesOn) mark(DrainingFile, next - 1, "phase" -> "frozen", "zero-input" -> zeroInput)
        closed.add(door.runId)
      }
      say("frozen", next - 1, "its intake is stopped")
    }

    override def caughtUp(next: Long, watermarkMs: Long): Unit = {
      caughtUpAt = System.currentTimeMillis()
      if (!goesOn) {
        mark(DrainingFile, next - 1, "phase" -> "flushing", "watermark" -> watermarkMs)
        flushesFrom.put(door.runId, next)
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
      stateLeft = door.stateRows
      say("stopped", last, s"it stops (${how.name}); $stateLeft rows of state are kept")
    }

    private def say(phase: String, batch: Long, what: String): Unit = {
      Say.info(s"drain of query ${door.label}, batch $batch: $what")
      tell(door, phase, "batch" -> batch, "batches" -> math.max(0, batch + 1 - first), "rows" -> door.rowsSince(first),
        "flushed" -> rows, "left" -> stateLeft, "flushes" -> flushes)
    }

    private def mark(file: String, last: Long, more: (String, Any)*): Unit = {
      Driver.checkLeads(file)
      markers.write(file, Map[String, Any]("at" -> System.currentTimeMillis(), "deployment" -> application(), "query" -> door.id,
        "name" -> door.name, "batch" -> last, "offsets" -> door.offsets(last),
        "with" -> (together.asScala.toSeq :+ door.checkpoint).distinct.sorted) ++ more)
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
