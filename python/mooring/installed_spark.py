"""The Spark that `spark-submit` starts on this machine."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CORE: Final = re.compile(r"spark-core_([0-9.]+)-(.+)\.jar")
_LINE: Final = re.compile(r"(\d+\.\d+)(?:\..*)?")


@dataclass(frozen=True, slots=True)
class InstalledSpark:
    """A Spark in the directory `home`. `version` is such as `4.2.0`, and `scala` such as `2.13`."""

    home: str
    version: str
    scala: str


def spark_home(environment: Mapping[str, str] = os.environ) -> str | None:
    """The directory of the Spark: `SPARK_HOME`, else that of PySpark; None where there is neither."""
    return environment.get("SPARK_HOME") or _home_of_pyspark()


def installed_spark(environment: Mapping[str, str] = os.environ) -> InstalledSpark | None:
    """The Spark in `spark_home`, by the name of its core jar; None where there is no such jar."""
    home = spark_home(environment)
    if home is None:
        return None
    try:
        names = sorted(os.listdir(Path(home, "jars")))
    except OSError:
        return None
    core = next((found for name in names if (found := _CORE.fullmatch(name))), None)
    return None if core is None else InstalledSpark(home, version=core[2], scala=core[1])


def line_of(version: str) -> str | None:
    """The line of a version of Spark: `4.2` for `4.2.1`, and for `4.2`. None for a text that is no version."""
    found = _LINE.fullmatch(version)
    return None if found is None else found[1]


def _home_of_pyspark() -> str | None:
    spec = importlib.util.find_spec("pyspark")
    places = None if spec is None else spec.submodule_search_locations
    return None if not places else str(next(iter(places)))
