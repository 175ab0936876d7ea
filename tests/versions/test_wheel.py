"""The wheel: one file for all lines of Spark, which needs nothing else for a command that only reads the records."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.unit.build.shim import build_jar
from tests.versions.sparks import LINES, spark_of

pytestmark = [pytest.mark.heavy, pytest.mark.one_jvm]

MOST_BYTES = 8_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Skips the tests where a Spark or a jar is missing.
    for line in LINES:
        spark_of(line)
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), "."]
    subprocess.run(command, cwd=build_jar.CHECKOUT, check=True)
    (built,) = directory.glob("mooring-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `mooring` of an environment that has the wheel, and nothing else."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True)
    # With the tests' PYTHONPATH pip would find Mooring installed.
    subprocess.run([home / "bin" / "pip", "install", "--quiet", str(wheel)], check=True, env=clean_environment())
    return home / "bin" / "mooring"


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}


def run(command: Path, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *arguments], env=clean_environment() | environment, capture_output=True, text=True)


def test_it_has_the_jar_of_each_line_and_is_small(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".jar")}
    assert names == {f"mooring/jars/mooring-spark-{line}_2.13.jar" for line in LINES}
    assert wheel.stat().st_size <= MOST_BYTES


def test_without_pyspark_the_commands_run_that_read_the_records(installed: Path, tmp_path: Path) -> None:
    assert run(installed.with_name("python"), "-c", "import pyspark").returncode == 1
    jars = run(installed, "jar", "--spark", "all").stdout.splitlines()
    assert [line.split()[0] for line in jars] == LINES and all(Path(line.split()[1]).is_file() for line in jars)
    status = run(installed, "status", "--metadata", tmp_path)
    assert status.returncode == 1 and "mooring: " in status.stderr and "Traceback" not in status.stderr, status
    unnamed = run(installed, "jar")
    assert unnamed.returncode == 1 and "name the version that runs the job" in unnamed.stderr


@pytest.mark.parametrize("line", LINES)
def test_beside_each_spark_the_command_prints_the_jar_of_its_line(installed: Path, line: str) -> None:
    spark = spark_of(line)
    by_home = run(installed, "jar", SPARK_HOME=str(spark.home))
    by_package = run(installed, "jar", PYTHONPATH=str(spark.folder))
    assert [Path(one.stdout.strip()).name for one in (by_home, by_package)] == [f"mooring-spark-{line}_2.13.jar"] * 2
