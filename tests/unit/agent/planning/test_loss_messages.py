"""What the driver's log has of an executor that is lost."""

from __future__ import annotations

import pytest

from mooring.model import events
from mooring.model.orders import LogLine
from tests.unit.agent.builders import TIMING, Story, running
from tests.unit.agent.moving import two_on_one_executor


def lines(story: Story, event: events.Event) -> list[str]:
    return [order.message for order in story.take(event) if isinstance(order, LogLine) and not order.is_warning]


def lost(story: Story, executor: str, reason: str = "killed", is_ordinary: bool = False) -> events.ExecutorLost:
    return events.ExecutorLost(story.now_ms, executor, reason, is_ordinary)


@pytest.mark.parametrize("factor", [1, 2])
def test_the_loss_of_an_executor_is_logged_with_its_reason_and_its_processor(factor: int) -> None:
    story = running(factor=factor)
    assert lines(story, lost(story, "2", "Remote RPC client disassociated.\n\nContainer: x")) == [
        "executor 2 on b counts as lost (Remote RPC client disassociated): processor 1 waits for another executor"
    ]


def test_all_processors_of_the_executor_are_named() -> None:
    story = two_on_one_executor().story
    assert lines(story, lost(story, "1", "")) == [
        "executor 1 on a counts as lost (no reason is known): processors 0, 1 wait for another executor"
    ]


def test_an_executor_that_was_to_be_removed_is_logged_once() -> None:
    story = running(factor=2)
    assert len(lines(story, lost(story, "2", "it is to be removed"))) == 1
    assert lines(story, lost(story, "2")) == []


def test_an_executor_that_is_lost_at_an_ordinary_end_is_not_logged() -> None:
    story = running()
    assert lines(story, lost(story, "2", is_ordinary=True)) == []
    assert "2" not in story.state.fleet.executors


def test_an_executor_without_a_processor_is_logged_without_one() -> None:
    story = running()
    story.take(events.ExecutorRestarting(story.now_ms, "a request", "2"))
    story.joins("4@b")
    story.after(TIMING.debounce_ms)
    assert lines(story, lost(story, "2")) == ["executor 2 on b counts as lost (killed): it had no processor"]
