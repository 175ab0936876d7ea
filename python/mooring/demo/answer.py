"""The right answer, computed from the same files without Spark, and what the job wrote, read without Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

Pair = tuple[int, int]


class Offer(NamedTuple):
    """What one row of the output says of a pair of auction and bidder."""

    bids: int
    price: int
    bid: int
    receipt: str


@dataclass(frozen=True)
class Comparison:
    """How the rows that were written differ from those that should have been."""

    rows: int
    missing: int
    surplus: int
    different: int
    twice: int = 0
    first_difference: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether each row is there, as it should be. An answer without rows shows nothing, and does not count."""
        return self.rows > 0 and not (self.missing or self.surplus or self.different or self.twice)


def offline_answer(files: Iterable[Path]) -> tuple[int, dict[Pair, Offer]]:
    """How many bids there are in the files, and each pair's offer after all of them."""
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
    """What the job says of each pair in the last committed batch that speaks of it, and how many rows are too much.

    Too much is a second row of the same pair in one batch.
    """
    last: dict[Pair, Offer] = {}
    twice = 0
    for batch in sorted(batches):
        rows = list(_rows_of_batch(output / f"batch={batch}"))
        twice += len(rows) - len(dict(rows))
        last.update(rows)
    return last, twice


def compare(found: dict[Pair, Offer], wanted: dict[Pair, Offer], twice: int = 0) -> Comparison:
    """Row for row; `twice` is how many rows were written more than once."""
    different = [pair for pair in found.keys() & wanted.keys() if found[pair] != wanted[pair]]
    odd = min([*different, *(found.keys() ^ wanted.keys())], default=None)
    story = "" if odd is None else f"auction, bidder {odd}: written {found.get(odd)}, right {wanted.get(odd)}"
    missing, surplus = len(wanted.keys() - found.keys()), len(found.keys() - wanted.keys())
    return Comparison(len(wanted), missing, surplus, len(different), twice, story)


def _rows_of_batch(directory: Path) -> Iterator[tuple[Pair, Offer]]:
    for part in sorted(directory.glob("part-*.json")):
        for line in part.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            yield (row["auction"], row["bidder"]), Offer(row["bids"], row["price"], row["bid"], row["receipt"])


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
