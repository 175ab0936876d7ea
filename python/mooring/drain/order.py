"""In which order queries are drained: one that feeds another comes first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from mooring.errors import InvalidSettingError

ORDER_KEY = "spark.mooring.drain.order"


def drain_order(
    queries: Collection[str],
    reads: Mapping[str, Collection[str]],
    writes: Mapping[str, Collection[str]],
    told: Sequence[Collection[str]] = (),
) -> list[list[str]]:
    """Groups of queries: each group is drained side by side when those before it are drained. Names in natural order.

    `reads` and `writes` are query to the places it reads and writes, as paths, topics or tables, in one spelling. A
    query that reads what another writes comes after it. `told` is the user's order, groups of names, which is stronger;
    queries that it does not name follow it. Queries that feed each other in a circle are one group: none comes first.

    InvalidSettingError when `told` names a query that there is not, or one of them twice.
    """
    _check(queries, told)
    named = {name for group in told for name in group}
    rest = set(queries) - named
    feeds = {
        query: {other for other in rest if other != query and set(reads.get(query, ())) & set(writes.get(other, ()))}
        for query in rest
    }
    groups = [sorted(group) for group in told if group]
    while rest:
        free = {query for query in rest if not feeds[query] & rest} or _first_circle(rest, feeds)
        groups.append(sorted(free))
        rest -= free
    return groups


def parse_order(text: str | None) -> tuple[tuple[str, ...], ...]:
    """The user's order as it is set: names, `,` between those that are drained side by side, `>` before what they feed.

    Empty when nothing is set. InvalidSettingError when a name is empty.
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
    """Queries that feed each other, and are fed by nobody else of the rest."""
    upstream = {query: _all_upstream(query, rest, feeds) for query in rest}
    return min(upstream.values(), key=lambda group: (len(group), sorted(group)))


def _all_upstream(query: str, rest: set[str], feeds: Mapping[str, set[str]]) -> set[str]:
    found, to_do = {query}, [query]
    while to_do:
        for other in feeds[to_do.pop()] & rest - found:
            found.add(other)
            to_do.append(other)
    return found


def _check(queries: Collection[str], told: Sequence[Collection[str]]) -> None:
    seen: set[str] = set()
    for name in (name for group in told for name in group):
        if name not in queries:
            near = get_close_matches(name, sorted(queries), n=1)
            hint = f"; nearest valid value: {near[0]}" if near else ""
            raise InvalidSettingError(f"{ORDER_KEY} names {name}: there is no such query{hint}")
        if name in seen:
            raise InvalidSettingError(f"{ORDER_KEY} names {name} twice: expected each query once")
        seen.add(name)
