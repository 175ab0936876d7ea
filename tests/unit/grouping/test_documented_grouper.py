"""The grouper that docs/guides/groupers.md shows is one that works."""

import re
from pathlib import Path

from mooring.grouping import check_grouping
from tests.unit.grouping.builders import model, partitions, tasks

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "groupers.md"


def test_the_documented_grouper_keeps_the_promises():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    scope = {}
    exec(code, scope)
    for count in (1, 2, 7, 8):
        places = {"0": "a", "1": "b", "10": "c"}
        found = scope["RoundRobin"]().group(tasks(*partitions(count)), {}, places, model({"0": partitions(count)}))
        check_grouping(found, tasks(*partitions(count)), places)
