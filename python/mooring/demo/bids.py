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
"""In base64 2,000 characters that hardly any compressor makes smaller: state has the size that it seems to have."""


@dataclass(frozen=True)
class Stream:
    """Files of bids, always the same for a seed: some late, some sent twice or more, a third on a few hot auctions."""

    seed: int = 7
    files: int = 35
    bids_per_file: int = 9_000
    bidders: int = 60_000

    def write(self, directory: Path) -> list[Path]:
        """Write all files into a directory that nobody reads yet; their times of modification keep their order."""
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
        """Looks like noise, and is the same for every copy of a bid."""
        noise = hashlib.shake_128(f"{self.seed}/{bid.bid}".encode()).digest(RECEIPT_BYTES)
        return base64.b64encode(noise).decode("ascii")


class Feed:
    """Hands the files to the job one by one. `directory` is what the job reads, on the file system of the files."""

    def __init__(self, files: list[Path], directory: Path) -> None:
        directory.mkdir(parents=True)
        self._left = list(reversed(files))
        self._directory = directory
        self.given: list[Path] = []

    def give(self, count: int = 1) -> None:
        """Let the job see the next files, whole, as far as there are any left."""
        for _ in range(min(count, len(self._left))):
            path = self._left.pop()
            self.given.append(path.rename(self._directory / path.name))

    @property
    def is_empty(self) -> bool:
        """Whether all files were given."""
        return not self._left
