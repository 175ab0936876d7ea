"""The demo, act by act. Each act does one thing to the application and returns its measurements."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mooring.client import MooringClient
from mooring.demo import readings
from mooring.demo.answer import compare, offline_answer, written_rows
from mooring.demo.bids import Feed, Stream
from mooring.demo.drain_act import drain_open_windows
from mooring.demo.evidence import batch_seconds, began_at, input_rows, progress_reports, state_bytes, state_rows
from mooring.demo.readings import MEGABYTE, Measures
from mooring.demo.records_place import records_place
from mooring.demo.rollback_act import go_back
from mooring.demo.scene import HOSTS, PARTITIONS, Scene, batch_of, need_room
from mooring.jar import jar_path
from mooring.records.open import open_records
from mooring.testing.cluster import SparkCluster
from mooring.testing.hosts import ExecutorProcess

VICTIM = "127.0.0.3"
MOVED_FROM, MOVED_TO = "127.0.0.4", "127.0.0.2"
FILES_BEFORE_THE_KILL = 6
MOST_FILES_DURING_THE_MOVE = 8
BATCHES_BEFORE_THE_MOVE = 4
FILES_AFTER_THE_RESTART = 2
STANDBY = {"spark.mooring.standby.replication.factor": "2"}
MOST_FILES_WHILE_AWAY = 8

Print = Callable[[str], None]


def run(say: Print, progress: Print, metadata: str | None = None, server: str | None = None) -> Measures:
    """Run the whole demo in a temporary directory. The directory and all processes are gone at the end, in any case.

    `say` gets a line for each step, `progress` gets the state of a wait. The records are in the store `metadata`, or in
    a `server` ("zookeeper" or "kafka") that is started here, else beside the checkpoint. Returns the measurements under
    the keys of `mooring demo --json`.
    """
    need_room(Path(tempfile.gettempdir()), 6_000 * MEGABYTE)
    plugin = {"spark.plugins": "io.mooring.MooringPlugin", "spark.jars": str(jar_path())}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mooring-demo-", ignore_cleanup_errors=True) as name:
        work = Path(name).resolve()
        steps: list[Measures] = []

        def show(step: str, sentence: str, **measured: Any) -> Measures:
            say(f"{time.monotonic() - begin:6.1f} s  {sentence}")
            steps.append({"step": step, "at-seconds": round(time.monotonic() - begin, 1), **measured})
            return measured

        say(f"working in {work} (removed at the end)")
        files = Stream().write(work / "to-come")
        size = sum(file.stat().st_size for file in files)
        show("bids", f"{len(files)} files of bids made, {readings.mb(size)} in all", files=len(files), bytes=size)
        with ExitStack() as stack:
            place, named = stack.enter_context(records_place(work, metadata, server))
            records = open_records(place, {}, say)
            stack.callback(records.close)
            if named:
                show("store", f"the records are kept in {place}", metadata=place)
            cluster = stack.enter_context(
                SparkCluster(HOSTS, cores_per_host=1, executor_memory="900m", work_dir=work / "cluster")
            )
            scene = Scene(work, cluster, Feed(files, work / "bids"), {**plugin, **named}, records, progress)
            show(
                "cluster",
                f"a Spark cluster of {HOSTS} hosts is up: {', '.join(cluster.hosts)}",
                hosts=list(cluster.hosts),
            )
            first = build_up_state(scene, show)
            killed = kill_an_executor(scene, show)
            moved = move_a_processor(scene, show)
            before_restart = stop(scene, show)
            after_restart = restart(scene, show)
            standby = kill_an_executor_that_has_standbys(scene, show)
            answer = compare_with_offline_answer(scene, show)
            rolled_back = go_back(scene, show)
            drained = drain_open_windows(scene, work, place, show)
        summary = _summary(scene, steps, first, killed, moved, before_restart, after_restart, standby, answer)
        equal = answer["equal"] and rolled_back["equal"] and drained["equal"]
        return {
            "metadata": place if named else "files beside the checkpoint",
            **summary,
            "rows-out-equal-offline-answer": equal,
            "rollback": rolled_back,
            "drain": drained,
        }


def build_up_state(scene: Scene, show: Callable[..., Measures]) -> Measures:
    """Start the application and let it read until its state is large."""
    scene.feed.give(FILES_BEFORE_THE_KILL)
    scene.start_application()
    executors = scene.application.wait_for_executors(HOSTS)
    show("start", f"the job is submitted; it has {len(executors)} executors", executors=executors)
    scene.wait_for_files(FILES_BEFORE_THE_KILL)
    status = scene.settled_status()
    placed, percent = status["counters"]["preferred-host-requests"], readings.percent(status["counters"])
    groups = ", ".join(f"{p['location']} has {len(p['tasks'])}" for p in status["processors"])
    return show(
        "state",
        f"{status['queries'][0]['batch'] + 1} batches; {PARTITIONS} state partitions: {groups}; "
        f"{placed} tasks with state were run, {percent} % of them where the plan says",
        **{"executors": executors, "placed-as-planned-percent": percent, "counters": status["counters"]},
    )


def kill_an_executor(scene: Scene, show: Callable[..., Measures]) -> Measures:
    """Kill an executor (-9) in the middle of a batch. Wait, under load, until its tasks are back on their host."""
    before = scene.status()["counters"]
    victim, batch, lost_tasks, moment = _kill(scene, show)
    seconds, taken_over = _first_commit(scene, show, before, moment)
    away, home_after = _wait_until_home(scene, victim.id, lost_tasks, moment)
    home = scene.settled_status()["counters"]
    return show(
        "home",
        f"its tasks ran on {' and '.join(away) or 'no other host for a whole batch'}; {home_after:.1f} s after the "
        f"kill they were back on {VICTIM}, on a new executor; {readings.opens(taken_over, home)}",
        **{"victim": {"executor": victim.id, "host": victim.host, "batch": batch, "tasks": lost_tasks}},
        **{
            "first-commit-after-kill-seconds": seconds,
            "home-after-seconds": home_after,
            **readings.opened(taken_over, home),
        },
    )


def _kill(scene: Scene, show: Callable[..., Measures]) -> tuple[ExecutorProcess, int | None, list[str], float]:
    """Kill the executor on `VICTIM` (-9) in a batch. Returns the executor, the batch, its tasks and the time."""
    lost_tasks = sorted(name for name, location in readings.whereabouts(scene.status()).items() if location == VICTIM)
    scene.feed.give(3)
    scene.wait(lambda: scene.checkpoint.running_batch() is not None, "a batch to begin")
    batch = scene.checkpoint.running_batch()
    moment = time.time()
    victim = scene.cluster.kill_executor(VICTIM, scene.application.application)
    show(
        "kill",
        f"kill -9 of executor {victim.id} on {VICTIM} in batch {batch}; it had {len(lost_tasks)} of the tasks",
        batch=batch,
    )
    return victim, batch, lost_tasks, moment


def _first_commit(
    scene: Scene, show: Callable[..., Measures], before: Measures, moment: float
) -> tuple[float, Measures]:
    """Wait for the first commit after `moment`. Returns the seconds between the two, and the counters."""
    scene.wait(lambda: any(at > moment for at in scene.checkpoint.commits().values()), "a commit after the kill")
    first_commit = min((at, batch) for batch, at in scene.checkpoint.commits().items() if at > moment)
    seconds = round(first_commit[0] - moment, 3)
    taken_over = scene.status_of_batch(first_commit[1])["counters"]
    sentence = (
        f"batch {first_commit[1]} was committed {seconds:.1f} s after the kill; {readings.opens(before, taken_over)}"
    )
    show("first-commit", sentence, seconds=seconds, **readings.opened(before, taken_over))
    return seconds, taken_over


def move_a_processor(scene: Scene, show: Callable[..., Measures]) -> Measures:
    """Move a processor to another host while the stream runs, as an operator does, and back again."""
    before = scene.status()
    processor = next(listed for listed in before["processors"] if listed["location"] == MOVED_FROM)
    show(
        "move",
        f"processor {processor['id']} is asked to go from {MOVED_FROM} to {MOVED_TO}, with {len(processor['tasks'])} "
        "tasks, while batches run",
        processor=processor["id"],
    )
    most_files = len(scene.feed.given) + MOST_FILES_DURING_THE_MOVE
    begin = time.time()
    with scene.client() as client:
        there = _place(scene, client, processor["id"], MOVED_TO, most_files)
        there_after = round(time.time() - begin, 1)
        back = _place(scene, client, processor["id"], MOVED_FROM, most_files)
    seconds = round(time.time() - begin, 1)
    scene.wait_for_files(len(scene.feed.given))
    after = scene.settled_status()
    quiet, during = _batches_around(scene, begin, begin + seconds)
    measured = {
        "processor": processor["id"],
        "tasks": processor["tasks"],
        "from": MOVED_FROM,
        "to": MOVED_TO,
        "there": there,
        "there-after-seconds": there_after,
        "back": back,
        "back-after-seconds": seconds,
        "batches-before": len(quiet),
        "median-batch-seconds-before": statistics.median(quiet),
        "batches-during": len(during),
        "longest-batch-seconds-during": max(during, default=None),
        **readings.opened(before["counters"], after["counters"]),
    }
    longest = f"the longest of the {len(during)} meanwhile {max(during):.1f} s" if during else "none ran meanwhile"
    return show(
        "moved",
        f"there: {there} after {there_after:.1f} s, and back: {back} after {seconds:.1f} s; the median of the "
        f"{len(quiet)} batches before is {measured['median-batch-seconds-before']:.1f} s, {longest}; "
        f"{readings.opens(before['counters'], after['counters'])}",
        **measured,
    )


def _place(scene: Scene, client: MooringClient, processor: str, host: str, most_files: int) -> str:
    """Ask for a move, and feed the stream until the request is final. Returns the final status."""
    uuid = client.place_container(processor, host, scene.application.application)
    last: list[str] = []

    def is_over() -> bool:
        scene.keep_fed(most_files)
        answer = client.container_status(uuid)
        last[:] = [answer.status_code.value if answer else "gone"]
        return answer is None or answer.status_code.is_final

    scene.wait(is_over, f"processor {processor} to be on {host}")
    return last[0]


def _batches_around(scene: Scene, begin: float, end: float) -> tuple[list[float], list[float]]:
    """Seconds of the last few batches that ended before `begin`, and of those that ran between `begin` and `end`."""
    last = scene.checkpoint.last_commit()
    reports: list[Measures] = []

    def are_reported() -> bool:
        reports[:] = progress_reports(scene.event_logs)
        return any(int(report["batchId"]) >= last for report in reports)

    scene.wait(are_reported, f"Spark's report of batch {last}")
    spans = [(began_at(report), batch_seconds(report)) for report in reports]
    before = [seconds for began, seconds in spans if began + seconds <= begin]
    return before[-BATCHES_BEFORE_THE_MOVE:], [s for began, s in spans if began < end and began + s > begin]


def stop(scene: Scene, show: Callable[..., Measures]) -> Measures:
    """Let the job read all given files, and stop the application. The hosts stay."""
    scene.wait_for_files(len(scene.feed.given))
    status = scene.settled_status()
    scene.stop_application()
    commits = scene.checkpoint.last_commit() + 1
    sentence = f"the application was stopped after {commits} batches; its executors are gone, the hosts' disks stay"
    return show("stop", sentence, batches=commits, counters=status["counters"], tasks=readings.whereabouts(status))


def restart(scene: Scene, show: Callable[..., Measures]) -> Measures:
    """Start the same job again on the same hosts, now with one warm copy of each task."""
    committed = scene.checkpoint.last_commit()
    scene.feed.give(FILES_AFTER_THE_RESTART)
    begin = time.time()
    scene.start_application(STANDBY)
    scene.wait(lambda: scene.checkpoint.last_commit() > committed, "the first batch of the new application")
    seconds = round(scene.checkpoint.commits()[committed + 1] - begin, 3)
    scene.wait_for_files(len(scene.feed.given))
    status = scene.settled_status()
    counters = status["counters"]
    return show(
        "restart",
        f"started again, now with standbys; first commit after {seconds:.1f} s; {readings.opens({}, counters)}",
        **{"first-commit-seconds": seconds, "counters": counters, "tasks": readings.whereabouts(status)},
    )


def kill_an_executor_that_has_standbys(scene: Scene, show: Callable[..., Measures]) -> Measures:
    """Kill an executor when the copies of its tasks are warm, and then end the application."""
    scene.wait(lambda: readings.are_warm(scene.status()), "the copies to be warm")
    status = scene.status()
    copies = readings.copies(status)
    size = sum(copy["local-bytes"] for copy in copies)
    show(
        "standbys",
        f"the standbys are warm: {len(copies)} copies on other hosts, {readings.mb(size)} in all",
        copies=len(copies),
        bytes=size,
    )
    _, _, lost_tasks, moment = _kill(scene, show)
    seconds, counters = _first_commit(scene, show, status["counters"], moment)
    scene.wait_for_files(len(scene.feed.given))
    scene.stop_application()
    failovers = {name: counters[name] for name in ("failovers-to-standby", "failovers-to-any-host")}
    return show(
        "take-over",
        f"{failovers['failovers-to-standby']} of its {len(lost_tasks)} tasks went on where their copies were",
        **{"tasks": lost_tasks, "first-commit-after-kill-seconds": seconds, "copies-bytes": size, **failovers},
        **readings.opened(status["counters"], counters),
    )


def compare_with_offline_answer(scene: Scene, show: Callable[..., Measures]) -> Measures:
    """Compare all rows that the job has written with rows that are computed from the same files without Spark."""
    rows_in, wanted = offline_answer(scene.feed.given)
    commits = scene.checkpoint.commits()
    found, twice = written_rows(scene.output, commits)
    result = compare(found, wanted, twice)
    reports = progress_reports(scene.event_logs)
    seen = {int(report["batchId"]): report for report in reports}
    spark_rows_in = sum(map(input_rows, seen.values()))
    verdict = "equal, row for row" if result.is_equal else f"NOT EQUAL: {result}"
    size, rows = max(map(state_bytes, reports), default=0), max(map(state_rows, reports), default=0)
    largest = {"state-rows": rows, "state-bytes": size}
    show("size", f"at the most the state had {rows} rows, and {readings.mb(size)} in RocksDB's files", **largest)
    return show(
        "answer",
        f"{rows_in} bids in ({spark_rows_in} by Spark's count), {result.rows} rows out: {verdict} to the answer "
        "computed without Spark",
        **{
            "rows-in": rows_in,
            "rows-in-by-spark": spark_rows_in,
            "rows-out": result.rows,
            "equal": result.is_equal,
            "missing": result.missing,
            "surplus": result.surplus,
            "different": result.different,
            "twice": result.twice,
            "median-batch-seconds": statistics.median(map(batch_seconds, reports)),
            "batches": len(commits),
            **largest,
        },
    )


def _wait_until_home(scene: Scene, victim: str, tasks: list[str], moment: float) -> tuple[list[str], float]:
    """Feed the stream until the tasks are back. Returns other places where they ran, and the seconds since the kill.

    The tasks are back when their host has a new executor and all of them ran there last. Before that they ran
    elsewhere, or two batches have been committed since the new executor was in the status.
    """
    most_files = len(scene.feed.given) + MOST_FILES_WHILE_AWAY
    away: set[str] = set()
    first_plan: list[int] = []

    def are_home() -> bool:
        scene.keep_fed(most_files)
        status = scene.status()
        whereabouts = readings.whereabouts(status)
        away.update(place for task in tasks if (place := whereabouts.get(task, VICTIM)) != VICTIM)
        executors = {listed["executor"] for listed in status.get("processors", []) if listed["location"] == VICTIM}
        if not executors - {victim, None}:
            return False
        first_plan.append(batch_of(status))
        ran_since = batch_of(status) >= first_plan[0] + 2
        return all(whereabouts.get(task) == VICTIM for task in tasks) and (bool(away) or ran_since)

    scene.wait(are_home, f"its tasks to be back on {VICTIM}")
    return sorted(away), round(time.time() - moment, 1)


def _summary(
    scene: Scene,
    steps: list[Measures],
    first: Measures,
    killed: Measures,
    moved: Measures,
    before: Measures,
    after: Measures,
    standby: Measures,
    answer: Measures,
) -> Measures:
    total: Counter[str] = Counter(before["counters"]) + Counter(after["counters"])
    return {
        "hosts": len(scene.cluster.hosts),
        "executors": len(first["executors"]),
        "batches": answer["batches"],
        "placed-as-planned-percent": readings.percent(total),
        "killed": killed["victim"],
        "first-commit-after-kill-seconds": killed["first-commit-after-kill-seconds"],
        "move": moved,
        "median-batch-seconds": answer["median-batch-seconds"],
        "rows-in": answer["rows-in"],
        "rows-out": answer["rows-out"],
        "state-bytes": answer["state-bytes"],
        "restart": {
            "local-opens": after["counters"]["local-opens"],
            "remote-opens": after["counters"]["remote-opens"],
            "bytes-from-snapshots": after["counters"]["restore-bytes-remote"],
        },
        "standby": standby,
        "steps": steps,
    }
