"""The storages that the benchmarks put checkpoints on.

`raw` is this machine's disk (`file:`). `slow` is the same disk behind `SlowFileSystem.scala`: each call takes 30 ms
more and a stream passes 45 MB/s, which is about what one sees of an object store.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Storage:
    """How a checkpoint on the local path `/x` is named on this storage, and what Spark needs to reach it."""

    name: str
    scheme: str
    jars: tuple[Path, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()

    def uri(self, path: Path) -> str:
        """The location of a local path on this storage."""
        return f"{self.scheme}://{path}"


def raw_storage() -> Storage:
    """This machine's disk."""
    return Storage("raw", "file")


def slow_storage() -> Storage:
    """An object store, as far as time goes. Its jar is compiled when it is missing or out of date (5 s)."""
    jar = build_jar(CHECKOUT / "build" / "slow-storage.jar")
    return Storage("slow", "slow", (jar,), (("spark.hadoop.fs.slow.impl", "benchmarks.storage.SlowFileSystem"),))


def storage(name: str) -> Storage:
    """`raw` or `slow`."""
    return {"raw": raw_storage, "slow": slow_storage}[name]()


def build_jar(output: Path) -> Path:
    """Compile the Scala file system with the compiler and the options that build the plugin's jar."""
    shim = str(CHECKOUT / "scala-shim")
    if shim not in sys.path:
        sys.path.insert(0, shim)
    builder: Any = importlib.import_module("build_jar")
    packing: Any = importlib.import_module("packing")
    sources = packing.files_under(Path(__file__).parent, "*.scala")
    jars = builder.spark_jars(builder.line_of_this_python())
    classes = builder.compiled(sources, jars, CHECKOUT / "build" / "slow-storage" / "classes", False)
    content = packing.packed({name: path.read_bytes() for name, path in packing.files_under(classes).items()})
    if not output.is_file() or output.read_bytes() != content:
        whole = output.with_name(f".{output.name}.{os.getpid()}")
        whole.write_bytes(content)
        os.replace(whole, output)
    return output
