"""What the jobs that are known will move: each the mean of what its program moved before.

A waiting job and a running job are expected to move what followed such moments: the mean of the job itself, drawn
towards that of its program, and this towards that of all programs. Only what was known by then counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints

# [ours] How many moments the wider group counts for.
_SHRINK: Final = 2.0


@dataclass(frozen=True, eq=False)
class Jobs:
    """Jobs by number: when each was submitted, began and ended, in windows from the first on (infinite where it has
    not; NaN submitted where only its traffic shows it), and its program."""

    submitted: Floats
    began: Floats
    ended: Floats
    program: Ints


@dataclass(frozen=True, eq=False)
class Work:
    """Jobs one after another, window by window (N,): `amount` moved, `window` it is, `job` (counted from 0). `present`:
    known to wait or run when the window ends; `waits`: it has not begun by then. After its end each job has as many
    windows more as the longest horizon. `program` and last window, `ends`, of each job. `live`: amounts are known at
    once, by what the servers count; otherwise when the job has ended, by its log."""

    amount: Floats
    window: Ints
    job: Ints
    present: Bools
    waits: Bools
    program: Ints
    ends: Ints
    live: bool


def laid_out(jobs: Jobs, moved: tuple[Ints, Ints, Floats], windows: int, ahead: int, *, live: bool) -> Work:
    """`moved` are jobs, windows and amounts. A job that only its traffic shows is there until it moved nothing for
    `ahead` windows."""
    inside = (moved[1] >= 0) & (moved[1] < windows)
    job, window, amount = moved[0][inside], moved[1][inside], moved[2][inside]
    count = len(jobs.program)
    first, last = np.full(count, windows), np.full(count, -1)
    np.minimum.at(first, job, window)
    np.maximum.at(last, job, window)
    shown = np.isnan(jobs.submitted)
    first = np.where(shown, first, np.clip(np.nan_to_num(jobs.submitted), 0, windows)).astype(np.int64)
    last = np.where(shown, last + ahead, np.clip(jobs.ended, -1, windows - 1)).astype(np.int64)
    length = np.where(last >= first, last - first + 1 + ahead, 0)
    begins = np.cumsum(length) - length
    row_job = np.repeat(np.arange(count), length)
    at = np.arange(len(row_job)) - begins[row_job] + first[row_job]
    inside = (window >= first[job]) & (window < first[job] + length[job])
    place = (begins[job] + window - first[job])[inside]
    total = np.bincount(place, amount[inside], minlength=len(at)).astype(np.float64)
    end = at + 1
    recent = np.maximum.accumulate(np.where(total > 0, np.arange(len(at)), -ahead))
    lately = np.arange(len(at)) - np.maximum(recent, begins[row_job]) < ahead
    there = (end >= jobs.submitted[row_job]) & (end <= jobs.ended[row_job])
    waits = end < np.where(shown, -np.inf, jobs.began)[row_job]
    return Work(total, at, row_job, np.where(shown[row_job], lately, there), waits, jobs.program, last, live)


def expected_load(work: Work, windows: int, horizons: tuple[int, ...], *, every: int = 1) -> Floats:
    """(horizons, windows // every): what jobs known at the end of a window move in the one `h` later. `every` so many
    windows of the work are one of those."""
    rows = np.flatnonzero(work.present & (work.window < windows))
    now, job, waits = work.window[rows], work.job[rows], work.waits[rows].astype(np.int64)
    teaches = now if work.live else np.where(work.ends[job] < windows, work.ends[job], windows)
    keys = (waits, work.program[job] * 2 + waits, job * 2 + waits)
    groups = [_Past(key, now, teaches, windows) for key in keys]
    total = np.concatenate([[0.0], np.cumsum(work.amount)])
    amount = np.zeros((len(horizons), windows // every))
    for place, horizon in enumerate(every * h for h in horizons):
        came = (total[rows + horizon + 1] - total[rows + horizon - every + 1]) / every
        mean = np.zeros(len(rows))
        for group in groups:
            mean = group.drawn(came, horizon if work.live else 0, mean)
        amount[place] = np.bincount(now, mean, minlength=windows)[every - 1 :: every]
    return amount


class _Past:
    """Moments by key and by when they teach, so that those which had taught by any moment lie in one piece."""

    def __init__(self, key: Ints, now: Ints, teaches: Ints, windows: int) -> None:
        first = key * (windows + 1)
        self._order = np.lexsort((teaches, key))
        self._sorted = (first + teaches)[self._order]
        self._now, self._first = first + now, np.searchsorted(self._sorted, first)

    def drawn(self, came: Floats, horizon: int, wider: Floats) -> Floats:
        """Mean of what came by now, drawn towards what the wider group says."""
        # Before the first window there are none: the number would be of the key before.
        last = np.maximum(np.searchsorted(self._sorted, self._now - horizon, side="right"), self._first)
        total = np.concatenate([[0.0], np.cumsum(came[self._order])])
        return np.asarray((total[last] - total[self._first] + _SHRINK * wider) / (last - self._first + _SHRINK))
