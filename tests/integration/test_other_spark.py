"""A jar that does not fit the Spark that runs: the application runs as stock after one line, or stops at its start."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mooring.errors import MooringError
from mooring.jar import jar_path, jars_by_line
from tests.integration.support.restarted_job import Stages, said

KEY = "spark.mooring.other.spark"


def jar_with(directory: Path, **attributes: str) -> dict[str, str]:
    """The setting for a copy of this Spark's jar with other values in its manifest; `_` stands for `-` in a name."""
    values = {name.replace("_", "-"): value for name, value in attributes.items()}
    copy = directory / "mooring-with-another-manifest.jar"
    with zipfile.ZipFile(jar_path()) as original, zipfile.ZipFile(copy, "w") as changed:
        for entry in original.infolist():
            content = original.read(entry)
            if entry.filename == "META-INF/MANIFEST.MF":
                pairs = [line.split(": ", 1) for line in content.decode().splitlines() if line]
                lines = [f"{name}: {values.get(name, value)}" for name, value in pairs]
                content = ("\r\n".join(lines) + "\r\n").encode()
            changed.writestr(entry, content)
    return {"spark.jars": str(copy)}


def test_with_a_jar_of_another_line_the_job_runs_as_stock_after_one_line(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, jar_with(tmp_path, Built_For_Spark="9.7.2"))
    assert said(log, "its jar was built for Spark 9.7, and this is Spark ") == 1, "driver and executor are one JVM here"
    assert said(log, "It is off in this application") == 1
    assert said(log, "Mooring: ") == 1, "nothing else is said"
    assert not stages.local_store.exists(), "the host keeps nothing"
    stages.assert_right()


@pytest.mark.heavy
def test_the_setting_stops_the_application_at_its_start(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, {**jar_with(tmp_path, Built_For_Spark="9.7.2"), KEY: "fail"}, expect=1)
    assert said(log, "take the jar that `mooring jar --spark 4.") >= 1 and said(log, f"({KEY}=fail)") >= 1
    assert not stages.checkpoint.exists(), "no query has started"


@pytest.mark.heavy
def test_the_setting_lets_it_run_all_the_same(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, {**jar_with(tmp_path, Built_For_Spark="9.7.2"), KEY: "try"})
    assert said(log, f"{KEY}=try: it runs all the same") == 1
    assert stages.kept_files(".zip"), "Mooring is on"
    stages.assert_right()


@pytest.mark.heavy
def test_a_release_of_the_same_line_that_nobody_has_tried_runs_after_one_line(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, jar_with(tmp_path, Tried_With_Spark="9.9.9"))
    assert said(log, "was not tried with this version, which was tried with 9.9.9") == 1
    assert stages.kept_files(".zip"), "Mooring is on"
    stages.assert_right()


@pytest.mark.heavy
def test_a_spark_without_a_jar_is_told_which_lines_have_one(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, jar_with(tmp_path, Built_For_Spark="9.7.2", Lines_Of_Spark="9.6 9.7"))
    assert said(log, "there is no jar for it, only for Spark 9.6, 9.7") == 1
    stages.assert_right()


@pytest.mark.heavy
def test_the_databricks_runtime_is_refused(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, env={"DATABRICKS_RUNTIME_VERSION": "18.1"})
    assert said(log, "the Databricks Runtime has state stores and a scheduler of its own") == 1
    assert not stages.local_store.exists()
    stages.assert_right()


def other_jars() -> list[Path]:
    try:
        fits = jar_path()
        return [jar for jar in jars_by_line().values() if jar != fits]
    except MooringError:
        return []


@pytest.mark.heavy
@pytest.mark.skipif(not other_jars(), reason="no jar of another line is built: scala-shim/build_jar.py --spark all")
@pytest.mark.parametrize("jar", other_jars(), ids=lambda jar: jar.name)
def test_a_real_jar_of_another_line_is_off_as_well(tmp_path: Path, jar: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, {"spark.jars": str(jar)})
    assert said(log, "It is off in this application") == 1 and said(log, "Error") == 0
    stages.assert_right()
