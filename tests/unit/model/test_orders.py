"""In which order the orders of one decision are carried out."""

from __future__ import annotations

from uuid import UUID

from mooring.agent.requests.orders import RemoveMessages
from mooring.model.orders import AnnounceVersion, LogLine, by_rank
from mooring.records.operator_overrides import NO_OVERRIDES, SaveOverrides

ANSWERED, REMOVED = RemoveMessages(UUID(int=1)), RemoveMessages(UUID(int=2))


def test_a_client_gets_an_answer_only_after_the_overrides_are_saved() -> None:
    saved = SaveOverrides(NO_OVERRIDES)
    orders = [ANSWERED, AnnounceVersion(7), REMOVED, saved, LogLine("a line")]
    assert by_rank(orders) == [AnnounceVersion(7), LogLine("a line"), saved, ANSWERED, REMOVED]
