"""An application with the plugin in one JVM, as in a notebook, and small input files for its queries."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

from mooring import configure
from mooring.jar import jar_path
from mooring.testing.events import START_MS, utc
from mooring.testing.processes import descendants
from tests.integration.support.queries_with_pending_output import EVENTS
from tests.integration.support.short_lived_settings import SHORT_LIVED

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    **SHORT_LIVED,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}

_jvm_has_settings = False  # whether an earlier application in this process started the JVM with special settings


@contextmanager
def application(
    name: str, here: Path, further: dict[str, str] | None = None, has_own_jvm: bool = False, **ours: str
) -> Iterator[SparkSession]:
    """Yields the session. Its files go to `here`; `further` are settings of Spark, `ours` are settings of the plugin.

    Applications of this process share a JVM. Set `has_own_jvm` when `further` has settings that a JVM reads at its
    start; packages always are such settings. A JVM gives such settings to each later application, so the next
    application starts its own JVM.
    """
    global _jvm_has_settings
    assert SparkContext._active_spark_context is None, "a process has one application at a time"
    if has_own_jvm or (further and "spark.jars.packages" in further):
        _end_jvm()
        _jvm_has_settings = True
    else:
        _start_jvm_without_settings()
    plain = SparkSession.builder.master("local[2]").appName(name)
    builder = configure(plain, metadata=str(here / "metadata"), local_store_dir=str(here / "store"), **ours)
    places = {"spark.jars": str(jar_path()), "spark.sql.warehouse.dir": str(here / "warehouse")}
    for key, value in {**_SETTINGS, **places, **(further or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    try:
        yield session
    finally:
        session.stop()


def own_agents() -> list[int]:
    """The process ids of the living agents of this process's application."""
    return [child.pid for child in descendants(os.getpid()) if child.option("-m") == "mooring.agent"]


def _start_jvm_without_settings() -> None:
    """Start a JVM, unless one without special settings runs. It takes the next application's settings as they are.

    An application that starts the JVM itself passes its settings through spark-submit, which changes some of them.
    """
    global _jvm_has_settings
    if _jvm_has_settings:
        _end_jvm()
    if SparkContext._gateway is None:
        conf = SparkConf(False).setAll([*SHORT_LIVED.items(), ("spark.jars", str(jar_path()))])
        SparkContext._ensure_initialized(conf=conf)
    _jvm_has_settings = False


def _end_jvm() -> None:
    """End the JVM of an earlier application in this process; the next application starts a new one."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
        SparkContext._gateway = SparkContext._jvm = None


def events_in_files(spark: SparkSession, directory: Path, files: int) -> DataFrame:
    """EVENTS as a stream of `key` and `time`, one file a batch."""
    directory.mkdir()
    for number in range(files):
        part = EVENTS[number * len(EVENTS) // files : (number + 1) * len(EVENTS) // files]
        file = directory / f"{number}.json"
        file.write_text("\n".join(json.dumps({"key": key, "time": utc(ms)}) for key, ms in part))
        os.utime(file, (START_MS / 1000 + number,) * 2)  # the order in which Spark reads them
    return spark.readStream.schema("key LONG, time TIMESTAMP").option("maxFilesPerTrigger", 1).json(str(directory))
