"""Sizes and durations as people type them, values as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.units import UNITS, format_value, parse_duration_ns, parse_size, unit_of_name


@pytest.mark.parametrize(
    ("text", "size"),
    [("3901", 3901), ("4 MiB", 4 << 20), ("1g", 1 << 30), ("2MB", 2_000_000), ("0.5KiB", 512), ("1.5 TiB", 3 << 39)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "ns"),
    [("5s", 5 * 10**9), ("10 min", 600 * 10**9), ("4h", 14400 * 10**9), ("1.5d", 129600 * 10**9), ("60", 60 * 10**9),
     ("250ms", 250_000_000), ("2 weeks", 1209600 * 10**9), ("3 days", 259200 * 10**9)],
)  # fmt: skip
def test_durations(text, ns):
    assert parse_duration_ns(text) == ns


@pytest.mark.parametrize("text", ["", "x", "5 parsecs", "-3s", "1..2s", "five"])
def test_nonsense_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="such as"):
        parse_duration_ns(text)
    with pytest.raises(ValueError, match="such as"):
        parse_size(text + "!")


@given(st.integers(0, 2**62))
def test_whole_nanoseconds_keep_every_digit(n):
    assert parse_duration_ns(f"{n}ns") == n


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [(None, "bytes", "–"), (float("nan"), "", "–"), (0, "bytes", "0 B"), (1984 * 2**20, "bytes_per_s", "1.94 GiB/s"),
     (0.98, "ratio", "98%"), (0.565, "ratio", "56%"), (0.0274, "ratio", "2.7%"), (0.000107, "ratio", "0.011%"),
     (0.9996, "ratio", ">99%"), (1.0, "ratio", "100%"), (99.9, "percent", ">99%"),
     (0.00034, "seconds", "340 µs"), (728, "seconds", "12.1 min"),
     (1234567, "count", "1,234,567"),
     (float("inf"), "seconds", "∞"), (0.69, "mib_per_s_per_node", "0.69 MiB/s/CN"), (True, "", "yes"),
     (-5.0, "bytes", "-5 B"), (0, "time_ns", "1970-01-01 00:00:00Z"), (4.2, "factor", "4.20x"), (1e-9, "", "1e-09"),
     ("text", "", "text")],
)  # fmt: skip
def test_what_people_read(value, unit, shown):
    assert format_value(value, unit) == shown


@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(sorted(UNITS - {"time_ns", "date"})))
def test_every_float_has_a_form(value, unit):
    assert format_value(value, unit)


def test_digits_of_ids_are_not_grouped():
    assert format_value(100062, unit_of_name("raw_job_id")) == "100062"
    assert format_value(100062, unit_of_name("count")) == "100,062"
