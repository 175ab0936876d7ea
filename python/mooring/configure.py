"""Switches Mooring on in notebooks and tests: `configure(SparkSession.builder, debounce="1s").getOrCreate()`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

from mooring.errors import InvalidSettingError, MooringError
from mooring.jar import jar_path
from mooring.settings import PREFIX, find_setting, parse_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Builder = TypeVar("Builder", bound=SparkSession.Builder)

PLUGIN = "io.mooring.MooringPlugin"


def configure(builder: Builder, **settings: str | int | bool) -> Builder:
    """Switch Mooring on for the session that this builder will make, and return the builder.

    It adds the plugin to `spark.plugins` and the jar to `spark.jars`, after the builder's own entries. As with every
    option of a builder, the values of spark-defaults.conf for these keys are replaced. `settings` are `spark.mooring.*`
    keys without the prefix and with underscores for dots: `local_store_dir="/data/mooring"`. A second call adds no
    entry twice.

    InvalidSettingError for a wrong name or value; the message has the nearest valid one. InvalidSettingError also for a
    Spark Connect builder, as the server must be configured. MooringError when a Spark context without Mooring runs.
    """
    checked = {key: text for key, text in (_checked(name, value) for name, value in settings.items())}
    present: dict[str, Any] = dict(getattr(builder, "_options", {}))
    _refuse_what_has_no_effect(present)
    builder.config("spark.plugins", _appended(present.get("spark.plugins"), PLUGIN))
    builder.config("spark.jars", _appended(present.get("spark.jars"), str(jar_path())))
    for key, text in checked.items():
        builder.config(key, text)
    return builder


def _checked(name: str, value: str | int | bool) -> tuple[str, str]:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    key = PREFIX + name.replace("_", ".")
    parse_value(find_setting(key, text), text)
    return key, text


def _appended(present: object, addition: str) -> str:
    """A comma-separated list with one more entry; unchanged when the list has the entry."""
    entries = [entry.strip() for entry in str(present or "").split(",") if entry.strip()]
    return ",".join(entries if addition in entries else [*entries, addition])


def _refuse_what_has_no_effect(options: dict[str, Any]) -> None:
    if "spark.remote" in options:
        raise InvalidSettingError(
            f"spark.remote={options['spark.remote']}: with Spark Connect, Mooring is switched on for the server: "
            f"start it with --conf spark.plugins={PLUGIN} and --jars {jar_path()}"
        )
    context = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)
    if context is not None and PLUGIN not in context.getConf().get("spark.plugins", ""):
        raise MooringError(
            "a Spark context runs already, and its JVM takes no plugin any more: restart this Python process (the"
            " notebook's kernel), and configure first"
        )
