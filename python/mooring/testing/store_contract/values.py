"""Values, keys, writing and reading."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.errors import MetadataStoreError
from mooring.metadata import MAX_VALUE_BYTES, MetadataStore
from mooring.testing.store_contract.clients import StoreClients, StoreFactory

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
"""Different keys that file systems, paths and encodings often confuse or refuse."""

ODD_VALUES = (b"", b"\0", b"\n", b"{}", bytes(range(256)), b"\xff" * 100_000)


class ValuesContract(StoreClients):
    """A written value is read back unchanged."""

    def test_a_missing_key_has_no_value(self, store: MetadataStore) -> None:
        """The result is None, and not an error or an empty value."""
        assert store.get("nothing here") is None

    @pytest.mark.parametrize("value", ODD_VALUES, ids=lambda value: f"{len(value)}-bytes")
    def test_a_value_comes_back_as_it_was_written(
        self, store: MetadataStore, other: MetadataStore, value: bytes
    ) -> None:
        """The writer and another client read the same bytes."""
        store.put("key", value)
        store.flush()
        assert store.get("key") == value
        assert other.get("key") == value
        assert other.all() == {"key": value}

    def test_the_largest_value_comes_back(self, store: MetadataStore, other: MetadataStore) -> None:
        """A value of 16 MiB is read back by `get` and by `all`."""
        value = bytes(range(256)) * (MAX_VALUE_BYTES // 256)
        store.put("large", value)
        store.put("small", b"1")
        store.flush()
        assert other.get("large") == value
        assert other.all() == {"large": value, "small": b"1"}

    def test_a_larger_value_is_refused_and_nothing_is_written(self, store: MetadataStore) -> None:
        """The other values of the same call are not written either."""
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
        """Keys may differ only by case, by Unicode normal form, or by their last character."""
        everything = {key: str(number).encode() for number, key in enumerate(ODD_KEYS)}
        store.put_all(everything)
        store.flush()
        assert other.all() == everything
        assert {key: other.get(key) for key in ODD_KEYS} == everything

    def test_a_key_that_is_not_text_is_refused(self, store: MetadataStore) -> None:
        """A lone surrogate is not valid Unicode. Each call refuses it, and writes nothing."""
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
        """A later value may be shorter, and may come from another client."""
        store.put("key", b"a long first value")
        other.put("key", b"second")
        store.put("key", b"3")
        store.flush()
        assert other.get("key") == b"3"

    def test_several_values_are_written_with_one_call(self, store: MetadataStore, other: MetadataStore) -> None:
        """The call writes new keys and old ones; other keys keep their values."""
        store.put_all({"stays": b"1", "changes": b"2"})
        store.put_all({"changes": b"3", "new": b"4"})
        store.put_all({})
        store.flush()
        assert other.all() == {"stays": b"1", "changes": b"3", "new": b"4"}

    def test_a_deleted_key_is_gone_and_can_come_back(self, store: MetadataStore, other: MetadataStore) -> None:
        """Other keys keep their values."""
        store.put_all({"key": b"1", "neighbour": b"2"})
        store.delete("key")
        store.flush()
        assert other.get("key") is None
        assert other.all() == {"neighbour": b"2"}
        other.put("key", b"again")
        other.flush()
        assert store.get("key") == b"again"

    def test_deleting_a_missing_key_is_fine(self, store: MetadataStore) -> None:
        """It may be deleted twice, also in a store without any value."""
        store.delete("never was")
        store.delete("never was")
        assert store.all() == {}

    # Reading

    def test_a_store_is_empty_at_first(self, store: MetadataStore) -> None:
        """Reading works before the first write."""
        assert store.all() == {}
        store.flush()

    def test_a_prefix_selects_keys(self, store: MetadataStore) -> None:
        """A prefix selects by the key's own text, also for long and odd keys."""
        store.put_all({"a/1": b"1", "a/2": b"2", "A/1": b"3", "ab": b"4", "a/" + "x" * 2_000: b"5"})
        assert store.all("a/") == {"a/1": b"1", "a/2": b"2", "a/" + "x" * 2_000: b"5"}
        assert store.all("none") == {}

    def test_the_mapping_returned_is_the_callers_own(self, store: MetadataStore) -> None:
        """A change of the returned mapping does not change the store."""
        store.put("key", b"1")
        store.all().clear()
        assert store.all() == {"key": b"1"}

    def test_a_write_is_seen_after_flush(
        self, store: MetadataStore, other: MetadataStore, store_factory: StoreFactory
    ) -> None:
        """A client that had read before sees the write, and so does a client that is opened later."""
        assert other.get("key") is None
        for round_number in range(5):
            value = str(round_number).encode()
            store.put("key", value)
            store.flush()
            assert other.get("key") == value
            with store_factory() as late:
                assert late.get("key") == value

    def test_values_outlive_the_client(self, store_factory: StoreFactory) -> None:
        """The next client reads all values."""
        with store_factory() as first:
            first.put_all({"kept": b"1", "deleted": b"2"})
            first.delete("deleted")
            first.flush()
        with store_factory() as second:
            assert second.all() == {"kept": b"1"}
