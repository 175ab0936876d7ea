"""Sample configurations, rendered from the table of settings; `conf/` in the repository holds what this renders.

`python -m mooring.cli.machine.conf conf` writes them anew.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mooring.cli import options
from mooring.errors import InvalidSettingError, MooringError
from mooring.jar import jar_path
from mooring.settings import TABLE, Setting, describe_values

NAME: Final = "conf"
HELP: Final = "print a sample configuration, with every setting"

PLUGIN = "io.mooring.MooringPlugin"
MADE_FROM = "Made from python/mooring/settings/table.py by `python -m mooring.cli.machine.conf conf`; do not edit."

_NOT_JARS = "The jar lies at this path on every host. It is not in spark.jars: a job's --jars would replace it there."

_INTRODUCTION = f"""\
# Settings

<!-- {MADE_FROM} -->

All keys begin with `spark.mooring.` and are given like any key of Spark (`--conf`, `spark-defaults.conf`, the
cluster's page). Durations are `500ms`, `10s`, `5m`, `1h`, `1d`, or a bare number of milliseconds; sizes are `64m`,
`1g`, or a bare number of bytes. A key that is misspelt or holds what it may not stops the application at its start,
with the nearest valid name or value.

| key | type | default | |
|---|---|---|---|
"""
_PLATFORMS = """
## Sample configurations

`spark-defaults.conf` is for `spark-submit` on any cluster. The files for EMR, Databricks and Kubernetes follow the
platforms' own documentation and have not been run there by us. What each needs besides:

- `spark-defaults.conf`: the jar at the same path on every host. A job's own `--driver-class-path` replaces
  `spark.driver.extraClassPath`: such a job names this jar as well.
- `emr.json`: a bootstrap action that makes `/mnt/mooring`, owned by the user that runs the containers. YARN gives each
  container a temporary directory that it wipes, so the default of `local.store.dir` keeps nothing there. A job's
  `--jars` replaces `spark.jars` and adds to `spark.yarn.dist.jars`: no more is needed with `--deploy-mode cluster`.
  With `--deploy-mode client` the driver has the jars of `--jars` only: name this jar there as well.
- A job in Scala or Java with `--deploy-mode cluster` on YARN, EMR too: the agent needs Spark's Python code and `py4j`
  on the driver's host, and a container does not know where Spark lies. Where Spark is installed on the nodes, set
  `spark.yarn.appMasterEnv.SPARK_HOME` (`/usr/lib/spark` on EMR). Else install `pyspark` for a Python 3.10 or later on
  the nodes, and name it in `spark.mooring.agent.python`. Without that the log says `no agent could be started`, and
  tasks run where Spark puts them.
- `databricks.conf`: lines for the cluster's Spark configuration, and an init script that copies the jar to
  `/databricks/jars`, as a plugin is loaded before the cluster's libraries are.
- `kubernetes.conf`: an image with the jar in it; on each node a directory `/var/lib/mooring` that belongs to the user
  of the image (185 in Spark's own; `DirectoryOrCreate` alone makes it root's), which is Spark's local directory as
  well, so that files are shared by link; and a pod template for the executors that says on which node they are and, for
  `spark.mooring.zone.provider=kubernetes`, in which zone. A pod has its node's zone as a label from Kubernetes 1.35 on
  (in 1.33 and 1.34 behind the feature gate `PodTopologyLabelsAdmission`). Where `NODE_ZONE` is not set, the label is
  looked for in `/etc/podinfo/labels`, a volume of the downward API with `metadata.labels`:

      apiVersion: v1
      kind: Pod
      spec:
        containers:
        - name: spark-kubernetes-executor
          env:
          - name: NODE_NAME
            valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
          - name: NODE_ZONE
            valueFrom: {fieldRef: {fieldPath: "metadata.labels['topology.kubernetes.io/zone']"}}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "--target", choices=list(_RENDERERS), default="spark-submit", help="the platform (default: %(default)s)"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """`mooring conf`: print the sample configuration for a target, for spark-submit with the jar that is here."""
    # What is printed is the user's to change; only the files of conf/ are made again.
    text = render(arguments.target, _jar_here() if arguments.target == "spark-submit" else None)
    text = text.replace(f"# {MADE_FROM}\n", "")
    if arguments.json:
        text = json.dumps({"target": arguments.target, "text": text}, indent=1) + "\n"
    sys.stdout.write(text)


def render(target: str, jar: str | None = None) -> str:
    """The sample configuration for a target: `spark-submit`, `emr`, `databricks` or `kubernetes`.

    `jar` is the place of the plugin's jar on that platform; without it a path that the reader replaces (`databricks`
    needs none). An unknown target raises InvalidSettingError that lists them.
    """
    renderer = _RENDERERS.get(target)
    if renderer is None:
        close = difflib.get_close_matches(target, _RENDERERS, n=1, cutoff=0.0)[0]
        raise InvalidSettingError(f"target={target}: expected one of {', '.join(_RENDERERS)}; nearest: {close}")
    return renderer(jar)


def render_settings_page() -> str:
    """`conf/settings.md`: every key with its type, its default and one sentence."""
    return _INTRODUCTION + "".join(_table_row(setting) for setting in TABLE) + _PLATFORMS


def render_all() -> dict[str, str]:
    """The text of every file of `conf/`, by its name."""
    return {
        "settings.md": render_settings_page(),
        "spark-defaults.conf": render("spark-submit"),
        "emr.json": render("emr"),
        "databricks.conf": render("databricks"),
        "kubernetes.conf": render("kubernetes"),
    }


def _spark_submit(jar: str | None) -> str:
    return _properties(
        "For spark-submit: --properties-file, or a part of conf/spark-defaults.conf.",
        {
            "spark.plugins": PLUGIN,
            **_on_class_path(jar or "/path/to/mooring.jar"),
            "spark.mooring.local.store.dir": "/data/mooring",
        },
        _NOT_JARS,
    )


def _kubernetes(jar: str | None) -> str:
    # A volume whose name begins so is one of Spark's local directories: state files can be linked into the store.
    volume = "spark.kubernetes.executor.volumes.hostPath.spark-local-dir-mooring"
    return _properties(
        "For spark-submit --master k8s://…: the local store lies on the node, and the node is the location.",
        {
            "spark.plugins": PLUGIN,
            **_on_class_path(jar or "/opt/mooring/mooring.jar"),
            "spark.kubernetes.executor.podTemplateFile": "/path/to/executor-pod.yaml",
            f"{volume}.options.path": "/var/lib/mooring",
            f"{volume}.options.type": "DirectoryOrCreate",
            f"{volume}.mount.path": "/var/lib/mooring",
            "spark.mooring.local.store.dir": "/var/lib/mooring/store",
            "spark.mooring.location.provider": "kubernetes",
        },
        _NOT_JARS,
    )


def _emr(jar: str | None) -> str:
    place = jar or "s3://bucket/path/to/mooring.jar"
    properties = {
        "spark.plugins": PLUGIN,
        "spark.jars": place,
        "spark.yarn.dist.jars": place,
        "spark.mooring.local.store.dir": "/mnt/mooring",
    }
    return json.dumps([{"Classification": "spark-defaults", "Properties": properties}], indent=2) + "\n"


def _databricks(jar: str | None) -> str:
    lines = [
        "# The Databricks Runtime is refused: Mooring is off there, unless spark.mooring.other.spark=try. Not tried.",
        f"spark.plugins {PLUGIN}",
        "spark.mooring.local.store.dir /local_disk0/mooring",
    ]
    return "\n".join(lines) + "\n"


def _on_class_path(jar: str) -> dict[str, str]:
    return {"spark.driver.extraClassPath": jar, "spark.executor.extraClassPath": jar}


_RENDERERS: Mapping[str, Callable[[str | None], str]] = {
    "spark-submit": _spark_submit,
    "emr": _emr,
    "databricks": _databricks,
    "kubernetes": _kubernetes,
}


def _jar_here() -> str | None:
    try:
        return str(jar_path())
    except MooringError:
        return None


def _properties(purpose: str, chosen: Mapping[str, str], remark: str) -> str:
    """A properties file: what is set, then every other setting of this version as a comment with its default."""
    lines = [f"# {purpose}", f"# {MADE_FROM}", "", f"# {remark}"]
    lines += [f"{key} {value}" for key, value in chosen.items()]
    for setting in TABLE:
        if setting.key not in chosen:
            lines += ["", f"# {setting.doc}", f"# {_shown_key(setting)} {setting.default or ''}".rstrip()]
    return "\n".join(lines) + "\n"


def _table_row(setting: Setting) -> str:
    accepted = describe_values(setting)
    plain = accepted in ("true or false", "any text")
    sentence = setting.doc.replace("<", "&lt;") + ("" if plain or setting.is_prefix else f" ({accepted})")
    default = "" if setting.default is None else f"`{setting.default}`"
    return f"| `{_shown_key(setting)}` | {setting.type} | {default} | {sentence} |\n"


def _shown_key(setting: Setting) -> str:
    return setting.key + ("*" if setting.is_prefix else "")


def write(directory: Path) -> None:
    """Write every file of `conf/` into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in render_all().items():
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "conf"))
