"""`--metadata-conf`: what a client needs to reach a store, out of a file."""

import pytest

from mooring.cli.exits import BadUsage
from mooring.cli.machine.conf_file import read_conf_file
from mooring.cli.main import main
from tests.unit.cli import records

FORMS = """
# a comment
spark.master   yarn
spark.mooring.metadata=zk://h:2181/prices
spark.mooring.metadata.auth  digest:mooring:a b = c
  spark.mooring.metadata.timeout : 6s
"""


def test_lines_are_read_as_spark_reads_them(tmp_path):
    file = tmp_path / "spark-defaults.conf"
    file.write_text(FORMS)
    settings = read_conf_file(file)
    assert settings.metadata == "zk://h:2181/prices"
    assert dict(settings.metadata_options) == {"auth": "digest:mooring:a b = c", "timeout": "6s"}


def test_the_file_names_the_store(tmp_path, capsys):
    file = tmp_path / "client.conf"
    file.write_text(f"spark.mooring.metadata {records.write(tmp_path / 'records')}\n")
    assert main(["status", "--metadata-conf", str(file)]) == 0
    assert "version 12" in capsys.readouterr().out


def test_what_the_command_line_names_comes_first(tmp_path, capsys):
    file = tmp_path / "client.conf"
    file.write_text("spark.mooring.metadata /nowhere\n")
    place = records.write(tmp_path / "records")
    assert main(["status", "--metadata-conf", str(file), "--metadata", place]) == 0


@pytest.mark.parametrize("line", ["spark.mooring.metadata.auth", "spark.mooring.metdata.auth=digest:mooring:secret"])
def test_a_bad_line_is_named_and_no_value_is_shown(line, tmp_path):
    file = tmp_path / "client.conf"
    file.write_text(f"\n{line}\n")
    with pytest.raises(BadUsage) as refusal:
        read_conf_file(file)
    assert ("line 2" in str(refusal.value)) or ("spark.mooring.metdata" in str(refusal.value))
    assert "secret" not in str(refusal.value)


def test_a_file_that_is_not_there_is_bad_usage(tmp_path, capsys):
    assert main(["plan", "--metadata-conf", str(tmp_path / "none.conf")]) == 2
    assert "none.conf" in capsys.readouterr().err
