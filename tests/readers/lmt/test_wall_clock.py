"""Wall-clock times to UTC, many at once, against zoneinfo one by one."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from ioweather.core.clock import datetime_to_ns
from ioweather.core.errors import UndatedInput
from ioweather.readers.lmt_database import local_seconds_to_ns

EPOCH = dt.datetime(1970, 1, 1)


def wall(moment: dt.datetime) -> int:
    return int((moment.replace(tzinfo=None) - EPOCH).total_seconds())


@pytest.mark.parametrize("name", ["America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"])
def test_a_year_of_samples_through_every_change(name: str):
    zone = ZoneInfo(name)
    start = dt.datetime(2018, 1, 1, tzinfo=dt.UTC)
    moments = [start + dt.timedelta(minutes=7 * i) for i in range(365 * 24 * 60 // 7)]
    local = np.array([wall(moment.astimezone(zone)) for moment in moments])
    assert local_seconds_to_ns(local, zone).tolist() == [datetime_to_ns(moment) for moment in moments]


def test_a_time_that_does_not_exist_or_cannot_be_told_is_refused():
    zone = ZoneInfo("America/Los_Angeles")
    with pytest.raises(UndatedInput, match="does not exist"):
        local_seconds_to_ns(np.array([wall(dt.datetime(2018, 3, 11, 2, 30))]), zone)
    with pytest.raises(UndatedInput, match="twice"):
        local_seconds_to_ns(np.array([wall(dt.datetime(2018, 11, 4, 1, 30))]), zone)
