"""Steps on a regular grid, the local clock against Python's own, and undeclared shutdowns."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from ioweather.core.facility import Facility, _FileSystem
from ioweather.core.frames import Frame, Text
from ioweather.core.units import MINUTE_NS, datetime_to_ns, ns_to_datetime
from ioweather.facts.system_grid import (
    day_name,
    gaps,
    local_clock,
    shutdown_steps,
    steps_of,
    without_impossible,
)

STEP = 60 * 10**9


def rollup(rows: list[tuple[int, str, float, float]]) -> Frame:
    names = ("read_bytes", "write_bytes")
    return Frame(
        {
            "start_ns": np.array([r[0] for r in rows], np.int64) * STEP,
            "metric": Text(np.array([names.index(r[1]) for r in rows], np.int32), names),
            "value": np.array([r[2] for r in rows], float),
            "coverage": np.array([r[3] for r in rows], float),
        }
    )


def test_steps_are_used_only_where_all_is_there() -> None:
    frame = rollup(
        [
            (10, "read_bytes", 1, 1.0), (10, "write_bytes", 2, 1.0),
            (11, "read_bytes", 1, 0.9), (11, "write_bytes", 2, 0.95),
            (12, "read_bytes", 1, 0.5), (12, "write_bytes", 2, 1.0),
            (14, "read_bytes", 1, 1.0),
            (15, "read_bytes", 7, 1.0), (15, "write_bytes", 8, 1.0),
        ]
    )  # fmt: skip
    steps = steps_of(frame, ("read_bytes", "write_bytes"), STEP, (0, 0))
    assert steps.count == 6
    assert steps.usable.tolist() == [True, True, False, False, False, True]
    assert dict(steps.excluded) == {"not recorded": 1, "less than 90% recorded": 1, "one direction missing": 1}
    assert gaps(steps.usable) == [(2, 5)]
    coverage = steps.coverage()
    assert (coverage.expected, coverage.present) == (6, 3)


def test_the_period_asked_for_counts_as_expected() -> None:
    frame = rollup([(10, "read_bytes", 1, 1.0), (11, "read_bytes", 1, 1.0)])
    wide = steps_of(frame, ("read_bytes",), STEP, (5 * STEP, 20 * STEP))
    assert (wide.start_ns, wide.count, int(wide.usable.sum())) == (5 * STEP, 15, 2)
    everything = steps_of(frame, ("read_bytes",), STEP, (0, 2**62))
    assert everything.count == 2
    daily = steps_of(frame, ("read_bytes",), 60 * STEP, (0, 2**62))
    assert daily.count == 1
    left = steps_of(frame, ("read_bytes",), STEP, (5 * STEP, 2**62))
    assert (left.start_ns, left.count) == (5 * STEP, 7)


def test_steps_above_the_peak_of_the_file_system_are_not_real() -> None:
    values = [(i, metric, 60.0, 1.0) for i in range(4) for metric in ("read_bytes", "write_bytes")]
    values[3] = (1, "write_bytes", 660.0, 1.0)
    recorded = steps_of(rollup(values), ("read_bytes", "write_bytes"), STEP, (0, 0))
    scratch = _FileSystem("scratch", peak_bytes_per_s=10.0)
    steps = without_impossible(recorded, Facility(filesystems=(scratch,)), "scratch")
    assert steps.usable.tolist() == [True, False, True, True]
    assert dict(steps.excluded) == {"above the system peak": 1}
    assert without_impossible(recorded, Facility(), "scratch").usable.all(), "nobody said what the peak is"


@pytest.mark.parametrize("name", ["America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"])
def test_every_minute_of_a_year_in_steps_equals_zoneinfo(name: str) -> None:
    zone = ZoneInfo(name)
    start = datetime_to_ns(dt.datetime(2018, 1, 1, 7, 13, tzinfo=dt.UTC))
    times = start + np.arange(0, 525_600, 37) * MINUTE_NS
    days, hours, weekdays = local_clock(times, zone)
    for i in range(0, len(times), 11):
        local = ns_to_datetime(int(times[i]), zone)
        assert (day_name(int(days[i])), int(hours[i]), int(weekdays[i])) == (
            local.date().isoformat(), local.hour, local.weekday(),
        )  # fmt: skip


def test_a_shutdown_is_long_silence():
    quiet = np.zeros(40, np.bool_)
    quiet[5:20] = True
    quiet[30:36] = True  # too short
    assert np.flatnonzero(shutdown_steps(quiet, 60.0)).tolist() == list(range(5, 20))
    assert np.flatnonzero(shutdown_steps(quiet, 60.0, at_least_seconds=360)).tolist() == [*range(5, 20), *range(30, 36)]
