"""The lines of Spark for which there is a jar, what is compiled for each, and where its Spark comes from.

A line is a minor version of Spark, such as 4.2. The sources of a jar are `scala-shim/src/main/scala`, and each folder
beside `main` whose name has the line: `spark-4.2`, or a range of lines such as `spark-4.1-to-4.3`.

    python scala-shim/lines.py              print the version of Spark of each line, the oldest first
    python scala-shim/lines.py VERSION      fetch that Spark, if it is not here yet; print the folder for PYTHONPATH
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
from pathlib import Path, PurePosixPath
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
    Line("4.2", "4.2.1", tried=("4.2.0", "4.2.1")),
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
    """The folder of the jars of a Spark of this line: those of this Python's PySpark, else of one from PyPI.

    NoSpark when pip can not fetch it.
    """
    own = own_jars()
    if own is not None and line_of(spark_version(own)) == line:
        return own
    return fetched(line.spark) / "pyspark" / "jars"


def fetched(version: str) -> Path:
    """A folder for the PYTHONPATH with the package `pyspark` of this version, and so with a complete Spark, 460 MB.

    It is fetched from PyPI once, and kept in `$MOORING_CACHE`, by default `~/.cache/mooring`. NoSpark when pip can not
    fetch it.
    """
    kept = kept_folder(version)
    if not _is_whole(kept):
        _fetch(version, kept)
    return kept


def kept_folder(version: str) -> Path:
    """Where `fetched` keeps a version, fetched or not."""
    cache = os.environ.get("MOORING_CACHE") or Path.home() / ".cache" / "mooring"
    return Path(cache, f"pyspark-{version}").absolute()


def _is_whole(kept: Path) -> bool:
    return (kept / "pyspark" / "jars").is_dir()


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


_IN_PACKAGE: Final = {"pyspark": "", "deps/jars": "jars", "deps/bin": "bin", "deps/sbin": "sbin", "lib": "python/lib"}
"""The folders of PySpark's source distribution that are needed, and where pip installs them in the package."""


def _fetch(version: str, target: Path) -> None:
    """Put the package `pyspark` into `target`, in one step: another build may look meanwhile."""
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"fetching Spark {version} from PyPI, for {target}", file=sys.stderr, flush=True)
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
        whole = Path(here, "whole")
        with tarfile.open(found[0]) as archive:
            _unpack(archive, whole / "pyspark")
        if spark_version(whole / "pyspark" / "jars") != version:
            raise NoSpark(f"the source distribution pyspark {version} has no jars of Spark {version}")
        try:
            whole.rename(target)
        except OSError:
            if not _is_whole(target):  # else another build has fetched it meanwhile
                raise


def _unpack(archive: tarfile.TarFile, package: Path) -> None:
    """Write the files of a source distribution to where pip installs them."""
    for member in archive:
        place = _place_in_package(member.name)
        content = archive.extractfile(member) if place is not None and member.isfile() else None
        if place is None or content is None:
            continue
        file = package / place
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as copy:
            shutil.copyfileobj(content, copy)
        file.chmod(0o755 if member.mode & 0o100 else 0o644)


def _place_in_package(name: str) -> Path | None:
    """Where pip installs a member of the archive, such as `pyspark-4.1.4/deps/jars/x.jar`; None if it is not needed."""
    path = PurePosixPath(name.partition("/")[2])
    if ".." in path.parts:
        return None
    return next((Path(to, path.relative_to(of)) for of, to in _IN_PACKAGE.items() if path.is_relative_to(of)), None)


def _number(version: str) -> tuple[int, ...]:
    """Major and minor of a version; empty where it has none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return () if found is None else (int(found[1]), int(found[2]))


def main(arguments: list[str]) -> int:
    """Print the folder for the PYTHONPATH of each version, or the lines' versions without one; the exit code."""
    if not arguments:
        print("\n".join(line.spark for line in LINES))
    try:
        for version in arguments:
            print(fetched(version))
    except NoSpark as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
