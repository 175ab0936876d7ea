"""A store compared with a dict."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.metadata import MetadataStore
from mooring.testing.store_contract.clients import StoreClients, StoreFactory
from mooring.testing.store_contract.values import ODD_KEYS

_keys = st.sampled_from(ODD_KEYS[:12]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_values = st.binary(max_size=64)
_steps = st.one_of(
    st.tuples(st.just("put"), _keys, _values),
    st.tuples(st.just("delete"), _keys, st.just(b"")),
    st.tuples(st.just("put_all"), st.dictionaries(_keys, _values, max_size=4), st.just(b"")),
    st.tuples(st.just("reopen"), st.just(""), st.just(b"")),
)


class TwinContract(StoreClients):
    """Random calls change a store and a dict in the same way."""

    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
        ],
    )
    @given(steps=st.lists(_steps, max_size=12))
    def test_a_store_is_a_dict_that_others_see(
        self, store_factory: StoreFactory, steps: list[tuple[str, str | dict[str, bytes], bytes]]
    ) -> None:
        """After the same calls, a store and a dict have the same content, also for another client."""
        store, twin = store_factory(), dict[str, bytes]()
        for key in store.all():
            store.delete(key)
        for step, subject, value in steps:
            if step == "reopen":
                store.close()
                store = store_factory()
            else:
                _do(store, twin, step, subject, value)
                assert store.all() == twin
        store.flush()
        with store, store_factory() as other:
            assert other.all() == twin
            assert {key: other.get(key) for key in twin} == twin


def _do(
    store: MetadataStore, twin: dict[str, bytes], step: str, subject: str | Mapping[str, bytes], value: bytes
) -> None:
    if isinstance(subject, Mapping):
        store.put_all(subject)
        twin.update(subject)
    elif step == "put":
        store.put(subject, value)
        twin[subject] = value
    else:
        store.delete(subject)
        twin.pop(subject, None)
