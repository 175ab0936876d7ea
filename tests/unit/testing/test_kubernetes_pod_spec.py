"""What the stand-in for a kubelet refuses, and how it starts a container."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.testing.kubernetes_pod_spec import (
    DECOMMISSION_SCRIPT,
    container_environment,
    field,
    refusals,
)

SPARKS_HOOK = {"preStop": {"exec": {"command": [DECOMMISSION_SCRIPT]}}}


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    own = {"name": "c", "image": "spark", "args": ["executor"], **(container or {})}
    meta = {"name": "exec-1", "namespace": "default", "uid": "u", "labels": {"zone": "x", "a/b": 'say "x"'}}
    return {
        "metadata": meta,
        "spec": {"restartPolicy": "Never", "containers": [own], "nodeName": "node-1", **spec},
        "status": {"podIP": "127.1.0.1", "podIPs": [{"ip": "127.1.0.1"}], "hostIP": "127.1.255.1"},
    }


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


@pytest.mark.parametrize(
    "known",
    [
        pod(),
        pod({"lifecycle": SPARKS_HOOK}, securityContext={}, terminationGracePeriodSeconds=30),
        pod(**volume(hostPath={"path": "/x", "type": ""}), tolerations=[{"operator": "Exists"}]),
        pod(**volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}], "defaultMode": 420})),
        pod({"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['zone']"}}}]}),
    ],
)
def test_what_is_known_is_not_refused(known) -> None:
    assert refusals(known) == []


@pytest.mark.parametrize(
    "unknown, word",
    [
        (pod(restartPolicy="Always"), "spec.restartPolicy"),
        (pod(schedulerName="volcano"), "spec.schedulerName"),
        (pod(initContainers=[{"name": "i"}]), "spec.initContainers"),
        (pod(topologySpreadConstraints=[{}]), "spec.topologySpreadConstraints"),
        (pod(securityContext={"runAsUser": 185}), "spec.securityContext"),
        (pod({"livenessProbe": {}}) | {}, ""),
        (pod({"livenessProbe": {"exec": {}}}), "spec.containers[0].livenessProbe"),
        (pod({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}), "spec.containers[0].lifecycle"),
        (pod({"env": [{"name": "N", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}), "env: N"),
        (pod({"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.unknown"}}}]}), "env: N"),
        (pod({"volumeMounts": [{"name": "v", "mountPath": "/x", "subPathExpr": "$(N)"}]}), "subPathExpr"),
        (pod(**volume(nfs={"server": "s"})), "spec.volumes[v].nfs"),
        (pod(**volume(hostPath={"path": "/x", "type": "Socket"})), "spec.volumes[v].hostPath.type"),
        (pod(**volume(projected={"sources": [{"clusterTrustBundle": {}}]})), "clusterTrustBundle"),
        (pod(**volume(downwardAPI={"items": [{"path": "cpu", "resourceFieldRef": {}}]})), "downwardAPI: cpu"),
    ],
)
def test_what_is_not_known_is_refused_by_its_name(unknown, word) -> None:
    found = refusals(unknown)
    assert bool(found) is bool(word) and all(word in each for each in found), found


def test_an_affinity_that_would_be_overlooked_is_refused() -> None:
    terms = [{"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}]
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert any("namespaceSelector" in each for each in refusals(pod(affinity=affinity)))
    newer = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": newer}}
    assert any("Gt" in each for each in refusals(pod(affinity=affinity)))


@pytest.mark.parametrize(
    "path, text",
    [
        ("metadata.name", "exec-1"),
        ("metadata.labels['zone']", "x"),
        ("metadata.labels['none']", ""),
        ("metadata.labels", 'a/b="say \\"x\\""\nzone="x"\n'),
        ("spec.nodeName", "node-1"),
        ("status.podIP", "127.1.0.1"),
        ("status.hostIP", "127.1.255.1"),
        ("status.podIPs", "127.1.0.1"),
    ],
)
def test_the_downward_api_says_what_the_pod_is(path, text) -> None:
    assert field(pod(), path) == text


def test_variables_come_from_the_image_the_pod_and_its_secrets() -> None:
    variables = [
        {"name": "PLAIN", "value": "1"},
        {"name": "EMPTY"},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    found = container_environment(pod({"env": variables}), {"PATH": "/bin", "PLAIN": "0"}, lambda *of: "/".join(of))
    expected = {"PATH": "/bin", "PLAIN": "1", "EMPTY": "", "NODE_NAME": "node-1", "SECRET": "secrets/s/k"}
    assert found == expected
