"""Checks whether a machine has what Mooring needs, for `mooring doctor` and for the plugin at its start.

A function `check_…` is pure: it judges what was found. A function `look_at_…` looks at the machine first. None raises.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from mooring.errors import MooringError
from mooring.installed_spark import InstalledSpark, installed_spark, line_of, spark_home
from mooring.jar import jar_path, jars_by_line

OLDEST_PYTHON: Final = (3, 10)
OLDEST_JAVA: Final = 17

_LOOK_SECONDS: Final = 30
_PYTHON: Final = re.compile(r"(python|pypy).*")
_JAVA: Final = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_MOST_ROOM_KEPT_FREE: Final = 1 << 30
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_ON_A_NETWORK: Final = re.compile(r"nfs\d?|cifs|smb\d?|fuse\..*|lustre|gpfs|beegfs|ceph|9p|glusterfs")
_ANYONE: Final = 0o077


class Verdict(Enum):
    """`WRONG`: Mooring can not keep its promises here. `WARNING`: it can at a cost, or this is not known."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check, and what to do about it; `advice` is empty where all is well."""

    subject: str
    verdict: Verdict
    message: str
    advice: str = ""


def driver_python(environment: Mapping[str, str]) -> str:
    """The Python with which the plugin starts its agent where no setting names one: Spark's choice for a driver."""
    named = [environment.get("PYSPARK_DRIVER_PYTHON", ""), environment.get("PYSPARK_PYTHON", "")]
    return next((command for command in named if _PYTHON.fullmatch(Path(command).name)), "python3")


def look_at_python(command: str) -> Finding:
    """Run a Python to ask for its version."""
    printed = _printed([command, "-c", "import sys; print(sys.version.split()[0])"])
    return check_python(command, printed)


def check_python(command: str, version: str | None) -> Finding:
    """Judge the agent's Python. `version` is what this Python prints, None where it can not be run."""
    oldest = ".".join(map(str, OLDEST_PYTHON))
    advice = f"put a Python {oldest} or later on the driver's host, or name it in spark.mooring.agent.python"
    found = re.match(r"(\d+)\.(\d+)", (version or "").strip())
    if version is None or found is None:
        return Finding("python", Verdict.WRONG, f"{command} can not be run: no agent, nothing is placed", advice)
    if (int(found[1]), int(found[2])) < OLDEST_PYTHON:
        return Finding("python", Verdict.WRONG, f"{command} is Python {version.strip()}: too old for the agent", advice)
    return Finding("python", Verdict.OK, f"{command} is Python {version.strip()}")


def look_at_java(environment: Mapping[str, str]) -> Finding:
    """Run the Java that Spark would start, to ask for its version."""
    home = environment.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else "java"
    return check_java(command, _printed([command, "-version"]))


def check_java(command: str, printed: str | None) -> Finding:
    """Judge the JDK. `printed` is what `java -version` prints, None where it can not be run."""
    advice = f"install a JDK {OLDEST_JAVA} or later, and have JAVA_HOME or the PATH lead to it"
    found = _JAVA.search(printed or "")
    if found is None:
        return Finding("jdk", Verdict.WRONG, f"{command} can not be run", advice)
    major = int(found[2])
    if major < OLDEST_JAVA:
        return Finding("jdk", Verdict.WRONG, f"{command} is Java {found[1]}", advice)
    return Finding("jdk", Verdict.OK, f"{command} is Java {found[1]}")


def look_at_spark(environment: Mapping[str, str], lines: Sequence[str]) -> Finding:
    """Look for the Spark that spark-submit would start: the one in SPARK_HOME, else PySpark's own."""
    return check_spark(spark_home(environment), installed_spark(environment), lines)


def check_spark(home: str | None, spark: InstalledSpark | None, lines: Sequence[str]) -> Finding:
    """Judge the Spark in `home`. `lines` are the lines of Spark that Mooring has jars for; none where not known."""
    expected = lines[-1] if lines else "4.2"
    advice = f"pip install 'pyspark~={expected}.0', or have SPARK_HOME lead to a Spark {expected}"
    if spark is None:
        return Finding("spark", Verdict.WRONG, f"there is no Spark in {home or 'PySpark or SPARK_HOME'}", advice)
    what = f"Spark {spark.version} with Scala {spark.scala} in {spark.home}"
    if lines and line_of(spark.version) not in lines:
        return Finding("spark", Verdict.WRONG, f"{what}, and Mooring has jars for Spark {', '.join(lines)}", advice)
    if lines and spark.scala != "2.13":
        return Finding("spark", Verdict.WRONG, f"{what}, and Mooring's jars are built for Scala 2.13", advice)
    return Finding("spark", Verdict.OK, what)


def look_at_jar(version: str) -> Finding:
    """Look for the plugin's jar for the Spark of this machine."""
    try:
        jar = jar_path()
        with zipfile.ZipFile(jar) as opened:
            manifest = opened.read("META-INF/MANIFEST.MF").decode()
    except (MooringError, OSError, KeyError, UnicodeDecodeError, zipfile.BadZipFile) as fault:
        advice = "install Mooring again, or build the jar with make jar"
        return Finding("jar", Verdict.WRONG, f"the plugin's jar can not be read: {fault}", advice)
    attributes = dict(line.split(": ", 1) for line in manifest.splitlines() if ": " in line)
    return check_jar(str(jar), attributes, version)


def lines_with_jars() -> list[str]:
    """The lines of Spark for which there is a jar, the oldest first; none where there is no jar."""
    try:
        return list(jars_by_line())
    except MooringError:
        return []


def check_jar(jar: str, attributes: Mapping[str, str], version: str) -> Finding:
    """Judge the plugin's jar. `attributes` are those of its manifest; `version` is the version of this command."""
    jar_version = attributes.get("Implementation-Version")
    what = f"{jar} is version {jar_version}, for Spark {attributes.get('Built-For-Spark', '(not known)')}"
    if jar_version != version:
        return Finding("jar", Verdict.WRONG, f"{what}, and this command is {version}", "build it again with make jar")
    return Finding("jar", Verdict.OK, what)


def look_at_local_store(root: Path, spark_dirs: Sequence[Path]) -> list[Finding]:
    """Look at the directory that executors on this host would use for local stores; nothing is made or written.

    `spark_dirs` are Spark's local directories. On the same file system files are shared by links, and not copied.
    """
    there = _nearest_that_exists(root)
    findings = [_rights(root, there)]
    try:
        disk, device = shutil.disk_usage(there), there.stat().st_dev
        others = [place for place in map(_nearest_that_exists, spark_dirs) if place.stat().st_dev != device]
    except OSError as fault:
        return [
            *findings,
            Finding("room", Verdict.WARNING, f"{there} can not be looked at: {fault.strerror}", _NAME_IT),
        ]
    return [*findings, check_file_system(root, file_system_of(there), others), check_room(root, disk.free, disk.total)]


_NAME_IT: Final = "name another directory in spark.mooring.local.store.dir"


def _rights(root: Path, there: Path) -> Finding:
    """Judge the rights of the directory by the rules of HostStore.open.

    The directory must be no link, must belong to this user, and must be writable. It must be closed to other users,
    unless it is empty.
    """
    subject = "local store"
    try:
        if root.is_symlink():
            return Finding(subject, Verdict.WRONG, f"{root} is a symbolic link, which is not followed", _NAME_IT)
        if not there.is_dir():
            return Finding(subject, Verdict.WRONG, f"{there} is not a directory", _NAME_IT)
        status = there.stat()
        may_write = os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)
        if there != root:
            if may_write:
                return Finding(subject, Verdict.OK, f"{root} is not there yet, and can be made")
            return Finding(subject, Verdict.WRONG, f"{root} can not be made: {there} is closed to this user", _NAME_IT)
        if status.st_uid != os.geteuid():
            message = f"{root} belongs to the user {status.st_uid}, and executors of this user leave it alone"
            return Finding(subject, Verdict.WRONG, message, f"run this as the executors' user, or {_NAME_IT}")
        if not may_write:
            return Finding(subject, Verdict.WRONG, f"{root} can not be written to", f"chmod 700 {root}, or {_NAME_IT}")
        if status.st_mode & _ANYONE and _names_in(root):
            message = f"{root} holds files and is open to other users: executors leave it alone"
            return Finding(subject, Verdict.WRONG, message, f"chmod 700 {root}")
    except OSError as fault:
        return Finding(subject, Verdict.WRONG, f"{root} can not be looked at: {fault.strerror}", _NAME_IT)
    return Finding(subject, Verdict.OK, f"{root} is this user's")


def check_file_system(root: Path, kind: str, spark_dirs_elsewhere: Sequence[Path]) -> Finding:
    """Judge the file system. `kind` is its name in the list of mounts; empty where it is not known."""
    subject, what = "file system", f"{root} is on {kind or 'a file system of a kind that is not known'}"
    if kind in _IN_MEMORY:
        return Finding(subject, Verdict.WARNING, f"{what}: in memory, and gone with the host's restart", _NAME_IT)
    if _ON_A_NETWORK.fullmatch(kind):
        return Finding(subject, Verdict.WARNING, f"{what}: not a disk of this host", _NAME_IT)
    if spark_dirs_elsewhere:
        elsewhere = ", ".join(map(str, spark_dirs_elsewhere))
        message = f"{what}, Spark's local directories are on another ({elsewhere}): files are copied, not linked"
        return Finding(subject, Verdict.WARNING, message, "put both on one file system")
    return Finding(subject, Verdict.OK, f"{what}, as Spark's local directories")


def check_room(root: Path, free_bytes: int, all_bytes: int) -> Finding:
    """Judge the free space by the rule of HostStore.floor: below that floor no more files are kept.

    A file system without any room, such as /proc, can hold no files.
    """
    floor = min(_MOST_ROOM_KEPT_FREE, all_bytes // 20)
    what = f"{free_bytes / 1e9:.1f} GB of {all_bytes / 1e9:.1f} GB are free at {root}"
    advice = "make room, or name another disk in spark.mooring.local.store.dir"
    if not all_bytes:
        return Finding("room", Verdict.WRONG, f"the file system of {root} has no room for files", _NAME_IT)
    if free_bytes < floor:
        return Finding("room", Verdict.WRONG, f"{what}: nothing is kept below {floor / 1e9:.1f} GB", advice)
    if free_bytes < 4 * floor:
        return Finding("room", Verdict.WARNING, f"{what}: nothing is kept below {floor / 1e9:.1f} GB", advice)
    return Finding("room", Verdict.OK, what)


def spark_local_dirs(environment: Mapping[str, str]) -> list[Path]:
    """Where executors on this host keep their files, by the environment; else Spark's default."""
    named = environment.get("LOCAL_DIRS") or environment.get("SPARK_LOCAL_DIRS") or "/tmp"
    return [Path(path.strip()) for path in named.split(",") if path.strip()]


def file_system_of(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of the file system that a path is on, such as `ext4`; empty where it is not known."""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    real = path.resolve()
    found = ("", "")
    for _, point, kind, *_ in (line for line in lines if len(line) > 2):
        place = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point))
        if (place == real or place in real.parents) and len(str(place)) >= len(found[0]):
            found = (str(place), kind)
    return found[1]


def _nearest_that_exists(path: Path) -> Path:
    for candidate in (path, *path.parents):
        try:
            candidate.lstat()
        except OSError:
            continue
        return candidate
    return Path("/")


def _names_in(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _printed(command: Sequence[str]) -> str | None:
    """The output of a program; None where it can not be run, or ends with an error."""
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LOOK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.decode("utf-8", "replace") if ran.returncode == 0 else None
