"""Drains in which a query fails, or ends before it is drained."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mooring.agent.drains.advance import advanced
from mooring.agent.drains.drainage import Drainage
from mooring.agent.drains.events_and_orders import DrainsAsked
from mooring.drain import DrainNotification, RunningQuery, StopMode
from mooring.model.events import DrainProgressed
from mooring.model.orders import LogLine
from tests.unit.agent.drains.drained_queries import (
    APART,
    BIDS,
    OVER,
    SUMS,
    asked,
    drained,
    failed,
    phases,
    seen,
    told,
)


def test_one_that_ends_before_it_is_drained_lets_nothing_downstream_be_told() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS)
    drainage, orders = seen(drainage, SUMS)
    assert orders == [], "its last word may be on its way"
    drainage, orders = seen(drainage, SUMS)
    assert orders[:2] == OVER and told(orders) == [] and not drainage.is_under_way
    (said,) = [order for order in orders if isinstance(order, LogLine)]
    assert "bids ended before it was drained" in said.message and "sums" in said.message
    assert told(seen(asked(drainage), BIDS, SUMS)[1]) == ["id-1"], "asked again, it begins anew"


def test_when_one_fails_the_others_go_on_and_it_is_over_with_the_last_of_them() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS, APART)
    drainage, _ = advanced(drainage, DrainProgressed(0, "id-1", "run-1", "frozen", batch=7, rows=400))
    drainage, orders = seen(failed(drainage, BIDS), SUMS, APART)
    (said,) = orders
    assert isinstance(said, LogLine) and drainage.is_under_way
    assert "bids ended before it was drained: it failed: no such file" in said.message
    assert "told to drain and not over: apart" in said.message
    assert "not told to drain, as they are fed by bids: sums" in said.message
    assert phases(drainage) == {"bids": "failed", "sums": "not-told"}
    assert drainage.as_json()[0]["batch"] == 7, "as far as it was"
    assert drainage.state_of("id-1") == -2 and drainage.state_of("id-2") == -3
    assert seen(drainage, SUMS, APART)[1] == [], "said once"
    drainage, orders = seen(drained(drainage, APART), SUMS)
    assert orders == OVER and phases(drainage) == {"bids": "failed", "sums": "not-told", "apart": "drained"}


def test_who_waits_for_one_that_drains_is_told_although_another_failed() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS, APART)
    drainage, orders = seen(failed(drainage, APART), BIDS, SUMS)
    (said,) = [order for order in orders if isinstance(order, LogLine)]
    assert "told to drain and not over: bids" in said.message and said.message.count("sums") == 0
    assert told(seen(drained(drainage, BIDS), SUMS)[1]) == ["id-2"]


def test_those_that_are_fed_by_others_that_are_not_told_are_not_told_either() -> None:
    report = RunningQuery("id-4", "run-4", "report", frozenset({"/sums"}), frozenset({"/report"}))
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS, report)
    drainage, orders = seen(failed(drainage, BIDS), SUMS, report)
    assert told(orders) == [] and orders[:2] == OVER
    assert phases(drainage) == {"bids": "failed", "sums": "not-told", "report": "not-told"}


def test_by_the_users_order_those_that_come_later_are_not_told_when_one_failed() -> None:
    drainage, _ = seen(asked(Drainage(order=(("apart",), ("bids",)))), BIDS, APART)
    drainage, orders = seen(failed(drainage, APART), BIDS)
    assert told(orders) == [] and phases(drainage) == {"apart": "failed", "bids": "not-told"}


def test_one_that_failed_and_is_started_again_is_drained_with_those_that_it_feeds() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS, APART)
    drainage, _ = seen(failed(drainage, BIDS), SUMS, APART)
    again = replace(BIDS, run="run-9")
    drainage, orders = seen(drainage, again, SUMS, APART)
    assert told(orders) == ["id-1"]
    assert told(seen(drained(drainage, again, APART), SUMS)[1]) == ["id-2"]


def test_one_that_ends_before_it_is_its_turn_is_known_as_not_drained() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS)
    drainage, _ = seen(drainage, BIDS)
    drainage, orders = seen(drainage, BIDS)
    assert any(isinstance(order, LogLine) and "sums ended before it was drained" in order.message for order in orders)
    drainage, orders = seen(drained(drainage, BIDS))
    assert orders == OVER and phases(drainage) == {"bids": "drained", "sums": "failed"}


def test_a_new_agent_tells_nobody_who_is_fed_by_one_that_failed_before() -> None:
    """The driver tells it again how far each is, and the store that a drain is asked for."""
    drainage, orders = seen(asked(failed(drained(Drainage(), APART), BIDS)), SUMS)
    assert told(orders) == [] and phases(drainage)["sums"] == "not-told" and phases(drainage)["bids"] == "failed"


def test_the_next_drain_knows_nothing_of_those_that_failed_in_the_last_one() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS)
    drainage, orders = seen(failed(drainage, BIDS), SUMS)
    assert orders[:2] == OVER
    drainage, _ = advanced(drainage, DrainsAsked(0, (DrainNotification(UUID(int=9), "app"),)))
    assert drainage.as_json() == [] and told(seen(drainage, SUMS)[1]) == ["id-2"]


@pytest.mark.parametrize("mode", list(StopMode))
def test_of_a_stop_too_it_is_said_who_ended_before(mode: StopMode) -> None:
    drainage, _ = seen(asked(Drainage(), stop=mode), BIDS, APART)
    drainage, orders = seen(failed(drainage, BIDS), APART)
    (said,) = orders
    assert isinstance(said, LogLine) and "bids ended before it was stopped" in said.message
    drainage, _ = advanced(drainage, DrainProgressed(0, "id-3", "run-3", "stopped"))
    assert seen(drainage)[1] == OVER


def test_one_that_can_not_be_drained_holds_up_nobody() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS)
    drainage, _ = advanced(drainage, DrainProgressed(0, "id-1", "run-1", "refused", reason="continuous mode"))
    drainage, orders = seen(drainage, BIDS, SUMS)
    assert told(orders) == ["id-2"]
    assert drainage.as_json()[0]["reason"] == "continuous mode" and drainage.state_of("id-1") == -1


def test_a_query_that_can_not_be_drained_can_be_stopped() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS)
    drainage, _ = advanced(drainage, DrainProgressed(0, "id-1", "run-1", "refused", reason="continuous mode"))
    drainage, orders = seen(asked(drainage, stop=StopMode.NOW), BIDS)
    assert told(orders, "NOW") == ["id-1"]
