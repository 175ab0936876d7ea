"""What every sub-command shares: exit codes, bad usage, where the records are."""

import importlib
import subprocess
import sys

import pytest

import mooring
from mooring.cli.exits import BadUsage, CommandFailed, CommandTimedOut, Exit, exit_of
from mooring.cli.machine import jar
from mooring.cli.main import main
from mooring.errors import (
    CheckpointError,
    CheckpointNotUnderstood,
    ClusterError,
    InvalidGroupingError,
    InvalidSettingError,
    MetadataStoreError,
    MetadataStoreUnavailable,
    OutcomeUnknown,
)
from tests.unit.cli import records


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommandFailed(), 1),
        (InvalidGroupingError(), 1),
        (ClusterError(), 1),
        (BadUsage(), 2),
        (InvalidSettingError(), 2),
        (MetadataStoreError(), 3),
        (MetadataStoreUnavailable(), 3),
        (OutcomeUnknown(), 3),
        (CommandTimedOut(), 4),
        (CheckpointError(), 1),
        (CheckpointNotUnderstood("it"), 5),
    ],
)
def test_each_error_has_its_exit_code(error, code):
    assert exit_of(error) == code


def test_every_exit_code_can_happen():
    assert {int(code) for code in Exit} == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stauts"], ["'stauts'", "expected one of", "nearest: status"]),
        (["help", "stauts"], ["'stauts'", "expected one of", "nearest: status"]),
        (["stop", "--mode", "after-bath"], ["--mode after-bath", "expected one of", "nearest: after-batch"]),
        (["status", "--jsn"], ["--jsn", "nearest: --json"]),
        (["plan", "--remove-hosts", "a"], ["--remove-hosts", "nearest: --remove-host"]),
        (["gc", "--dry"], ["--dry", "nearest: --dry-run"]),
        (["conf", "--target", "spark_submit"], ["spark_submit", "expected one of", "nearest: spark-submit"]),
        ([], ["COMMAND"]),
        (["plan", "--add-host"], ["--add-host", "expected one argument"]),
    ],
)
def test_bad_usage_names_what_was_given_what_is_expected_and_the_nearest(arguments, said, capsys):
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(word in shown.err for word in said), shown.err


def test_a_command_that_needs_pyspark_says_what_to_install_where_there_is_none(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(jar, "run", lambda parsed: importlib.import_module("pyspark"))
    assert main(["jar"]) == 1
    said = capsys.readouterr().err
    assert said == "mooring: this command needs PySpark, which is not installed here: pip install 'mooring[spark]'\n"


def test_help_and_version_are_there(capsys):
    for arguments, said in (
        (["--help"], "gc"),
        (["plan", "--help"], "--add-host"),
        (["--version"], mooring.__version__),
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        assert said in capsys.readouterr().out


def test_help_of_a_command_is_what_its_option_prints(capsys):
    for command in (["plan"], []):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        by_option = capsys.readouterr().out
        assert main(["help", *command]) == 0
        assert capsys.readouterr().out == by_option
    assert main(["help", "plan", "--json"]) == 0
    assert records.as_json(capsys.readouterr().out)["command"] == "plan"


@pytest.mark.slow
def test_python_runs_the_package_as_the_command(tmp_path):
    for module in ("mooring", "mooring.cli.main"):
        ran = [
            subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, cwd=tmp_path)
            for words in (["--version"], ["help", "status"], ["status", "--metadata", "nowhere"])
        ]
        assert [one.returncode for one in ran] == [0, 0, 1]
        assert ran[0].stdout == f"mooring {mooring.__version__}\n"
        assert ran[1].stdout.startswith("usage: mooring status ")
        assert "nowhere does not exist" in ran[2].stderr


def test_without_a_place_the_command_says_how_to_name_one(monkeypatch, capsys):
    monkeypatch.delenv("MOORING_METADATA", raising=False)
    assert main(["status"]) == 2
    said = capsys.readouterr().err
    assert "--metadata" in said and "MOORING_METADATA" in said and "spark.mooring.metadata" in said


def test_the_variable_names_the_place_and_the_option_comes_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MOORING_METADATA", records.write(tmp_path / "a"))
    assert main(["status"]) == 0
    assert main(["status", "--metadata", str(tmp_path / "empty")]) == 1
    assert str(tmp_path / "empty") in capsys.readouterr().err


@pytest.mark.parametrize("place", ["s3://bucket/_mooring", "hdfs://name/_mooring"])
def test_a_store_that_a_client_does_not_reach_is_bad_usage_that_says_what_to_use(place, capsys):
    assert main(["status", "--metadata", place]) == 2
    said = capsys.readouterr().err
    assert place in said and "directory" in said


def test_conf_prints_the_same_for_people_and_programs(capsys):
    assert main(["conf", "--target", "kubernetes"]) == 0
    text = capsys.readouterr().out
    assert "io.mooring.MooringPlugin" in text and "# spark.mooring.debounce 3s" in text
    assert main(["conf", "--target", "kubernetes", "--json"]) == 0
    assert records.as_json(capsys.readouterr().out) == {"target": "kubernetes", "text": text}


def test_jar_prints_the_path_alone(tmp_path, monkeypatch, capsys):
    jar = tmp_path / "mooring.jar"
    monkeypatch.setattr("mooring.cli.machine.jar.jar_path", lambda spark: jar)
    assert main(["jar"]) == 0
    assert capsys.readouterr().out == f"{jar}\n"
    assert main(["jar", "--json"]) == 0
    assert records.as_json(capsys.readouterr().out) == {"jar": str(jar)}


def test_a_reader_that_had_enough_is_no_failure(tmp_path):
    place = records.write(tmp_path / "records")
    command = [sys.executable, "-m", "mooring.cli.main", "status", "--json", "--metadata", place]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(30) == 0
