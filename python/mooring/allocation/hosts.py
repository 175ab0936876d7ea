"""Serves host affinity: the hosts that executors are wanted on, and where they came instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mooring.model import natural_order


@dataclass(frozen=True, slots=True)
class Carrier:
    """One executor: its host, whether it lives, and how many active tasks it carries.

    An executor that does not live was lost, or is awaited since the last run. A spare one may hold copies only.
    """

    host: str
    is_alive: bool = True
    is_spare: bool = False
    tasks: int = 0


def hosts_wanted(carriers: Iterable[Carrier], closed: Collection[str] = ()) -> tuple[str, ...]:
    """One host for each executor that is wanted, the most important first; none at a `closed` host.

    An application that asks for n executors takes the first n. Living executors come first, as a lost one may have been
    replaced elsewhere. Of two, the one with more tasks comes first.
    """
    open_ones = [carrier for carrier in carriers if carrier.host not in closed]
    return tuple(carrier.host for carrier in sorted(open_ones, key=_importance))


def _importance(carrier: Carrier) -> tuple[object, ...]:
    return not carrier.is_alive, carrier.is_spare, -carrier.tasks, natural_order(carrier.host)


def given_elsewhere(asked: Iterable[str], given: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts that were asked for in vain, and the hosts that came without having been asked for.

    A host that was asked for twice and came once is in the first list once.
    """
    asked_counts, given_counts = Counter(asked), Counter(given)
    return _sorted(asked_counts - given_counts), _sorted(given_counts - asked_counts)


def _sorted(hosts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(hosts.elements(), key=natural_order))
