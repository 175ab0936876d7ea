"""The agent's records in each metadata store: the time to write and read them, their size, and the cost of watchers.

The stores are files, a ZooKeeper ensemble of three nodes and a Kafka broker, all on this machine. There are a thousand
processors with ten thousand tasks. Stock Spark has no counterpart.

    publish-first       writing a first job model, with the localities of all its processors and tasks
    publish-next        writing the next one: a processor is gone, and its tasks are on others
    read                a new client reads all records that a start needs
    stored              bytes of the store after that, on its disk or in its nodes
    watchers-told       from a write until the watchers of all fifty clients were called
    calls-a-watcher     calls of a client's watcher for that write, of the client with the most
    requests-a-watcher  packets that ZooKeeper got meanwhile, of all clients, with pings, divided by their number
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import Row, row
from benchmarks.grouping import PROCESSORS_PER_HOST
from benchmarks.machine import this_machine
from mooring.agent.election.kafka import KafkaElection
from mooring.agent.election.zookeeper import ZkElection
from mooring.agent.resources import JobElection
from mooring.metadata import open_metadata_store
from mooring.model import ContainerModel, JobModel, LocationId, SystemStreamPartition, TaskModel, TaskName
from mooring.model.standing import LEADING
from mooring.records.open import open_records
from mooring.records.records import Records
from mooring.testing.kafka import KafkaBroker
from mooring.testing.probes import wait_until
from mooring.testing.zookeeper import ZooKeeperEnsemble

WATCHERS = 50
UNITS = {"stored": "bytes", "calls-a-watcher": "calls", "requests-a-watcher": "requests"}


@dataclass(frozen=True)
class Size:
    """The size of a job model."""

    tasks: int
    processors: int


FULL, QUICK = Size(10_000, 1_000), Size(1_000, 100)


@dataclass(frozen=True)
class Served:
    """A store to measure: `stored` is its size in bytes, `requests` counts the packets to its server."""

    name: str
    place: str
    stored: Callable[[], int]
    records: Callable[[], Records]
    """Opens the records of an agent that leads."""
    requests: Callable[[], int] | None = None


def run(quick: bool) -> dict[str, Any]:
    """The entry point for the command line."""
    size, repeats = (QUICK, 1) if quick else (FULL, 3)
    directory = Path(tempfile.mkdtemp(prefix="mooring-stores-"))
    rows: list[Row] = []
    machine = this_machine()
    try:
        for kind in (_files, _zookeeper, _kafka):
            measured: dict[str, list[float]] = {}
            for number in range(repeats):
                with kind(directory / f"{kind.__name__}-{number}") as served:
                    for figure, value in _measure(served, size).items():
                        measured.setdefault(figure, []).append(value)
            what = {"store": served.name, "tasks": size.tasks, "processors": size.processors}
            rows += [
                row(figure, UNITS.get(figure, "s"), {"mooring": seen}, **what) for figure, seen in measured.items()
            ]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return {"name": "stores", "machine": machine, "rows": rows}


def _measure(served: Served, size: Size) -> dict[str, float]:
    first, following = _job_model(size, 1), _job_model(size, 2, gone=1)
    seen: dict[str, float] = {}
    with closing(served.records()) as records:
        seen["publish-first"] = _seconds(lambda: _publish(records, first, _places(first)))
        before = _places(first)
        moved = {task: place for task, place in _places(following).items() if before[task] != place}
        seen["publish-next"] = _seconds(lambda: _publish(records, following, moved))
        with closing(open_records(served.place, {}, print)) as reader:
            seen["read"] = _seconds(reader.read)
        seen["stored"] = served.stored()
    return seen | _watched(served)


def _publish(records: Records, model: JobModel, places: dict[str, str]) -> None:
    records.write_job_model(model)
    records.write_task_locality(places)


def _watched(served: Served) -> dict[str, float]:
    calls: Counter[int] = Counter()
    lock = threading.Lock()

    def count_calls(number: int) -> Callable[[frozenset[str]], None]:
        def watcher(keys: frozenset[str]) -> None:
            with lock:
                calls[number] += 1

        return watcher

    with ExitStack() as clients:
        store = clients.enter_context(open_metadata_store(served.place))
        for number in range(WATCHERS):
            clients.enter_context(open_metadata_store(served.place)).watch(count_calls(number))
        store.put("ready", b"")
        wait_until(lambda: len(calls) == WATCHERS, "all clients to watch", 60)
        time.sleep(2.0)  # late calls belong to this write
        calls.clear()
        requests_before = served.requests() if served.requests else 0
        begin = time.monotonic()
        store.put("measured", b"x")
        wait_until(lambda: len(calls) == WATCHERS, "the watchers of all clients to be called", 60, interval=0.002)
        seconds = time.monotonic() - begin
        time.sleep(2.0)  # second calls for the same write come soon
        seen = {"watchers-told": seconds, "calls-a-watcher": float(max(calls.values()))}
        if served.requests:
            seen["requests-a-watcher"] = (served.requests() - requests_before) / WATCHERS
        return seen


def _job_model(size: Size, version: int, gone: int = 0) -> JobModel:
    """A job model with the tasks spread over the processors in turn, without the last `gone` processors."""
    here = size.processors - gone
    tasks: dict[int, list[TaskModel]] = {number: [] for number in range(here)}
    for number in range(size.tasks):
        streams = frozenset({SystemStreamPartition("spark", "query/0/default", number)})
        processor = number % size.processors
        owner = processor if processor < here else number % here
        tasks[owner].append(TaskModel(TaskName(f"query/Partition {number}"), streams, number))
    containers = [
        ContainerModel.of(str(number), held, LocationId(f"host-{number // PROCESSORS_PER_HOST}"))
        for number, held in tasks.items()
    ]
    return JobModel.of(containers, version)


def _places(model: JobModel) -> dict[str, str]:
    return {task: held.location_id or "" for held in model.containers.values() for task in held.tasks}


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@contextmanager
def _files(directory: Path) -> Iterator[Served]:
    place = str(directory)
    yield Served("files", place, lambda: _on_disk(directory), lambda: open_records(place, {}, print))


@contextmanager
def _zookeeper(directory: Path) -> Iterator[Served]:
    with ZooKeeperEnsemble(nodes=3, work_dir=directory) as ensemble:
        place = f"zk://{ensemble.hosts}/mooring"
        with _led(ZkElection(place, {}, "benchmark", "benchmark", "", print)) as records:
            stored, asked = partial(_in_nodes, ensemble.hosts, "/mooring"), partial(_received, ensemble)
            yield Served("zookeeper", place, stored, records, asked)


@contextmanager
def _kafka(directory: Path) -> Iterator[Served]:
    with KafkaBroker(directory) as broker:
        place = f"kafka://{broker.servers}/mooring"
        with _led(KafkaElection(place, {}, "benchmark", "", print)) as records:
            yield Served("kafka", place, lambda: _on_disk(directory / "data", "mooring-*/*.log"), records)


@contextmanager
def _led(election: JobElection) -> Iterator[Callable[[], Records]]:
    """Wait until the candidate leads; yields a function that opens its records."""
    try:
        wait_until(lambda: election.standing().state == LEADING, "the agent to lead", 30)
        yield lambda: election.records(print)
    finally:
        election.close()


def _received(ensemble: ZooKeeperEnsemble) -> int:
    return sum(node.received() for node in ensemble.nodes)


def _on_disk(directory: Path, pattern: str = "**/*") -> int:
    return sum(path.stat().st_size for path in directory.glob(pattern) if path.is_file())


def _in_nodes(hosts: str, root: str) -> int:
    """The bytes of all values at and below a node."""
    from kazoo.client import KazooClient

    client = KazooClient(hosts=hosts)
    client.start()
    try:
        waiting, total = [root], 0
        while waiting:
            path = waiting.pop()
            names, stat = client.get_children(path, include_data=True)
            total += stat.dataLength
            waiting += [f"{path}/{name}" for name in names]
        return total
    finally:
        client.stop()
        client.close()
