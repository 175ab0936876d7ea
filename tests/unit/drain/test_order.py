"""Which queries are drained before which."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.drain import drain_order, parse_order
from mooring.errors import InvalidSettingError


def test_upstream_comes_first_and_the_others_side_by_side() -> None:
    reads = {"b": {"/a-to-b"}, "c": {"/b-to-c", "/else"}}
    writes = {"a": {"/a-to-b"}, "b": {"/b-to-c"}}
    assert drain_order(["a", "b", "c", "d"], reads, writes) == [["a", "d"], ["b"], ["c"]]


def test_what_the_user_says_is_stronger() -> None:
    reads, writes = {"b": {"/x"}}, {"a": {"/x"}}
    assert drain_order(["a", "b", "c"], reads, writes, [["b"], ["a"]]) == [["b"], ["a"], ["c"]]


def test_a_circle_is_one_group() -> None:
    reads = {"a": {"/b"}, "b": {"/a"}, "c": {"/b"}}
    writes = {"a": {"/a"}, "b": {"/b"}}
    assert drain_order(["a", "b", "c"], reads, writes) == [["a", "b"], ["c"]]


def test_a_query_that_reads_what_it_writes_feeds_nobody_else() -> None:
    assert drain_order(["a"], {"a": {"/a"}}, {"a": {"/a"}}) == [["a"]]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([["clikcs"]], "names clikcs: there is no such query; nearest valid value: clicks"),
        ([["clicks"], ["clicks"]], "names clicks twice"),
    ],
)
def test_a_wrong_order_is_refused(told: list[list[str]], said: str) -> None:
    with pytest.raises(InvalidSettingError) as refused:
        drain_order(["clicks", "bids"], {}, {}, told)
    assert said in str(refused.value)


places = st.dictionaries(st.integers(0, 6).map(str), st.sets(st.integers(0, 5).map(str), max_size=3), max_size=7)


@given(reads=places, writes=places)
def test_each_query_once_and_none_before_one_that_feeds_it_unless_they_are_in_a_circle(
    reads: dict[str, set[str]], writes: dict[str, set[str]]
) -> None:
    queries = [str(one) for one in range(7)]
    groups = drain_order(queries, reads, writes)
    assert sorted(name for group in groups for name in group) == queries
    place = {name: at for at, group in enumerate(groups) for name in group}
    feeds = {
        (up, down)
        for up in queries
        for down in queries
        if up != down and writes.get(up, set()) & reads.get(down, set())
    }
    for up, down in feeds:
        assert place[up] <= place[down], "who feeds is never drained after who is fed"
    for earlier, later in pairwise(groups):
        assert earlier and later
    for up, down in feeds:
        if place[up] == place[down]:
            assert _reaches(down, up, feeds), "side by side only in a circle"


def _reaches(start: str, end: str, feeds: set[tuple[str, str]]) -> bool:
    seen, to_do = {start}, [start]
    while to_do:
        at = to_do.pop()
        for up, down in feeds:
            if up == at and down not in seen:
                seen.add(down)
                to_do.append(down)
    return end in seen


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ()),
        ("", ()),
        ("one", (("one",),)),
        ("orders, users > sums>report", (("orders", "users"), ("sums",), ("report",))),
    ],
)
def test_the_users_order_is_read(text, expected):
    assert parse_order(text) == expected


@pytest.mark.parametrize("text", ["a >", "> a", "a,,b", ","])
def test_an_order_with_an_empty_name_is_refused(text):
    with pytest.raises(InvalidSettingError, match=r"drain\.order is .* a name is empty"):
        parse_order(text)


def test_an_order_that_names_one_twice_is_refused():
    with pytest.raises(InvalidSettingError, match="names a twice"):
        parse_order("a > b > a")
