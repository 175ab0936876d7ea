"""Drains that clients ask for: who is told when, by a pure core."""

from __future__ import annotations

from uuid import UUID

from mooring.agent.drains import Drainage, DrainQuery, DrainsAsked, QueriesSeen, RemoveNotifications, advanced
from mooring.drain import DrainNotification, RunningQuery
from mooring.model.events import DrainProgressed
from mooring.model.orders import Order, Say

BIDS = RunningQuery("id-1", "run-1", "bids", frozenset({"/in"}), frozenset({"/bids"}))
SUMS = RunningQuery("id-2", "run-2", "sums", frozenset({"/bids"}), frozenset({"/sums"}))
OVER = RemoveNotifications(frozenset({UUID(int=1)}))
APART = RunningQuery("id-3", "run-3", "apart", frozenset({"/other"}), frozenset({"/apart"}))


def asked(drainage: Drainage, query: str | None = None) -> Drainage:
    return advanced(drainage, DrainsAsked(0, (DrainNotification(UUID(int=1), "app", query=query),)))[0]


def seen(drainage: Drainage, *running: RunningQuery) -> tuple[Drainage, list[Order]]:
    return advanced(drainage, QueriesSeen(0, running))


def told(orders: list[Order]) -> list[str]:
    return [order.query for order in orders if isinstance(order, DrainQuery)]


def drained(drainage: Drainage, *queries: RunningQuery) -> Drainage:
    for query in queries:
        drainage, _ = advanced(drainage, DrainProgressed(0, query.id, query.run, "drained"))
    return drainage


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
    assert orders == [OVER] and not drainage.is_under_way


def test_one_that_ends_before_it_is_drained_lets_nothing_downstream_be_told() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS)
    drainage, orders = seen(drainage, SUMS)
    assert orders == [], "its last word may be on its way"
    drainage, orders = seen(drainage, SUMS)
    assert orders[0] == OVER and told(orders) == [] and not drainage.is_under_way
    (said,) = [order for order in orders if isinstance(order, Say)]
    assert "bids ended before it was drained" in said.message and "sums" in said.message
    assert told(seen(asked(drainage), BIDS, SUMS)[1]) == ["id-1"], "asked again, it begins anew"


def test_the_users_order_is_stronger() -> None:
    drainage = asked(Drainage(order=(("sums",), ("bids", "nobody"))))
    assert told(seen(drainage, BIDS, SUMS)[1]) == ["id-2"]


def test_one_query_is_meant_by_its_name_or_its_id() -> None:
    for name in ("sums", "id-2"):
        drainage, orders = seen(asked(Drainage(), name), BIDS, SUMS)
        assert told(orders) == ["id-2"]
        assert seen(drained(drainage, SUMS), BIDS)[1] == [OVER]


def test_a_name_that_is_not_there_is_said() -> None:
    _, orders = seen(asked(Drainage(), "bdis"), BIDS, SUMS)
    assert orders == [OVER, Say("drain: there is no query bdis; expected one of: bids, sums")]


def test_one_that_can_not_be_drained_holds_up_nobody() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS)
    drainage, _ = advanced(drainage, DrainProgressed(0, "id-1", "run-1", "refused", reason="continuous mode"))
    drainage, orders = seen(drainage, BIDS, SUMS)
    assert told(orders) == ["id-2"]
    assert drainage.as_json()[0]["reason"] == "continuous mode" and drainage.state_of("id-1") == -1


def test_the_status_and_the_gauge_show_how_far_it_is() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS)
    assert drainage.as_json() == [] and drainage.state_of("id-1") == 0
    for number, phase in enumerate(("frozen", "caught-up", "flushed", "drained"), start=1):
        drainage, _ = advanced(drainage, DrainProgressed(0, "id-1", "run-1", phase, 7, 1, 12, 0))
        assert drainage.state_of("id-1") == number
    assert drainage.as_json() == [
        {
            "query": "bids",
            "id": "id-1",
            "phase": "drained",
            "batch": 7,
            "flush-batches": 1,
            "state-rows-flushed": 12,
            "state-rows-left": 0,
        }
    ]
