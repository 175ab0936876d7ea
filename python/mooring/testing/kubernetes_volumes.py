"""The volumes of a pod as directories of this machine, and where its container has them."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.testing.kubernetes_pod_spec import field

Json = Mapping[str, Any]


class NotYet(Exception):
    """A pod's container can not be made now; the words say why. The kubelet tries again."""


@dataclass(frozen=True)
class Mount:
    """A directory or file of this machine, and where the container has it."""

    source: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class Sources:
    """What volumes are made of. The functions raise `NotYet` when there is no such object."""

    pod_directory: Path
    node_disk: Path
    claim: Callable[[str], Path]
    """The directory of a claim."""
    data: Callable[[str, str], dict[str, bytes]]
    """The entries of a config map (`configmaps`, name) or of a secret (`secrets`, name)."""
    account_token: Callable[[], str]


def mounts_of(pod: Json, sources: Sources) -> list[Mount]:
    """The mounts of a pod's container. Directories that are missing are made, and files are written."""
    made = {volume["name"]: _source(volume, pod, sources) for volume in pod["spec"].get("volumes", [])}
    mounts = []
    for mount in pod["spec"]["containers"][0].get("volumeMounts", []):
        directory, read_only = made[mount["name"]]
        source = directory / mount.get("subPath", "")
        if not source.exists():
            source.mkdir(parents=True)
        mounts.append(Mount(str(source), mount["mountPath"], read_only or mount.get("readOnly", False)))
    return mounts


def _source(volume: Json, pod: Json, sources: Sources) -> tuple[Path, bool]:
    """The directory of a volume, and whether containers may only read it."""
    own = sources.pod_directory / "volumes" / volume["name"]
    if "hostPath" in volume:
        return _of_node(volume["hostPath"], sources.node_disk), False
    if "persistentVolumeClaim" in volume:
        claim = volume["persistentVolumeClaim"]
        return sources.claim(claim["claimName"]), claim.get("readOnly", False)
    if "emptyDir" in volume:
        own.mkdir(parents=True, exist_ok=True)
        own.chmod(0o777)
        return own, False
    files: dict[str, bytes] = {}
    for source in volume["projected"]["sources"] if "projected" in volume else [volume]:
        files |= _files(source, pod, sources)
    shutil.rmtree(own, ignore_errors=True)  # of an attempt that ended in `NotYet`
    own.mkdir(parents=True)
    for name, content in files.items():
        file = own / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)  # some have tokens
        file.write_bytes(content)
    return own, True


def _of_node(volume: Json, disk: Path) -> Path:
    directory: Path = disk / volume["path"].lstrip("/")
    if not directory.is_dir():
        if volume.get("type") == "Directory":
            raise NotYet(f"hostPath type check failed: {volume['path']} is not a directory")
        directory.mkdir(parents=True)
    return directory


def _files(source: Json, pod: Json, sources: Sources) -> dict[str, bytes]:
    if "serviceAccountToken" in source:
        return {source["serviceAccountToken"]["path"]: sources.account_token().encode()}
    if "downwardAPI" in source:
        items = source["downwardAPI"]["items"]
        return {item["path"]: field(pod, item["fieldRef"]["fieldPath"]).encode() for item in items}
    kind = "configMap" if "configMap" in source else "secret"
    wanted = source[kind]
    name = wanted.get("name") or wanted["secretName"]
    try:
        data = sources.data("configmaps" if kind == "configMap" else "secrets", name)
    except NotYet:
        if wanted.get("optional"):
            return {}
        raise
    if "items" not in wanted:
        return data
    return {item["path"]: data[item["key"]] for item in wanted["items"] if item["key"] in data}


def data_of(item: Json) -> dict[str, bytes]:
    """The entries of a config map or of a secret."""
    encoded = {**item.get("binaryData", {}), **(item.get("data", {}) if item["kind"] == "Secret" else {})}
    plain = {} if item["kind"] == "Secret" else item.get("data", {})
    return {
        **{key: text.encode() for key, text in plain.items()},
        **{key: base64.b64decode(text) for key, text in encoded.items()},
    }
