"""Make an archive of Spark's classes, for the JVMs of the tests: `python -m tests.class_archive FILE`.

One stateful query runs in local mode, and at the JVM's end the classes that it has loaded are written to FILE
(160 MB). The archive fits this JDK and this directory of Spark only. Where it can not be made, there is no FILE: the
tests run without it, and take longer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mooring.testing.spark_home import CLASS_ARCHIVE_VARIABLE, SHORT_LIVED_JVM, spark_environment, spark_home
from tests.integration.support.local_runs import ENDS, PLUGIN

SECONDS = 300


def make(archive: Path) -> str:
    """Write the archive if it can be made. Returns a line that says so, or why not."""
    with tempfile.TemporaryDirectory(prefix="mooring-classes-") as scratch:
        here, new = Path(scratch), Path(scratch) / "classes.jsa"
        java = f"{SHORT_LIVED_JVM} -XX:ArchiveClassesAtExit={new} -Xlog:cds*=off"
        options = {**PLUGIN, "spark.driver.extraJavaOptions": java, "spark.sql.shuffle.partitions": "2"}
        conf = [word for key, value in options.items() for word in ("--conf", f"{key}={value}")]
        job = [ENDS, here / "checkpoint", here / "ready", "3", "stop"]
        with (here / "log").open("w") as log:
            command = [spark_home() / "bin" / "spark-submit", "--master", "local[2]", *conf, *job]
            environment = spark_environment({"MOORING_LOCAL_STORE_DIR": str(here / "store")})
            try:
                code = subprocess.run(command, stdout=log, stderr=log, env=environment, timeout=SECONDS).returncode
            except subprocess.TimeoutExpired:
                code = None
        if code != 0 or not new.exists():
            how = f"did not end in {SECONDS} s" if code is None else f"ended with {code}"
            return f"{archive}: not made, as spark-submit {how}:\n{(here / 'log').read_text()[-2000:]}"
        archive.parent.mkdir(parents=True, exist_ok=True)
        beside = archive.with_suffix(f".{os.getpid()}")
        shutil.copyfile(new, beside)
        beside.replace(archive)
    return f"{archive}: {archive.stat().st_size >> 20} MiB; {CLASS_ARCHIVE_VARIABLE} names it in tests"


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
