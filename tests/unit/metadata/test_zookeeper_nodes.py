"""Keys and values as ZooKeeper's nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.metadata.envelope import DamagedRecord
from mooring.metadata.zookeeper.nodes import (
    CHANGES,
    GENERATIONS,
    Head,
    Split,
    key_of_path,
    node_name,
    pack_parts,
    pack_whole,
    path_of_key,
    text_of,
    unpack,
)
from mooring.testing.metadata_store_contract import ODD_KEYS

keys = st.sampled_from(ODD_KEYS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
SPLIT = Split("0123456789abcdef" * 2, 3, 300_000, "ab" * 32)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("samza-place-container-v1/88b0-01.Request", "samza-place-container-v1/88b0-01.Request"),
        ("localityData/clicks/Partition 7", "localityData/clicks=2fPartition=207"),
        ("status", "=none/status"),
        ("", "=none/="),
        ("/", "=none/=2f"),
        ("a/", "a/="),
        ("../..", "=2e=2e/=2e=2e"),
        ("=none/a", "=3dnone/a"),
    ],
)
def test_a_plain_key_is_its_own_path(key, path):
    assert path_of_key(key) == path
    assert key_of_path(path) == key


@given(one=keys, other=keys)
def test_two_keys_never_share_a_path(one, other):
    assert (path_of_key(one) == path_of_key(other)) == (one == other)


@given(key=keys)
def test_a_path_has_two_names_that_zookeeper_takes(key):
    directory, name = path_of_key(key).split("/")
    for one in (directory, name):
        assert one.isascii() and one.isprintable() and 0 < len(one) < 256 and one not in (".", "..")
    assert directory not in (GENERATIONS, CHANGES)
    assert key_of_path(path_of_key(key)) in (key, None)


@given(text=keys)
def test_a_short_text_is_read_back_from_its_name(text):
    assert text_of(node_name(text)) in ((text,) if len(text) <= 16 else (text, None))


@pytest.mark.parametrize("name", ["=2", "=2F", "=zz", "a b", "=61", "=ff", ".", "", "=h-a-b", "k" * 300, GENERATIONS])
def test_a_name_that_is_not_ours_is_no_text(name):
    assert text_of(name) is None


@given(value=st.binary(max_size=200) | st.just(b"mooring-zk/1 whole 0 0\n\n"), key=st.none() | keys.filter(bool))
def test_a_value_comes_back_with_its_key(value, key):
    assert unpack(pack_whole(value, key)) == Head(value, key)


def test_an_ordinary_value_is_the_data_itself():
    assert pack_whole(b'{"a": 1}', None) == b'{"a": 1}'


@given(key=st.none() | keys.filter(bool))
def test_where_the_parts_are_comes_back_with_the_key(key):
    assert unpack(pack_parts(SPLIT, key)) == Head(SPLIT, key)


@pytest.mark.parametrize(
    "data",
    [
        b"mooring-zk/1 ",
        b"mooring-zk/1 whole 3 3\nkey\nvalue",
        b"mooring-zk/1 whole 9 3\nkey\n",
        b"mooring-zk/1 whole 1 0\n\xff\n",
        pack_parts(SPLIT, "key") + b"more",
        pack_parts(SPLIT, "key")[:-1],
    ],
)
def test_data_that_does_not_fit_its_first_line_is_damaged(data):
    with pytest.raises(DamagedRecord):
        unpack(data)
