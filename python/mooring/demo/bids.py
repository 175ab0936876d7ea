"""The stream of the demo: bids on auctions from the testing kit, each with a signed receipt, as files of JSON lines."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mooring.testing.events import START_MS, AuctionHouse, Bid

RECEIPT_BYTES = 1_500
"""In base64 these are 2,000 characters, which hardly compress: the state is as large on disk as its rows are."""


@dataclass(frozen=True)
class Stream:
    """Files of bids, the same for each seed: some are late, some are sent twice, a third go to a few hot auctions."""

    seed: int = 7
    files: int = 35
    bids_per_file: int = 9_000
    bidders: int = 60_000

    def write(self, directory: Path) -> list[Path]:
        """Write all files into a directory that no job reads yet; their times of modification keep their order."""
        directory.mkdir(parents=True)
        return [self._write_file(directory, number, bids) for number, bids in enumerate(self._bids())]

    def _bids(self) -> Iterator[list[Bid]]:
        house = AuctionHouse(
            self.seed, self.files, self.bids_per_file, auctions_per_file=20, bidders=self.bidders, flush=False
        )
        return house.bid_files()

    def _write_file(self, directory: Path, number: int, bids: list[Bid]) -> Path:
        path = directory / f"{number:06}.json"
        with path.open("w", encoding="ascii") as file:
            file.writelines(self._line(bid) for bid in bids)
        moment = START_MS / 1000 + number
        os.utime(path, (moment, moment))
        return path

    def _line(self, bid: Bid) -> str:
        return f'{bid.json()[:-1]},"receipt":"{self._receipt(bid)}"}}\n'

    def _receipt(self, bid: Bid) -> str:
        """Text that looks like noise, and is the same for every copy of a bid."""
        noise = hashlib.shake_128(f"{self.seed}/{bid.bid}".encode()).digest(RECEIPT_BYTES)
        return base64.b64encode(noise).decode("ascii")


class Feed:
    """Gives the files to the job one by one. The job reads `directory`, on the same file system as the files."""

    def __init__(self, files: list[Path], directory: Path) -> None:
        directory.mkdir(parents=True)
        self._not_given = list(reversed(files))
        self._directory = directory
        self.given: list[Path] = []

    def give(self, count: int = 1) -> None:
        """Rename the next `count` files, or the rest of them, into the job's directory."""
        for _ in range(min(count, len(self._not_given))):
            path = self._not_given.pop()
            self.given.append(path.rename(self._directory / path.name))

    @property
    def is_empty(self) -> bool:
        """Whether all files were given."""
        return not self._not_given
