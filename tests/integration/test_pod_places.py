"""What the plugin adds to the pods of executors on Kubernetes: a preferred node, a claim, and variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from tests.integration.support.scala_function import ScalaFunction
from tests.integration.support.store_with_open_copy import scala_object

pytestmark = pytest.mark.one_jvm

CLAIMS = "spark.kubernetes.executor.volumes.persistentVolumeClaim"


class Places:
    """The places of an application's pods, as its driver chooses them. `living` are the executors whose pods live."""

    def __init__(self, gateway: JavaGateway, total: int) -> None:
        self._jvm = gateway.jvm
        self.living: set[str] | None = set()
        self.places = self._jvm.io.mooring.allocation.PodPlaces(total, ScalaFunction(self._alive))

    def _alive(self) -> Any:
        if self.living is None:
            return scala_object(self._jvm, "scala.None")
        return self._jvm.scala.Some(self._seq(sorted(self.living)).toSet())

    def _seq(self, values: Sequence[str]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(values))

    def want(self, *hosts: str, at: Mapping[str, str] | None = None, avoided: Sequence[str] = ()) -> None:
        nodes = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(at or {}))
        wanted = self._jvm.io.mooring.allocation.HostsWanted(self._seq(hosts), nodes, self._seq(avoided).toSet())
        self.places.want(wanted)

    def _made(self, executor: str, *, with_claim: bool, fails: bool) -> Any:
        place = self.places.placeOf(executor, with_claim)
        if self.living is not None and not fails:
            self.living.add(executor)
        return place

    def node_of(self, executor: str, fails: bool = False) -> str | None:
        """The node of a new pod, which then lives, unless Kubernetes refuses it."""
        node = self._made(executor, with_claim=False, fails=fails).node()
        return str(node.get()) if node.isDefined() else None

    def number_of(self, executor: str, fails: bool = False) -> int | None:
        """The number of the claim of a new pod, likewise."""
        number = self._made(executor, with_claim=True, fails=fails).number()
        return int(number.get()) if number.isDefined() else None


def test_each_pod_prefers_a_node_that_no_other_one_has(gateway: JavaGateway) -> None:
    places = Places(gateway, total=3)
    places.want("n1", "n2", "n1", "spare")
    assert [places.node_of(id) for id in ("1", "2", "3")] == ["n1", "n2", "n1"]
    assert places.node_of("4") is None


def test_without_a_last_run_no_node_is_preferred(gateway: JavaGateway) -> None:
    places = Places(gateway, total=2)
    assert places.node_of("1") is None


def test_the_successor_of_a_lost_executor_prefers_its_node(gateway: JavaGateway) -> None:
    places = Places(gateway, total=3)
    places.want("n1", "n2", "n3")
    for id in ("1", "2", "3"):
        places.node_of(id)
    places.want("n1", "n2", "n9", at={"1": "n1", "2": "n2", "3": "n9"})  # the third pod came elsewhere
    places.living = {"1", "2"}
    assert places.node_of("4") == "n9"


def test_the_successor_of_a_lost_executor_gets_its_claim(gateway: JavaGateway) -> None:
    places = Places(gateway, total=3)
    assert [places.number_of(id) for id in ("1", "2", "3")] == [1, 2, 3]
    places.living = {"2"}
    assert [places.number_of(id) for id in ("4", "5")] == [1, 3]
    assert places.number_of("6") == 4  # no living pod loses its own


def test_a_pod_that_kubernetes_refused_has_no_place(gateway: JavaGateway) -> None:
    places = Places(gateway, total=3)
    places.want("n1", "n2", "n3")
    assert [places.number_of("1"), places.number_of("2", fails=True)] == [1, 2]
    assert [places.number_of("3"), places.number_of("4")] == [2, 3]


def test_a_pod_that_is_asked_for_twice_has_one_place(gateway: JavaGateway) -> None:
    places = Places(gateway, total=2)
    places.want("n1", "n2")
    assert [places.number_of("1"), places.number_of("1"), places.number_of("2")] == [1, 1, 2]


def test_with_a_number_of_executors_that_changes_all_hosts_are_used(gateway: JavaGateway) -> None:
    places = Places(gateway, total=0)
    places.want("n1", "n2")
    assert [places.node_of(id) for id in ("1", "2", "3")] == ["n1", "n2", None]


def test_where_the_living_pods_are_not_known_pods_have_no_places(gateway: JavaGateway) -> None:
    places = Places(gateway, total=2)
    places.want("n1", avoided=["n2"])
    places.living = None
    assert (places.node_of("1"), places.number_of("2")) == (None, None)


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


def test_a_pod_prefers_its_node_avoids_drained_ones_and_keeps_the_users_preference(
    gateway: JavaGateway, jvm: Any
) -> None:
    places = Places(gateway, total=1)
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


def test_variables_of_the_users_template_stay_and_the_zone_is_added_where_it_is_wanted(
    gateway: JavaGateway, jvm: Any
) -> None:
    pod = amended(jvm, None, "1", stock_pod(jvm, NODE_NAME="mine"), spark__mooring__zone__provider="kubernetes")
    assert variables(pod) == {
        "NODE_NAME": "mine",
        "NODE_ZONE": "metadata.labels['topology.kubernetes.io/zone']",
    }


def test_the_template_of_several_executors_prefers_no_node(gateway: JavaGateway, jvm: Any) -> None:
    places = Places(gateway, total=1)
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
    gateway: JavaGateway, jvm: Any, conf: Mapping[str, str], claim: str, named: Mapping[str, str]
) -> None:
    usual = {
        "spark.mooring.location.provider": "volume",
        "spark.mooring.local.store.dir": "/data/mooring",
        f"{CLAIMS}.data.options.claimName": "data-SPARK_EXECUTOR_ID",
        f"{CLAIMS}.data.mount.path": "/data",
    }
    settings = {key.replace(".", "__"): value for key, value in {**usual, **conf}.items()}
    pod = amended(jvm, Places(gateway, total=2), "7", stock_pod(jvm, volume="data"), **settings)
    assert str(pod.pod().getSpec().getVolumes().get(0).getPersistentVolumeClaim().getClaimName()) == claim
    assert variables(pod) == {"NODE_NAME": "spec.nodeName", **named}


@pytest.mark.parametrize("name", ["Rack_9", "worker/3", "[fd00::1]", "", "n" * 254])
def test_a_host_that_is_no_name_of_a_node_is_not_named(gateway: JavaGateway, jvm: Any, name: str) -> None:
    """Kubernetes would reject the pod. The list may be of a run elsewhere."""
    places = Places(gateway, total=1)
    places.want(name, avoided=[name])
    assert preferences(amended(jvm, places, "1", stock_pod(jvm))) == []
