"""What users may write under `spark.mooring.`, and what they are told when they err."""

import dataclasses

import pytest

from mooring.errors import InvalidSettingError
from mooring.settings import TABLE, Settings
from mooring.settings.frozen import field_name


def problem_of(key, value):
    with pytest.raises(InvalidSettingError) as raised:
        Settings.from_conf({key: value})
    return str(raised.value)


def test_defaults():
    assert Settings.from_conf({}) == Settings(
        enabled=True,
        other_spark="off",
        local_store_dir=None,
        local_store_max_bytes=None,
        host_affinity_enabled=True,
        host_affinity_wait_ms=10_000,
        executor_allocation_enabled=True,
        processor_rebind_timeout_ms=60_000,
        liveness_timeout_ms=30_000,
        location_provider="host",
        zone_provider=None,
        grouper="host-aware",
        grouper_weights="tasks",
        metadata=None,
        standby_replication_factor=1,
        restore_streams=8,
        restore_max_bytes_per_second=None,
        standby_max_bytes_per_second=64 * 1024**2,
        standby_open_stores=16,
        debounce_ms=3_000,
        checkpoint_retain_batches=None,
        checkpoint_catalog_enabled=None,
        checkpoint_catalog_table=None,
        checkpoint_catalog_interval_ms=10_000,
        checkpoint_catalog_retain_batches=100,
        placement_poll_interval_ms=1_000,
        moves_max_concurrent=1,
        drain_timeout_ms=None,
        drain_poll_interval_ms=5_000,
        drain_on_start=False,
        drain_on_sigterm=False,
        drain_order=None,
        resume_drained="false",
        agent_python=None,
        agent_liveness_timeout_ms=30_000,
        metadata_options={},
    )


def test_values_are_parsed_and_other_keys_are_not_looked_at():
    settings = Settings.from_conf(
        {
            "spark.app.name": "clicks",
            "spark.mooringx": "not ours",
            "spark.mooring.enabled": "FALSE",
            "spark.mooring.local.store.dir": "/data/mooring",
            "spark.mooring.local.store.max.bytes": "2g",
            "spark.mooring.debounce": "500",
            "spark.mooring.host.affinity.wait": "1m",
            "spark.mooring.location.provider": "env:NODE_NAME",
            "spark.mooring.metadata": "s3a://bucket/mooring",
        }
    )
    assert settings.enabled is False
    assert settings.local_store_dir == "/data/mooring"
    assert settings.local_store_max_bytes == 2 << 30
    assert settings.debounce_ms == 500
    assert settings.host_affinity_wait_ms == 60_000
    assert settings.location_provider == "env:NODE_NAME"
    assert settings.metadata == "s3a://bucket/mooring"


def test_settings_are_frozen():
    settings = Settings.from_conf({"spark.mooring.metadata.poll.interval": "2s"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.enabled = False
    with pytest.raises(TypeError):
        settings.metadata_options["poll.interval"] = "1s"


def test_options_of_the_metadata_client_are_passed_on_and_never_shown():
    settings = Settings.from_conf(
        {"spark.mooring.metadata.sasl.password": "hunter2", "spark.mooring.metadata": "/data"}
    )
    assert settings.metadata_options == {"sasl.password": "hunter2"}
    assert settings.metadata == "/data"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("spark.mooring.hots.affinity.wait", "spark.mooring.host.affinity.wait"),
        ("spark.mooring.Enabled", "spark.mooring.enabled"),
        ("spark.mooring.DEBOUNCE", "spark.mooring.debounce"),
        ("spark.mooring.local.store.dirs", "spark.mooring.local.store.dir"),
        ("spark.mooring.metdata.sasl.mechanism", "spark.mooring.metadata.sasl.mechanism"),
        ("spark.mooring.metadata.", "spark.mooring.metadata"),
        ("spark.mooring.standby.factor", "spark.mooring.standby.replication.factor"),
        ("spark.mooring.", "spark.mooring."),
    ],
)
def test_an_unknown_key_names_key_value_and_the_nearest_valid_name(key, nearest):
    problem = problem_of(key, "5s")
    assert problem.startswith(f"{key}=5s: ")
    assert f"nearest valid name: {nearest}" in problem


def test_what_may_be_a_password_is_not_shown():
    problem = problem_of("spark.mooring.metdata.sasl.password", "hunter2")
    assert "hunter2" not in problem
    assert "spark.mooring.metadata.sasl.password" in problem


@pytest.mark.parametrize(
    ("name", "value", "expected", "nearest"),
    [
        ("enabled", "yes", "true or false", "true"),
        ("enabled", "fasle", "true or false", "false"),
        ("debounce", "-1s", "a duration from 0ms to 10m", "0ms"),
        ("debounce", "20m", "a duration from 0ms to 10m", "10m"),
        ("debounce", "1.5s", "a duration", "1500ms"),
        ("debounce", "10 sec", "a duration", "10s"),
        ("debounce", "soon", "a duration", "3s"),
        ("agent.liveness.timeout", "10ms", "a duration from 1s to 1h", "1s"),
        ("local.store.max.bytes", "1.5g", "a size of at least 1m", "1536m"),
        ("local.store.max.bytes", "100", "a size of at least 1m", "1m"),
        ("grouper", "host-awear", "host-aware", "host-aware"),
        ("grouper", "group-by-container-count:0", "group-by-container-count:N", "host-aware"),
        ("grouper", "my-module:Grouper", "module:Class", "host-aware"),
        ("grouper.weights", "byte", "tasks or bytes", "bytes"),
        ("location.provider", "kubernets", "host or env:NAME or kubernetes", "host"),
        ("location.provider", "env:A//env:B", "env:NAME/env:NAME", "host"),
        ("location.provider", "host/my.module:Rack", "module:Class", "host"),
        ("location.provider", "env:", "host or env:NAME", "host"),
    ],
)
def test_a_wrong_value_names_key_value_what_is_expected_and_the_nearest_valid_value(name, value, expected, nearest):
    problem = problem_of(f"spark.mooring.{name}", value)
    assert problem.startswith(f"spark.mooring.{name}={value}: expected ")
    assert expected in problem
    assert problem.endswith(f"nearest valid value: {nearest}")


@pytest.mark.parametrize(
    "value", ["single-container", "group-by-container-ids", "group-by-container-count:12", "my.module_2:_Grouper"]
)
def test_a_grouper_has_a_short_name_or_is_a_class_of_a_module(value):
    assert Settings.from_conf({"spark.mooring.grouper": value}).grouper == value


@pytest.mark.parametrize(
    "value", ["zk://a:2181,b:2181/base/job", "kafka://host/topic", "s3a://bucket/_mooring", "_mooring"]
)
def test_a_metadata_store_is_a_place_or_a_service(value):
    assert Settings.from_conf({"spark.mooring.metadata": value}).metadata == value


@pytest.mark.parametrize("value", ["zookeeper://host/root", "zk://host:2181", "kafka://host/", "ZK:/x", ""])
def test_a_metadata_store_that_is_none_is_refused(value):
    assert "expected a directory or a URI that Hadoop can write" in problem_of("spark.mooring.metadata", value)


def test_a_relative_local_store_is_refused():
    assert "expected an absolute path" in problem_of("spark.mooring.local.store.dir", "data/mooring")


def test_all_mistakes_are_told_at_once():
    with pytest.raises(InvalidSettingError) as raised:
        Settings.from_conf(
            {"spark.mooring.enabld": "true", "spark.mooring.debounce": "x", "spark.mooring.grouper": "y"}
        )
    assert len(str(raised.value).splitlines()) == 3


def test_there_is_a_field_for_every_setting_of_this_version_and_no_other():
    rows = {field_name(setting) for setting in TABLE if not setting.is_prefix}
    assert rows | {"metadata_options"} == {field.name for field in dataclasses.fields(Settings)}
