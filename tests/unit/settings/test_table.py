"""The table itself, and what is made from it."""

import json
import re
from pathlib import Path

import pytest

from mooring.cli.machine import conf
from mooring.errors import InvalidSettingError
from mooring.settings import TABLE, Settings, parse_value, table_as_json
from mooring.settings.__main__ import main

CHECKOUT = Path(__file__).resolve().parents[3]

# Section 6 of the contracts, with its defaults.
CONTRACT = {
    "enabled": "true",
    "other.spark": "off",
    "local.store.dir": None,
    "local.store.max.bytes": None,
    "host.affinity.enabled": "true",
    "host.affinity.wait": "10s",
    "processor.rebind.timeout": "60s",
    "liveness.timeout": "30s",
    "location.provider": "host",
    "zone.provider": None,
    "grouper": "host-aware",
    "grouper.weights": "tasks",
    "metadata": None,
    "metadata.": None,
    "standby.replication.factor": "1",
    "debounce": "3s",
    "checkpoint.catalog.enabled": None,
    "checkpoint.catalog.interval": "10s",
    "checkpoint.catalog.retain.batches": "100",
    "drain.timeout": None,
    "drain.poll.interval": "5s",
    "resume.drained": "false",
    "placement.poll.interval": "1s",
    "agent.python": None,
}


def test_the_table_has_every_key_of_the_contract_with_its_default():
    table = {setting.name: setting.default for setting in TABLE}
    assert {name: table.get(name, "missing") for name in CONTRACT} == CONTRACT


def test_no_key_is_there_twice_and_names_are_plain():
    names = [setting.name for setting in TABLE]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(\.[a-z]+)*\.?", name) for name in names)


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.name)
def test_a_row_agrees_with_itself(setting):
    assert setting.doc.endswith(".") and "\n" not in setting.doc and "|" not in setting.doc
    assert bool(setting.values) == (setting.type == "enum" or (setting.pattern is not None))
    for text in (setting.default, setting.minimum, setting.maximum):
        if text is not None:
            parse_value(setting, text)
    if setting.minimum is not None and setting.maximum is not None:
        assert setting.number(setting.minimum) <= setting.number(setting.maximum)


def test_the_json_is_flat_and_complete():
    rows = json.loads(table_as_json())
    assert [row["key"] for row in rows] == [setting.key for setting in TABLE]
    columns = {"key", "type", "default", "doc", "min", "max", "values", "pattern", "prefix", "since"}
    assert all(set(row) == columns for row in rows)
    by_key = {row["key"]: row for row in rows}
    wait = by_key["spark.mooring.host.affinity.wait"]
    assert (wait["type"], wait["default"], wait["min"], wait["max"]) == ("duration", "10s", 0, 3_600_000)
    assert by_key["spark.mooring.local.store.max.bytes"]["min"] == 1 << 20
    assert by_key["spark.mooring.metadata."]["prefix"] is True


def test_the_command_prints_the_json(capsys):
    assert main(["--json"]) == 0
    assert capsys.readouterr().out == table_as_json()
    assert main([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(TABLE)


@pytest.mark.parametrize("name", conf.render_all())
def test_the_committed_configuration_is_what_the_table_renders(name):
    committed = CHECKOUT / "conf" / name
    text = committed.read_text(encoding="utf-8") if committed.exists() else "(missing)"
    assert text == conf.render_all()[name], "write it anew: PYTHONPATH=python python -m mooring.cli.machine.conf conf"


def test_conf_holds_nothing_else():
    assert {path.name for path in (CHECKOUT / "conf").iterdir()} == set(conf.render_all())


@pytest.mark.parametrize("target", ["spark-submit", "emr", "databricks", "kubernetes", "kubernetes-volumes"])
def test_what_a_sample_sets_is_accepted(target):
    text = conf.render(target)
    if target == "emr":
        chosen = json.loads(text)[0]["Properties"]
    else:
        chosen = dict(line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    Settings.from_conf(chosen)
    assert chosen["spark.plugins"] == "io.mooring.MooringPlugin"


@pytest.mark.parametrize("target", ["spark-submit", "kubernetes", "kubernetes-volumes"])
def test_every_default_of_a_sample_may_be_uncommented(target):
    commented = re.findall(r"^# (spark\.mooring\.\S+) (.+)$", conf.render(target), re.MULTILINE)
    assert len(commented) >= 7
    Settings.from_conf(dict(commented))


@pytest.mark.parametrize("target", ["spark-submit", "kubernetes", "kubernetes-volumes"])
def test_the_jar_is_named_where_a_job_does_not_replace_it(target):
    lines = conf.render(target, "/opt/m.jar").splitlines()
    assert {"spark.driver.extraClassPath /opt/m.jar", "spark.executor.extraClassPath /opt/m.jar"} <= set(lines)
    assert not any(line.startswith("spark.jars ") for line in lines), "a job's --jars replaces spark.jars"


def test_on_kubernetes_no_directory_is_made_that_belongs_to_root():
    lines = conf.render("kubernetes").splitlines()
    [line] = [line for line in lines if "hostPath.spark-local-dir-mooring.options.type " in line]
    assert line.endswith(" Directory")


def emr(jar=None):
    """The properties of each classification in the sample for EMR; the inner one of `spark-env` is named `export`."""
    found = json.loads(conf.render("emr", jar))
    inner = [part for outer in found for part in outer.get("Configurations", [])]
    return {part["Classification"]: part["Properties"] for part in found + inner}


def test_on_emr_a_job_may_have_jars_of_its_own():
    keys = emr()["spark-defaults"]
    assert keys["spark.yarn.dist.jars"] == "local:/mnt/mooring/mooring.jar", "a job's --jars are added to it"
    assert "spark.jars" not in keys, "a job's --jars replaces it"


def test_on_emr_the_class_paths_of_the_platform_are_kept():
    assert not [key for key in emr()["spark-defaults"] if key.endswith("extraClassPath")]
    exported = emr()["export"]["SPARK_DIST_CLASSPATH"].split(":")
    assert exported == ["$SPARK_DIST_CLASSPATH", "/mnt/mooring/mooring.jar"]


def test_on_emr_a_driver_in_client_mode_has_the_jar_that_the_executors_have():
    given = emr("/opt/m.jar")
    jar = given["spark-defaults"]["spark.yarn.dist.jars"].removeprefix("local:")
    assert jar == "/opt/m.jar"
    assert jar in given["export"]["SPARK_DIST_CLASSPATH"].split(":")


def test_the_variable_of_emr_is_exported_by_the_classification_that_is_for_it():
    (environment,) = [part for part in json.loads(conf.render("emr")) if part["Classification"] == "spark-env"]
    assert environment["Properties"] == {}
    assert [inner["Classification"] for inner in environment["Configurations"]] == ["export"]


def test_on_emr_the_local_store_is_no_directory_with_other_files():
    """A directory that holds files and is open to other users is refused, and the jar is open to all."""
    keys = emr()["spark-defaults"]
    jar = Path(keys["spark.yarn.dist.jars"].removeprefix("local:"))
    assert jar.is_absolute()
    assert Path(keys["spark.mooring.local.store.dir"]) not in jar.parents


def test_on_emr_executors_can_be_asked_for_on_hosts():
    assert emr()["spark-defaults"]["spark.dynamicAllocation.enabled"] == "false"
    assert int(emr()["spark-defaults"]["spark.executor.instances"]) > 0
    assert set(emr()["capacity-scheduler"]) == {
        "yarn.scheduler.capacity.node-locality-delay",
        "yarn.scheduler.capacity.rack-locality-additional-delay",
    }
    assert all(int(delay) > 0 for delay in emr()["capacity-scheduler"].values())


def test_an_unknown_target_is_refused():
    with pytest.raises(InvalidSettingError, match="spark-submit, emr, databricks, kubernetes"):
        conf.render("mesos")


def test_the_page_lists_every_key():
    page = conf.render_settings_page()
    for setting in TABLE:
        assert f"| `{setting.key}{'*' if setting.is_prefix else ''}` | {setting.type} |" in page
