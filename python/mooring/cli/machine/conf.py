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

`mooring conf --target TARGET` prints each of them. The files for EMR and Databricks follow the platforms' own
documentation. We have not run them there. What each needs besides:

- `spark-defaults.conf` is for `spark-submit` on any cluster. It needs the jar at the same path on every host. A job's
  own `--driver-class-path` replaces `spark.driver.extraClassPath`: such a job names this jar as well.
  On YARN see also docs/quick-start/yarn.md.
- `emr.json` needs a bootstrap action, which docs/quick-start/emr.md has. It copies the jar to
  `/mnt/mooring/mooring.jar` on every node, and lets the executors make `/mnt/mooring/store`. YARN gives each container
  a temporary directory that it wipes, so the default of `local.store.dir` keeps nothing there.
  A job may have `--jars` of its own: `spark.jars`, which they replace, is not used. They are added to
  `spark.yarn.dist.jars`, from which executors have the jar, and a driver with `--deploy-mode cluster`. A driver with
  `--deploy-mode client` has it from `SPARK_DIST_CLASSPATH`. `spark.driver.extraClassPath` stays as EMR sets it.
  Put in your own number of executors.
- `databricks.conf` needs an init script, which docs/quick-start/databricks.md has.
- `kubernetes.conf` needs an image with the jar, and a directory on each node. `kubernetes-volumes.conf` needs the
  image, a pod template, and one claim for each executor: docs/quick-start/kubernetes.md.
- On YARN use `mooring conf` without `--target`: docs/quick-start/yarn.md.
- The agent needs a Python 3.10 or later on the driver's host, on YARN with `--deploy-mode cluster` on each node. It
  needs neither PySpark nor `py4j`, also for a job in Scala or Java: `py4j` comes in the jar. Where the records lie in
  ZooKeeper or Kafka, it needs `kazoo` or `confluent-kafka`. Without such a Python the log says
  `no agent could be started`, and tasks run where Spark puts them.
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
    """The sample configuration for a target, such as `spark-submit`, `emr` or `kubernetes`.

    `jar` is the path of the plugin's jar on each host of that platform; without it a path that the reader replaces, or
    the one of docs/quick-start (`databricks` needs none). An unknown target raises InvalidSettingError that lists them.
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
        "kubernetes-volumes.conf": render("kubernetes-volumes"),
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
    return _in_pods(
        "For spark-submit --master k8s://…: the local store lies on the node, and the node is the location.",
        jar,
        "hostPath",
        {"options.path": "/var/lib/mooring", "options.type": "Directory"},
        {"spark.mooring.location.provider": "kubernetes", "spark.executor.instances": "4"},
    )


def _kubernetes_volumes(jar: str | None) -> str:
    return _in_pods(
        "For spark-submit --master k8s://…: each executor has a volume of its own, whose claim stays.",
        jar,
        "persistentVolumeClaim",
        {"options.claimName": "mooring-SPARK_EXECUTOR_ID", "mount.readOnly": "false"},
        {"spark.mooring.location.provider": "volume", "spark.executor.instances": "4"},
    )


def _in_pods(what: str, jar: str | None, kind: str, volume: Mapping[str, str], own: Mapping[str, str]) -> str:
    # A volume whose name begins so is one of Spark's local directories: state files can be linked into the store.
    # With type Directory a pod waits until the directory is there. DirectoryOrCreate would make one of root's.
    prefix = f"spark.kubernetes.executor.volumes.{kind}.spark-local-dir-mooring"
    options = {f"{prefix}.{option}": value for option, value in volume.items()}
    return _properties(
        what,
        {
            "spark.plugins": PLUGIN,
            **_on_class_path(jar or "/opt/mooring/mooring.jar"),
            **options,
            f"{prefix}.mount.path": "/var/lib/mooring",
            "spark.mooring.local.store.dir": "/var/lib/mooring/store",
            **own,
        },
        _NOT_JARS,
    )


def _emr(jar: str | None) -> str:
    """The configuration of a cluster on EMR, as EMR takes it when the cluster is created. Not tried on EMR.

    A job's own --jars replace spark.jars, so that key is not used. They are added to spark.yarn.dist.jars
    (`SparkSubmit.prepareSubmitEnvironment`). That key serves executors and a driver in cluster mode. `local:` stands
    for a file that each host has.

    A driver in client mode has the jar from SPARK_DIST_CLASSPATH. spark.driver.extraClassPath would replace the value
    that EMR sets. EMR writes what is exported here into spark-env.sh, where the shell puts in the earlier value.
    """
    path = jar or "/mnt/mooring/mooring.jar"
    defaults = {
        "spark.plugins": PLUGIN,
        "spark.yarn.dist.jars": f"local:{path}",
        "spark.mooring.local.store.dir": "/mnt/mooring/store",
        # EMR switches it on. With it no executor is asked for on the hosts that have the state.
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.instances": "4",
    }
    # How many nodes YARN passes over before it gives a container on another host than asked for.
    passed_over = "40"
    scheduler = {
        f"yarn.scheduler.capacity.{name}-delay": passed_over for name in ("node-locality", "rack-locality-additional")
    }
    exported = _classification("export", {"SPARK_DIST_CLASSPATH": f"$SPARK_DIST_CLASSPATH:{path}"})
    classifications = [
        _classification("spark-defaults", defaults),
        {**_classification("spark-env", {}), "Configurations": [exported]},
        _classification("capacity-scheduler", scheduler),
    ]
    return json.dumps(classifications, indent=2) + "\n"


def _classification(name: str, properties: Mapping[str, str]) -> dict[str, object]:
    return {"Classification": name, "Properties": properties}


def _databricks(jar: str | None) -> str:
    lines = [
        "# Mooring is off in the Databricks Runtime, unless spark.mooring.other.spark is try. Nobody has tried this.",
        f"spark.plugins {PLUGIN}",
        "spark.mooring.other.spark try",
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
    "kubernetes-volumes": _kubernetes_volumes,
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
