"""Benchmark results in the one form that CONTRACTS 8 gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Spread = dict[str, float]
Row = dict[str, Any]


def spread(values: Sequence[float]) -> Spread:
    """Median, least, greatest and number of `values`. ValueError for none: what was not measured has no row."""
    if not values:
        raise ValueError("a figure without a single value")
    return {
        "median": round(median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
        "n": len(values),
    }


def row(figure: str, unit: str, measured: Mapping[str, Sequence[float]], **what: Any) -> Row:
    """One row: `measured` holds the values of `stock`, `mooring` and perhaps further variants.

    `what` is what else varies, such as `storage="slow", state_gb=1.0`; an underscore becomes a dash. A ratio over a
    stock median of zero is left out, and so is one where stock has nothing to compare with.
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
