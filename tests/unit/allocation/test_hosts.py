"""The pure choice of hosts, compared with a choice that is written another way."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mooring.allocation import Carrier, given_elsewhere, hosts_wanted

HOSTS = st.sampled_from([f"h{number}" for number in range(1, 13)])
CARRIERS = st.lists(st.builds(Carrier, HOSTS, st.booleans(), st.booleans(), st.integers(0, 5)), max_size=10)


@given(CARRIERS, st.frozensets(HOSTS))
def test_each_executor_at_an_open_host_has_its_host_once(carriers: list[Carrier], closed: frozenset[str]) -> None:
    assert Counter(hosts_wanted(carriers, closed)) == Counter(c.host for c in carriers if c.host not in closed)


@given(CARRIERS, st.randoms())
def test_the_order_of_the_carriers_does_not_matter(carriers: list[Carrier], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(carriers, len(carriers))
    assert hosts_wanted(carriers) == hosts_wanted(shuffled)


@given(CARRIERS)
def test_a_closed_host_changes_nothing_for_the_others(carriers: list[Carrier]) -> None:
    assert hosts_wanted(carriers, {"h1"}) == tuple(host for host in hosts_wanted(carriers) if host != "h1")


def test_living_executors_come_first_then_those_with_most_tasks() -> None:
    carriers = [
        Carrier("lost", is_alive=False, tasks=9),
        Carrier("spare", is_spare=True),
        Carrier("few", tasks=1),
        Carrier("h10", tasks=4),
        Carrier("h9", tasks=4),
    ]
    assert hosts_wanted(carriers) == ("h9", "h10", "few", "spare", "lost")


@given(st.lists(HOSTS, max_size=8), st.lists(HOSTS, max_size=8))
def test_what_was_not_given_and_what_came_instead(asked: list[str], came: list[str]) -> None:
    in_vain, instead = given_elsewhere(asked, came)
    assert Counter(asked) - Counter(in_vain) == Counter(came) - Counter(instead) == Counter(asked) & Counter(came)
    assert not set(in_vain) & set(instead)
