"""The one table of settings, from which the jar, the documentation and the sample configurations are made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from mooring.settings.notation import parse_count, parse_duration_ms, parse_size_bytes

PREFIX = "spark.mooring."
PYTHON_CLASS = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*"
"""A `module:Class`, in the dialect that Python and Java share."""

SettingType = Literal["boolean", "integer", "duration", "size", "enum", "string"]


@dataclass(frozen=True)
class Setting:
    """One row: the values of a key, its meaning, and the version since which it works.

    `default` None means that the default depends on the place, as `doc` says. `minimum` and `maximum` are written in
    the notation of the type. `values` are the choices of an enum; for a string they describe the valid values in words.
    `pattern` is a regular expression that must match the whole value, in the dialect that Python and Java share.
    """

    name: str
    type: SettingType
    default: str | None
    doc: str
    minimum: str | None = None
    maximum: str | None = None
    values: tuple[str, ...] = ()
    pattern: str | None = None
    is_prefix: bool = False
    since: str = "0.1.0"

    @property
    def key(self) -> str:
        """The whole key as it is written in a Spark configuration."""
        return PREFIX + self.name

    def number(self, text: str) -> int:
        """The value as a number: milliseconds, bytes or a count. ValueError when the text has no valid form."""
        if self.type == "duration":
            return parse_duration_ms(text)
        return parse_size_bytes(text) if self.type == "size" else parse_count(text)


_ENV = "env:[A-Za-z_][A-Za-z0-9_]*"
_PLACE = f"(?:host|kubernetes|volume|{_ENV})"

TABLE: tuple[Setting, ...] = (
    Setting("enabled", "boolean", "true", "Whether Mooring is on; with false, Spark behaves as without Mooring."),
    Setting(
        "other.spark",
        "enum",
        "off",
        "What happens in a Spark of another line than the jar was built for: Mooring is off, the application fails at"
        " its start, or Mooring runs all the same (try).",
        values=("off", "fail", "try"),
    ),
    Setting(
        "local.store.dir",
        "string",
        None,
        "Directory that all executors of a host share, that outlives the application and that no cluster manager wipes;"
        " by default mooring-<user> in the JVM's java.io.tmpdir.",
        values=("an absolute path",),
        pattern="/.*",
    ),
    Setting(
        "local.store.max.bytes",
        "size",
        None,
        "Size limit of a host's local store; least recently used files go first, one in use never; by default none.",
        minimum="1m",
    ),
    Setting(
        "host.affinity.enabled",
        "boolean",
        "true",
        "Whether each state partition is sent back to the place of its state.",
    ),
    Setting(
        "host.affinity.wait",
        "duration",
        "10s",
        "Longest wait, before a query's first batch, for the first plan and for executors on the last run's locations.",
        minimum="0ms",
        maximum="1h",
    ),
    Setting(
        "executor.allocation.enabled",
        "boolean",
        "true",
        "Whether YARN or Kubernetes is asked for executors on the hosts that have the state. With dynamic allocation on"
        " YARN, Spark prefers these hosts.",
    ),
    Setting(
        "processor.rebind.timeout",
        "duration",
        "60s",
        "How long a processor that lost its executor keeps its tasks for a new executor on the same location. Also how"
        " long tasks that move elsewhere may warm up there, besides the time that their bytes take. 0: neither.",
        minimum="0ms",
        maximum="1d",
    ),
    Setting(
        "liveness.timeout",
        "duration",
        "30s",
        "With standbys: how long an executor with open connections may be silent before it is killed and replaced.",
        minimum="5s",
        maximum="1h",
    ),
    Setting(
        "location.provider",
        "string",
        "host",
        "Where executors can share a local store: their host, the value of an environment variable, their Kubernetes"
        " node, the volume with the local store, several of these joined by slashes, or what a Python class of your own"
        " returns.",
        values=("host", "env:NAME", "kubernetes", "volume", "env:NAME/env:NAME", "module:Class"),
        pattern=f"{_PLACE}(/{_PLACE})*|(?!env:){PYTHON_CLASS}",
    ),
    Setting(
        "zone.provider",
        "string",
        None,
        "Where the zone of an executor is found. Standbys are spread over zones, and mooring status --json shows them;"
        " no zones by default.",
        values=("env:NAME", "kubernetes", "module:Class"),
        pattern=f"{_ENV}|kubernetes|(?!env:){PYTHON_CLASS}",
    ),
    Setting(
        "grouper",
        "string",
        "host-aware",
        "How tasks are spread over processors; a class of your own extends mooring.grouping.TaskNameGrouper.",
        values=(
            "host-aware",
            "group-by-container-ids",
            "group-by-container-count:N",
            "single-container",
            "module:Class",
        ),
        pattern="host-aware|group-by-container-ids|group-by-container-count:[1-9][0-9]{0,6}|single-container|"
        + PYTHON_CLASS,
    ),
    Setting(
        "grouper.weights",
        "enum",
        "tasks",
        "What the grouper evens out: the number of tasks, or the bytes of their state.",
        values=("tasks", "bytes"),
    ),
    Setting(
        "metadata",
        "string",
        None,
        "Where the agent's records are kept across restarts; by default _mooring in"
        " spark.sql.streaming.checkpointLocation, else _mooring/<application name> beside the checkpoint of the first"
        " stateful query.",
        values=("a directory", "a URI that Hadoop can write", "zk://host:port/root", "kafka://host:port/topic"),
        pattern="(?!(?i:zk|zookeeper|kafka):).+|(?:zk|kafka)://[^/]+/.+",
    ),
    Setting(
        "metadata.",
        "string",
        None,
        "Passed on to the client of the metadata store, without this prefix: see docs/guides/zookeeper.md and"
        " docs/guides/kafka.md.",
        is_prefix=True,
    ),
    Setting(
        "restore.streams",
        "integer",
        "8",
        "How many state files an executor fetches at once when a query starts, before the tasks need them; 0: each task"
        " fetches its own files, one after the other.",
        minimum="0",
        maximum="256",
    ),
    Setting(
        "restore.max.bytes.per.second",
        "size",
        None,
        "How many bytes a second an executor fetches when a query starts; no limit by default.",
        minimum="1m",
    ),
    Setting(
        "standby.replication.factor",
        "integer",
        "1",
        "n keeps n-1 warm copies of each task on other locations.",
        minimum="1",
        maximum="4",
    ),
    Setting(
        "standby.max.bytes.per.second",
        "size",
        "64m",
        "How many bytes a second an executor fetches for the copies that it keeps.",
        minimum="1m",
    ),
    Setting(
        "standby.open.stores",
        "integer",
        "16",
        "With changelog checkpointing: how many copies an executor may keep open, as RocksDB instances at the newest"
        " version. A task that takes over finds its store open. 0: copies are files only.",
        minimum="0",
        maximum="10000",
    ),
    Setting(
        "debounce",
        "duration",
        "3s",
        "Executors that join within this time make one new plan.",
        minimum="0ms",
        maximum="10m",
    ),
    Setting(
        "checkpoint.retain.batches",
        "integer",
        None,
        "How many batches a query can go back at least. Raises spark.sql.streaming.minBatchesToRetain to this number:"
        " the checkpoint keeps more changelogs and SST files.",
        minimum="2",
        maximum="1000000",
    ),
    Setting(
        "checkpoint.catalog.enabled",
        "boolean",
        None,
        "Whether a Delta table lists every committed state version; by default true where Delta is among the"
        " application's jars.",
    ),
    Setting(
        "checkpoint.catalog.table",
        "string",
        None,
        "One Delta catalogue for all queries of the application; by default each query has its own,"
        " _mooring/state_versions in its checkpoint.",
        pattern=r"[A-Za-z0-9_]+([.][A-Za-z0-9_]+){0,2}|[^ ]*/[^ ]+",
        values=("a path, as in s3a://bucket/state_versions, or a name in Spark's catalog, as in ops.state_versions",),
    ),
    Setting(
        "checkpoint.catalog.interval",
        "duration",
        "10s",
        "How often the Delta catalogue is written.",
        minimum="1s",
        maximum="1h",
    ),
    Setting(
        "checkpoint.catalog.retain.batches",
        "integer",
        "100",
        "How many batches the Delta catalogue keeps at least; older batches are removed five hundred at a time.",
        minimum="1",
    ),
    Setting(
        "drain.timeout",
        "duration",
        None,
        "How long a drain may take. Then it ends after the running batch, and goes on at the next start; no limit by"
        " default.",
        minimum="1s",
    ),
    Setting(
        "drain.poll.interval",
        "duration",
        "5s",
        "How often the agent looks for a drain notification.",
        minimum="100ms",
        maximum="1h",
    ),
    Setting("drain.on.sigterm", "boolean", "false", "Whether a SIGTERM to the driver drains its queries first."),
    Setting("drain.on.start", "boolean", "false", "Whether a query that starts is drained at once, without new input."),
    Setting(
        "drain.order",
        "string",
        None,
        "Which query feeds which, where that cannot be seen from their sinks.",
        pattern=r"[^,>]*[^,> ][^,>]*([,>][^,>]*[^,> ][^,>]*)*",
        values=("names of queries, those that feed others first, as in orders, users > sums > report",),
    ),
    Setting(
        "resume.drained",
        "enum",
        "false",
        "Whether a query may start from a drained checkpoint: not at all, as it is, or with a fresh watermark (reset).",
        values=("false", "true", "reset"),
    ),
    Setting(
        "placement.poll.interval",
        "duration",
        "1s",
        "How often the agent looks for requests, such as a move of a processor.",
        minimum="100ms",
        maximum="1h",
    ),
    Setting(
        "moves.max.concurrent",
        "integer",
        "1",
        "How many processors may receive tasks at once when tasks are evened out or leave a host. Tasks for other"
        " processors wait until the tasks of these are warm and run.",
        minimum="1",
    ),
    Setting(
        "agent.python",
        "string",
        None,
        "The Python that runs the agent beside the driver; by default the driver's Python, else python3.",
        values=("a command or a path",),
        pattern=".+",
    ),
    Setting(
        "agent.liveness.timeout",
        "duration",
        "30s",
        "How long the agent may go without polling before it is replaced.",
        minimum="1s",
        maximum="1h",
    ),
)


def table_as_json() -> str:
    """The table for readers in other languages: a list of flat objects, with limits in milliseconds and bytes."""
    return json.dumps([_row(setting) for setting in TABLE], indent=1, ensure_ascii=False) + "\n"


def _row(setting: Setting) -> dict[str, object]:
    return {
        "key": setting.key,
        "type": setting.type,
        "default": setting.default,
        "doc": setting.doc,
        "min": None if setting.minimum is None else setting.number(setting.minimum),
        "max": None if setting.maximum is None else setting.number(setting.maximum),
        "values": list(setting.values),
        "pattern": setting.pattern,
        "prefix": setting.is_prefix,
        "since": setting.since,
    }
