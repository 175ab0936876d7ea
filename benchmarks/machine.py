"""Describes the machine of a result and its load: absolute times mean nothing without that."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def this_machine() -> dict[str, Any]:
    """Processor, cores, memory, system, and the load of the last minute. Some are empty on systems other than Linux."""
    return {
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory-gb": round(int((_first("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / 1e6),
        "system": f"{platform.system()} {platform.release()}",
        "load-before": round(os.getloadavg()[0], 1),
    }


def _first(file: str, key: str) -> str:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")
