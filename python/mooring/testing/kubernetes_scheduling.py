"""Which node a pod comes to: the rules of Kubernetes' scheduler, as one pure function over the API's own objects.

Filters: a node that is cordoned, taints and tolerations, `nodeSelector`, node affinity, cpu and memory requests, and
affinity and anti-affinity between pods. Of the nodes that are left, the one with the greatest weight of preferences
wins, then the one with the least requested of its cpu and memory. Kubernetes adds up weighted scores instead, and
chooses by chance among equals. Here the order of the nodes decides, from `first` on, so that a test can be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

_SUFFIXES = {
    **{"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12},
    **{"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40},
}
_RESOURCES = ("cpu", "memory")


@dataclass(frozen=True)
class Choice:
    """The name of a node; "" when no node fits, with the reasons in the words of Kubernetes' scheduler."""

    node: str
    why: str = ""


def choose_node(pod: Json, nodes: Sequence[Json], pods: Sequence[Json], first: int = 0) -> Choice:
    """The node for a pod that has none yet. `pods` are all other pods, also those that wait or have ended.

    Among equal nodes the first one from number `first` on is chosen. `ValueError` for an operator or a quantity that
    Kubernetes does not have.
    """
    placed = [other for other in pods if other["spec"].get("nodeName") and not has_ended(other)]
    cluster = _Cluster(pod, nodes, placed)
    reasons: Counter[str] = Counter()
    fitting: list[tuple[float, float, int]] = []
    for index, node in enumerate(nodes):
        reason = next((reason for does_not_fit, reason in _FILTERS if does_not_fit(cluster, node)), "")
        if reason:
            reasons[reason] += 1
        else:
            distance = (index - first) % len(nodes)
            fitting.append((-cluster.preference(node), cluster.load(node), distance))
    if fitting:
        return Choice(nodes[(min(fitting)[2] + first) % len(nodes)]["metadata"]["name"])
    told = "".join(f" {count} {reason}." for reason, count in sorted(reasons.items()))
    return Choice("", f"0/{len(nodes)} nodes are available:{told}")


def has_ended(pod: Json) -> bool:
    """Whether a pod's container has ended for good."""
    phase: str = pod.get("status", {}).get("phase", "")
    return phase in ("Succeeded", "Failed")


def quantity(text: str | float) -> float:
    """The number that a quantity stands for: 0.5 for "500m", 1048576 for "1Mi". `ValueError` for other text."""
    words = str(text)
    suffix = words.lstrip("0123456789.+-")
    return float(words.removesuffix(suffix)) * (_SUFFIXES[suffix] if suffix in _SUFFIXES else float(f"1{suffix}"))


def tolerates(pod: Json, taint: Json) -> bool:
    """Whether a toleration of the pod is for this taint."""
    return any(is_for_taint(toleration, taint) for toleration in pod["spec"].get("tolerations", []))


def is_for_taint(toleration: Json, taint: Json) -> bool:
    """Whether one toleration is for this taint. One without a key is for all, one without an effect for all effects."""
    if (
        toleration.get("effect", taint["effect"]) != taint["effect"]
        or toleration.get("key", taint["key"]) != taint["key"]
    ):
        return False
    return toleration.get("operator") == "Exists" or bool(toleration.get("value", "") == taint.get("value", ""))


class _Cluster:
    """A pod that is to be placed, and what it meets."""

    def __init__(self, pod: Json, nodes: Sequence[Json], placed: Sequence[Json]) -> None:
        self._pod = pod
        self._nodes = {node["metadata"]["name"]: node for node in nodes}
        self._placed = placed
        self._affinity: Json = pod["spec"].get("affinity") or {}

    def is_cordoned(self, node: Json) -> bool:
        return bool(node["spec"].get("unschedulable")) and not tolerates(
            self._pod, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        )

    def is_tainted(self, node: Json) -> bool:
        return any(
            taint["effect"] != "PreferNoSchedule" and not tolerates(self._pod, taint)
            for taint in node["spec"].get("taints", [])
        )

    def is_another_node(self, node: Json) -> bool:
        labels = _labels(node)
        selector = self._pod["spec"].get("nodeSelector") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            return True
        required = _of(self._affinity, "nodeAffinity", "required")
        return bool(required) and not any(_term_matches(term, node) for term in required["nodeSelectorTerms"])

    def lacks(self, resource: str) -> Callable[[Json], bool]:
        def lacks_it(node: Json) -> bool:
            free = quantity(node["status"]["allocatable"][resource]) - self._requested(node, resource)
            return _request(self._pod, resource) > free + 1e-9

        return lacks_it

    def lacks_friends(self, node: Json) -> bool:
        terms = _of(self._affinity, "podAffinity", "required") or []
        return not all(self._is_near(node, term, self._pod) or self._is_first(term) for term in terms)

    def has_enemies(self, node: Json) -> bool:
        terms = _of(self._affinity, "podAntiAffinity", "required") or []
        if any(self._is_near(node, term, self._pod) for term in terms):
            return True
        return any(  # a pod that is there does not want this one beside it
            _is_meant(term, other, self._pod) and self._same_place(node, self._node_of(other), term["topologyKey"])
            for other in self._placed
            for term in _of(other["spec"].get("affinity") or {}, "podAntiAffinity", "required") or []
        )

    def preference(self, node: Json) -> float:
        weight = 0.0
        for preferred in _of(self._affinity, "nodeAffinity", "preferred") or []:
            weight += preferred["weight"] * _term_matches(preferred["preference"], node)
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for preferred in _of(self._affinity, kind, "preferred") or []:
                weight += sign * preferred["weight"] * self._is_near(node, preferred["podAffinityTerm"], self._pod)
        unwelcome = [taint for taint in node["spec"].get("taints", []) if taint["effect"] == "PreferNoSchedule"]
        return weight - sum(not tolerates(self._pod, taint) for taint in unwelcome)

    def load(self, node: Json) -> float:
        shares = (self._requested(node, name) / quantity(node["status"]["allocatable"][name]) for name in _RESOURCES)
        return round(sum(shares), 6)

    def _requested(self, node: Json, resource: str) -> float:
        name = node["metadata"]["name"]
        return sum(_request(pod, resource) for pod in self._placed if pod["spec"]["nodeName"] == name)

    def _is_first(self, term: Json) -> bool:
        """A pod that asks for pods like itself may come first; else none of them could ever come."""
        return _is_meant(term, self._pod, self._pod) and not any(
            _is_meant(term, self._pod, other) for other in self._placed
        )

    def _is_near(self, node: Json, term: Json, asking: Json) -> bool:
        return any(
            _is_meant(term, asking, other) and self._same_place(node, self._node_of(other), term["topologyKey"])
            for other in self._placed
        )

    def _node_of(self, pod: Json) -> Json:
        return self._nodes.get(pod["spec"]["nodeName"], {"metadata": {}})

    @staticmethod
    def _same_place(one: Json, other: Json, topology: str) -> bool:
        place = _labels(one).get(topology)
        return place is not None and place == _labels(other).get(topology)


_FILTERS: tuple[tuple[Callable[[_Cluster, Json], bool], str], ...] = (
    (_Cluster.is_cordoned, "node(s) were unschedulable"),
    (_Cluster.is_tainted, "node(s) had untolerated taint(s)"),
    (_Cluster.is_another_node, "node(s) didn't match Pod's node affinity/selector"),
    (lambda cluster, node: cluster.lacks("cpu")(node), "Insufficient cpu"),
    (lambda cluster, node: cluster.lacks("memory")(node), "Insufficient memory"),
    (_Cluster.lacks_friends, "node(s) didn't match pod affinity rules"),
    (_Cluster.has_enemies, "node(s) didn't match pod anti-affinity rules"),
)


def _of(affinity: Json, kind: str, when: str) -> Any:
    return (affinity.get(kind) or {}).get(f"{when}DuringSchedulingIgnoredDuringExecution")


def _labels(item: Json) -> Json:
    return item["metadata"].get("labels") or {}


def _request(pod: Json, resource: str) -> float:
    containers = pod["spec"]["containers"]
    return sum(quantity(each.get("resources", {}).get("requests", {}).get(resource, 0)) for each in containers)


def _term_matches(term: Json, node: Json) -> bool:
    """Whether a term of node affinity is for a node. One without any expression is for none."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    named = {"metadata.name": node["metadata"]["name"]}
    return bool(expressions or fields) and (
        all(_holds(expression, _labels(node)) for expression in expressions)
        and all(_holds(expression, named) for expression in fields)
    )


def _is_meant(term: Json, asking: Json, other: Json) -> bool:
    """Whether a term of pod affinity, of the pod that asks, is for another pod."""
    namespaces = term.get("namespaces") or [asking["metadata"].get("namespace", "")]
    selector = term.get("labelSelector")
    if selector is None or other["metadata"].get("namespace", "") not in namespaces:
        return False
    labels = _labels(other)
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        _holds(expression, labels) for expression in selector.get("matchExpressions") or []
    )


def _holds(expression: Json, labels: Json) -> bool:
    value, operator = labels.get(expression["key"]), expression["operator"]
    if operator == "In":
        return value in expression["values"]
    if operator == "NotIn":
        return value not in expression["values"]
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    raise ValueError(f"operator {operator!r} of a selector is not known here")
