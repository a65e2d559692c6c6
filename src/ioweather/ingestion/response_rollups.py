"""Keeping `response_rollups` up to date: the hours that new responses touch are reduced again, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES, concat
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.lake.database import fetch_frame
from ioweather.lake.lake import Lake
from ioweather.lake.snapshot import Snapshot
from ioweather.stats.rollups import RESPONSE_COLUMNS, all_intervals

SOURCE = "rollup"
# A commit costs more than a day of one probe: many days go into one.
_COMMIT_ROWS = 200_000
# A day with the hours beside it, and no other stretch that would share one of these.
_READ_HOURS = 28
# Of a longer operation only its first and last hours are reduced again.
_LONGEST_NS = 32 * DAY_NS


def refresh_rollups(lake: Lake, added: Frame) -> int:
    """Reduce the hours of these responses from all that the lake now holds of them; returns rows that changed.

    A changed row is a revision, so that running this twice, or by two writers, ends in the same view.
    """
    hours = _touched(added)
    if not len(hours):
        return 0
    changed = rows = 0
    pieces: list[Frame] = []
    with lake.snapshot() as snapshot:
        for periods in _read_together(hours):
            responses = _responses(snapshot, periods)
            begun = np.asarray(responses.array("start_ns"))
            for low, high in periods:
                near = (begun >= low - HOUR_NS) & (begun < high + HOUR_NS)
                rolled = all_intervals(responses.take(near))
                start = np.asarray(rolled.array("start_ns"))
                pieces.append(rolled.take((start >= low) & (start < high)))
                rows += pieces[-1].rows
            if rows >= _COMMIT_ROWS:
                changed += lake.append("response_rollups", concat(pieces), source=SOURCE)
                pieces, rows = [], 0
    if pieces:
        changed += lake.append("response_rollups", concat(pieces), source=SOURCE)
    return changed


def _read_together(hours: NDArray[np.int64]) -> Iterator[list[tuple[int, int]]]:
    """Periods of a day or less, in groups that one query reads: a year that comes at once is not held in memory at
    once, and single hours of many days are not a query each."""
    group: list[tuple[int, int]] = []
    held = 0
    for stretch in np.split(hours, np.flatnonzero(np.diff(hours) > 2) + 1):
        first, end = int(stretch[0]), int(stretch[-1]) + 1
        for low in range(first, end, 24):
            high = min(low + 24, end)
            if group and held + high - low + 2 > _READ_HOURS:
                yield group
                group, held = [], 0
            group.append((low * HOUR_NS, high * HOUR_NS))
            held += high - low + 2
    yield group


def _responses(snapshot: Snapshot, periods: Sequence[tuple[int, int]]) -> Frame:
    """With an hour on either side: what a missed tick waited for may have begun before, or end after."""
    names = ", ".join(RESPONSE_COLUMNS)
    parts = (snapshot.rows("responses", period_ns=(low - HOUR_NS, high + HOUR_NS)) for low, high in periods)
    sql = " UNION ALL ".join(f"SELECT {names} FROM ({part})" for part in parts)
    spec = TABLES["responses"]
    specs = tuple(spec.column(name) for name in RESPONSE_COLUMNS)
    return fetch_frame(snapshot.bare, sql, specs, keep="never")


def _touched(added: Frame) -> NDArray[np.int64]:
    """Hours in which these operations began or went on, and the one before: its last ticks may have waited for them."""
    start, duration = added.ints("start_ns"), added.ints("duration_ns")
    first, last = start // HOUR_NS - 1, (start + duration) // HOUR_NS
    long = (last - first > 1) & (duration <= _LONGEST_NS)
    spans = set(zip(first[long].tolist(), last[long].tolist(), strict=True))
    return np.unique(np.concatenate([first, last, *(np.arange(low, high) for low, high in spans)]))
