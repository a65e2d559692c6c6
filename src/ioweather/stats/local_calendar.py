"""Local clock of a facility for arrays of UTC times: days, hours, weekdays, with the change of clocks."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Ints
from ioweather.core.clock import zone_named
from ioweather.core.facility import Facility
from ioweather.core.units import DAY_NS, HOUR_NS, NS, ns_to_datetime


@dataclass(frozen=True, eq=False)
class LocalClock:
    """Each moment as a local day (days since 1970-01-01), hour 0-23 and weekday (0 = Monday)."""

    day: Ints
    hour: Ints
    weekday: Ints


def local_clock(times_ns: NDArray[Any], zone: dt.tzinfo) -> LocalClock:
    local = np.asarray(times_ns, np.int64) + offsets_ns(times_ns, zone)
    day = local // DAY_NS
    # 1970-01-01 was a Thursday.
    return LocalClock(day, (local - day * DAY_NS) // HOUR_NS, (day + 3) % 7)


def facility_zone(facility: Facility) -> tuple[dt.tzinfo, str]:
    """The facility's zone and its name; UTC where facility.toml sets none."""
    return (zone_named(facility.zone), facility.zone) if facility.zone else (dt.UTC, "UTC")


def offsets_ns(times_ns: NDArray[Any], zone: dt.tzinfo) -> Ints:
    """Local minus UTC for every moment. The zone is asked once a day, and more only on days when clocks change."""
    times = np.asarray(times_ns, np.int64)
    if not times.size:
        return np.zeros(0, np.int64)
    edges = _changes(int(times.min()), int(times.max()) + 1, zone)
    starts = np.array([moment for moment, _ in edges], np.int64)
    values = np.array([offset for _, offset in edges], np.int64)
    return np.asarray(values[np.searchsorted(starts, times, side="right") - 1], np.int64)


def _changes(first: int, last: int, zone: dt.tzinfo) -> list[tuple[int, int]]:
    """(moment, offset from then on), the first at `first`, found to the second."""
    found = [(first, _offset(first, zone))]
    before = first
    while before < last:
        after = min(before + DAY_NS, last)
        if _offset(after, zone) != found[-1][1]:
            low, high = before, after
            while high - low > NS:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(middle, zone) == found[-1][1] else (low, middle)
            # Clocks change on whole seconds.
            moment = high // NS * NS
            found.append((moment, _offset(after, zone)))
        before = after
    return found


def _offset(moment_ns: int, zone: dt.tzinfo) -> int:
    offset = ns_to_datetime(moment_ns, zone).utcoffset()
    return 0 if offset is None else (offset.days * 86_400 + offset.seconds) * NS


def day_name(day: int) -> str:
    """ISO date of a local day number."""
    return (dt.date(1970, 1, 1) + dt.timedelta(days=day)).isoformat()
