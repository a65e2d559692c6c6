"""Keeping `response_rollups` up to date: the hours that new responses touch are reduced again, and no others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Frame
from ioweather.core.units import HOUR_NS
from ioweather.derive.responses.rollups import RESPONSE_COLUMNS, all_intervals
from ioweather.store.lake import Lake

SOURCE = "rollup"


def refresh_rollups(lake: Lake, added: Frame) -> int:
    """Reduce the hours of these responses from all that the lake now holds of them; returns rows that changed.

    A changed row is a revision, so that running this twice, or by two writers, ends in the same view.
    """
    hours = _touched(added)
    if not len(hours):
        return 0
    changed = 0
    with lake.snapshot() as snapshot:
        # Stretches of consecutive hours, so that a year that comes at once is not held in memory at once.
        for stretch in np.split(hours, np.flatnonzero(np.diff(hours) > 1) + 1):
            for first in range(0, len(stretch), 24):
                part = stretch[first : first + 24]
                low, high = int(part[0]) * HOUR_NS, (int(part[-1]) + 1) * HOUR_NS
                # An hour on either side: what a missed tick waited for may have begun before, or end after.
                beside = (low - HOUR_NS, high + HOUR_NS)
                rolled = all_intervals(snapshot.frame("responses", RESPONSE_COLUMNS, period_ns=beside))
                start = np.asarray(rolled.array("start_ns"))
                mine = rolled.take((start >= low) & (start < high))
                changed += lake.append("response_rollups", mine, source=SOURCE)
    return changed


def _touched(added: Frame) -> NDArray[np.int64]:
    """Hours in which these operations began or went on, and the one before: its last ticks may have waited for them."""
    start = np.asarray(added.array("start_ns"), np.int64)
    duration = np.asarray(np.ma.filled(np.ma.masked_array(added.array("duration_ns")), 0), np.int64)
    first, last = start // HOUR_NS - 1, (start + duration) // HOUR_NS
    long = last - first > 1
    spans = set(zip(first[long].tolist(), last[long].tolist(), strict=True))
    return np.unique(np.concatenate([first, last, *(np.arange(low, high) for low, high in spans)]))
