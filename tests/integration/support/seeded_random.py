"""A random generator for tests whose draws can be repeated."""

import os
import random


def seeded() -> random.Random:
    """A generator with the seed MOORING_SEED, or with a random seed; the seed is printed."""
    seed = int(os.environ.get("MOORING_SEED", "0")) or random.randrange(1, 10**6)
    print(f"MOORING_SEED={seed}")
    return random.Random(seed)
