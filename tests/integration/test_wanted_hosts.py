"""The file with the hosts of the next start, and the requests for executors that follow from it."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from mooring.model.standing import LEADING, WAITING, Standing
from tests.integration.support.scala_function import ScalaFunction
from tests.integration.support.store_with_open_copy import scala_object

pytestmark = pytest.mark.one_jvm

NAME = f"wanted-hosts-nightly-clicks--2--{hashlib.sha256(b'nightly clicks (2)').hexdigest()[:8]}.json"


def scala_seq(jvm: Any, values: list[str]) -> Any:
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(values)


def hosts_file(jvm: Any, metadata: str | None = None, **conf: str) -> Any:
    """The file of an application with these settings, whose name is no name of a file."""
    spark_conf = jvm.org.apache.spark.SparkConf(False).set("spark.app.name", "nightly clicks (2)")
    for key, value in conf.items():
        spark_conf.set(key.replace("__", "."), value)
    return jvm.io.mooring.allocation.WantedHosts(
        spark_conf, jvm.org.apache.hadoop.conf.Configuration(), jvm.scala.Option.apply(metadata)
    )


def read(file: Any) -> str | None:
    found = file.read()
    return str(found.get().mkString(",")) if found.isDefined() else None


def test_the_next_start_reads_what_the_last_run_wrote(jvm: Any, tmp_path: Path) -> None:
    metadata = str(tmp_path / "records")
    file = hosts_file(jvm, metadata)
    assert read(file) is None
    file.write(scala_seq(jvm, ["h2", "h3", "h2"]))
    file.write(scala_seq(jvm, ["h4", "h3", "h4"]))
    assert read(hosts_file(jvm, metadata)) == "h4,h3,h4"
    assert [path.name for path in (tmp_path / "records" / "allocation").glob("[!.]*")] == [NAME]


def test_a_driver_that_has_lost_the_lead_leaves_the_file_to_the_next_one(
    gateway: JavaGateway, jvm: Any, tmp_path: Path
) -> None:
    writes = scala_object(jvm, "io.mooring.election.LeaderOnlyWrites")
    agent_is_there = ScalaFunction(lambda: True)
    leadership = jvm.io.mooring.election.Leadership(600, 300, 1200)

    def hears(standing: Standing) -> None:
        leadership.update(jvm.io.mooring.election.Standing.parse(json.dumps(standing.as_json(time.time()))))

    file = hosts_file(jvm, str(tmp_path))
    hears(Standing(LEADING, "me", 60, epoch="mine"))
    leadership.awaitTurn(agent_is_there)
    writes.use(jvm.scala.Option.apply(leadership), agent_is_there)
    try:
        file.write(scala_seq(jvm, ["h2"]))
        hears(Standing(WAITING, "another"))
        with pytest.raises(Py4JJavaError, match="LeadershipLostException"):
            file.write(scala_seq(jvm, ["h3"]))
    finally:
        for _ in range(2):  # a last batch of the election's driver may be under way after the first
            writes.use(jvm.scala.Option.apply(None), agent_is_there)
    assert read(file) == "h2"


@pytest.mark.parametrize("metadata", [None, "zk://zoo:2181/job", "kafka://broker:9092/job"])
def test_a_store_that_is_no_directory_leaves_the_file_beside_the_checkpoints(
    jvm: Any, tmp_path: Path, metadata: str | None
) -> None:
    file = hosts_file(jvm, metadata, spark__sql__streaming__checkpointLocation=str(tmp_path))
    file.write(scala_seq(jvm, ["h2"]))
    assert (tmp_path / "_mooring" / "allocation" / NAME).exists()


@pytest.mark.parametrize(
    "text",
    ["", '{"version":1,"hos', '{"version":2,"hosts":["h2"]}', '{"hosts":["h2"]}', '{"version":1,"hosts":[7]}', "[]"],
)
def test_a_file_that_is_damaged_or_of_another_version_is_not_used_and_is_replaced(
    jvm: Any, tmp_path: Path, text: str
) -> None:
    file = hosts_file(jvm, str(tmp_path))
    file.write(scala_seq(jvm, ["h9"]))
    (tmp_path / "allocation" / NAME).write_text(text)
    (tmp_path / "allocation" / f".{NAME}.crc").unlink(missing_ok=True)
    assert read(hosts_file(jvm, str(tmp_path))) is None
    file.write(scala_seq(jvm, ["h5"]))
    assert read(hosts_file(jvm, str(tmp_path))) == "h5"


@pytest.mark.parametrize(
    ("total", "hosts", "steps"),
    [
        (2, [], ["(2,Map())"]),
        (3, ["a"], ["(3,Map(a -> 1))"]),
        (1, ["a", "b"], ["(1,Map(a -> 1))"]),
        (3, ["a", "b", "a"], ["(2,Map(a -> 2))", "(3,Map(a -> 0, b -> 1))"]),
        (4, ["a", "b", "c"], ["(1,Map(a -> 1))", "(2,Map(a -> 0, b -> 1))", "(4,Map(a -> 0, b -> 0, c -> 1))"]),
    ],
)
def test_hosts_are_asked_for_one_after_the_other(jvm: Any, total: int, hosts: list[str], steps: list[str]) -> None:
    requests = scala_object(jvm, "io.mooring.allocation.YarnRequests")
    assert str(requests.steps(total, scala_seq(jvm, hosts)).mkString(";")) == ";".join(steps)


@pytest.mark.parametrize("hosts", [5, 8, 9, 40])
def test_many_hosts_are_asked_for_in_four_steps(jvm: Any, hosts: int) -> None:
    names = [f"h{number}" for number in range(hosts)]
    steps = scala_object(jvm, "io.mooring.allocation.YarnRequests").steps(hosts, scala_seq(jvm, names))
    named: list[str] = []
    for index in range(steps.size()):
        total, by_host = steps.apply(index)._1(), steps.apply(index)._2()
        new = [host for host in names if by_host.contains(host) and by_host.apply(host) == 1]
        named += new
        assert total == len(named) == by_host.size()
    assert steps.size() <= 4
    assert named == names


@pytest.mark.parametrize(
    ("slow_answers", "pauses"),
    [(0, 1), (1, 2), (2, 3), (9, 3)],
    ids=["quick", "once slow", "twice slow", "always slow"],
)
def test_the_next_step_waits_while_the_application_master_is_at_work_on_the_last_one(
    gateway: JavaGateway, slow_answers: int, pauses: int
) -> None:
    requests = scala_object(gateway.jvm, "io.mooring.allocation.YarnRequests")
    left = [slow_answers]

    def again() -> None:
        left[0] -= 1
        time.sleep(0.2 if left[0] >= 0 else 0)

    assert requests.awaitAnswer(10, ScalaFunction(lambda: False), ScalaFunction(again)) == pauses
    assert requests.awaitAnswer(10, ScalaFunction(lambda: True), ScalaFunction(again)) == 0
