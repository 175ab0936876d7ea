"""Drains that clients ask for: who is told when, by a pure core."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mooring.agent.drains.advance import advanced
from mooring.agent.drains.drainage import Drainage
from mooring.agent.drains.events_and_orders import (
    AnnounceDrains,
    DrainsAsked,
    EndQuery,
    OweDrains,
    QueriesSeen,
    RemoveNotifications,
)
from mooring.drain import DrainNotification, RunningQuery, StopMode
from mooring.model.events import DrainOwed, DrainProgressed, TerminationAsked
from mooring.model.orders import LogLine, Order

BIDS = RunningQuery("id-1", "run-1", "bids", frozenset({"/in"}), frozenset({"/bids"}))
SUMS = RunningQuery("id-2", "run-2", "sums", frozenset({"/bids"}), frozenset({"/sums"}))
OVER = [RemoveNotifications(frozenset({UUID(int=1)})), AnnounceDrains(())]
APART = RunningQuery("id-3", "run-3", "apart", frozenset({"/other"}), frozenset({"/apart"}))


def asked(drainage: Drainage, query: str | None = None, stop: StopMode | None = None) -> Drainage:
    return advanced(drainage, DrainsAsked(0, (DrainNotification(UUID(int=1), "app", query=query, stop=stop),)))[0]


def seen(drainage: Drainage, *running: RunningQuery, at_ms: int = 0) -> tuple[Drainage, list[Order]]:
    return advanced(drainage, QueriesSeen(at_ms, running))


def told(orders: list[Order], how: str = "DRAIN") -> list[str]:
    return [order.query for order in orders if isinstance(order, EndQuery) and order.how == how]


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
    assert orders == OVER and not drainage.is_under_way


def test_one_that_ends_before_it_is_drained_lets_nothing_downstream_be_told() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS, SUMS)
    drainage, orders = seen(drainage, SUMS)
    assert orders == [], "its last word may be on its way"
    drainage, orders = seen(drainage, SUMS)
    assert orders[:2] == OVER and told(orders) == [] and not drainage.is_under_way
    (said,) = [order for order in orders if isinstance(order, LogLine)]
    assert "bids ended before it was drained" in said.message and "sums" in said.message
    assert told(seen(asked(drainage), BIDS, SUMS)[1]) == ["id-1"], "asked again, it begins anew"


def failed(drainage: Drainage, query: RunningQuery, reason: str = "it failed: no such file") -> Drainage:
    sink = tuple(f"FileSink[{place}]" for place in query.writes)
    news = DrainProgressed(0, query.id, query.run, "failed", reason=reason, name=query.name, writes=sink)
    return advanced(drainage, news)[0]


def phases(drainage: Drainage) -> dict[str, str]:
    return {row["query"]: row["phase"] for row in drainage.as_json()}


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


def test_a_query_that_can_not_be_drained_can_be_stopped() -> None:
    drainage, _ = seen(asked(Drainage()), BIDS)
    drainage, _ = advanced(drainage, DrainProgressed(0, "id-1", "run-1", "refused", reason="continuous mode"))
    drainage, orders = seen(asked(drainage, stop=StopMode.NOW), BIDS)
    assert told(orders, "NOW") == ["id-1"]


def test_a_drain_that_takes_too_long_ends_after_its_batch() -> None:
    drainage, _ = seen(asked(Drainage(timeout_ms=1000)), BIDS, at_ms=5000)
    drainage, orders = seen(drainage, BIDS, at_ms=6000)
    assert orders == []
    drainage, orders = seen(drainage, BIDS, at_ms=6001)
    assert told(orders, "AFTER_BATCH") == ["id-1"]


def test_sigterm_asks_for_a_drain_of_all() -> None:
    drainage, _ = advanced(Drainage(), TerminationAsked(0))
    assert told(seen(drainage, BIDS, APART)[1]) == ["id-1", "id-3"]


def owed(orders: list[Order]) -> dict[str, frozenset[str]]:
    written = [order.after for order in orders if isinstance(order, OweDrains)]
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
    assert [type(order) for order in orders] == [RemoveNotifications, AnnounceDrains], (
        "nobody asked in the store, nothing is missed"
    )


def test_what_is_owed_waits_though_those_that_it_named_have_not_started_yet() -> None:
    drainage, orders = seen(owes(Drainage(), SUMS, BIDS), SUMS)
    assert told(orders) == []
    _, orders = seen(drainage, SUMS, BIDS)
    assert told(orders) == [], "that one says itself at its start that it is owed"


def test_the_driver_hears_of_which_queries_a_drain_is_asked_for() -> None:
    news = DrainsAsked(0, (DrainNotification(UUID(int=1), "app", query="sums"), DrainNotification(UUID(int=2), "app")))
    assert advanced(Drainage(), news)[1] == [AnnounceDrains((None, "sums"))]
    stopped = DrainsAsked(0, (DrainNotification(UUID(int=3), "app", stop=StopMode.AFTER_AVAILABLE),))
    assert advanced(Drainage(), stopped)[1] == [AnnounceDrains(())], "one that starts may read what is available"
    assert advanced(Drainage(), DrainsAsked(0, ()))[1] == [AnnounceDrains(())], "nobody has asked so far"
    assert advanced(Drainage(), TerminationAsked(0))[1] == [AnnounceDrains((None,))]


def before_start(drainage: Drainage, at_ms: int) -> Drainage:
    asked = (DrainNotification(UUID(int=1), "app"),)
    return advanced(drainage, DrainsAsked(at_ms, asked, before_start=True))[0]


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
    assert orders[-1] == AnnounceDrains((None,)) and drainage.is_under_way
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
