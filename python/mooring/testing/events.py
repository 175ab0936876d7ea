"""Makes realistic events for tests: bids on auctions. Some are late, some are sent twice, and some keys are hot.

    house = AuctionHouse(seed=7, files=12, bids_per_file=300)
    for number, bids in enumerate(house.bid_files()):
        write_events(bids, directory, number)

The same seed gives the same events. A test must know the right answer, so the answer must not depend on how Spark cuts
the input into batches. So every bid is of one of two kinds. A bid *in time* is sent at most `LATENESS_MS` after it was
made; it is for queries with a watermark delay of at least `WATERMARK_DELAY_MS`. A *hopeless* bid is so late that each
query with this delay, and windows up to `LONGEST_WINDOW_MS`, has closed its window. This holds as long as a batch reads
at most three files.

`flush=True` ends the stream with one event a day later, which moves the watermark past all other events. The windows of
that last event stay open.

This module has no dependencies. It uses only `random()` of `random.Random`, which is the same in every Python version.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

START_MS = 1_767_607_200_000
"""Monday, 5 January 2026, 10:00 UTC: the first event time, the start of a window of any common length."""

LATENESS_MS = 8_000
WATERMARK_DELAY_MS = 10_000
LONGEST_WINDOW_MS = 20_000
AUCTION_MS = 30_000
"""How long every auction is open."""

HIGHEST_PRICE = 10_000
"""The price of the flush bid. Spark filters rows before it takes the watermark, so no filter on price may drop it."""

_DAY_MS = 86_400_000
_CHANNELS = ("app", "web", "phone", "partner")
_HOT_AUCTIONS = 3


class Bid(NamedTuple):
    """One bid. Times are in milliseconds since the epoch; `closes` is when the auction closes."""

    bid: int
    auction: int
    bidder: int
    price: int
    channel: str
    time: int
    closes: int

    def json(self) -> str:
        """One line of JSON; times as Spark reads and writes them in UTC."""
        return (
            f'{{"bid":{self.bid},"auction":{self.auction},"bidder":{self.bidder},"price":{self.price},'
            f'"channel":"{self.channel}","time":"{utc(self.time)}","closes":"{utc(self.closes)}"}}'
        )


class Auction(NamedTuple):
    """One auction and when it was opened."""

    auction: int
    seller: int
    category: str
    opens: int

    def json(self) -> str:
        """One line of JSON; times as Spark reads and writes them in UTC."""
        return (
            f'{{"auction":{self.auction},"seller":{self.seller},"category":"{self.category}",'
            f'"opens":"{utc(self.opens)}"}}'
        )


@dataclass(frozen=True)
class AuctionHouse:
    """The numbers of a stream. File n has the events that were *sent* in the nth stretch of `seconds_per_file`.

    Of the bids, one in eight is late but in time, and one in fifty is hopeless (from the eighth file on). One in twenty
    is delivered twice, byte for byte. One in thirty is sent again with the same id and a slightly later time. One in
    fifty is sent again with the same id, so much later that a deduplicating query has forgotten it. A third of the bids
    go to the few hottest auctions; one auction in ten gets none.
    """

    seed: int = 1
    files: int = 12
    bids_per_file: int = 300
    auctions_per_file: int = 20
    seconds_per_file: int = 10
    bidders: int = 50
    flush: bool = True

    def __post_init__(self) -> None:
        """`ValueError` when there would be moments without three open auctions to bid on."""
        if self.auctions_per_file * AUCTION_MS < 3 * self._stretch:
            raise ValueError(f"{self.auctions_per_file} auctions in {self.seconds_per_file} s are too few")

    def auction_files(self) -> Iterator[list[Auction]]:
        """The auctions, in the file of the stretch in which each is opened."""
        for file in range(self.files):
            yield [self._auction(file * self.auctions_per_file + place) for place in range(self.auctions_per_file)]
        if self.flush:
            yield [Auction(self.files * self.auctions_per_file, 0, "none", self._end + _DAY_MS)]

    def bid_files(self) -> Iterator[list[Bid]]:
        """The bids, each in the file of the stretch in which it is sent, in the order of sending."""
        rng = random.Random(self.seed)
        sent: defaultdict[int, list[tuple[int, Bid]]] = defaultdict(list)
        for file in range(self.files):
            for number in range(file * self.bids_per_file, (file + 1) * self.bids_per_file):
                for sending, bid in self._sendings(rng, self._bid(rng, file, number)):
                    sent[(sending - START_MS) // self._stretch].append((sending, bid))
            yield [bid for _, bid in sorted(sent.pop(file, []))]
        if self.flush:
            flush = self._end + _DAY_MS
            yield [Bid(self.files * self.bids_per_file, 0, 0, HIGHEST_PRICE, "none", flush, flush + AUCTION_MS)]

    @property
    def _stretch(self) -> int:
        return self.seconds_per_file * 1000

    @property
    def _end(self) -> int:
        return START_MS + self.files * self._stretch

    def _auction(self, number: int) -> Auction:
        opens = START_MS + number * self._stretch // self.auctions_per_file
        return Auction(number, number * 7919 % 97, ("art", "books", "tools")[number % 3], opens)

    def _bid(self, rng: random.Random, file: int, number: int) -> Bid:
        made = START_MS + file * self._stretch + int(rng.random() * self._stretch)
        newest = (made - START_MS) * self.auctions_per_file // self._stretch
        oldest = max(0, -((START_MS + AUCTION_MS - 1 - made) * self.auctions_per_file // self._stretch))
        choice = rng.random()
        if choice < 1 / 3:
            auction = newest - int(choice * 3 * min(_HOT_AUCTIONS, newest - oldest + 1))
        else:
            auction = oldest + int(rng.random() * (newest - oldest + 1))
        if auction % 10 == 9:
            auction = newest - (newest % 10 == 9)
        bidder, price = int(rng.random() ** 2 * self.bidders), 1 + int(rng.random() * HIGHEST_PRICE)
        channel = _CHANNELS[int(rng.random() * len(_CHANNELS))]
        return Bid(number, auction, bidder, price, channel, made, self._auction(auction).opens + AUCTION_MS)

    def _sendings(self, rng: random.Random, bid: Bid) -> Iterator[tuple[int, Bid]]:
        """The times at which the bid is sent, each with what is sent."""
        fate = rng.random()
        slowness = rng.random()
        if fate < 0.02:
            yield bid.time + self._hopeless_after + int(slowness * self._stretch), bid
            return
        yield bid.time + int(slowness * (LATENESS_MS if fate < 0.145 else 200)), bid
        again = rng.random()
        if again < 0.05:
            yield bid.time + int(again * 20 * LATENESS_MS), bid
        elif again < 0.083:
            retried = bid.time + 1 + int(rng.random() * LATENESS_MS)
            if retried < bid.closes:
                yield retried, bid._replace(time=retried)
        elif again < 0.103:
            replayed = bid.time + self._forgotten_after + int(rng.random() * self._stretch)
            yield replayed, bid._replace(time=replayed)

    @property
    def _hopeless_after(self) -> int:
        # In the batch that reads a file, the watermark has seen at least the fourth file before it, up to a small gap.
        return 4 * self._stretch + WATERMARK_DELAY_MS + LONGEST_WINDOW_MS

    @property
    def _forgotten_after(self) -> int:
        # The first copy is remembered for a delay after a retry of it, and forgotten at the end of a later batch.
        return 5 * self._stretch + 2 * WATERMARK_DELAY_MS + LATENESS_MS


def write_events(events: Iterable[Bid | Auction], directory: Path, number: int, modified: float | None = None) -> Path:
    """Write one file of JSON lines by a rename, so that a file stream never reads half of it.

    Spark reads files in the order of their times of modification. Files that are written ahead therefore need times of
    their own: `modified`, in seconds since the epoch, a second apart. None is the present time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    unseen, path = directory / f".{number:06}.json", directory / f"{number:06}.json"
    unseen.write_text("".join(f"{event.json()}\n" for event in events))
    moment = time.time() if modified is None else modified
    os.utime(unseen, (moment, moment))
    return unseen.replace(path)


def utc(milliseconds: int) -> str:
    """A time as Spark's JSON has it in UTC: `2026-01-05T10:00:00.000Z`."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_utc_seconds(seconds)}.{rest:03}Z"


@lru_cache(maxsize=1024)
def _utc_seconds(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
