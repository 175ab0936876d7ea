"""`mooring.configure`: the switch for notebooks."""

import subprocess
import sys

import pytest

import mooring
from mooring.errors import InvalidSettingError

JAR = "/jars/mooring.jar"


class Builder:
    """As much of SparkSession.Builder as counts."""

    def __init__(self, **options):
        self._options = {key.replace("_", "."): value for key, value in options.items()}

    def config(self, key, value):
        self._options[key] = value
        return self


@pytest.fixture(autouse=True)
def a_jar(monkeypatch):
    monkeypatch.setattr(sys.modules["mooring.configure"], "jar_path", lambda: JAR)


def test_the_plugin_and_the_jar_are_given():
    builder = Builder()
    assert mooring.configure(builder) is builder
    assert builder._options == {"spark.plugins": "io.mooring.MooringPlugin", "spark.jars": JAR}


def test_what_was_there_stays():
    builder = mooring.configure(Builder(spark_plugins="com.a.Other", spark_jars="/a.jar, /b.jar"))
    assert builder._options["spark.plugins"] == "com.a.Other,io.mooring.MooringPlugin"
    assert builder._options["spark.jars"] == f"/a.jar,/b.jar,{JAR}"


def test_twice_is_once():
    once, twice = mooring.configure(Builder()), mooring.configure(mooring.configure(Builder()))
    assert once._options == twice._options


def test_keywords_are_settings():
    options = mooring.configure(
        Builder(), local_store_dir="/data/mooring", enabled=False, host_affinity_wait="20s", metadata_poll_interval="2s"
    )._options
    assert options["spark.mooring.local.store.dir"] == "/data/mooring"
    assert options["spark.mooring.enabled"] == "false"
    assert options["spark.mooring.host.affinity.wait"] == "20s"
    assert options["spark.mooring.metadata.poll.interval"] == "2s"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"host_afinity_wait": "10s"}, "spark.mooring.host.affinity.wait"),
        ({"debounce": "1 hour"}, "nearest valid value"),
        ({"local_store_dir": "data"}, "an absolute path"),
    ],
)
def test_what_is_not_valid_is_refused_and_nothing_is_set(settings, said):
    builder = Builder()
    with pytest.raises(InvalidSettingError, match=said):
        mooring.configure(builder, **settings)
    assert builder._options == {}


def test_a_spark_connect_builder_is_told_where_the_switch_is():
    with pytest.raises(InvalidSettingError, match="the server"):
        mooring.configure(Builder(spark_remote="sc://host"))


def test_importing_mooring_does_not_load_spark():
    check = "import sys, mooring; assert callable(mooring.configure); sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_the_builder_of_pyspark_is_understood():
    session = pytest.importorskip("pyspark.sql").SparkSession
    builder = mooring.configure(session.builder.config("spark.plugins", "com.a.Other"), debounce="1s")
    assert builder._options["spark.plugins"] == "com.a.Other,io.mooring.MooringPlugin"
