"""Rows of benchmark results, in the form that all benchmarks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Spread = dict[str, float]
Row = dict[str, Any]


def spread(values: Sequence[float]) -> Spread:
    """Median, least, greatest and number of `values`. ValueError when there is none."""
    if not values:
        raise ValueError("a figure without a single value")
    return {
        "median": round(median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
        "n": len(values),
    }


def row(figure: str, unit: str, measured: Mapping[str, Sequence[float]], **what: Any) -> Row:
    """One row: `measured` has the values of `stock`, `mooring` and further variants.

    `what` has the other columns, such as `storage="slow", state_gb=1.0`; an underscore becomes a dash. There is no
    ratio where stock has no values, or a median of zero.
    """
    made: Row = {"figure": figure, "unit": unit, **{name.replace("_", "-"): value for name, value in what.items()}}
    made |= {variant: spread(values) for variant, values in measured.items()}
    base = made["stock"]["median"] if "stock" in made else 0
    for variant in measured:
        if variant != "stock" and base:
            made["ratio" if variant == "mooring" else f"ratio-{variant}"] = round(made[variant]["median"] / base, 4)
    return made


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]
