"""Parts of a store with keys of their own."""

import pytest

from mooring.errors import MetadataStoreError
from mooring.metadata import MemoryMetadataStore, NamespacedMetadataStore


def test_namespaces_do_not_meet():
    store = MemoryMetadataStore()
    one, two = NamespacedMetadataStore(store, "one"), NamespacedMetadataStore(store, "one.more")
    one.put(".more/key", b"1")
    two.put("key", b"2")
    assert one.all() == {".more/key": b"1"}
    assert two.all() == {"key": b"2"}
    assert store.all() == {"one/.more/key": b"1", "one.more/key": b"2"}


@pytest.mark.parametrize("namespace", ["", "a/b", "/"])
def test_a_namespace_is_not_empty_and_has_no_slash(namespace):
    with pytest.raises(MetadataStoreError, match="namespace"):
        NamespacedMetadataStore(MemoryMetadataStore(), namespace)


def test_a_watcher_hears_of_its_own_namespace_only():
    store, heard = MemoryMetadataStore(), []
    NamespacedMetadataStore(store, "ours").watch(heard.append)
    store.put("theirs/key", b"1")
    store.put_all({"ours/key": b"1", "theirs/key": b"2"})
    assert heard == [frozenset({"key"})]


def test_closing_a_view_ends_its_watches_and_leaves_the_store_open():
    store, heard = MemoryMetadataStore(), []
    view = NamespacedMetadataStore(store, "ours")
    view.watch(heard.append)
    view.close()
    store.put("ours/key", b"1")
    assert heard == []
    assert store.get("ours/key") == b"1"
