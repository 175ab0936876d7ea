from __future__ import annotations

import pytest

from mooring.checkpoint.sink_log import names_until


@pytest.mark.parametrize(
    ("batch", "names"),
    [
        (0, ("0",)),
        (8, ("0", "1", "2", "3", "4", "5", "6", "7", "8")),
        (9, ("9.compact",)),
        (18, ("18.compact",)),
        (19, ("9.compact", "19.compact")),
        (21, ("9.compact", "19.compact", "20", "21")),
        (1204, ("1189.compact", "1199.compact", "1200", "1201", "1202", "1203", "1204")),
    ],
)
def test_a_log_stands_for_all_batches_until_one(batch: int, names: tuple[str, ...]) -> None:
    assert names_until(batch) == names
