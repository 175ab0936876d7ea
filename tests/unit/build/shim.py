"""The build's own modules, which live beside the Scala sources and in scripts/, outside any package."""

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]

for folder in ("scala-shim", "scripts"):
    if str(CHECKOUT / folder) not in sys.path:
        sys.path.append(str(CHECKOUT / folder))

build_jar = importlib.import_module("build_jar")
check_machine = importlib.import_module("check_machine")
jdk = importlib.import_module("jdk")
lines = importlib.import_module("lines")
packing = importlib.import_module("packing")
publish = importlib.import_module("publish")


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write these texts to the files of these names."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
