"""Where the plugin's jar is."""

from __future__ import annotations

from pathlib import Path

from mooring.errors import MooringError

_PACKAGE = Path(__file__).resolve().parent


def jar_path(package: Path = _PACKAGE) -> Path:
    """The jar for Spark's `--jars`: the one in the installed package, else the one built in this checkout.

    `package` is the folder of the package `mooring`. MooringError when there is no jar; the message says what to do.
    The agent runs from a zip in the jar, so this finds no jar in the agent's own process.
    """
    installed = package / "jars" / "mooring.jar"
    if installed.is_file():
        return installed
    checkout = package.parents[1]
    if not (checkout / "scala-shim" / "build_jar.py").is_file():
        raise MooringError(
            f"there is no {installed}: this copy of Mooring was installed without its jar; `pip install` it again"
        )
    built = checkout / "build" / "mooring.jar"
    if not built.is_file():
        raise MooringError(f"there is no {built} yet: build it with `make jar` in {checkout}")
    return built
