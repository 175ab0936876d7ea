"""Durations and sizes as Spark writes them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.settings.notation import (
    format_duration,
    format_size,
    guess_duration_ms,
    guess_size_bytes,
    parse_count,
    parse_duration_ms,
    parse_size_bytes,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("10s", 10_000),
        ("5m", 300_000),
        ("5min", 300_000),
        ("500ms", 500),
        ("1500us", 1),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("250", 250),
        ("0", 0),
        (" 10S ", 10_000),
    ],
)
def test_durations_read_as_in_spark(text, milliseconds):
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("64m", 64 << 20),
        ("1g", 1 << 30),
        ("1GB", 1 << 30),
        ("2kb", 2048),
        ("7b", 7),
        ("7", 7),
        ("1t", 1 << 40),
        ("1p", 1 << 50),
    ],
)
def test_sizes_read_as_in_spark(text, count):
    assert parse_size_bytes(text) == count


@pytest.mark.parametrize("text", ["", "s", "10x", "1.5s", "-1s", "10 s", "1s2", "٣s", "1_0s", "9" * 19])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["", "m", "1.5g", "-1g", "1 g", "10s", "64mib"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError):
        parse_size_bytes(text)


@pytest.mark.parametrize("text", ["", "1.0", "-1", "+1", "1_0", "٣", "1e3", "1" * 10])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(ValueError):
        parse_count(text)


@given(st.integers(0, 10**15))
def test_what_is_written_reads_back(amount):
    assert parse_duration_ms(format_duration(amount)) == amount
    assert parse_size_bytes(format_size(amount)) == amount


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_refused_with_value_error(text):
    for parse in (parse_duration_ms, parse_size_bytes, parse_count):
        with contextlib.suppress(ValueError):
            assert parse(text) >= 0
    guess_duration_ms(text)
    guess_size_bytes(text)


def test_a_guess_is_what_was_meant():
    assert guess_duration_ms("1.5h") == 5_400_000
    assert guess_duration_ms("10 seconds") == 10_000
    assert guess_size_bytes("64 MiB") == 64 << 20
    assert guess_size_bytes("lots") is None
