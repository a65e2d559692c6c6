"""Keeping `response_rollups` up to date: the hours that new responses touch are reduced again, and no others."""

from __future__ import annotations

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.units import HOUR_NS
from ioweather.derive.response_rollups import RESPONSE_COLUMNS, all_intervals
from ioweather.store.lake import Lake

SOURCE = "rollup"


def refresh_rollups(lake: Lake, added: Frame) -> int:
    """Reduce the hours of these responses from all that the lake now holds of them; returns rows that changed.

    A changed row is a revision, so that running this twice, or by two writers, ends in the same view.
    """
    hours = np.unique(np.asarray(added.array("start_ns"), np.int64) // HOUR_NS)
    if not len(hours):
        return 0
    changed = 0
    with lake.snapshot() as snapshot:
        # Stretches of consecutive hours, so that a year that comes at once is not held in memory at once.
        for stretch in np.split(hours, np.flatnonzero(np.diff(hours) > 1) + 1):
            for first in range(0, len(stretch), 24):
                part = stretch[first : first + 24]
                period = (int(part[0]) * HOUR_NS, (int(part[-1]) + 1) * HOUR_NS)
                responses = snapshot.frame("responses", RESPONSE_COLUMNS, period_ns=period)
                changed += lake.append("response_rollups", all_intervals(responses), source=SOURCE)
    return changed
