"""What the plugin adds to the pods of executors on Kubernetes: a preferred node, a claim, and variables."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.integration.support.store_with_open_copy import scala_object

pytestmark = pytest.mark.one_jvm

WAIT_MS = 20_000
CLAIMS = "spark.kubernetes.executor.volumes.persistentVolumeClaim"


class Places:
    """The places of an application's pods, as its driver chooses them."""

    def __init__(self, jvm: Any, total: int, wait_ms: int = 0) -> None:
        clock = getattr(scala_object(jvm, "io.mooring.allocation.PodPlaces"), "$lessinit$greater$default$3")()
        self._jvm = jvm
        self.places = jvm.io.mooring.allocation.PodPlaces(total, wait_ms, clock)

    def want(self, *hosts: str, at: Mapping[str, str] | None = None, avoided: Sequence[str] = ()) -> None:
        python = self._jvm.org.apache.spark.api.python.PythonUtils
        self.places.want(
            self._jvm.io.mooring.allocation.HostsWanted(
                python.toSeq(list(hosts)), python.toScalaMap(dict(at or {})), python.toSeq(list(avoided)).toSet()
            )
        )

    def add(self, *executors: str) -> None:
        for executor in executors:
            self.places.onExecutorAdded(
                self._jvm.org.apache.spark.scheduler.SparkListenerExecutorAdded(0, executor, None)
            )

    def remove(self, executor: str) -> None:
        self.places.onExecutorRemoved(
            self._jvm.org.apache.spark.scheduler.SparkListenerExecutorRemoved(0, executor, "lost")
        )

    def node_of(self, executor: str) -> str | None:
        node = self.places.placeOf(executor, False).node()
        return str(node.get()) if node.isDefined() else None

    def number_of(self, executor: str) -> int:
        return int(self.places.placeOf(executor, True).number().get())


def test_each_pod_prefers_a_node_that_no_other_one_has(jvm: Any) -> None:
    places = Places(jvm, total=3)
    places.want("n1", "n2", "n1", "spare")
    assert [places.node_of(id) for id in ("1", "2", "3")] == ["n1", "n2", "n1"]


def test_without_a_last_run_no_node_is_preferred(jvm: Any) -> None:
    places = Places(jvm, total=2)
    assert places.node_of("1") is None


def test_the_successor_of_a_lost_executor_prefers_its_node(jvm: Any) -> None:
    places = Places(jvm, total=3)
    places.want("n1", "n2", "n3")
    for id in ("1", "2", "3"):
        places.node_of(id)
    places.want("n1", "n2", "n9", at={"1": "n1", "2": "n2", "3": "n9"})  # the third pod came elsewhere
    places.remove("3")
    assert places.node_of("4") == "n9"


def test_a_pod_that_failed_before_it_was_an_executor_frees_its_place(jvm: Any) -> None:
    places = Places(jvm, total=2)
    places.want("n1", "n2")
    assert [places.number_of(id) for id in ("1", "2")] == [1, 2]
    places.add("1")
    assert places.number_of("3") == 2
    places.remove("1")
    assert places.number_of("4") == 1


def test_a_pod_that_is_made_before_the_loss_is_noted_gets_the_place_of_the_lost_one(jvm: Any) -> None:
    places = Places(jvm, total=2, wait_ms=WAIT_MS)
    places.want("n1", "n2")
    for id in ("1", "2"):
        places.node_of(id)
    places.add("1", "2")
    began = time.monotonic()
    timer = threading.Timer(0.3, places.remove, ["1"])
    timer.start()
    try:
        assert places.node_of("3") == "n1"
    finally:
        timer.join()
    assert time.monotonic() - began < WAIT_MS / 1000 / 2


def test_with_a_number_that_changes_no_pod_waits_and_numbers_go_on(jvm: Any) -> None:
    places = Places(jvm, total=0, wait_ms=WAIT_MS)
    places.want("n1")
    assert [places.number_of(id) for id in ("1", "2", "3")] == [1, 2, 3]
    places.add("1", "2", "3")
    places.remove("2")
    assert places.number_of("4") == 2
    assert places.number_of("5") == 4


def spark_conf(jvm: Any, conf: Mapping[str, str]) -> Any:
    made = jvm.org.apache.spark.SparkConf(False)
    for key, value in conf.items():
        made.set(key, value)
    return made


def amended(jvm: Any, places: Places | None, executor: str, pod: Any, **conf: str) -> Any:
    """The pod of an executor, as the step makes it of the one of Spark and of the template."""
    named = {key.replace("__", "."): value for key, value in conf.items()}
    made = spark_conf(jvm, named)
    settings = scala_object(jvm, "io.mooring.common.SettingsTable").read(
        jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(named)
    )
    pods = jvm.io.mooring.allocation.ExecutorPods(made, settings, jvm.scala.Option.apply(places and places.places))
    return pods.amended(executor, pod)


def stock_pod(jvm: Any, volume: str = "", **env: str) -> Any:
    """A pod as Spark makes it, with a node that the user's template prefers."""
    model = jvm.io.fabric8.kubernetes.api.model
    pod = model.PodBuilder().withNewSpec().withNewAffinity().withNewNodeAffinity()
    pod = pod.addNewPreferredDuringSchedulingIgnoredDuringExecution().withWeight(7).withNewPreference()
    pod = pod.endPreference().endPreferredDuringSchedulingIgnoredDuringExecution().endNodeAffinity().endAffinity()
    if volume:
        pod = pod.addNewVolume().withName(volume).withNewPersistentVolumeClaim("data-7", False).endVolume()
    container = model.ContainerBuilder().withName("spark")
    for name, value in env.items():
        container = container.addNewEnv().withName(name).withValue(value).endEnv()
    return jvm.org.apache.spark.deploy.k8s.SparkPod(pod.endSpec().build(), container.build())


def preferences(pod: Any) -> list[tuple[int, str, list[str]]]:
    terms = pod.pod().getSpec().getAffinity().getNodeAffinity().getPreferredDuringSchedulingIgnoredDuringExecution()
    fields = [(term.getWeight(), field) for term in terms for field in term.getPreference().getMatchFields()]
    return [
        (int(weight), f"{field.getKey()} {field.getOperator()}", list(field.getValues())) for weight, field in fields
    ]


def variables(pod: Any) -> dict[str, str]:
    return {
        str(one.getName()): str(one.getValue() or one.getValueFrom().getFieldRef().getFieldPath())
        for one in pod.container().getEnv()
    }


def test_a_pod_prefers_its_node_avoids_drained_ones_and_keeps_the_users_preference(jvm: Any) -> None:
    places = Places(jvm, total=1)
    places.want("n1", avoided=["n3", "n2"])
    pod = amended(jvm, places, "1", stock_pod(jvm))
    assert preferences(pod) == [
        (100, "metadata.name In", ["n1"]),
        (100, "metadata.name NotIn", ["n2"]),
        (100, "metadata.name NotIn", ["n3"]),
    ]
    assert (
        pod.pod().getSpec().getAffinity().getNodeAffinity().getPreferredDuringSchedulingIgnoredDuringExecution().size()
        == 4
    )
    assert variables(pod) == {"NODE_NAME": "spec.nodeName"}


def test_variables_of_the_users_template_stay_and_the_zone_is_added_where_it_is_wanted(jvm: Any) -> None:
    pod = amended(jvm, None, "1", stock_pod(jvm, NODE_NAME="mine"), spark__mooring__zone__provider="kubernetes")
    assert variables(pod) == {
        "NODE_NAME": "mine",
        "NODE_ZONE": "metadata.labels['topology.kubernetes.io/zone']",
    }


def test_the_template_of_several_executors_prefers_no_node(jvm: Any) -> None:
    places = Places(jvm, total=1)
    places.want("n1")
    assert preferences(amended(jvm, places, "EXECID", stock_pod(jvm))) == []
    assert places.node_of("1") == "n1"


@pytest.mark.parametrize(
    ("conf", "claim", "named"),
    [
        ({}, "data-1", {"MOORING_VOLUME": "data-1"}),
        ({"spark.mooring.local.store.dir": "/elsewhere"}, "data-1", {}),
        ({f"{CLAIMS}.data.options.storageClass": "fast"}, "data-1", {"MOORING_VOLUME": "data-1"}),
        # Spark makes these claims, with the number of the executor in their names.
        ({f"{CLAIMS}.data.options.storageClass": "fast", f"{CLAIMS}.data.options.sizeLimit": "1Gi"}, "data-7", {}),
        ({f"{CLAIMS}.data.options.claimName": "OnDemand"}, "data-7", {}),
        ({f"{CLAIMS}.data.options.claimName": "one"}, "data-7", {}),
        ({"spark.mooring.location.provider": "kubernetes"}, "data-7", {}),
    ],
)
def test_a_claim_has_the_lowest_number_that_is_free(
    jvm: Any, conf: Mapping[str, str], claim: str, named: Mapping[str, str]
) -> None:
    usual = {
        "spark.mooring.location.provider": "volume",
        "spark.mooring.local.store.dir": "/data/mooring",
        f"{CLAIMS}.data.options.claimName": "data-SPARK_EXECUTOR_ID",
        f"{CLAIMS}.data.mount.path": "/data",
    }
    settings = {key.replace(".", "__"): value for key, value in {**usual, **conf}.items()}
    pod = amended(jvm, Places(jvm, total=2), "7", stock_pod(jvm, volume="data"), **settings)
    assert str(pod.pod().getSpec().getVolumes().get(0).getPersistentVolumeClaim().getClaimName()) == claim
    assert variables(pod) == {"NODE_NAME": "spec.nodeName", **named}
