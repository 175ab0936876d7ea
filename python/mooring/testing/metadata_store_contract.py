"""What a metadata store must do, as tests: subclass `MetadataStoreContract` to try one, also one of your own.

    class TestMyStore(MetadataStoreContract):
        @pytest.fixture
        def store_factory(self, tmp_path):
            return lambda: MyStore(tmp_path)

Needs pytest and hypothesis (`pip install "mooring[test]"`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.errors import MetadataStoreError
from mooring.metadata import MAX_VALUE_BYTES, MetadataStore

StoreFactory = Callable[[], MetadataStore]

ODD_KEYS = (
    "",
    " ",
    "/",
    ".",
    "..",
    "../outside",
    "a/b//c/",
    ".hidden",
    "trailing.",
    "UPPER",
    "upper",
    "Upper",
    "con",
    "=41",
    "%2F",
    'a\\b:c*d?e"f<g>h|i',
    "tab\tnewline\nnul\0",
    "naïve",
    "nai\u0308ve",
    "状态/分区 7",
    "🚢",
    "88b0d30c-0001.ContainerPlacementRequestMessage",
    "k" * 2_000,
    "k" * 1_999 + "K",
    "状" * 500,
)
"""Keys that file systems, paths and encodings are known to stumble over; all differ."""

_ODD_VALUES = (b"", b"\0", b"\n", b"{}", bytes(range(256)), b"\xff" * 100_000)

_keys = st.sampled_from(ODD_KEYS[:12]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_values = st.binary(max_size=64)
_steps = st.one_of(
    st.tuples(st.just("put"), _keys, _values),
    st.tuples(st.just("delete"), _keys, st.just(b"")),
    st.tuples(st.just("put_all"), st.dictionaries(_keys, _values, max_size=4), st.just(b"")),
    st.tuples(st.just("reopen"), st.just(""), st.just(b"")),
)


class MetadataStoreContract:
    """The promises of `MetadataStore`, one test each. A subclass gives `store_factory`."""

    watch_seconds = 30.0
    """How long a change may take to be told."""

    clients = 8
    """How many clients work at once in the concurrent tests."""

    @pytest.fixture
    def store_factory(self) -> StoreFactory:
        """Opens one more client of one store, which is empty before the test. Override it."""
        raise NotImplementedError("a subclass of MetadataStoreContract has a fixture store_factory")

    @pytest.fixture
    def store(self, store_factory: StoreFactory) -> Iterator[MetadataStore]:
        """A client that is closed after the test."""
        with store_factory() as store:
            yield store

    @pytest.fixture
    def other(self, store_factory: StoreFactory) -> Iterator[MetadataStore]:
        """A second client of the same store."""
        with store_factory() as other:
            yield other

    # Values and keys

    def test_a_missing_key_has_no_value(self, store: MetadataStore) -> None:
        """None, and not an error or an empty value."""
        assert store.get("nothing here") is None

    @pytest.mark.parametrize("value", _ODD_VALUES, ids=lambda value: f"{len(value)}-bytes")
    def test_a_value_comes_back_as_it_was_written(
        self, store: MetadataStore, other: MetadataStore, value: bytes
    ) -> None:
        """Byte for byte, to the writer and to another client."""
        store.put("key", value)
        store.flush()
        assert store.get("key") == value
        assert other.get("key") == value
        assert other.all() == {"key": value}

    def test_the_largest_value_comes_back(self, store: MetadataStore, other: MetadataStore) -> None:
        """16 MiB, through every way of reading."""
        value = bytes(range(256)) * (MAX_VALUE_BYTES // 256)
        store.put("large", value)
        store.put("small", b"1")
        store.flush()
        assert other.get("large") == value
        assert other.all() == {"large": value, "small": b"1"}

    def test_a_larger_value_is_refused_and_nothing_is_written(self, store: MetadataStore) -> None:
        """Also not the other values of the same call."""
        store.put("large", b"before")
        with pytest.raises(MetadataStoreError):
            store.put_all({"first": b"1", "large": bytes(MAX_VALUE_BYTES + 1)})
        assert store.all() == {"large": b"before"}

    @pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: ascii(key[:12]))
    def test_any_text_is_a_key(self, store: MetadataStore, other: MetadataStore, key: str) -> None:
        """It can be written, read by another client, listed, and deleted."""
        store.put(key, b"value")
        store.flush()
        assert other.get(key) == b"value"
        assert other.all() == {key: b"value"}
        store.delete(key)
        store.flush()
        assert other.get(key) is None
        assert other.all() == {}

    def test_keys_that_look_alike_are_different_keys(self, store: MetadataStore, other: MetadataStore) -> None:
        """By case, by normal form, by their last character."""
        everything = {key: str(number).encode() for number, key in enumerate(ODD_KEYS)}
        store.put_all(everything)
        store.flush()
        assert other.all() == everything
        assert {key: other.get(key) for key in ODD_KEYS} == everything

    def test_a_key_that_is_not_text_is_refused(self, store: MetadataStore) -> None:
        """A lone surrogate is not Unicode: nothing is written, by any call."""
        calls: list[Callable[[], object]] = [
            lambda: store.put("lone \ud800", b"1"),
            lambda: store.put_all({"fine": b"1", "lone \ud800": b"1"}),
            lambda: store.get("lone \ud800"),
            lambda: store.delete("lone \ud800"),
        ]
        for refused in calls:
            with pytest.raises(MetadataStoreError):
                refused()
        assert store.all() == {}

    # Writing

    def test_a_later_value_replaces_the_earlier_one(self, store: MetadataStore, other: MetadataStore) -> None:
        """Also a shorter one, by either client."""
        store.put("key", b"a long first value")
        other.put("key", b"second")
        store.put("key", b"3")
        store.flush()
        assert other.get("key") == b"3"

    def test_several_values_are_written_with_one_call(self, store: MetadataStore, other: MetadataStore) -> None:
        """New keys and old ones; what is not named stays."""
        store.put_all({"stays": b"1", "changes": b"2"})
        store.put_all({"changes": b"3", "new": b"4"})
        store.put_all({})
        store.flush()
        assert other.all() == {"stays": b"1", "changes": b"3", "new": b"4"}

    def test_a_deleted_key_is_gone_and_can_come_back(self, store: MetadataStore, other: MetadataStore) -> None:
        """Its neighbours stay."""
        store.put_all({"key": b"1", "neighbour": b"2"})
        store.delete("key")
        store.flush()
        assert other.get("key") is None
        assert other.all() == {"neighbour": b"2"}
        other.put("key", b"again")
        other.flush()
        assert store.get("key") == b"again"

    def test_deleting_a_missing_key_is_fine(self, store: MetadataStore) -> None:
        """Twice as well, and in a store that was never written to."""
        store.delete("never was")
        store.delete("never was")
        assert store.all() == {}

    # Reading

    def test_a_store_is_empty_at_first(self, store: MetadataStore) -> None:
        """Reading does not need a write before."""
        assert store.all() == {}
        store.flush()

    def test_a_prefix_selects_keys(self, store: MetadataStore) -> None:
        """By the key as it is, also for long and odd keys."""
        store.put_all({"a/1": b"1", "a/2": b"2", "A/1": b"3", "ab": b"4", "a/" + "x" * 2_000: b"5"})
        assert store.all("a/") == {"a/1": b"1", "a/2": b"2", "a/" + "x" * 2_000: b"5"}
        assert store.all("none") == {}

    def test_the_mapping_returned_is_the_callers_own(self, store: MetadataStore) -> None:
        """Changing it changes nothing in the store."""
        store.put("key", b"1")
        store.all().clear()
        assert store.all() == {"key": b"1"}

    def test_a_write_is_seen_after_flush(
        self, store: MetadataStore, other: MetadataStore, store_factory: StoreFactory
    ) -> None:
        """By a client that had read before, and by one that is opened afterwards."""
        assert other.get("key") is None
        for round_number in range(5):
            value = str(round_number).encode()
            store.put("key", value)
            store.flush()
            assert other.get("key") == value
            with store_factory() as late:
                assert late.get("key") == value

    def test_values_outlive_the_client(self, store_factory: StoreFactory) -> None:
        """Everything is there for the next one."""
        with store_factory() as first:
            first.put_all({"kept": b"1", "deleted": b"2"})
            first.delete("deleted")
            first.flush()
        with store_factory() as second:
            assert second.all() == {"kept": b"1"}

    # Watching

    def test_a_watcher_hears_of_every_kind_of_change(self, store: MetadataStore, other: MetadataStore) -> None:
        """New, changed and deleted keys, by this client and by another."""
        store.put_all({"changes": b"1", "goes": b"1"})
        store.flush()
        heard = _Heard()
        store.watch(heard)
        other.put("comes", b"1")
        other.put("changes", b"2")
        other.flush()
        store.delete("goes")
        store.put("own", b"1")
        store.flush()
        heard.wait_for({"comes", "changes", "goes", "own"}, self.watch_seconds)

    def test_what_a_watcher_hears_can_be_read(self, store: MetadataStore, other: MetadataStore) -> None:
        """When a change is told, its value is there already, for odd and long keys too."""
        seen: dict[str, bytes | None] = {}
        heard = _Heard(then=lambda keys: seen.update({key: store.get(key) for key in keys}))
        store.watch(heard)
        other.put_all({key: b"1" for key in ODD_KEYS})
        other.flush()
        heard.wait_for(set(ODD_KEYS), self.watch_seconds)
        assert {seen[key] for key in ODD_KEYS} == {b"1"}

    def test_a_cancelled_watcher_hears_nothing_more(self, store: MetadataStore) -> None:
        """The others do; cancelling twice is fine."""
        cancelled, goes_on = _Heard(), _Heard()
        cancel = store.watch(cancelled)
        store.watch(goes_on)
        cancel()
        cancel()
        store.put("key", b"1")
        store.flush()
        goes_on.wait_for({"key"}, self.watch_seconds)
        assert cancelled.keys == set()

    def test_a_failing_watcher_disturbs_nobody(self, store: MetadataStore) -> None:
        """Neither the writer nor the other watchers, nor what is told later."""
        heard = _Heard()

        def fails(keys: frozenset[str]) -> None:
            raise ZeroDivisionError("a mistake in the watcher")

        store.watch(fails)
        store.watch(heard)
        store.put("first", b"1")
        store.flush()
        heard.wait_for({"first"}, self.watch_seconds)
        store.put("second", b"1")
        store.flush()
        heard.wait_for({"first", "second"}, self.watch_seconds)

    def test_a_closed_client_tells_nothing(self, store_factory: StoreFactory, other: MetadataStore) -> None:
        """Once `close` has returned, its watchers are not called."""
        heard, goes_on = _Heard(), _Heard()
        other.watch(goes_on)
        closing = store_factory()
        closing.watch(heard)
        closing.close()
        other.put("key", b"1")
        other.flush()
        goes_on.wait_for({"key"}, self.watch_seconds)
        assert heard.keys == set()

    # Several at once

    def test_many_clients_write_their_own_keys(self, store_factory: StoreFactory, store: MetadataStore) -> None:
        """Nothing is lost or mixed up."""

        def work(client: int) -> None:
            with store_factory() as own:
                for number in range(10):
                    own.put(f"{client}/{number}", f"{client}.{number}".encode())
                own.delete(f"{client}/0")
                own.flush()

        _at_once(work, self.clients)
        expected = {
            f"{client}/{number}": f"{client}.{number}".encode()
            for client in range(self.clients)
            for number in range(1, 10)
        }
        assert store.all() == expected

    def test_a_reader_never_sees_half_a_value(self, store_factory: StoreFactory, store: MetadataStore) -> None:
        """While several clients write one key, every reading is one of the values written, whole."""
        wholes = {bytes([client]) * (70_000 + client) for client in range(self.clients)}
        done = threading.Event()
        seen: list[bytes | None] = []

        def read() -> None:
            with store_factory() as reader:
                while not done.is_set():
                    seen.extend([reader.get("key"), reader.all().get("key")])

        def write(client: int) -> None:
            with store_factory() as writer:
                for _ in range(10):
                    writer.put("key", bytes([client]) * (70_000 + client))
                writer.flush()

        reading = threading.Thread(target=read)
        store.put("key", bytes([0]) * 70_000)
        store.flush()
        reading.start()
        try:
            _at_once(write, self.clients)
        finally:
            done.set()
            reading.join()
        assert set(seen) <= wholes
        assert store.get("key") in wholes

    def test_one_client_serves_many_threads(self, store: MetadataStore) -> None:
        """Each thread reads what it wrote."""

        def work(thread: int) -> None:
            for number in range(10):
                value = f"{thread}.{number}".encode()
                store.put(f"thread {thread}", value)
                store.flush()
                assert store.get(f"thread {thread}") == value

        _at_once(work, self.clients)
        assert len(store.all()) == self.clients

    # Closing

    def test_a_closed_client_refuses_everything_but_close(self, store_factory: StoreFactory) -> None:
        """With MetadataStoreError; `close` may be called again."""
        closed = store_factory()
        closed.close()
        closed.close()
        calls: list[Callable[[], object]] = [
            lambda: closed.get("key"),
            lambda: closed.put("key", b"1"),
            lambda: closed.put_all({"key": b"1"}),
            lambda: closed.delete("key"),
            lambda: closed.all(),
            lambda: closed.watch(_Heard()),
            lambda: closed.flush(),
        ]
        for refused in calls:
            with pytest.raises(MetadataStoreError):
                refused()

    def test_closing_one_client_leaves_the_others_working(
        self, store_factory: StoreFactory, other: MetadataStore
    ) -> None:
        """Clients share the store, not their connections."""
        closing = store_factory()
        closing.put("key", b"1")
        closing.flush()
        closing.close()
        other.put("more", b"2")
        assert other.all() == {"key": b"1", "more": b"2"}

    # Everything together

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
        """Whatever is done to a store and to a dict, both hold the same afterwards, also for another client."""
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


class _Heard:
    """A watcher that remembers, and can be waited for."""

    def __init__(self, then: Callable[[frozenset[str]], None] = lambda keys: None) -> None:
        self.keys: set[str] = set()
        self._then = then
        self._news = threading.Condition()

    def __call__(self, keys: frozenset[str]) -> None:
        self._then(keys)
        with self._news:
            self.keys |= keys
            self._news.notify_all()

    def wait_for(self, keys: set[str], seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._news:
            self._news.wait_for(lambda: self.keys >= keys, max(0.0, end - time.monotonic()))
            assert self.keys >= keys, f"not heard of within {seconds} s: {sorted(keys - self.keys)}"


def _at_once(work: Callable[[int], None], count: int) -> None:
    """Run `work(0)` to `work(count - 1)` in threads that start together; an error in any of them is raised here."""
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        for _ in pool.map(run, range(count)):
            pass


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
