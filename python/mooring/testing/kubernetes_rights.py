"""What a namespace has before its first pod, and the rights of a driver's service account, as objects of the API."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

DRIVER_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
"""What Spark's driver does to the objects of `DRIVER_RESOURCES`. Its page on Kubernetes has the same list (RBAC)."""

DRIVER_RESOURCES: Final = ("pods", "services", "configmaps", "persistentvolumeclaims")

_GROUP: Final = "rbac.authorization.k8s.io"


def objects_of_namespace(authority: Path) -> list[tuple[str, Json]]:
    """What controllers put into each namespace: resource and object. `authority` signs for the API server."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    published = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}}
    return [
        ("serviceaccounts", account),
        ("configmaps", {**published, "data": {"ca.crt": authority.read_text()}}),
    ]


def account_with_rules(namespace: str, account: str, rules: list[Json]) -> list[tuple[str, Json]]:
    """A service account with these rights in its namespace: resource and object, in order of their making.

    The role and the role binding have the name of the account.
    """
    meta = {"name": account, "namespace": namespace}
    subject = {"kind": "ServiceAccount", **meta}
    reference = {"apiGroup": _GROUP, "kind": "Role", "name": account}
    role = {"apiVersion": f"{_GROUP}/v1", "kind": "Role", "metadata": meta, "rules": rules}
    binding = {"apiVersion": f"{_GROUP}/v1", "kind": "RoleBinding", "metadata": meta}
    return [
        ("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}),
        ("roles", role),
        ("rolebindings", {**binding, "subjects": [subject], "roleRef": reference}),
    ]


def rules_of_driver(without: Sequence[tuple[str, str]] = ()) -> list[Json]:
    """The least rights of Spark's driver. `without` are pairs of a resource and a verb that are left out."""
    return [
        {"apiGroups": [""], "resources": [name], "verbs": [v for v in DRIVER_VERBS if (name, v) not in without]}
        for name in DRIVER_RESOURCES
    ]


def rules_of_submitter() -> list[Json]:
    """The least rights of one who submits in cluster mode: Spark also makes a network policy for the application."""
    policies = {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": list(DRIVER_VERBS)}
    return [*rules_of_driver(), policies]
