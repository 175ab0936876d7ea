"""`mooring doctor`: a line for each thing, and exit code 1 where one is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mooring
from mooring.cli.machine import doctor
from mooring.cli.main import main
from mooring.doctor import Finding, Verdict
from tests.unit.checkpoint.made import Made
from tests.unit.cli import records

SUBJECTS = ["spark", "jdk", "python", "jar", "local store", "file system", "room", "records"]


@pytest.fixture(autouse=True)
def healthy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No JVM is started here, and whether this machine has a jar is not what is asked."""
    monkeypatch.delenv("MOORING_METADATA", raising=False)
    monkeypatch.setattr(doctor, "look_at_java", lambda environment: Finding("jdk", Verdict.OK, "Java 17"))
    jar = Finding("jar", Verdict.OK, f"version {mooring.__version__}")
    monkeypatch.setattr(doctor, "look_at_jar", lambda version: jar)
    monkeypatch.setenv("MOORING_LOCAL_STORE_DIR", str(tmp_path / "store"))


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    form = json.loads(capsys.readouterr().out)
    return {one["subject"]: (one["verdict"], f"{one['message']}; {one['advice']}") for one in form["findings"]}


@pytest.mark.needs_spark
def test_each_thing_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--metadata", records.write(tmp_path / "records")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[9:].split("  ")[0] for line in lines] == SUBJECTS
    assert lines[-1].startswith("ok") and "app-20261121-0001, as of" in lines[-1]


@pytest.mark.needs_spark
def test_what_is_wrong_is_named_with_what_to_do_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["doctor", "--local-store", str(tmp_path / "file"), "--metadata", "kafak://h/t", "--json"]) == 1
    things = found(capsys)
    assert list(things) == SUBJECTS
    assert things["local store"][0] == "wrong" and "spark.mooring.local.store.dir" in things["local store"][1]
    assert things["records"][0] == "wrong" and "nearest: kafka" in things["records"][1]
    assert things["spark"][0] == "ok"
    assert main(["doctor", "--local-store", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err == "mooring: local store: see above\n"


@pytest.mark.needs_spark
def test_records_that_nobody_names_are_no_fault_and_those_that_are_not_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--json"]) == 0
    assert found(capsys)["records"] == ("warning", "not looked at; name them with --metadata or --checkpoint")
    assert main(["doctor", "--metadata", str(tmp_path / "none"), "--json"]) == 1
    verdict, words = found(capsys)["records"]
    assert verdict == "wrong" and "does not exist" in words
    made = Made(tmp_path / "ck" / "clicks")
    records.write(tmp_path / "ck" / "_mooring" / "clicks")
    assert main(["doctor", "--checkpoint", str(made.directory), "--json"]) == 0
    assert found(capsys)["records"][0] == "ok"
