"""Gauges in Spark's metrics system come and go with what they are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.application_in_one_jvm import application
from tests.integration.support.store_with_open_copy import scala_object

pytestmark = pytest.mark.one_jvm

LAG = "standby-lag-ms.q/Partition 0"


def test_a_gauge_of_the_agent_goes_when_nothing_is_known_of_it_any_more(jvm: Any) -> None:
    registry = jvm.com.codahale.metrics.MetricRegistry()
    metrics = scala_object(jvm, "io.mooring.common.Metrics")
    metrics.register(registry)

    def shown(gauges: dict[str, float]) -> dict[str, float]:
        of_java = jvm.java.util.HashMap()
        for name, value in gauges.items():
            of_java.put(name, value)
        of_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala(of_java)
        metrics.setAgents(getattr(scala_object(jvm, "scala.collection.immutable.Map"), "from")(of_scala))
        return {name.removeprefix("mooring."): gauge.getValue() for name, gauge in registry.getGauges().items()}

    others = {name: value for name, value in shown({}).items() if name != "moves"}
    assert "preferred-host-requests" in others
    assert shown({"moves": 1.0, LAG: 250.0}) == {**others, "moves": 1.0, LAG: 250.0}
    assert shown({"moves": 2.0}) == {**others, "moves": 2.0}
    assert shown({"moves": 2.0, LAG: 40.0}) == {**others, "moves": 2.0, LAG: 40.0}


@pytest.mark.heavy
def test_in_local_mode_the_gauges_of_the_executor_are_among_those_of_the_driver(tmp_path: Path) -> None:
    with application("gauges", tmp_path) as spark:
        system = spark._jvm.org.apache.spark.SparkEnv.get().metricsSystem()  # type: ignore[union-attr]
        sources = system.getSourcesByName("plugin.io.mooring.MooringPlugin")
        (names,) = [list(sources.apply(one).metricRegistry().getNames()) for one in range(sources.size())]
        assert {"mooring.keeping-ms", "mooring.standby-open-stores", "mooring.moves"} <= set(names)
