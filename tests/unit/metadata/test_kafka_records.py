"""The records of the Kafka store, and the map that they add up to: no broker here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.metadata.kafka.records import (
    Author,
    Claim,
    ForeignRecord,
    author_headers,
    claim_key,
    parse_author,
    parse_key,
    value_key,
)
from mooring.metadata.kafka.replica import Record, Replica
from mooring.testing.metadata_store_contract import ODD_KEYS

keys = st.sampled_from(ODD_KEYS) | st.text(st.sampled_from('/ab"\\\0é🚢'), max_size=6)


@pytest.mark.parametrize(
    ("key", "spelling"),
    [
        ("samza-drain-v1/88b0", '[1,"samza-drain-v1","88b0"]'),
        ("plain", '[1,"","plain"]'),
        ("", '[1,"",""]'),
        ("/", '[1,"","/"]'),
        ("/rooted", '[1,"","/rooted"]'),
        ("a/", '[1,"a",""]'),
        ("a/b//c", '[1,"a","b//c"]'),
        ('qu"o\\te', '[1,"","qu\\"o\\\\te"]'),
        ("状态/é", '[1,"状态","é"]'),
        ("nul\0", '[1,"","nul\\u0000"]'),
    ],
)
def test_a_key_is_spelt_as_the_contract_says(key, spelling):
    assert value_key(key) == spelling.encode()


@given(keys)
def test_every_key_comes_back(key):
    assert parse_key(value_key(key)) == key


@given(keys, keys)
def test_two_keys_never_share_a_record_key(one, other):
    assert (value_key(one) == value_key(other)) == (one == other)


@given(keys, keys)
def test_a_claim_is_never_taken_for_a_value(role, key):
    assert claim_key(role) != value_key(key)
    assert parse_key(claim_key(role)) == Claim(role)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"plain text",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version":1}',
        b"[]",
        b"[1]",
        b'[1,"a"]',
        b'[1,"a","b","c"]',
        b'[1,"a",2]',
        b'[2,"a","b"]',
        b'["1","a","b"]',
        b'[true,"a","b"]',
        b'[1.0,"a","b"]',
        b'[1, "a", "b"]',
        b'[1,"","a/b"]',
        b'[1,"a/b","c"]',
        b'[1,"","\\u0061"]',
        b'[1,"","\\ud800"]',
        b'["mooring.writer"]',
        b'["mooring.writer",7]',
        b'["mooring.writer","\\u0061"]',
    ],
)
def test_any_other_record_key_is_foreign(raw):
    with pytest.raises(ForeignRecord):
        parse_key(raw)


def put(offset, key, value, author=None):
    return Record(offset, value_key(key), value, author_headers(author) if author else None)


def claim(offset, role, generation):
    return Record(offset, claim_key(role), b"%d" % generation)


def test_the_last_record_of_a_key_counts_and_null_deletes():
    replica = Replica()
    changed = [
        replica.apply(put(offset, key, value))
        for offset, (key, value) in enumerate([("a", b"1"), ("b", b""), ("a", b"2"), ("c", b"3"), ("c", None)])
    ]
    assert replica.values == {"a": b"2", "b": b""}
    assert changed == ["a", "b", "a", "c", "c"]


def test_a_replaced_writer_is_not_read_any_more():
    replica, old, new = Replica(), Author("agent", 1), Author("agent", 2)
    for record in [claim(0, "agent", 1), put(1, "key", b"old", old), claim(2, "agent", 2)]:
        replica.apply(record)
    for late in [put(3, "key", b"late", old), put(4, "key", None, old)]:
        with pytest.raises(ForeignRecord, match="generation 1"):
            replica.apply(late)
    assert replica.values == {"key": b"old"}
    replica.apply(put(5, "key", b"new", new))
    assert replica.values == {"key": b"new"}


def test_a_generation_says_nothing_of_other_roles_and_of_plain_writers():
    replica = Replica()
    replica.apply(claim(0, "agent", 9))
    replica.apply(put(1, "by another", b"1", Author("other", 1)))
    replica.apply(put(2, "by anybody", b"2"))
    assert replica.values == {"by another": b"1", "by anybody": b"2"}
    assert [replica.generation(role) for role in ("agent", "other", "nobody")] == [9, 1, 0]


def test_an_older_claim_takes_nothing_back():
    replica = Replica()
    for record in [claim(0, "agent", 2), claim(1, "agent", 1), Record(2, claim_key("agent"), None)]:
        replica.apply(record)
    assert replica.generation("agent") == 2


@pytest.mark.parametrize("generation", [None, b"", b"-1", b"one", b"1" * 19, "٣".encode()])
def test_a_record_whose_generation_is_no_number_is_foreign(generation):
    headers = [("mooring.writer", b"agent"), ("mooring.generation", generation)]
    with pytest.raises(ForeignRecord, match="not a number"):
        parse_author(headers)
    with pytest.raises(ForeignRecord):
        Replica().apply(Record(0, value_key("key"), b"1", headers))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.binary(max_size=2), st.integers(0, 3))))
def test_compaction_of_what_the_broker_let_in_changes_no_answer(writes):
    """The broker lets nobody write under a generation after a higher one has claimed, so generations only rise."""
    log, generation = [claim(0, "agent", 0)], 0
    for key, value, step in writes:
        if step == 3:
            generation += 1
            log.append(claim(len(log), "agent", generation))
        log.append(put(len(log), key, value, Author("agent", generation) if step else None))
    last = {record.key: record for record in log}
    whole, compacted = Replica(), Replica()
    for record in log:
        whole.apply(record)
    for record in sorted(last.values(), key=lambda record: record.offset):
        compacted.apply(record)
    assert compacted.values == whole.values
    assert compacted.generation("agent") == whole.generation("agent")
