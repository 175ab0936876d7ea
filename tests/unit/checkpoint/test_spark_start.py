"""A Spark that does not start says why in one sentence, and leaves the terminal alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mooring.checkpoint import state_table
from mooring.checkpoint.spark_start import first_line, start, why_not_started
from mooring.errors import CheckpointError

OFFLINE = """\
WARNING: Using incubator modules: jdk.incubator.vector
:: loading settings :: url = jar:file:/jars/ivy-2.5.3.jar!/org/apache/ivy/core/settings/ivysettings.xml
:::: WARNINGS
\tHost repo1.maven.org not found. url=https://repo1.maven.org/maven2/io/delta/delta-spark-4.4.0.pom

\t\tmodule not found: io.delta#delta-spark_4.2_2.13;4.4.0

\t\t:: io.delta#delta-spark_4.2_2.13;4.4.0: not found
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: io.delta#delta-spark_4.2_2.13;4.4.0]
\tat org.apache.spark.deploy.SparkSubmitUtils$.resolveMavenCoordinates(SparkSubmit.scala:1608)
"""


class Builder:
    """Starts a child that writes to both of its outputs, as a JVM does, and then gives up or not."""

    def __init__(self, said: str, fault: Exception | None = None) -> None:
        self.said, self.fault = said, fault

    def getOrCreate(self) -> Any:
        writes = "import sys; print(sys.argv[1]); print(sys.argv[1], file=sys.stderr)"
        subprocess.run([sys.executable, "-c", writes, self.said], check=True)
        if self.fault is not None:
            raise self.fault
        return "spark"


def test_packages_that_can_not_be_fetched_are_named_with_what_helps(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CheckpointError) as raised:
        start(Builder(OFFLINE, RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited")))
    said = str(raised.value)
    assert said.count("\n") == 0 and "JAVA_GATEWAY_EXITED" not in said
    assert "io.delta:delta-spark_4.2_2.13:4.4.0 can not be fetched, as repo1.maven.org can not be reached" in said
    assert "--conf spark.jars.packages= --conf spark.jars=" in said
    assert capfd.readouterr() == ("", "")


def test_what_a_spark_says_that_starts_is_kept_off_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert start(Builder("WARN Utils: Your hostname resolves to a loopback address")) == "spark"  # type: ignore[comparison-overlap]
    print("seen")
    assert capfd.readouterr() == ("seen\n", "")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("JAVA_HOME is not set", "JAVA_HOME is not set"),
        ("spark-class: line 71: /nope/bin/java: No such file or directory", "/nope/bin/java: No such file"),
        ("java.lang.UnsupportedClassVersionError: class file version 61.0\n\tat java.lang.ClassLoader", "version 61.0"),
        ("java.lang.RuntimeException: [download failed: a.b#c;1!c.jar]", "a.b:c:1 can not be fetched"),
        ("WARN Utils: nothing is wrong", ""),
    ],
)
def test_why_it_did_not_start(said: str, why: str) -> None:
    assert why in why_not_started(said) and bool(why) == bool(why_not_started(said))


def test_where_the_jvm_said_nothing_the_error_is_told() -> None:
    with pytest.raises(CheckpointError, match="did not start on this machine: no room"):
        start(Builder("", OSError("no room\nJVM stacktrace:\nat java.lang")))
    assert first_line(ValueError()) == "ValueError"


@pytest.mark.needs_spark
def test_an_error_of_sparks_own_is_translated_and_ours_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkRuntimeError

    class Session:
        sparkContext = streams = property(lambda self: self)
        active = ()

        def setLogLevel(self, level: str) -> None: ...

        def stop(self) -> None: ...

    monkeypatch.setattr(state_table, "start", lambda builder: Session())
    with pytest.raises(CheckpointError, match="Spark failed: "), state_table.session({}):
        raise PySparkRuntimeError("the task failed\nJVM stacktrace:\n" + 100 * "at java.lang\n")
    with pytest.raises(KeyError), state_table.session({}):
        raise KeyError("a fault of ours")
