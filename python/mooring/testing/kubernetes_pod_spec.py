"""What the stand-in for a kubelet makes of a pod: what it refuses, and the command and environment of the container."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mooring.testing.maven_jars import java
from mooring.testing.spark_home import SHORT_LIVED_JVM, spark_home

Json = Mapping[str, Any]

DECOMMISSION_SCRIPT: Final = "/opt/decom.sh"
"""The script of Spark's image that decommissions an executor; the one command that a `preStop` hook may have here."""

_EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


def _any(_: Any) -> bool:
    return True


def _empty(value: Any) -> bool:
    return not value


# What is known, and which values of it. A field that is not here is refused. What is only told to others, such as a
# container's ports, is known and does nothing.
_POD: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("containers", "volumes", "nodeSelector", "nodeName", "tolerations", "affinity"), _any),
    **dict.fromkeys(("serviceAccount", "serviceAccountName", "automountServiceAccountToken", "hostname"), _any),
    **dict.fromkeys(("terminationGracePeriodSeconds", "imagePullSecrets", "enableServiceLinks"), _any),
    **dict.fromkeys(("dnsPolicy", "preemptionPolicy"), _any),
    **dict.fromkeys(("securityContext", "priority"), _empty),
    "restartPolicy": "Never".__eq__,
    "schedulerName": "default-scheduler".__eq__,
}
_CONTAINER: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("name", "image", "imagePullPolicy", "command", "args", "env", "ports", "resources"), _any),
    **dict.fromkeys(("volumeMounts", "terminationMessagePath", "terminationMessagePolicy", "workingDir"), _any),
    "securityContext": _empty,
    "resizePolicy": _any,  # the API server sets it; nothing is resized here
    "lifecycle": {"preStop": {"exec": {"command": [DECOMMISSION_SCRIPT]}}}.__eq__,
}
_MOUNT: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("name", "mountPath", "readOnly", "subPath"), _any),
    "recursiveReadOnly": "Disabled".__eq__,
}
_VOLUMES: Mapping[str, frozenset[str]] = {
    "hostPath": frozenset({"path", "type"}),
    "emptyDir": frozenset({"medium", "sizeLimit"}),
    "persistentVolumeClaim": frozenset({"claimName", "readOnly"}),
    "configMap": frozenset({"name", "items", "defaultMode", "optional"}),
    "secret": frozenset({"secretName", "items", "defaultMode", "optional"}),
    "downwardAPI": frozenset({"items", "defaultMode"}),
    "projected": frozenset({"sources", "defaultMode"}),
}
_PROJECTED = ("serviceAccountToken", "configMap", "secret", "downwardAPI")
_FIELD = re.compile(r"metadata\.(?:name|namespace|uid|(?:labels|annotations)(?:\['[^']+'\])?)|spec\.\w+|status\.\w+")
_FIELDS_OF_SPEC_AND_STATUS = {
    "spec.nodeName",
    "spec.serviceAccountName",
    *(f"status.{name}" for name in ("podIP", "podIPs", "hostIP", "hostIPs")),
}


def refusals(pod: Json) -> list[str]:
    """The fields of a pod that the stand-in does not know; empty when it can run the pod as Kubernetes would."""
    spec = pod["spec"]
    found: list[str] = _unknown("spec", spec, _POD)
    if len(spec["containers"]) != 1:
        found.append(f"spec.containers: {len(spec['containers'])} of them")
    for index, container in enumerate(spec["containers"]):
        place = f"spec.containers[{index}]"
        found += _unknown(place, container, _CONTAINER)
        for mount in container.get("volumeMounts", []):
            found += _unknown(f"{place}.volumeMounts", mount, _MOUNT)
        found += [f"{place}.env: {each['name']}" for each in container.get("env", []) if not _is_known_variable(each)]
    for volume in spec.get("volumes", []):
        found += _unknown_volume(volume)
    return [*found, *_unknown_affinity(spec.get("affinity") or {})]


def _unknown(place: str, item: Json, known: Mapping[str, Callable[[Any], bool]]) -> list[str]:
    return [f"{place}.{name}" for name, value in item.items() if not known.get(name, _empty)(value)]


def _is_known_variable(variable: Json) -> bool:
    source = variable.get("valueFrom")
    if source is None:
        return True
    return set(source) <= {"secretKeyRef", "configMapKeyRef"} or is_known_field(source.get("fieldRef"))


def is_known_field(reference: Json | None) -> bool:
    """Whether a reference of the downward API is known here."""
    path = (reference or {}).get("fieldPath", "")
    if not _FIELD.fullmatch(path):
        return False
    return path.startswith("metadata.") or path in _FIELDS_OF_SPEC_AND_STATUS


def _unknown_volume(volume: Json) -> Iterable[str]:
    kind = next((kind for kind in volume if kind != "name"), "")
    place = f"spec.volumes[{volume['name']}].{kind}"
    if kind not in _VOLUMES:
        yield place
        return
    yield from (f"{place}.{name}" for name in volume[kind] if name not in _VOLUMES[kind])
    if kind == "hostPath" and volume[kind].get("type", "") not in ("", "Directory", "DirectoryOrCreate"):
        yield f"{place}.type"
    for source in volume[kind]["sources"] if kind == "projected" else [volume]:
        yield from (f"{place}.{name}" for name in source if name not in {"name", kind, *_PROJECTED})
        items = source.get("downwardAPI", {}).get("items", [])
        yield from (f"{place}: {item['path']}" for item in items if not is_known_field(item.get("fieldRef")))


def _unknown_affinity(affinity: Json) -> Iterable[str]:
    """Parts of an affinity that `choose_node` would overlook."""
    for path, value in _leaves("spec.affinity", affinity):
        word = path.rpartition(".")[2]
        if word in ("namespaceSelector", "matchLabelKeys", "mismatchLabelKeys"):
            yield path
        if word == "operator" and value not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield f"{path}: {value}"


def _leaves(path: str, value: Any) -> Iterable[tuple[str, Any]]:
    yield path, value
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(f"{path}.{name}", part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(path, part)


def field(pod: Json, path: str) -> str:
    """What a field of the downward API says about a pod, whose status has its addresses already."""
    head, _, tail = path.partition(".")
    name, _, key = tail.partition("['")
    if key:
        return str((pod[head].get(name) or {}).get(key.removesuffix("']"), ""))
    value = pod[head].get(name)
    if isinstance(value, Mapping):  # all labels, or all annotations
        return "".join(f'{label}="{_escaped(text)}"\n' for label, text in sorted(value.items()))
    if isinstance(value, list):  # addresses
        return ",".join(each["ip"] for each in value)
    return "" if value is None else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def container_environment(pod: Json, image: Json, value_of_key: Callable[[str, str, str], str]) -> dict[str, str]:
    """The environment of a pod's container: that of the image, then the pod's own variables.

    `value_of_key(kind, name, key)` gives a value of a secret or of a config map.
    """
    environment = dict(image)
    for variable in pod["spec"]["containers"][0].get("env", []):
        environment[variable["name"]] = _value(pod, variable, value_of_key)
    return environment


def _value(pod: Json, variable: Json, value_of_key: Callable[[str, str, str], str]) -> str:
    source = variable.get("valueFrom")
    if source is None:
        return str(variable.get("value", ""))
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"])
    kind, reference = next(iter(source.items()))
    return value_of_key("secrets" if kind == "secretKeyRef" else "configmaps", reference["name"], reference["key"])


def environment_of_image() -> dict[str, str]:
    """What an image with Spark and Python sets: nothing of it comes from Kubernetes."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "JAVA_HOME") if name in os.environ}
    python = {name: sys.executable for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    return {**inherited, **python, "SPARK_HOME": str(spark_home()), "SPARK_LAUNCHER_OPTS": SHORT_LIVED_JVM}


def container_command(pod: Json, environment: Mapping[str, str], conf_is_empty: bool) -> list[str]:
    """The command of a pod's container, as the entry point of Spark's image makes it for `driver` and `executor`.

    Other arguments are a command themselves. `conf_is_empty`: nothing is mounted at SPARK_CONF_DIR. Then that directory
    is not in the class path, which changes nothing but for a JVM's archive of classes.
    """
    container = pod["spec"]["containers"][0]
    args = [str(word) for word in container.get("args", [])]
    if container.get("command"):
        return [*map(str, container["command"]), *args]
    if args[:1] == ["executor"]:
        return _executor(environment, conf_is_empty)
    if args[:1] == ["driver"]:
        bind = f"spark.driver.bindAddress={environment['SPARK_DRIVER_BIND_ADDRESS']}"
        submit = str(spark_home() / "bin" / "spark-submit")
        return [submit, "--conf", bind, "--deploy-mode", "client", *args[1:]]
    return args


def _executor(environment: Mapping[str, str], conf_is_empty: bool) -> list[str]:
    numbered = {int(name.rpartition("_")[2]): name for name in environment if re.fullmatch(r"SPARK_JAVA_OPT_\d+", name)}
    options = [environment[numbered[number]] for number in sorted(numbered)]
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    path = ["" if conf_is_empty else environment.get("SPARK_CONF_DIR", ""), environment.get("HADOOP_CONF_DIR", "")]
    path += [environment.get("SPARK_CLASSPATH", ""), f"{spark_home() / 'jars'}/*"]
    path += [environment.get(name, "") for name in ("SPARK_EXTRA_CLASSPATH", "SPARK_DIST_CLASSPATH")]
    named = {
        "--driver-url": "SPARK_DRIVER_URL",
        "--executor-id": "SPARK_EXECUTOR_ID",
        "--cores": "SPARK_EXECUTOR_CORES",
        "--app-id": "SPARK_APPLICATION_ID",
        "--hostname": "SPARK_EXECUTOR_POD_IP",
        "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "--podName": "SPARK_EXECUTOR_POD_NAME",
    }
    words = [word for option, variable in named.items() for word in (option, environment[variable])]
    start = [java(), *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", ":".join(filter(None, path))]
    return [*start, _EXECUTOR, *words]
