"""Zones, doubled and missing hours, exact nanoseconds."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_kinds import source_error
from ioweather.core.units import (
    DAY_NS,
    HOUR_NS,
    NS,
    datetime_to_ns,
    day_start_ns,
    format_time_ns,
    local_to_ns,
    now_ns,
    ns_to_datetime,
    parse_moment_ns,
    parse_time_ns,
    utc_day,
    zone_named,
)

BERLIN = zone_named("Europe/Berlin")


def test_iso_with_offset_needs_no_zone():
    assert parse_time_ns("2026-11-15T06:32:16+0000") == 1794724336 * NS
    assert parse_time_ns("2026-11-15T07:32:16+01:00") == 1794724336 * NS
    assert parse_time_ns("2026-11-15 06:32:16 UTC") == 1794724336 * NS
    assert parse_time_ns("2026-11-15T06:32:16.123456789Z") == 1794724336 * NS + 123456789


def test_local_time_without_zone_is_refused():
    with source_error("UndatedInput", match="--zone"):
        parse_time_ns("2026-11-15T06:32:16")
    assert parse_time_ns("2026-07-01", BERLIN) == parse_time_ns("2026-06-30T22:00:00Z")


def test_an_hour_that_does_not_exist_is_refused():
    with source_error("UndatedInput", match="does not exist"):
        local_to_ns(dt.datetime(2026, 3, 29, 2, 30), BERLIN)


def test_the_doubled_hour_follows_the_order_of_samples():
    doubled = dt.datetime(2026, 10, 25, 2, 30)
    first = parse_time_ns("2026-10-25T00:30:00Z")
    second = first + HOUR_NS
    with source_error("UndatedInput", match="twice"):
        local_to_ns(doubled, BERLIN)
    assert local_to_ns(doubled, BERLIN, after_ns=first - 60 * NS) == first
    assert local_to_ns(doubled, BERLIN, after_ns=first + 60 * NS) == second
    with source_error("UndatedInput"):
        local_to_ns(doubled, BERLIN, after_ns=second + 1)


def test_a_day_of_local_minutes_is_monotonic_over_the_doubled_hour():
    moment, previous, seen = dt.datetime(2026, 10, 25, 0, 0), None, []
    walls = [moment + dt.timedelta(minutes=n) for n in range(180)]
    walls += [dt.datetime(2026, 10, 25, 2, 0) + dt.timedelta(minutes=n) for n in range(120)]
    for wall in walls:
        previous = local_to_ns(wall, BERLIN, after_ns=previous)
        seen.append(previous)
    assert {b - a for a, b in itertools.pairwise(seen)} == {60 * NS}


@given(st.integers(0, 4_000_000_000 * NS))
def test_days_and_datetimes_are_exact_to_the_microsecond(value):
    assert day_start_ns(utc_day(value)) <= value < day_start_ns(utc_day(value)) + 24 * HOUR_NS
    assert datetime_to_ns(ns_to_datetime(value)) == value // 1000 * 1000
    assert parse_time_ns(format_time_ns(value)) == value // NS * NS


def test_moments_as_people_say_them():
    berlin = BERLIN
    before = now_ns()
    assert before <= parse_moment_ns("now", berlin) <= now_ns()
    week = parse_moment_ns("7d", berlin)
    assert before - 7 * DAY_NS <= week <= now_ns() - 7 * DAY_NS
    assert abs(parse_moment_ns("90 min ago", berlin) - (now_ns() - 90 * 60 * NS)) < 60 * NS
    today, yesterday = parse_moment_ns("today", berlin), parse_moment_ns("Yesterday", berlin)
    assert ns_to_datetime(today, berlin).strftime("%H:%M:%S") == "00:00:00"
    assert yesterday < today <= now_ns()
    assert 23 * 3600 * NS <= today - yesterday <= 25 * 3600 * NS
    assert parse_moment_ns("2026-11-15", berlin) == parse_time_ns("2026-11-15", berlin)
    with pytest.raises(ValueError, match="yesterday"):
        parse_moment_ns("someday", berlin)
