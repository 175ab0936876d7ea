"""The order in which queries are drained: a query that feeds another is drained first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from mooring.errors import InvalidSettingError

ORDER_KEY = "spark.mooring.drain.order"


def drain_order(
    queries: Collection[str],
    reads: Mapping[str, Collection[str]],
    writes: Mapping[str, Collection[str]],
    users_order: Sequence[Collection[str]] = (),
) -> list[list[str]]:
    """Groups of queries, in the order of their drains. The queries of a group are drained at the same time.

    `reads` and `writes` map each query to the places that it reads and writes: paths, topics or tables, in one
    spelling. A query comes after the queries that write what it reads. `users_order` comes before all else: groups of
    names, in order; queries without a name there follow. Queries that feed each other in a circle are one group. The
    names in a group are sorted.

    InvalidSettingError when `users_order` has an unknown query, or a query twice.
    """
    _check(queries, users_order)
    named = {name for group in users_order for name in group}
    rest = set(queries) - named
    feeds = {
        query: {other for other in rest if other != query and set(reads.get(query, ())) & set(writes.get(other, ()))}
        for query in rest
    }
    groups = [sorted(group) for group in users_order if group]
    while rest:
        free = {query for query in rest if not feeds[query] & rest} or _first_circle(rest, feeds)
        groups.append(sorted(free))
        rest -= free
    return groups


def parse_order(text: str | None) -> tuple[tuple[str, ...], ...]:
    """The groups in a value of `spark.mooring.drain.order`; empty when it is not set.

    `,` separates names of one group, and `>` separates a group from the next one. InvalidSettingError when a name is
    empty, or is there twice.
    """
    if text is None or not text.strip():
        return ()
    groups = tuple(tuple(name.strip() for name in group.split(",")) for group in text.split(">"))
    if any(not name for group in groups for name in group):
        raise InvalidSettingError(
            f'{ORDER_KEY} is "{text}": a name is empty; expected names, as in "orders, users > sums > report"'
        )
    names = [name for group in groups for name in group]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSettingError(f'{ORDER_KEY} is "{text}": it names {name} twice: expected each query once')
    return groups


def _first_circle(rest: set[str], feeds: Mapping[str, set[str]]) -> set[str]:
    """Queries that feed each other in a circle, and that no other query of `rest` feeds."""
    upstream = {query: _all_upstream(query, rest, feeds) for query in rest}
    return min(upstream.values(), key=lambda group: (len(group), sorted(group)))


def _all_upstream(query: str, rest: set[str], feeds: Mapping[str, set[str]]) -> set[str]:
    found, to_do = {query}, [query]
    while to_do:
        for other in feeds[to_do.pop()] & rest - found:
            found.add(other)
            to_do.append(other)
    return found


def _check(queries: Collection[str], users_order: Sequence[Collection[str]]) -> None:
    seen: set[str] = set()
    for name in (name for group in users_order for name in group):
        if name not in queries:
            near = get_close_matches(name, sorted(queries), n=1)
            hint = f"; nearest valid value: {near[0]}" if near else ""
            raise InvalidSettingError(f"{ORDER_KEY} names {name}: there is no such query{hint}")
        if name in seen:
            raise InvalidSettingError(f"{ORDER_KEY} names {name} twice: expected each query once")
        seen.add(name)
