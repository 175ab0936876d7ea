"""What a test draws by chance, so that it can be drawn again."""

import os
import random


def seeded() -> random.Random:
    """Chance by MOORING_SEED, else by a seed that is printed."""
    seed = int(os.environ.get("MOORING_SEED", "0")) or random.randrange(1, 10**6)
    print(f"MOORING_SEED={seed}")
    return random.Random(seed)
