"""A place for records, and applications that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.metadata.applications import App, applications_in


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "_mooring" / "clicks"


@pytest.fixture
def start(place: Path) -> Iterator[Callable[..., App]]:
    with applications_in(place) as start:
        yield start
