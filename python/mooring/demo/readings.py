"""Values from the application's status, as the acts of the demo show them."""

from __future__ import annotations

from typing import Any

from mooring.demo.scene import PARTITIONS

MEGABYTE = 1_000_000

Measures = dict[str, Any]


def percent(counters: dict[str, int]) -> float | None:
    """The percentage of tasks with a planned place that ran there; None before any task ran."""
    asked = counters["preferred-host-requests"]
    return round(100 * counters["placed-as-planned"] / asked, 2) if asked else None


def opened(before: Measures, after: Measures) -> dict[str, int]:
    """The state stores that were opened between two readings of the counters, and the bytes that were read for that."""
    names = ("local-opens", "remote-opens", "restore-bytes-local", "restore-bytes-remote")
    return {name: after[name] - before.get(name, 0) for name in names}


def opens(before: Measures, after: Measures) -> str:
    """The result of `opened` as a sentence."""
    since = opened(before, after)
    count = since["local-opens"] + since["remote-opens"]
    return (
        f"{count} state stores opened, {since['local-opens']} of them without the checkpoint's snapshots: "
        f"{mb(since['restore-bytes-local'])} were on the host, {mb(since['restore-bytes-remote'])} were fetched"
    )


def whereabouts(status: Measures) -> dict[str, str]:
    """Task name to the location where it runs; without copies."""
    return {task["name"]: task["location"] for task in status.get("tasks", []) if task["mode"] == "Active"}


def copies(status: Measures) -> list[Measures]:
    """The entries of standbys in a status."""
    return [task for task in status.get("tasks", []) if task["mode"] == "Standby"]


def are_warm(status: Measures) -> bool:
    """Whether each task has a copy at the newest version."""
    held = copies(status)
    return len(held) == PARTITIONS and all(copy["lag-versions"] == 0 and copy["local-bytes"] for copy in held)


def mb(count: int) -> str:
    """A size as text, in whole megabytes."""
    return f"{count / MEGABYTE:.0f} MB"
