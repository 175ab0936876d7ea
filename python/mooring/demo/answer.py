"""Computes the right answer from the input files, and reads the job's output; both without Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

Pair = tuple[int, int]


class Offer(NamedTuple):
    """The values in one row of the output, for a pair of auction and bidder."""

    bids: int
    price: int
    bid: int
    receipt: str


@dataclass(frozen=True)
class Comparison:
    """How the written rows differ from the right ones, in numbers of rows."""

    rows: int
    missing: int
    surplus: int
    different: int
    twice: int = 0
    first_difference: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether each row is right, and none is missing or surplus. False for an answer without rows."""
        return self.rows > 0 and not (self.missing or self.surplus or self.different or self.twice)


def offline_answer(files: Iterable[Path]) -> tuple[int, dict[Pair, Offer]]:
    """The number of bids in the files, and each pair's offer after all of them."""
    read = 0
    counts: dict[Pair, int] = {}
    best: dict[Pair, tuple[int, int, str]] = {}
    for path in files:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                bid = json.loads(line)
                pair = (bid["auction"], bid["bidder"])
                offer = (bid["price"], bid["bid"], bid["receipt"])
                counts[pair] = counts.get(pair, 0) + 1
                best[pair] = max(best.get(pair, offer), offer)
                read += 1
    return read, {pair: Offer(counts[pair], price, bid, _md5(text)) for pair, (price, bid, text) in best.items()}


def written_rows(output: Path, batches: Iterable[int]) -> tuple[dict[Pair, Offer], int]:
    """The job's last row of each pair in committed batches, and the number of rows that are twice in one batch."""
    last: dict[Pair, Offer] = {}
    twice = 0
    for batch in sorted(batches):
        rows = list(_rows_of_batch(output / f"batch={batch}"))
        twice += len(rows) - len(dict(rows))
        last.update(rows)
    return last, twice


def compare(found: dict[Pair, Offer], wanted: dict[Pair, Offer], twice: int = 0) -> Comparison:
    """Compare row by row; `twice` is how many rows were written more than once."""
    different = [pair for pair in found.keys() & wanted.keys() if found[pair] != wanted[pair]]
    first = min([*different, *(found.keys() ^ wanted.keys())], default=None)
    example = "" if first is None else f"auction, bidder {first}: written {found.get(first)}, right {wanted.get(first)}"
    missing, surplus = len(wanted.keys() - found.keys()), len(found.keys() - wanted.keys())
    return Comparison(len(wanted), missing, surplus, len(different), twice, example)


def _rows_of_batch(directory: Path) -> Iterator[tuple[Pair, Offer]]:
    for part in sorted(directory.glob("part-*.json")):
        for line in part.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            yield (row["auction"], row["bidder"]), Offer(row["bids"], row["price"], row["bid"], row["receipt"])


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
