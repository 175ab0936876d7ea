"""The lease of a leader in Kafka, and how silence is measured."""

from __future__ import annotations

import json

import pytest

from mooring.coordination.kafka.lease import LEASE, Lease, Silence, read_lease

A_LEASE = Lease("prices on 10.0.0.5", "secret", "epoch", 10_000)


def test_what_is_written_is_read():
    assert read_lease(A_LEASE.text()) == A_LEASE


def test_no_two_are_alike():
    assert A_LEASE.renewed() != A_LEASE
    assert Lease("a", "t", "e", 1_000) != Lease("a", "t", "e", 1_000)


@pytest.mark.parametrize("text", [None, b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, A_LEASE.text()[:-9]])
def test_what_nobody_of_us_wrote_keeps_nobody_from_leading(text):
    assert read_lease(text) is None


@pytest.mark.parametrize("missing", json.loads(A_LEASE.text()))
def test_every_field_is_needed(missing):
    fields = json.loads(A_LEASE.text())
    del fields[missing]
    assert read_lease(json.dumps(fields).encode()) is None


@pytest.mark.parametrize(("stated", "counts"), [(0, 100), (-5, 100), (10**12, 600_000), (2_000, 2_000)])
def test_no_silence_is_too_short_or_for_ever(stated, counts):
    fields = json.loads(A_LEASE.text()) | {"silence-ms": stated}
    found = read_lease(json.dumps(fields).encode())
    assert found is not None and found.silence_ms == counts


def test_silence_begins_with_the_first_look_and_anew_with_each_change():
    silence = Silence()
    assert silence.of(LEASE, 5.0) == 0.0
    silence.look({LEASE: b"1"}, 10.0)
    silence.look({LEASE: b"1"}, 12.0)
    assert silence.of(LEASE, 13.0) == 3.0
    silence.look({LEASE: b"2"}, 14.0)
    assert silence.of(LEASE, 15.0) == 1.0
    silence.look({}, 16.0)
    assert silence.of(LEASE, 17.0) == 0.0
