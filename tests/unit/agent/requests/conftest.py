"""The executors that requests are about; a module that needs others has a fixture of this name."""

from __future__ import annotations

import pytest

from tests.unit.agent.moving import warm_on_four
from tests.unit.agent.queues import Queues


@pytest.fixture(params=[1, 2], ids=["one copy", "two copies"])
def queues(request: pytest.FixtureRequest) -> Queues:
    return warm_on_four(request.param)
