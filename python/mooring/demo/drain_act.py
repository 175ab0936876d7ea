"""The demo's last act: it drains a query whose windows are all open, and compares the output."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from mooring.demo import open_windows
from mooring.demo.evidence import Checkpoint
from mooring.demo.readings import Measures
from mooring.demo.scene import Scene

FILES = 4
WINDOW_MS = 10_000

Window = tuple[int, int, int, int]
"""The window's start in milliseconds since the epoch, the auction, the number of bids, and the highest price."""


def drain_open_windows(scene: Scene, work: Path, place: str, show: Callable[..., Measures]) -> Measures:
    """Start a job that counts bids in windows, let it read some files, and drain it. `place` is for its records."""
    files = _linked(scene.feed.given[:FILES], work / "bids in windows")
    checkpoint, output = Checkpoint(work / "checkpoints" / "windows"), work / "windows"
    scene.start_job(
        Path(open_windows.__file__),
        [files[0].parent, checkpoint.directory, output],
        {"spark.mooring.metadata": place, "spark.mooring.drain.poll.interval": "1s"},
    )
    scene.wait(lambda: checkpoint.files_committed() >= FILES, f"window file {FILES} to be read")
    scene.wait(lambda: bool(scene.status()), "the status to be written")
    before = len(written(output))
    show("windows", f"another job has counted {FILES} files of bids in windows: {before} windows have come out so far")
    begin = time.time()
    with scene.client() as client:
        client.drain(scene.application.application)
        scene.application.finish(120)
    seconds = round(time.time() - begin, 1)
    marker = json.loads((checkpoint.directory / "_mooring" / "drained.json").read_text())
    found, wanted = Counter(written(output)), Counter(answer(files))
    equal = bool(wanted) and found == wanted
    return show(
        "drained",
        f"drained: {len(wanted)} windows came out in {marker['flush-batches']} batch, {marker['state-rows-left']} rows "
        f"of state are left, and the application ended {seconds:.1f} s after it was asked; "
        f"{'equal, row for row,' if equal else 'NOT EQUAL'} to the answer computed without Spark",
        **{
            "rows-before": before,
            "rows-out": sum(found.values()),
            "equal": equal,
            "flush-batches": marker["flush-batches"],
            "state-rows-left": marker["state-rows-left"],
            "seconds": seconds,
        },
    )


def answer(files: Iterable[Path]) -> list[Window]:
    """The windows of all bids in the files, computed without Spark."""
    prices: dict[tuple[int, int], list[int]] = {}
    for path in files:
        with path.open(encoding="utf-8") as lines:
            for bid in map(json.loads, lines):
                start = _milliseconds(bid["time"]) // WINDOW_MS * WINDOW_MS
                prices.setdefault((start, bid["auction"]), []).append(bid["price"])
    return [(start, auction, len(bids), max(bids)) for (start, auction), bids in prices.items()]


def written(output: Path) -> list[Window]:
    """The windows that the job has written."""
    lines = (line for part in sorted(output.glob("part-*.json")) for line in part.read_text().splitlines())
    return [_window(json.loads(line)) for line in lines]


def _window(row: dict[str, Any]) -> Window:
    return row["start"], row["auction"], row["bids"], row["highest"]


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)


def _linked(files: Iterable[Path], directory: Path) -> list[Path]:
    """Links to the files in another directory; links keep the times of modification."""
    directory.mkdir()
    links = [directory / path.name for path in files]
    for path, link in zip(files, links, strict=True):
        os.link(path, link)
    return links
