"""Where the stand-in for Kubernetes' scheduler puts pods."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.testing.kubernetes_scheduling import Choice, choose_node, quantity

HOST = "kubernetes.io/hostname"


def node(name, cpu="4", memory="4Gi", taints=(), unschedulable=False, **labels: str) -> dict[str, Any]:
    spec = {"taints": list(taints), **({"unschedulable": True} if unschedulable else {})}
    meta = {"name": name, "labels": {HOST: name, **labels}}
    return {"metadata": meta, "spec": spec, "status": {"allocatable": {"cpu": cpu, "memory": memory}}}


def pod(name="p", cpu="1", memory="1Gi", on="", labels=None, phase="Running", **spec: Any) -> dict[str, Any]:
    requests = {"requests": {"cpu": cpu, "memory": memory}}
    placed = {"nodeName": on} if on else {}
    meta = {"name": name, "namespace": "default", "labels": labels or {}}
    return {
        "metadata": meta,
        "spec": {"containers": [{"resources": requests}], **placed, **spec},
        "status": {"phase": phase},
    }


def term(operator, *values, key=HOST, fields=False):
    expression = {"key": "metadata.name" if fields else key, "operator": operator, "values": list(values)}
    return {"matchFields" if fields else "matchExpressions": [expression]}


def required(*terms):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def preferred(*weighted):
    terms = [{"weight": weight, "preference": preference} for weight, preference in weighted]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def beside(kind, labels, topology=HOST):
    wanted = {"labelSelector": {"matchLabels": labels}, "topologyKey": topology}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [wanted]}}


THREE = [node("a", zone="x"), node("b", zone="x"), node("c", zone="y")]


def test_without_a_preference_pods_spread_over_the_nodes() -> None:
    pods: list[dict[str, Any]] = []
    for _ in range(6):
        pods.append(pod(on=choose_node(pod(), THREE, pods).node))
    assert [each["spec"]["nodeName"] for each in pods] == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.parametrize("first, chosen", [(0, "a"), (1, "b"), (2, "c"), (4, "b")])
def test_among_equal_nodes_the_one_with_this_number_comes_first(first, chosen) -> None:
    assert choose_node(pod(), THREE, [], first).node == chosen


def test_the_least_loaded_node_is_chosen() -> None:
    pods = [pod(on="a", memory="2Gi"), pod(on="b", cpu="100m", memory="100Mi"), pod(on="c")]
    assert choose_node(pod(), THREE, pods).node == "b"


def test_a_pod_that_has_ended_needs_nothing() -> None:
    assert choose_node(pod(cpu="4"), [node("a")], [pod(on="a", phase="Succeeded"), pod(on="a", phase="Failed")]).node


@pytest.mark.parametrize("wanted", [{"cpu": "3500m"}, {"memory": "3.5Gi"}])
def test_a_pod_does_not_come_where_it_has_no_room(wanted) -> None:
    resource = next(iter(wanted))
    choice = choose_node(pod(**wanted), THREE[:1], [pod(on="a")])
    assert choice == Choice("", f"0/1 nodes are available: 1 Insufficient {resource}.")


def test_a_pod_may_take_all_that_is_left() -> None:
    assert choose_node(pod(cpu="3", memory="3Gi"), THREE[:1], [pod(on="a")]).node == "a"


def test_a_node_selector_is_obeyed() -> None:
    assert choose_node(pod(nodeSelector={"zone": "y"}), THREE, []).node == "c"
    assert "node affinity/selector" in choose_node(pod(nodeSelector={"zone": "z"}), THREE, []).why


@pytest.mark.parametrize(
    "wanted, allowed",
    [
        ([term("In", "b")], "b"),
        ([term("NotIn", "a", "c")], "b"),
        ([term("Exists", key="disk")], ""),
        ([term("DoesNotExist", key="disk"), term("In", "c")], "a"),
        ([term("In", "c", fields=True)], "c"),
        ([term("In", "nowhere"), term("In", "c")], "c"),
        ([{}], ""),
    ],
)
def test_required_affinity_is_obeyed(wanted, allowed) -> None:
    assert choose_node(pod(affinity=required(*wanted)), THREE, []).node == allowed


def test_all_expressions_of_a_term_must_hold() -> None:
    both = {
        "matchExpressions": [*term("In", "x", key="zone")["matchExpressions"], *term("NotIn", "a")["matchExpressions"]]
    }
    assert choose_node(pod(affinity=required(both)), THREE, []).node == "b"


def test_the_greatest_weight_of_preferences_wins_over_load() -> None:
    affinity = preferred((30, term("In", "x", key="zone")), (20, term("In", "b")), (40, term("In", "c")))
    assert choose_node(pod(affinity=affinity), THREE, [pod(on="b")] * 2).node == "b"


def test_a_preferred_node_without_room_is_passed_over() -> None:
    affinity = preferred((100, term("In", "a")))
    assert choose_node(pod(affinity=affinity), THREE, [pod(on="a", cpu="4")]).node == "b"


def test_a_cordoned_node_gets_no_pod() -> None:
    nodes = [node("a", unschedulable=True), node("b")]
    assert choose_node(pod(affinity=preferred((100, term("In", "a")))), nodes, []).node == "b"
    assert choose_node(pod(), nodes[:1], []).why == "0/1 nodes are available: 1 node(s) were unschedulable."
    daemon = pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert choose_node(daemon, nodes[:1], []).node == "a"


@pytest.mark.parametrize(
    "toleration, comes",
    [
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
    ],
)
def test_a_taint_needs_a_toleration(toleration, comes) -> None:
    tainted = [node("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])]
    assert bool(choose_node(pod(tolerations=[toleration]), tainted, []).node) is comes
    assert not choose_node(pod(), tainted, []).node


def test_a_soft_taint_is_avoided_and_not_more() -> None:
    tainted = node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    assert choose_node(pod(), [tainted, node("b")], [pod(on="b")]).node == "b"
    assert choose_node(pod(), [tainted], []).node == "a"


def test_pods_that_keep_apart_come_to_different_nodes() -> None:
    apart = {"labels": {"app": "s"}, "affinity": beside("podAntiAffinity", {"app": "s"})}
    pods: list[dict[str, Any]] = []
    for _ in range(3):
        pods.append(pod(on=choose_node(pod(**apart), THREE, pods, first=1).node, **apart))
    assert sorted(each["spec"]["nodeName"] for each in pods) == ["a", "b", "c"]
    assert "anti-affinity" in choose_node(pod(**apart), THREE, pods).why


def test_a_pod_is_kept_away_from_one_that_does_not_want_it() -> None:
    alone = pod(on="a", affinity=beside("podAntiAffinity", {"app": "s"}, "zone"))
    assert choose_node(pod(labels={"app": "s"}), THREE, [alone]).node == "c"
    assert choose_node(pod(labels={"app": "t"}), THREE, [alone]).node == "b"


def test_a_pod_comes_beside_the_one_that_it_wants() -> None:
    wants = beside("podAffinity", {"app": "s"}, "zone")
    assert choose_node(pod(affinity=wants), THREE, [pod(on="c", labels={"app": "s"})]).node == "c"
    assert not choose_node(pod(affinity=wants), THREE, []).node
    assert choose_node(pod(affinity=wants, labels={"app": "s"}), THREE, []).node == "a", "the first of its kind"


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(ValueError, match="'Gt'"):
        choose_node(pod(affinity=required(term("Gt", "1"))), THREE, [])


@pytest.mark.parametrize(
    "text, number",
    [("1", 1), ("500m", 0.5), ("1152Mi", 1152 * 2**20), ("2Gi", 2**31), ("1.5k", 1500), ("1e3", 1000), (2, 2)],
)
def test_quantities_are_read_as_kubernetes_does(text, number) -> None:
    assert quantity(text) == pytest.approx(number)


def test_text_that_is_no_quantity_is_an_error() -> None:
    with pytest.raises(ValueError):
        quantity("lots")
