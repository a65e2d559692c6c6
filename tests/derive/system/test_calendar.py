"""The local clock against Python's own, minute by minute across both changes of clocks."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from ioweather.core.clock import datetime_to_ns
from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.units import MINUTE_NS, ns_to_datetime
from ioweather.stats.local_calendar import day_name, facility_zone, local_clock, offsets_ns


@pytest.mark.parametrize("name", ["America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"])
def test_every_minute_of_a_year_in_steps_equals_zoneinfo(name: str) -> None:
    zone = ZoneInfo(name)
    start = datetime_to_ns(dt.datetime(2018, 1, 1, 7, 13, tzinfo=dt.UTC))
    times = start + np.arange(0, 525_600, 37) * MINUTE_NS
    clock = local_clock(times, zone)
    for i in range(0, len(times), 11):
        local = ns_to_datetime(int(times[i]), zone)
        assert (day_name(int(clock.day[i])), int(clock.hour[i]), int(clock.weekday[i])) == (
            local.date().isoformat(), local.hour, local.weekday(),
        )  # fmt: skip


def test_the_minutes_around_a_change_of_clocks() -> None:
    zone = ZoneInfo("America/Los_Angeles")
    change = datetime_to_ns(dt.datetime(2018, 11, 4, 9, 0, tzinfo=dt.UTC))
    offsets = offsets_ns(change + np.arange(-3, 3) * MINUTE_NS, zone) // (60 * MINUTE_NS)
    assert offsets.tolist() == [-7, -7, -7, -8, -8, -8]


def test_no_times_and_no_zone() -> None:
    assert len(offsets_ns(np.array([], np.int64), dt.UTC)) == 0
    assert facility_zone(Facility()) == (dt.UTC, "UTC")
    assert facility_zone(Facility(zone="Europe/Berlin"))[1] == "Europe/Berlin"
    with pytest.raises(UsageError, match="not a time zone"):
        facility_zone(Facility(zone="Mars/Olympus"))
