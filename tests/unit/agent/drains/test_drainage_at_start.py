"""Drains that were asked for before queries start, or that an earlier application owes."""

from __future__ import annotations

from dataclasses import replace

from mooring.agent.drains.advance import advanced
from mooring.agent.drains.drainage import Drainage
from mooring.agent.drains.events_and_orders import EndQuery, NoteDrains, RemoveNotifications, RequestDrains
from mooring.drain import RunningQuery, StopMode
from mooring.model.events import DrainOwed
from mooring.model.orders import LogLine, Order
from tests.unit.agent.drains.drained_queries import (
    APART,
    BIDS,
    OVER,
    SUMS,
    asked,
    before_start,
    drained,
    seen,
    told,
)


def owed(orders: list[Order]) -> dict[str, frozenset[str]]:
    written = [order.after for order in orders if isinstance(order, NoteDrains)]
    assert len(written) <= 1
    return dict(written[0]) if written else {}


def owes(drainage: Drainage, query: RunningQuery, *after: RunningQuery) -> Drainage:
    return advanced(drainage, DrainOwed(0, query.id, frozenset(other.id for other in after)))[0]


def test_what_is_to_be_drained_is_written_down_once_for_each_run_with_what_comes_before_it() -> None:
    drainage, orders = seen(asked(Drainage()), BIDS, SUMS, APART)
    assert owed(orders) == {"id-1": frozenset(), "id-2": frozenset({"id-1", "id-3"}), "id-3": frozenset()}
    drainage, orders = seen(drainage, BIDS, SUMS, APART)
    assert owed(orders) == {}
    again = replace(SUMS, run="run-4")
    assert owed(seen(drainage, BIDS, again, APART)[1]) == {"id-2": frozenset({"id-1", "id-3"})}


def test_of_a_stop_nothing_is_written_down() -> None:
    assert owed(seen(asked(Drainage(), stop=StopMode.AFTER_AVAILABLE), BIDS, SUMS)[1]) == {}


def test_what_an_earlier_application_owed_waits_for_those_that_it_named() -> None:
    drainage = owes(owes(Drainage(), BIDS), APART, BIDS)
    drainage, orders = seen(drainage, BIDS, APART)
    assert told(orders) == ["id-1"], "they do not feed each other here, but the user's order was another"
    drainage, orders = seen(drained(drainage, BIDS), APART)
    assert told(orders) == ["id-3"]
    _, orders = seen(drained(drainage, APART))
    assert [type(order) for order in orders] == [RemoveNotifications, RequestDrains], (
        "nobody asked in the store, nothing is missed"
    )


def test_what_is_owed_waits_though_those_that_it_named_have_not_started_yet() -> None:
    drainage, orders = seen(owes(Drainage(), SUMS, BIDS), SUMS)
    assert told(orders) == []
    _, orders = seen(drainage, SUMS, BIDS)
    assert told(orders) == [], "that one says itself at its start that it is owed"


def test_what_was_asked_before_the_start_waits_until_no_query_is_started_any_more() -> None:
    drainage, orders = seen(before_start(Drainage(), 1_000), SUMS, at_ms=2_000)
    assert orders == []
    drainage, orders = seen(drainage, SUMS, BIDS, at_ms=6_900)
    assert orders == [], "it feeds the first one"
    drainage, orders = seen(drainage, SUMS, BIDS, at_ms=11_899)
    assert orders == []
    drainage, orders = seen(drainage, SUMS, BIDS, at_ms=11_900)
    assert [order for order in orders if isinstance(order, EndQuery)] == [EndQuery("id-1", "DRAIN", zero_input=True)]
    drainage, orders = seen(drained(drainage, BIDS), SUMS, at_ms=12_000)
    assert [order for order in orders if isinstance(order, EndQuery)] == [EndQuery("id-2", "DRAIN", zero_input=False)]
    drainage, orders = seen(drained(drainage, SUMS), at_ms=12_100)
    assert orders == OVER[:1], "the application may end now"
    assert seen(drainage, at_ms=17_099)[1] == OVER[:1]
    assert seen(drainage, at_ms=17_100)[1] == OVER


def test_a_query_whose_sources_are_not_made_yet_is_not_told() -> None:
    starting = replace(SUMS, reads=frozenset(), has_sources=False)
    drainage, orders = seen(asked(Drainage()), starting, APART)
    assert told(orders) == ["id-3"]
    drainage, orders = seen(before_start(Drainage(), 0), starting, at_ms=9_000)
    assert seen(drainage, SUMS, at_ms=13_999)[1] == []
    assert told(seen(drainage, SUMS, at_ms=14_000)[1]) == ["id-2"]


def test_when_none_runs_any_more_nothing_stays_in_the_store_and_later_ones_are_told_all_the_same() -> None:
    drainage, _ = seen(before_start(Drainage(), 0), BIDS, at_ms=0)
    drainage, orders = seen(drainage, BIDS, at_ms=5_000)
    assert told(orders) == ["id-1"]
    drainage, orders = seen(drainage, BIDS, APART, at_ms=5_100)
    drainage, orders = seen(drained(drainage, BIDS, APART), at_ms=5_200)
    assert orders == OVER[:1] and drainage.is_under_way
    assert seen(drainage, at_ms=10_200)[1] == OVER


def test_the_users_order_says_who_is_fed() -> None:
    drainage = before_start(Drainage(order=(("apart",), ("bids",))), 0)
    drainage, _ = seen(drainage, BIDS, APART, at_ms=0)
    drainage, orders = seen(drainage, BIDS, APART, at_ms=5_000)
    assert EndQuery("id-3", "DRAIN", zero_input=True) in orders
    assert EndQuery("id-1", "DRAIN", zero_input=False) in seen(drained(drainage, APART), BIDS, at_ms=5_000)[1]


def test_an_application_that_drains_at_its_start_does_so_with_every_query() -> None:
    drainage = Drainage().with_settings((), None, on_start=True)
    drainage, _ = seen(drainage, BIDS, at_ms=1_000_000)
    drainage, orders = seen(drainage, BIDS, at_ms=1_005_000)
    assert EndQuery("id-1", "DRAIN", zero_input=True) in orders
    drainage, _ = seen(drained(drainage, BIDS), at_ms=1_010_000)
    drainage, orders = seen(drainage, at_ms=1_015_000)
    assert orders[-1] == RequestDrains((None,)) and drainage.is_under_way
    assert seen(drainage, at_ms=1_016_000)[1] == [], "nothing more is to be said"
    drainage, _ = seen(drainage, APART, at_ms=2_000_000)
    assert told(seen(drainage, APART, at_ms=2_005_000)[1]) == ["id-3"]


def test_what_is_held_for_its_drain_only_ends_when_those_that_feed_it_are_lost() -> None:
    drainage = Drainage().with_settings((), None, on_start=True)
    drainage, _ = seen(drainage, BIDS, SUMS, at_ms=0)
    drainage, orders = seen(drainage, BIDS, SUMS, at_ms=5_000)
    assert told(orders) == ["id-1"]
    drainage, _ = seen(drainage, SUMS, at_ms=5_100)
    drainage, orders = seen(drainage, SUMS, at_ms=5_200)
    assert EndQuery("id-2", "AFTER_BATCH", zero_input=True) in orders


def test_a_query_that_is_started_again_amid_its_drain_is_not_lost() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS)
    again = replace(BIDS, run="run-9")
    for _ in range(3):
        drainage, orders = seen(owes(drainage, BIDS), again, SUMS)
        assert not any(isinstance(order, (RemoveNotifications, LogLine)) and "lost" in str(order) for order in orders)
    assert drainage.is_under_way and drainage.ordered["id-1"][0] == "run-9"


def test_what_an_agent_is_told_before_the_settings_stands() -> None:
    drainage = owes(Drainage(), BIDS).with_settings((), 1000, on_start=False)
    assert told(seen(drainage, BIDS)[1]) == ["id-1"] and drainage.timeout_ms == 1000


def test_a_stop_does_not_wait_until_all_are_started() -> None:
    drainage = asked(before_start(Drainage(), 0), "apart", StopMode.NOW)
    drainage, orders = seen(drainage, BIDS, APART, at_ms=100)
    assert told(orders, "NOW") == ["id-3"] and told(orders) == []


def test_queries_that_are_started_one_after_the_other_are_all_drained_that_were_asked_before_the_start() -> None:
    drainage, _ = seen(before_start(Drainage(), 0), BIDS, at_ms=0)
    drainage, _ = seen(drainage, BIDS, at_ms=5_000)
    drainage, _ = seen(drained(drainage, BIDS), at_ms=60_000)
    drainage, _ = seen(drainage, APART, at_ms=63_000)
    assert told(seen(drainage, APART, at_ms=68_000)[1]) == ["id-3"]
