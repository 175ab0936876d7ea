"""Where the plugin's jars are: one for each line of Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mooring.errors import MooringError
from mooring.installed_spark import installed_spark, line_of

_PACKAGE: Final = Path(__file__).resolve().parent
_JAR: Final = re.compile(r"mooring-spark-(\d+\.\d+)_2\.13\.jar")


def jar_path(spark: str | None = None, package: Path = _PACKAGE) -> Path:
    """The jar for Spark's `--jars`: the one in the installed package, else the one built in this checkout.

    `spark` is a version of Spark or its line, such as `4.2`; by default that of the Spark in `SPARK_HOME`, else of the
    installed PySpark. `package` is the folder of the package `mooring`. MooringError when there is no such jar; the
    message says what to do. The agent runs from a zip in the jar, so this finds no jar in the agent's own process.
    """
    jars = jars_by_line(package)
    if spark is None:
        installed = installed_spark()
        if installed is None:
            return _only(jars)
        spark = installed.version
    line = line_of(spark)
    if line is None:
        raise MooringError(f"{spark} is no version of Spark: expected one such as {next(reversed(jars))}")
    if line not in jars:
        raise MooringError(f"there is no jar for Spark {spark}: {_choice(jars)}{_how_to_build(line, package)}")
    return jars[line]


def jars_by_line(package: Path = _PACKAGE) -> dict[str, Path]:
    """The jars of the installed package, else those built in this checkout, by line of Spark, the oldest line first.

    MooringError when there are none; the message says what to do.
    """
    folder, checkout = package / "jars", package.parents[1]
    installed = _jars_in(folder)
    if installed:
        return installed
    if not (checkout / "scala-shim" / "build_jar.py").is_file():
        raise MooringError(
            f"there is no jar in {folder}: this copy of Mooring was installed without its jars; `pip install` it again"
        )
    built = _jars_in(checkout / "build")
    if not built:
        raise MooringError(f"there is no jar in {checkout / 'build'} yet: build it with `make jar` in {checkout}")
    return built


def _jars_in(folder: Path) -> dict[str, Path]:
    found = {named[1]: jar for jar in folder.glob("mooring-spark-*.jar") if (named := _JAR.fullmatch(jar.name))}
    return {line: found[line] for line in sorted(found, key=lambda line: [int(part) for part in line.split(".")])}


def _only(jars: dict[str, Path]) -> Path:
    """The only jar, where it is not known which Spark it is for."""
    if len(jars) > 1:
        raise MooringError(
            "there is no Spark in PySpark or SPARK_HOME: name the version that runs the job, such as"
            f" --spark {next(reversed(jars))}; {_choice(jars)}"
        )
    return next(iter(jars.values()))


def _choice(jars: dict[str, Path]) -> str:
    return f"there are jars for Spark {', '.join(jars)}"


def _how_to_build(line: str, package: Path) -> str:
    script = package.parents[1] / "scala-shim" / "build_jar.py"
    return f"; `python {script} --spark {line}` builds one, if Mooring has that line" if script.is_file() else ""
