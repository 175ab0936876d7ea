"""The lines of Spark for which there is a jar, what is compiled for each, and where its Spark comes from.

A line is a minor version of Spark, such as 4.2. The sources of a jar are `scala-shim/src/main/scala`, and each folder
beside `main` whose name has the line: `spark-4.2`, or a range of lines such as `spark-4.1-to-4.3`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SCALA: Final = "2.13"


@dataclass(frozen=True)
class Line:
    """One line. Its jar is compiled against `spark`. `tried` has all versions with which the jar was tried."""

    name: str
    spark: str
    tried: tuple[str, ...]

    @property
    def jar(self) -> str:
        """The file name of its jar."""
        return f"mooring-spark-{self.name}_{SCALA}.jar"

    def has(self, folder: str) -> bool:
        """Whether a folder of sources with this name is for the line. ValueError when the name says no lines."""
        named = _FOLDER.fullmatch(folder)
        if named is None:
            raise ValueError(f"{folder}: expected a name such as spark-4.2 or spark-4.1-to-4.3")
        return _number(named[1]) <= _number(self.name) <= _number(named[2] or named[1])


_FOLDER: Final = re.compile(r"spark-(\d+\.\d+)(?:-to-(\d+\.\d+))?")

LINES: Final = (
    Line("4.0", "4.0.5", tried=("4.0.5",)),
    Line("4.1", "4.1.4", tried=("4.1.4",)),
    Line("4.2", "4.2.0", tried=("4.2.0",)),
    Line("4.3", "4.3.0", tried=("4.3.0",)),
)


class NoSpark(Exception):
    """There is no Spark of a line; the text says what to do."""


def line_of(version: str) -> Line | None:
    """The line of a version of Spark, such as `4.2.1` or `4.2`; None where there is no jar for it."""
    return next((line for line in LINES if _number(line.name) == _number(version)), None)


def known_lines() -> str:
    """The names of the lines, for a message."""
    return ", ".join(line.name for line in LINES)


def jars_of(line: Line) -> Path:
    """The folder of the jars of a Spark of this line: those of this Python's PySpark, else fetched from PyPI once.

    A source distribution of PySpark has all jars of its Spark, the Scala compiler among them. Its jars, 460 MB, are
    kept in `$MOORING_CACHE`, by default `~/.cache/mooring`. NoSpark when pip can not fetch it.
    """
    own = own_jars()
    if own is not None and line_of(spark_version(own)) == line:
        return own
    kept = _cache() / f"spark-{line.spark}"
    if not kept.is_dir():
        _fetch(line.spark, kept)
    return kept


def own_jars() -> Path | None:
    """The folder of jars of the PySpark that this Python can import; None without a PySpark that has a compiler."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return None
    jars = Path(next(iter(spec.submodule_search_locations)), "jars")
    return jars if any(jars.glob(f"scala-compiler-{SCALA}*.jar")) else None


def spark_version(jars: Path) -> str:
    """The version of Spark, from the name of its core jar; `unknown` when there is no such jar."""
    names = (re.fullmatch(rf"spark-core_{SCALA}-(.+)\.jar", jar.name) for jar in jars.glob("spark-core_*.jar"))
    return next((found.group(1) for found in names if found), "unknown")


def _fetch(version: str, target: Path) -> None:
    """Put the jars of PySpark's source distribution into `target`, in one step: another build may look meanwhile."""
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"fetching Spark {version} from PyPI, for {target}", flush=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as here:
        only_source = ("--no-deps", "--no-binary", "pyspark", "--dest", here)
        command = (sys.executable, "-m", "pip", "download", "--quiet", *only_source, f"pyspark=={version}")
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        found = list(Path(here).glob("pyspark-*.tar.gz"))
        if ran.returncode != 0 or not found:
            raise NoSpark(
                f"`pip download pyspark=={version}` failed. The jar for Spark {version} needs the jars of that Spark:\n"
                f"{ran.stderr.strip()[-2000:]}"
            )
        jars = Path(here, "jars")
        jars.mkdir()
        with tarfile.open(found[0]) as archive:
            for member in archive:
                if member.isfile() and re.fullmatch(r"pyspark-[^/]+/deps/jars/[^/]+\.jar", member.name):
                    content = archive.extractfile(member)
                    assert content is not None, "a plain file has content"
                    with (jars / Path(member.name).name).open("wb") as copy:
                        shutil.copyfileobj(content, copy)
        if spark_version(jars) != version:
            raise NoSpark(f"the source distribution pyspark {version} has no jars of Spark {version}")
        try:
            jars.rename(target)
        except OSError:
            if not target.is_dir():  # else another build has fetched it meanwhile
                raise


def _cache() -> Path:
    return Path(os.environ.get("MOORING_CACHE") or Path.home() / ".cache" / "mooring")


def _number(version: str) -> tuple[int, ...]:
    """Major and minor of a version; empty where it has none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return () if found is None else (int(found[1]), int(found[2]))
