"""Reads the output of a job without Spark: rows as parsed JSON, in no order."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyarrow import parquet

Row = dict[str, Any]


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The rows as a multiset, for a comparison row by row in any order."""
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def read_sink(directory: Path) -> list[Row]:
    """The rows of a file sink. As in Spark, only files in the sink's log count."""
    paths: list[str] = []
    batches = {int(log.name.split(".")[0]): log for log in (directory / "_spark_metadata").glob("[0-9]*")}
    for _, log in sorted(batches.items()):
        if log.name.endswith(".compact"):
            paths.clear()
        paths += [entry["path"] for entry in map(json.loads, log.read_text().splitlines()[1:])]
    return [row for path in paths for row in _rows(Path(path.removeprefix("file:")))]


def read_delta(table: Path) -> list[Row]:
    """The rows of a Delta table from which no rows were removed, read from the files in its log."""
    logs = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    assert not any("remove" in action for action in actions), f"{table} had rows removed"
    files = [table / unquote(action["add"]["path"]) for action in actions if "add" in action]
    rows = [row for file in files for row in parquet.read_table(file).to_pylist()]
    return [{name: _as_json(value) for name, value in row.items()} for row in rows]


def _as_json(value: Any) -> Any:
    """A value in the form in which a file sink writes it."""
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z" if isinstance(value, datetime) else value


def read_batches(directory: Path, key: str) -> list[Row]:
    """The last row of each key over all batches, for an output in update mode with a directory for each batch."""
    last: dict[Any, Row] = {}
    for batch in sorted(directory.glob("batch=*"), key=lambda path: int(path.name.split("=")[1])):
        assert (batch / "_SUCCESS").exists(), f"{batch} is half written"
        for part in batch.glob("part-*.json"):
            last.update({row[key]: row for row in _rows(part)})
    return list(last.values())


def _rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def last_commit(checkpoint: Path) -> int:
    """The newest batch in the commit log; -1 for none."""
    commits = checkpoint / "commits"
    entries = commits.iterdir() if commits.is_dir() else ()
    return max((int(entry.name) for entry in entries if entry.name.isdigit()), default=-1)
