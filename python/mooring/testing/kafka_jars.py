"""Fetches the jars of a Kafka broker, once, with Spark's own resolver.

Settings that lead Spark to the user's registry work here too: DEFAULT_ARTIFACT_REPOSITORY, a local Maven repository.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from mooring.errors import ClusterError
from mooring.testing.spark_home import spark_environment, spark_home

KAFKA_VERSION = "4.2.0"

_BROKER = "org.apache.kafka:kafka_2.13:{version}"
_OUTPUT_SHOWN = 4_000

# Spark's resolver leaves out jars that Spark has: Scala, and the backend of slf4j. Spark's slf4j must come first.
_FROM_SPARK = (
    "slf4j-api-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-api-2*.jar",
    "log4j-core-*.jar",
    "scala-library-*.jar",
)


def kafka_classpath(version: str = KAFKA_VERSION, cache: Path | None = None, timeout: float = 600.0) -> str:
    """The class path of a broker of this version, for `java -cp`.

    The jars are kept in `cache`, else in $MOORING_CACHE, else in ~/.cache/mooring. The first call fetches 40 MB; later
    calls need no network. Several processes may call it at once. `ClusterError`, with the end of the resolver's output,
    when the jars can not be fetched.
    """
    jars = _cache(cache) / f"kafka-{version}"
    if not jars.is_dir():
        _fetch(_BROKER.format(version=version), jars, timeout)
    from_spark = [jar for pattern in _FROM_SPARK for jar in sorted((spark_home() / "jars").glob(pattern))]
    return os.pathsep.join([*map(str, from_spark), f"{jars}/*"])


def _cache(cache: Path | None) -> Path:
    return cache or Path(os.environ.get("MOORING_CACHE") or Path.home() / ".cache" / "mooring")


def _fetch(package: str, jars: Path, timeout: float) -> None:
    """Fetch into a directory beside `jars` and rename it, so that `jars` is always complete."""
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{jars.name}-", dir=jars.parent) as scratch:
        nothing = Path(scratch, "nothing.py")
        nothing.touch()
        _submit(package, Path(scratch), nothing, timeout)
        with contextlib.suppress(OSError):  # another process was first; its jars are the same
            Path(scratch, "jars").rename(jars)
    if not jars.is_dir():
        raise ClusterError(f"the jars of {package} were resolved, but {jars} could not be made")


def _submit(package: str, scratch: Path, application: Path, timeout: float) -> None:
    """Run an empty application, so that Spark resolves its `--packages`."""
    submit = spark_home() / "bin" / "spark-submit"
    command = [submit, "--master", "local[1]", "--conf", f"spark.jars.ivy={scratch}", "--packages", package]
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
            raise ClusterError(f"{package} was not resolved within {timeout:g} s") from None
        log.seek(0)
        output = log.read().decode(errors="replace")
    if code != 0:
        raise ClusterError(f"{package} cannot be resolved:\n{output[-_OUTPUT_SHOWN:]}")


def java() -> str:
    """The path of the `java` that Spark would run. `ClusterError` when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise ClusterError("no java: set JAVA_HOME to a JDK 17 or later")
    return found
