"""The seeds of tests that draw at random. MOORING_SEED repeats what a test has printed."""

from __future__ import annotations

import os
import random

_GIVEN = os.environ.get("MOORING_SEED")
_SEED = int(_GIVEN or random.SystemRandom().randrange(1, 1_000_000))


def seeded(salt: object = "") -> random.Random:
    """A generator with the seed of this run. `salt` is what a test has beside the seed, such as its parameters."""
    print(f"MOORING_SEED={_SEED} repeats this ({salt})")
    return random.Random(f"{_SEED} {salt}")


def seeds(*usual: int) -> list[int]:
    """MOORING_SEED alone where it is set, else the usual ones."""
    return [int(_GIVEN)] if _GIVEN else list(usual)
