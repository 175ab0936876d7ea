"""`mooring status`: hosts, executors, processors, queries and tasks, as the agent last wrote them."""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from mooring.cli import options
from mooring.cli.durations import duration
from mooring.cli.exits import CommandFailed
from mooring.cli.output import counted, print_json, size, table
from mooring.cli.records import CommandRecords
from mooring.cli.watch import watch
from mooring.client.liveness import Life, Liveness, liveness_of

NAME: Final = "status"
HELP: Final = "show hosts, executors, processors, queries and tasks"
WATCH_EVERY_MS: Final = 2_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_metadata(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--watch",
        metavar="TIME",
        nargs="?",
        type=duration("--watch", "2s", least_ms=100),
        const=WATCH_EVERY_MS,
        help="show it again every 2s, or every TIME, until Ctrl-C",
    )
    options.add_json(how)


def run(arguments: argparse.Namespace) -> None:
    """Show the status record, once or again and again. CommandFailed when there is none or it is damaged."""
    records = CommandRecords.named_by(arguments)
    if arguments.json:
        status = records.status()
        print_json({**status, "life": liveness_of(status, time.time_ns() // 1_000_000).life.value})
    elif arguments.watch is not None:
        watch(lambda: _text_of(records), arguments.watch / 1000)
    else:
        print(_text_of(records))


def _text_of(records: CommandRecords) -> str:
    status = records.status()
    try:
        return as_text(status, time.time())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CommandFailed(
            f"the status in {records.place} is damaged: {error!r} is missing or of a wrong form"
        ) from error


def as_text(status: dict[str, Any], now: float) -> str:
    """The status as tables for people. `now` is in seconds since 1970."""
    liveness = liveness_of(status, int(now * 1000))
    parts = [
        _heading(status, liveness),
        _hosts(status),
        _drained(status),
        _queries(status, liveness.life),
        _ends(status),
        _restores(status),
        _tasks(status),
        _not_placed(status),
        _requests(status),
        _shortages(status),
        _counters(status.get("counters", {})),
    ]
    return "\n\n".join(part for part in parts if part)


def _heading(status: dict[str, Any], liveness: Liveness) -> str:
    standbys = _in_mode(status, "Standby")
    sizes = (
        counted(len(status["hosts"]), "host"),
        counted(sum(len(host["executors"]) for host in status["hosts"]), "executor"),
        counted(len(status["processors"]), "processor"),
        counted(len(_in_mode(status, "Active")), "task"),
        *([counted(len(standbys), "standby")] if standbys else []),
    )
    name = f" ({status['name']})" if status.get("name") else ""
    placement = f"placement version {status['version']}, {', '.join(sizes)}; leader {status['leader']}"
    lines = [f"{status['application']}{name}: {placement}"]
    if "barrier" in status:
        lines.append(_version(status))
    is_known = liveness.written_ms is not None or liveness.ended_ms is not None
    if liveness.life is not Life.ALIVE:  # then all that follows was true once
        lines.insert(0, f"{status['application']} {liveness.in_words}")
    elif is_known:
        lines.append(liveness.in_words)
    return "\n".join(lines)


def _version(status: dict[str, Any]) -> str:
    """Whether the newest placement version is in force, and how many tasks it has moved."""
    barrier = status["barrier"]
    tasks = _in_mode(status, "Active")
    changed = sum(bool(task.get("changed")) for task in tasks)
    waiting = barrier["waiting-for"]
    waits = f", waiting for {counted(len(waiting), 'executor')}: {', '.join(waiting)}" if waiting else ""
    return (
        f"version {barrier['version']} is {barrier['state']}{waits}; "
        f"{counted(changed, 'task')} changed, {len(tasks) - changed} unchanged"
    )


def _in_mode(status: dict[str, Any], mode: str) -> list[dict[str, Any]]:
    return [task for task in status["tasks"] if task["mode"] == mode]


def _hosts(status: dict[str, Any]) -> str:
    rows = [
        (
            processor["location"],
            processor["executor"],
            processor["id"],
            processor["state"]
            + (", spare" if processor.get("spare") else "")
            + (", standby stopped" if processor.get("standby-stopped") else "")
            + (f", tasks lent: {processor['lent-because']}" if processor.get("lent-because") else "")
            + "".join(f", standby {id} at {place}" for id, place in processor.get("standbys-wanted-at", {}).items()),
            len(processor["tasks"]),
            len(processor["standby-tasks"]),
        )
        for processor in status["processors"]
    ]
    named = {processor["executor"] for processor in status["processors"]}
    rows += [
        (host["location"], executor, None, "spare", 0, 0)
        for host in status["hosts"]
        for executor in host["executors"]
        if executor not in named
    ]
    return table(
        ("location", "executor", "processor", "state", "tasks", "standby-tasks"), sorted(rows, key=lambda row: row[0])
    )


def _drained(status: dict[str, Any]) -> str:
    """A line for each host that operators keep empty."""
    meaning = {
        "draining": "is draining: its tasks and copies go to other hosts",
        "drained": "is drained: no task and no copy is there, and none comes until mooring open-host {host}",
    }
    return "\n".join(
        f"host {host['location']} {meaning[host['state']].format(host=host['location'])}"
        for host in status.get("drained-hosts", [])
    )


def _requests(status: dict[str, Any]) -> str:
    """The latest requests of operators."""
    rows = [
        (asked["uuid"], asked["processor"], asked["destination"], asked["status"], asked["message"])
        for asked in status.get("requests", [])
    ]
    return table(("uuid", "processor", "destination", "status", "message"), rows) if rows else ""


def _queries(status: dict[str, Any], life: Life) -> str:
    """The queries that run or have ended. While the application is silent, the state of the former is not known."""
    rows = [
        (query["name"], "not known" if life is Life.SILENT else query["state"], query["batch"], query["checkpoint"])
        for query in status["queries"]
    ]
    rows += [
        (query["name"], query["state"], query["batch"], query["checkpoint"])
        for query in status.get("ended-queries", [])
    ]
    return table(("query", "state", "batch", "checkpoint"), rows) if rows else "no stateful query runs"


def _ends(status: dict[str, Any]) -> str:
    """The queries that are being drained or stopped, or have been."""
    rows = [
        (
            drain["query"],
            drain["phase"],
            drain["batch"],
            drain["state-rows-flushed"],
            drain["state-rows-left"],
            drain.get("reason"),
        )
        for drain in status.get("drains", [])
    ]
    heading = ("query", "phase", "batch", "state-rows-flushed", "state-rows-left", "reason")
    return table(heading, rows) if rows else ""


def _restores(status: dict[str, Any]) -> str:
    """The state that executors have fetched since their queries started, or are fetching."""
    rows = [
        (
            restore["query"],
            restore["executor"],
            f"{restore['done']} of {restore['stores']}",
            size(restore["bytes"]),
            restore["milliseconds"],
        )
        for restore in status.get("restores", [])
    ]
    return table(("query", "executor", "done of stores", "bytes", "milliseconds"), rows) if rows else ""


def _tasks(status: dict[str, Any]) -> str:
    rows = [
        (
            task["name"],
            task["mode"],
            task["processor"],
            task["location"],
            size(task["local-bytes"]),
            task["lag-versions"],
            task.get("lag-ms"),
            task["estimated-recovery-seconds"],
        )
        for task in status["tasks"]
    ]
    heading = (
        "task",
        "mode",
        "processor",
        "location",
        "local-bytes",
        "lag-versions",
        "lag-ms",
        "estimated-recovery-seconds",
    )
    return table(heading, rows) if rows else ""


def _not_placed(status: dict[str, Any]) -> str:
    """The tasks that ran elsewhere than planned in the last batch, because of a coalesce."""
    names = [task["name"] for task in _in_mode(status, "Active") if task.get("not-placed")]
    why = "a coalesce runs them together with tasks that the plan has at other processors"
    return f"{counted(len(names), 'task')} not placed: {why}: {', '.join(names)}" if names else ""


def _shortages(status: dict[str, Any]) -> str:
    """The standbys without a place, and those that share a zone with another copy."""
    unplaced, sharing = status.get("unplaced-standbys", []), status.get("standbys-sharing-a-zone", [])
    lines = [f"a standby of {lack['task']} has no place: {lack['reason']}" for lack in unplaced]
    lines += [f"a standby of {shared['task']} shares the zone {shared['zone'] or '(none)'}" for shared in sharing]
    return "\n".join(lines)


def _counters(counters: dict[str, Any]) -> str:
    return ", ".join(f"{name} {size(count) if 'bytes' in name else count}" for name, count in counters.items())
