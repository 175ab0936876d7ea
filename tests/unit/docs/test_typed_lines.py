"""What is found in the code blocks of a page."""

from pathlib import Path

import pytest

from scripts import pages
from scripts.pages import typed_in

PAGE = r"""# A page

```
pip install .        # in a checkout
spark-submit --jars $(mooring jar) \
  --conf a=b \
  job.py

mooring status
```

Then:

  ```python
  import mooring
  ```

```text
clicks  running  41
```

```text
spark.mooring.metadata       zk://host1:2181/mooring
spark.mooring.metadata.auth  digest:mooring
```

```text
$ zkCli -server host1:2181
get /mooring
```
"""


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[pages.Typed]:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    return typed_in(page)


def test_each_line_to_type_is_found_with_its_place(found: list[pages.Typed]) -> None:
    assert [(typed.kind, typed.line, typed.block) for typed in found] == [
        ("command", 4, 4),
        ("command", 5, 4),
        ("command", 9, 4),
        ("python", 15, 15),
        ("conf", 23, 23),
        ("command", 28, 28),
    ]


def test_continued_lines_are_one_command(found: list[pages.Typed]) -> None:
    assert found[1].text == "spark-submit --jars $(mooring jar) --conf a=b job.py"


def test_a_comment_is_no_word_of_a_command(found: list[pages.Typed]) -> None:
    assert found[0].words == ["pip", "install", "."]


def test_what_is_typed_into_a_command_is_found(found: list[pages.Typed]) -> None:
    assert (found[5].text, found[5].given) == ("zkCli -server host1:2181", "get /mooring")
