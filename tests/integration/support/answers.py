"""Computes the right answer of each job in `jobs/`, from the same files, without Spark.

An answer has the rows of each output: `{output: [row, ...]}`, as the JSON that Spark writes, in no order. It does not
depend on how the input was cut into batches; `_in_time` checks that the input allows this. At the end of a job the
watermark is the last event time minus the delay: the flush event has moved it past all windows but its own.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextvars import ContextVar, copy_context
from datetime import datetime
from pathlib import Path
from typing import Any

from mooring.testing.events import AUCTION_MS, LATENESS_MS, LONGEST_WINDOW_MS, WATERMARK_DELAY_MS, utc

Row = dict[str, Any]
Answer = dict[str, list[Row]]

_is_drained: ContextVar[bool] = ContextVar("_is_drained", default=False)

FILES_IN_A_BATCH = 3  # at most: jobs read one, and more after a crash between the source's log and the offset log


def drained(answer: Callable[[Path], Answer]) -> Callable[[Path], Answer]:
    """The answer of a job whose queries are drained at the end: all windows are in it."""

    def of_all(events: Path) -> Answer:
        context = copy_context()
        context.run(_is_drained.set, True)
        return context.run(answer, events)

    return of_all


def windowed_aggregation(events: Path) -> Answer:
    watermark = _last_watermark(events)
    groups = _group(_in_time(events), lambda bid: (_window(bid["time"], 20_000), bid["auction"]))
    rows = [
        {"start": utc(start), "auction": auction, "bids": len(bids), "highest": max(bid["price"] for bid in bids)}
        for (start, auction), bids in groups.items()
        if start + 20_000 <= watermark
    ]
    return {"counts": rows}


def chained_until_drained(events: Path) -> Answer:
    """The windowed aggregation, and its sums over each minute."""
    answer = windowed_aggregation(events)
    return {**answer, "totals": _over_windows(answer["counts"], 60_000)}


def three_until_drained(events: Path) -> Answer:
    """The windowed aggregation, its sums over each minute, and the sums of these over three."""
    answer = windowed_aggregation(events)
    minutes = _over_windows(answer["counts"], 60_000)
    return {**answer, "minutes": minutes, "totals": _over_windows(minutes, 180_000)}


def _over_windows(rows: Iterable[Row], length_ms: int) -> list[Row]:
    windows = _group(rows, lambda row: _window(_milliseconds(row["start"]), length_ms))
    return [
        {"start": utc(start), "bids": sum(row["bids"] for row in rows), "groups": len(rows)}
        for start, rows in windows.items()
    ]


def renumbered(events: Path) -> Answer:
    watermark = _last_watermark(events)

    def counts(by: str) -> list[Row]:
        groups = _group(_in_time(events), lambda bid: (_window(bid["time"], 20_000), bid[by]))
        return [
            {"start": utc(start), "by": by, "key": key, "bids": len(bids)}
            for (start, key), bids in groups.items()
            if start + 20_000 <= watermark
        ]

    high = [bid for bid in _read(events / "bids") if bid["price"] > 8000]
    beside = [{"start": utc(bid["time"]), "by": "price", "key": bid["price"], "bids": 1} for bid in high]
    return {"counts": counts("auction") + counts("bidder"), "beside": beside + counts("auction")}


def drop_duplicates(events: Path) -> Answer:
    distinct = {(bid["bid"], bid["time"]): bid for bid in _in_time(events)}
    return {"distinct": [_only(bid, "bid", "time", "auction", "bidder", "price") for bid in distinct.values()]}


def drop_duplicates_within_watermark(events: Path) -> Answer:
    rows = []
    for copies in _group(_in_time(events), lambda bid: bid["bid"]).values():
        remembered = None
        for bid in sorted(copies, key=lambda bid: bid["time"]):
            if remembered is None or bid["time"] - remembered > WATERMARK_DELAY_MS:
                assert remembered is None or bid["time"] - remembered > 4 * WATERMARK_DELAY_MS, f"may be either: {bid}"
                remembered = bid["time"]
                rows.append(_only(bid, "bid", "auction", "bidder", "price"))
    return {"distinct": rows}


def inner_join(events: Path) -> Answer:
    auctions = {auction["auction"]: auction for auction in _read(events / "auctions")}
    rows = [
        _only({**bid, **auctions[bid["auction"]]}, "bid", "time", "price", "auction", "seller", "category")
        for bid in _in_time(events)
        if _is_open(auctions[bid["auction"]], bid)
    ]
    return {"joined": rows}


def left_outer_join(events: Path) -> Answer:
    watermark = _last_watermark(events, "auctions")
    high = _group((bid for bid in _in_time(events) if bid["price"] > 5000), lambda bid: bid["auction"])
    rows = []
    for auction in _read(events / "auctions"):
        left = _only(auction, "auction", "seller")
        matches = [bid for bid in high.get(auction["auction"], []) if _is_open(auction, bid)]
        rows += [{**left, **_only(bid, "bid", "time", "price")} for bid in matches]
        if not matches and auction["opens"] + AUCTION_MS <= watermark:
            rows.append(left)
    return {"joined": rows}


def session_windows(events: Path) -> Answer:
    watermark = _last_watermark(events)
    rows = []
    for bidder, bids in _group(_in_time(events), lambda bid: bid["bidder"]).items():
        sessions: list[list[Row]] = []
        for bid in sorted(bids, key=lambda bid: bid["time"]):
            if not sessions or bid["time"] > sessions[-1][-1]["time"] + 2_000:
                sessions.append([])
            sessions[-1].append(bid)
        for session in sessions:
            end = session[-1]["time"] + 2_000
            if end <= watermark:
                rows.append({"start": utc(session[0]["time"]), "end": utc(end), "bidder": bidder, **_sums(session)})
    return {"sessions": rows}


def apply_in_pandas_with_state(events: Path) -> Answer:
    rows = [
        {"auction": auction, **_sums(bids), "highest": max(bid["price"] for bid in bids)}
        for auction, bids in _closed_auctions(events)
    ]
    return {"results": rows}


def transform_with_state(events: Path) -> Answer:
    rows = []
    for auction, bids in _closed_auctions(events):
        best = max(bids, key=lambda bid: (bid["price"], bid["bid"]))
        bidders = len({bid["bidder"] for bid in bids})
        rows.append({"auction": auction, **_only(best, "bid", "price"), "bidders": bidders, "bids": len(bids)})
    return {"winners": rows}


def auction_results(events: Path) -> Answer:
    rows = [
        {"auction": auction, "bids": len(bids), "highest": max(bid["price"] for bid in bids)}
        for auction, bids in _closed_auctions(events)
    ]
    return {"results": rows}


def chained_aggregations(events: Path) -> Answer:
    watermark = _last_watermark(events)
    counts = Counter((_window(bid["time"], 10_000), bid["auction"]) for bid in _in_time(events))
    closed = {key: bids for key, bids in counts.items() if key[0] + 10_000 <= watermark}
    rows = [
        {"start": utc(start), "most": max(group), "bids": sum(group), "groups": len(group)}
        for start, keys in _group(closed, lambda key: _window(key[0], 30_000)).items()
        for group in [[closed[key] for key in keys]]
        if start + 30_000 <= watermark
    ]
    return {"busiest": rows}


def foreach_batch(events: Path) -> Answer:
    by_bidder = _group(_read(events / "bids"), lambda bid: bid["bidder"])
    return {"totals": [{"bidder": bidder, **_sums(bids)} for bidder, bids in by_bidder.items()]}


def two_queries(events: Path) -> Answer:
    watermark = _last_watermark(events)
    starts = ((_window(bid["time"], 5_000) - slide, bid["channel"]) for bid in _in_time(events) for slide in (0, 5_000))
    rows = [
        {"start": utc(start), "channel": channel, "bids": bids}
        for (start, channel), bids in Counter(starts).items()
        if start + 10_000 <= watermark
    ]
    return {"by_channel": rows, **drop_duplicates(events)}


def stateless_beside_stateful(events: Path) -> Answer:
    high = [_only(bid, "bid", "time", "auction", "price") for bid in _read(events / "bids") if bid["price"] > 8000]
    return {"high": high, **windowed_aggregation(events)}


def through_connect(events: Path) -> Answer:
    watermark = _last_watermark(events)
    groups = _group(_in_time(events), lambda bid: (_window(bid["time"], 20_000), bid["channel"]))
    rows = [
        {
            "start": utc(start),
            "channel": channel,
            "bids": len(bids),
            "bidders": sorted({bid["bidder"] for bid in bids}),
        }
        for (start, channel), bids in groups.items()
        if start + 20_000 <= watermark
    ]
    return {"by_channel": rows}


def _in_time(events: Path) -> list[Row]:
    """The bids that no watermark drops. Fails when the batches decide whether a bid is dropped."""
    kept: list[Row] = []
    newest_after: list[int] = []
    newest = 0
    for number, path in enumerate(sorted((events / "bids").glob("*.json"))):
        for bid in _rows(path):
            newest = max(newest, bid["time"])
            if newest - bid["time"] <= LATENESS_MS:
                kept.append(bid)
            else:
                surely_seen = newest_after[number - FILES_IN_A_BATCH] if number >= FILES_IN_A_BATCH else 0
                assert bid["time"] + LONGEST_WINDOW_MS <= surely_seen - WATERMARK_DELAY_MS, f"may be late: {bid}"
        newest_after.append(newest)
    return kept


def _last_watermark(events: Path, *also: str) -> int:
    """The watermark at the end. With several inputs it is that of the slowest one; after a drain it is far ahead."""
    if _is_drained.get():
        return sys.maxsize
    times = {"bids": "time", "auctions": "opens"}
    return min(max(row[times[kind]] for row in _read(events / kind)) for kind in ("bids", *also)) - WATERMARK_DELAY_MS


def _closed_auctions(events: Path) -> list[tuple[int, list[Row]]]:
    """The auctions that closed before the watermark, each with its bids that are in time and made before the close."""
    watermark = _last_watermark(events)
    open_bids = [bid for bid in _in_time(events) if bid["time"] < bid["closes"]]
    by_auction = _group(open_bids, lambda bid: (bid["auction"], bid["closes"]))
    return [(auction, bids) for (auction, closes), bids in by_auction.items() if closes < watermark]


def _is_open(auction: Row, bid: Row) -> bool:
    return bool(auction["opens"] <= bid["time"] < auction["opens"] + AUCTION_MS)


def _sums(bids: list[Row]) -> Row:
    return {"bids": len(bids), "offered": sum(bid["price"] for bid in bids)}


def _only(row: Row, *names: str) -> Row:
    return {name: utc(row[name]) if name == "time" else row[name] for name in names}


def _window(time: int, length: int) -> int:
    return time // length * length


def _group(rows: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _read(directory: Path) -> list[Row]:
    return [row for path in sorted(directory.glob("*.json")) for row in _rows(path)]


def _rows(path: Path) -> Iterable[Row]:
    """The events of one file in order, their times in milliseconds since the epoch."""
    for line in path.read_text().splitlines():
        yield {name: _milliseconds(value) if name in _TIMES else value for name, value in json.loads(line).items()}


_TIMES = {"time", "closes", "opens"}


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
