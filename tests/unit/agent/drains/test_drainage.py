"""Drains that clients ask for: which query is told when, by a pure core."""

from __future__ import annotations

from uuid import UUID

import pytest

from mooring.agent.drains.advance import advanced
from mooring.agent.drains.drainage import Drainage
from mooring.agent.drains.events_and_orders import DrainsAsked, RequestDrains
from mooring.drain import DrainNotification, StopMode
from mooring.model.events import DrainProgressed, TerminationAsked
from mooring.model.orders import LogLine
from tests.unit.agent.drains.drained_queries import APART, BIDS, OVER, SUMS, asked, drained, seen, told


def test_nothing_is_looked_at_before_anybody_asks() -> None:
    assert not Drainage().is_under_way
    assert seen(Drainage(), BIDS)[1] == []


def test_those_that_feed_others_come_first_and_others_go_side_by_side() -> None:
    drainage, orders = seen(asked(Drainage()), SUMS, BIDS, APART)
    assert told(orders) == ["id-1", "id-3"]
    drainage, orders = seen(drainage, SUMS, BIDS)
    assert told(orders) == [], "each once, and the second waits for the first"
    drainage = drained(drainage, BIDS, APART)
    drainage, orders = seen(drainage, SUMS)
    assert told(orders) == ["id-2"]
    drainage, orders = seen(drained(drainage, SUMS))
    assert orders == OVER and not drainage.is_under_way


def test_the_users_order_is_stronger() -> None:
    drainage = asked(Drainage(order=(("sums",), ("bids", "nobody"))))
    assert told(seen(drainage, BIDS, SUMS)[1]) == ["id-2"]


def test_one_query_is_meant_by_its_name_or_its_id() -> None:
    for name in ("sums", "id-2"):
        drainage, orders = seen(asked(Drainage(), name), BIDS, SUMS)
        assert told(orders) == ["id-2"]
        assert seen(drained(drainage, SUMS), BIDS)[1] == OVER


def test_a_name_that_is_not_there_is_said() -> None:
    _, orders = seen(asked(Drainage(), "bdis"), BIDS, SUMS)
    assert orders == [*OVER, LogLine("drain: there is no query bdis; expected one of: bids, sums")]


def test_the_status_and_the_gauge_show_how_far_it_is() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS)
    assert drainage.as_json() == [] and drainage.state_of("id-1") == 0
    for number, phase in enumerate(("frozen", "caught-up", "flushed", "drained"), start=1):
        drainage, _ = advanced(drainage, DrainProgressed(0, "id-1", "run-1", phase, 7, 3, 400, 1, 12, 0))
        assert drainage.state_of("id-1") == number
    assert drainage.as_json() == [
        {
            "query": "bids",
            "id": "id-1",
            "run-id": "run-1",
            "phase": "drained",
            "batch": 7,
            "batches": 3,
            "rows": 400,
            "flush-batches": 1,
            "state-rows-flushed": 12,
            "state-rows-left": 0,
        }
    ]


@pytest.mark.parametrize("mode", [StopMode.AFTER_BATCH, StopMode.NOW])
def test_a_stop_waits_for_nobody(mode: StopMode) -> None:
    drainage, orders = seen(asked(Drainage(), stop=mode), SUMS, BIDS)
    assert told(orders, mode.value) == ["id-2", "id-1"]
    for query in (BIDS, SUMS):
        drainage, _ = advanced(drainage, DrainProgressed(0, query.id, query.run, "stopped"))
    assert seen(drainage)[1] == OVER


def test_a_stop_after_what_is_available_goes_from_those_that_feed_others() -> None:
    drainage, orders = seen(asked(Drainage(), stop=StopMode.AFTER_AVAILABLE), SUMS, BIDS)
    assert told(orders, "AFTER_AVAILABLE") == ["id-1"]
    drainage, _ = advanced(drainage, DrainProgressed(0, "id-1", "run-1", "stopped"))
    assert told(seen(drainage, SUMS)[1], "AFTER_AVAILABLE") == ["id-2"]


def test_who_is_in_a_hurry_is_heard_also_in_the_middle_of_a_drain() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS)
    drainage, orders = seen(asked(drainage, stop=StopMode.AFTER_BATCH), BIDS)
    assert told(orders, "AFTER_BATCH") == ["id-1"]
    drainage, orders = seen(asked(drainage, stop=StopMode.AFTER_AVAILABLE), BIDS)
    assert orders == [], "never slower again"


def test_a_drain_that_takes_too_long_ends_after_its_batch() -> None:
    drainage, _ = seen(asked(Drainage(timeout_ms=1000)), BIDS, at_ms=5000)
    drainage, orders = seen(drainage, BIDS, at_ms=6000)
    assert orders == []
    drainage, orders = seen(drainage, BIDS, at_ms=6001)
    assert told(orders, "AFTER_BATCH") == ["id-1"]


def test_sigterm_asks_for_a_drain_of_all() -> None:
    drainage, _ = advanced(Drainage(), TerminationAsked(0))
    assert told(seen(drainage, BIDS, APART)[1]) == ["id-1", "id-3"]


def test_the_driver_hears_of_which_queries_a_drain_is_asked_for() -> None:
    news = DrainsAsked(0, (DrainNotification(UUID(int=1), "app", query="sums"), DrainNotification(UUID(int=2), "app")))
    assert advanced(Drainage(), news)[1] == [RequestDrains((None, "sums"))]
    stopped = DrainsAsked(0, (DrainNotification(UUID(int=3), "app", stop=StopMode.AFTER_AVAILABLE),))
    assert advanced(Drainage(), stopped)[1] == [RequestDrains(())], "one that starts may read what is available"
    assert advanced(Drainage(), DrainsAsked(0, ()))[1] == [RequestDrains(())], "nobody has asked so far"
    assert advanced(Drainage(), TerminationAsked(0))[1] == [RequestDrains((None,))]
