#!/usr/bin/env python3
"""Build the jar for a line of Spark: the one definition of its sources and the compiler's options.

pip, make and Gradle all run this.

    python scala-shim/build_jar.py [--spark 4.1 | --spark all] [--output FILE] [--force]

Without `--spark` the jar is for the line of the PySpark that this Python has. The Scala compiler is the one among the
jars of that Spark, so this needs a JDK, and no network where PySpark of the line is installed. What goes in:

    *.class             scala-shim/src/main/scala, and the folders scala-shim/src/spark-… that are for the line
    META-INF/services…  scala-shim/src/main/resources, as they are
    settings.json       the table of settings, from `python -m mooring.settings --json`
    mooring-agent.zip   python/mooring and the py4j of this Spark, for the agent's PYTHONPATH

A jar that was built from the same inputs is left alone: its manifest carries a digest of them. Exit 0 done, 1 something
is missing or does not compile.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from jdk import java_command, java_problem
from lines import LINES, Line, NoSpark, jars_of, known_lines, line_of, own_jars, spark_version
from packing import MANIFEST, files_under, manifest, packed

CHECKOUT = Path(__file__).resolve().parents[1]
SCALAC = ["-release", "17", "-Werror", "-Wunused", "-deprecation", "-feature", "-unchecked", "-encoding", "UTF-8"]
DIGEST = "Mooring-Inputs"


class CannotBuild(Exception):
    """Something is missing or wrong; the text says what, and what to do."""


def build(checkout: Path, line: Line, output: Path, force: bool = False) -> bool:
    """Bring the jar `output` for a line of Spark up to date; True when it was built, False when it was so already.

    Builds of one checkout take turns, so tests, make and a developer may all ask at once.
    """
    work = checkout / "build"
    with _one_at_a_time(work / "jar.lock"):
        jars = spark_jars(line)
        sources = scala_sources(checkout / "scala-shim/src", line)
        inputs = digest({**_contents(_inputs(checkout)), **_compiler(jars)})
        if not force and digest_in(output) == inputs:
            return False
        classes = compiled(sources, jars, work / f"classes-{line.name}", force)
        _write_whole(output, packed(jar_entries(checkout, line, jars, classes, inputs)))
        return True


def scala_sources(src: Path, line: Line) -> dict[str, Path]:
    """The Scala sources for a line of Spark, by `folder/path`. CannotBuild where two folders have the same file."""
    folders = [folder for folder in sorted(src.glob("spark-*")) if line.has(folder.name)]
    found: dict[str, Path] = {}
    names: dict[str, str] = {}
    for folder in (src / "main/scala", *folders):
        for name, path in files_under(folder, "**/*.scala").items():
            if name in names:
                raise CannotBuild(f"for Spark {line.name} both {names[name]} and {folder.name} have {name}")
            names[name] = folder.name
            found[f"{folder.name}/{name}"] = path
    return found


def jar_entries(checkout: Path, line: Line, jars: Path, classes: Path, inputs: str) -> dict[str, bytes]:
    """Everything in the jar, by name. `jars` are those of the Spark that the classes were compiled against."""
    return {
        MANIFEST: manifest(
            {
                "Implementation-Title": "Mooring",
                "Implementation-Version": version(checkout),
                "Built-For-Spark": spark_version(jars),
                "Tried-With-Spark": " ".join(line.tried),
                "Lines-Of-Spark": " ".join(each.name for each in LINES),
                DIGEST: inputs,
            }
        ),
        **_contents(files_under(checkout / "scala-shim/src/main/resources")),
        **_contents(files_under(classes)),
        "settings.json": settings_json(checkout / "python"),
        "mooring-agent.zip": agent_zip(checkout / "python", jars),
    }


def agent_zip(python: Path, jars: Path) -> bytes:
    """What the agent imports: the package `mooring`, and the py4j of the Spark with these jars.

    A driver in YARN's cluster mode may have no Python package of Spark. A jar that an earlier build left in the package
    stays out.
    """
    files = files_under(python / "mooring")
    ours = {f"mooring/{name}": path.read_bytes() for name, path in files.items() if not name.endswith(".jar")}
    return packed({**ours, **_py4j(jars)})


def _py4j(jars: Path) -> dict[str, bytes]:
    found = sorted((jars.parent / "python" / "lib").glob("py4j-*-src.zip"))
    if not found:
        raise CannotBuild(f"no py4j-*-src.zip in {jars.parent / 'python' / 'lib'}: Spark for Python has one there")
    with zipfile.ZipFile(found[-1]) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}


def settings_json(python: Path) -> bytes:
    """The table of settings, as JSON: the Scala side reads it from here, so that there is one table."""
    environ = {**os.environ, "PYTHONPATH": str(python), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    table = subprocess.run([sys.executable, "-m", "mooring.settings", "--json"], env=environ, capture_output=True)
    if table.returncode != 0 or not table.stdout.strip():
        raise CannotBuild(
            f"`python -m mooring.settings --json` failed:\n{table.stderr.decode(errors='replace').strip()}"
        )
    return table.stdout


def version(checkout: Path) -> str:
    """Mooring's version, read and not imported: the build needs nothing of what the package needs."""
    source = checkout / "python/mooring/__init__.py"
    found = re.search(r'^__version__ = "([^"]+)"$', source.read_text("utf-8"), re.MULTILINE)
    if not found:
        raise CannotBuild(f"{source} has no line `__version__ = ...`")
    return found.group(1)


def spark_jars(line: Line) -> Path:
    """The folder of jars of a Spark of this line. CannotBuild when there is none that will do."""
    try:
        return jars_of(line)
    except NoSpark as problem:
        raise CannotBuild(str(problem)) from problem


def line_of_this_python() -> Line:
    """The line of the PySpark that this Python can import. CannotBuild when there is none, or no jar for its line."""
    jars = own_jars()
    if jars is None:
        raise CannotBuild(
            f"{sys.executable} cannot import a PySpark that has a Scala compiler. Either `make jar`, which sets"
            f" everything up, or `pip install pyspark` for this Python, or name a line: --spark {LINES[-1].name}"
        )
    line = line_of(spark_version(jars))
    if line is None:
        raise CannotBuild(f"{jars} is Spark {spark_version(jars)}; there are jars for the lines {known_lines()}")
    return line


def compiled(sources: Mapping[str, Path], jars: Path, classes: Path, force: bool) -> Path:
    """The folder of class files of `sources`, compiled anew only when sources, options or Spark have changed."""
    wanted = digest({**_contents(sources), **_compiler(jars)})
    stamp = classes.with_name(f"{classes.name}.digest")
    if not force and classes.is_dir() and stamp.is_file() and stamp.read_text() == wanted:
        return classes
    if not sources:
        raise CannotBuild("there are no Scala sources under scala-shim/src/main/scala")
    if problem := java_problem():
        raise CannotBuild(problem)
    stamp.unlink(missing_ok=True)
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    command = [
        str(java_command()),
        "-cp",
        f"{jars}/*",
        "scala.tools.nsc.Main",
        "-usejavacp",
        *SCALAC,
        "-d",
        str(classes),
    ]
    ran = subprocess.run([*command, *map(str, sources.values())])
    if ran.returncode != 0:
        shutil.rmtree(classes, ignore_errors=True)
        raise CannotBuild("the Scala sources do not compile (see above)")
    stamp.write_text(wanted)
    return classes


def digest(contents: Mapping[str, bytes]) -> str:
    """32 hexadecimal digits that change with any name or byte in `contents`."""
    total = hashlib.sha256()
    for name in sorted(contents):
        total.update(f"{name}\0{len(contents[name])}\0".encode())
        total.update(contents[name])
    return total.hexdigest()[:32]


def digest_in(jar: Path) -> str | None:
    """The digest of inputs that a jar was built from; None when there is no such jar, or it is none of ours."""
    try:
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read(MANIFEST).decode().splitlines()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None
    return next((line.partition(": ")[2] for line in lines if line.startswith(f"{DIGEST}: ")), None)


def _inputs(checkout: Path) -> dict[str, Path]:
    folders = ("scala-shim/src", "python/mooring")
    files = {f"{folder}/{name}": path for folder in folders for name, path in files_under(checkout / folder).items()}
    tools = ("scala-shim/build_jar.py", "scala-shim/lines.py", "scala-shim/packing.py")
    return {
        **{name: path for name, path in files.items() if not name.endswith(".jar")},
        **{t: checkout / t for t in tools},
    }


def _compiler(jars: Path) -> dict[str, bytes]:
    return {"scalac": repr((SCALAC, spark_version(jars))).encode()}


def _contents(files: Mapping[str, Path]) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in files.items()}


def _write_whole(target: Path, content: bytes) -> None:
    """Put the file there in one step: a Spark that starts meanwhile sees the old jar or the new, never half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.chmod(name, 0o644)
    os.replace(name, target)


@contextlib.contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Build Mooring's jar with the Scala compiler among Spark's jars.")
    parser.add_argument(
        "--spark", metavar="LINE", help=f"one of {known_lines()}, or `all`; default: that of this Python's PySpark"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: build/mooring-spark-LINE_2.13.jar")
    parser.add_argument(
        "--output-dir", type=Path, metavar="DIRECTORY", default=CHECKOUT / "build", help="default: build"
    )
    parser.add_argument("--force", action="store_true", help="build even when nothing has changed")
    options = parser.parse_args(arguments)
    try:
        lines = wanted_lines(options.spark)
        if options.output is not None and len(lines) > 1:
            raise CannotBuild("--output names one jar, and --spark all builds several: use --output-dir")
        for line in lines:
            _build_and_tell(line, (options.output or options.output_dir / line.jar).absolute(), options.force)
    except CannotBuild as problem:
        print(f"mooring's jar: cannot build it: {problem}", file=sys.stderr)
        return 1
    return 0


def wanted_lines(spark: str | None) -> tuple[Line, ...]:
    """The lines that `--spark` names. CannotBuild when there is no such line."""
    if spark is None:
        return (line_of_this_python(),)
    if spark == "all":
        return LINES
    line = line_of(spark)
    if line is None:
        raise CannotBuild(f"--spark {spark}: expected one of {known_lines()}, or all")
    return (line,)


def _build_and_tell(line: Line, output: Path, force: bool) -> None:
    started = time.monotonic()
    built = build(CHECKOUT, line, output, force)
    size = output.stat().st_size // 1024
    print(f"{output}: " + (f"built, {size} KiB, {time.monotonic() - started:.1f} s" if built else "up to date"))


if __name__ == "__main__":
    sys.exit(main())
