"""Fetches jars from a Maven repository, once, with Spark's own resolver.

Settings that lead Spark to the user's registry work here too: DEFAULT_ARTIFACT_REPOSITORY, a local Maven repository.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mooring.errors import ClusterError
from mooring.testing.spark_home import spark_environment, spark_home

_OUTPUT_SHOWN = 4_000


def maven_jars(name: str, packages: Sequence[str], cache: Path | None = None, timeout: float = 600.0) -> Path:
    """A directory with the jars of these packages, such as `org.apache.kafka:kafka_2.13:4.2.0`, and of what they need.

    Jars that Spark has are partly left out by its resolver: Scala, and the backend of slf4j. The directory is `name` in
    `cache`, else in $MOORING_CACHE, else in ~/.cache/mooring. Later calls need no network. Several processes may call
    it at once. `ClusterError`, with the end of the resolver's output, when the jars can not be fetched.
    """
    jars = (cache or Path(os.environ.get("MOORING_CACHE") or Path.home() / ".cache" / "mooring")) / name
    if not jars.is_dir():
        _fetch(packages, jars, timeout)
    return jars


def _fetch(packages: Sequence[str], jars: Path, timeout: float) -> None:
    """Fetch into a directory beside `jars` and rename it, so that `jars` is always complete."""
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{jars.name}-", dir=jars.parent) as scratch:
        nothing = Path(scratch, "nothing.py")
        nothing.touch()
        _submit(packages, Path(scratch), nothing, timeout)
        with contextlib.suppress(OSError):  # another process was first; its jars are the same
            Path(scratch, "jars").rename(jars)
    if not jars.is_dir():
        raise ClusterError(f"the jars of {', '.join(packages)} were resolved, but {jars} could not be made")


def _submit(packages: Sequence[str], scratch: Path, application: Path, timeout: float) -> None:
    """Run an empty application, so that Spark resolves its `--packages`."""
    submit, wanted = spark_home() / "bin" / "spark-submit", ",".join(packages)
    command = [submit, "--master", "local[1]", "--conf", f"spark.jars.ivy={scratch}", "--packages", wanted]
    with Path(scratch, "log").open("w+b") as log:
        try:
            code = subprocess.run(
                [*map(str, command), str(application)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=spark_environment({}),
                timeout=timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{wanted} was not resolved within {timeout:g} s") from None
        log.seek(0)
        output = log.read().decode(errors="replace")
    if code != 0:
        raise ClusterError(f"{wanted} cannot be resolved:\n{output[-_OUTPUT_SHOWN:]}")


def java() -> str:
    """The path of the `java` that Spark would run. `ClusterError` when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise ClusterError("no java: set JAVA_HOME to a JDK 17 or later")
    return found
