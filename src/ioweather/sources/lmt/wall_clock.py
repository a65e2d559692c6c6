"""Many wall-clock times at once: a database of local times to UTC, through the days when clocks change."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np

from ioweather.core.arrays import Ints
from ioweather.core.clock import local_to_ns
from ioweather.core.units import NS, ns_to_datetime

_EPOCH = dt.datetime(1970, 1, 1)
# Zones change their offset on the half hour or the hour.
_BLOCK_SECONDS = 1800


def local_seconds_to_ns(local_seconds: Ints, zone: ZoneInfo) -> Ints:
    """UTC ns of wall-clock times (seconds since 1970-01-01 00:00 on that wall), in the order they were recorded.

    One look at the zone per half hour; only times that happen twice are placed one by one, after the one before.
    """
    blocks, member = np.unique(local_seconds // _BLOCK_SECONDS, return_inverse=True)
    offsets = np.empty((len(blocks), 2), np.int64)
    for row, block in enumerate(blocks.tolist()):
        naive = _EPOCH + dt.timedelta(seconds=block * _BLOCK_SECONDS)
        for fold in (0, 1):
            offset = naive.replace(tzinfo=zone, fold=fold).utcoffset()
            assert offset is not None
            offsets[row, fold] = offset // dt.timedelta(seconds=1)
    early, late = offsets[member, 0], offsets[member, 1]
    result: Ints = (local_seconds - early) * NS
    for position in np.nonzero(early != late)[0].tolist():
        naive = _EPOCH + dt.timedelta(seconds=int(local_seconds[position]))
        before = int(result[position - 1]) if position else None
        result[position] = local_to_ns(naive, zone, after_ns=before)
    return result


def offset_seconds(value_ns: int, zone: ZoneInfo) -> int:
    """How far the zone was ahead of UTC."""
    offset = ns_to_datetime(value_ns, zone).utcoffset()
    assert offset is not None
    return offset // dt.timedelta(seconds=1)


def ns_to_local_text(value_ns: int, zone: ZoneInfo) -> str:
    """What the wall clock showed, as the database writes it."""
    return ns_to_datetime(value_ns, zone).strftime("%Y-%m-%d %H:%M:%S")
