"""What the jobs that are known will move: each as jobs of its program did after moments alike.

Moments of a job are alike in which it was in the same state for as long: waiting, started and without a burst yet, in a
burst, or in a pause since one. Programs that save their state at regular times so show their period; runs that end, and
jobs that wait, are counted in. What is expected is the mean of what followed moments alike: of the job itself, drawn to
that of its program, this to that of the program in any such state, and this to that of all programs. Only what was
known by then counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints

WAITING, STARTED, BURST, PAUSE = range(4)
# [ours] How many moments alike the wider group counts for; how many windows are told apart one by one, before longer
# times are taken together; and how many bursts make a period.
_SHRINK: Final = 2.0
_EACH: Final = 60
_MOST: Final = 120
_LEAST_BURSTS: Final = 4


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


def states(work: Work) -> tuple[Ints, Ints]:
    """Of every window of a job: its state, and for how many windows it has lasted. A burst is what lies above the mean
    of the job so far."""
    place = np.arange(len(work.amount))
    new = np.diff(work.job, prepend=-1) != 0
    begins = np.maximum.accumulate(np.where(new, place, 0))

    def so_far(values: Floats | Bools) -> Floats:
        total = np.cumsum(values, dtype=np.float64)
        return np.asarray(total - (total - values)[begins])

    ran = so_far(~work.waits)
    high = work.live & (work.amount > 0) & ((work.amount > so_far(work.amount) / np.maximum(ran, 1)) | (ran <= 1))
    before = np.where(work.waits, WAITING, np.where(so_far(high) > 0, PAUSE, STARTED))
    state = np.where(high, BURST, before)
    since = np.maximum.accumulate(np.where(new | (np.diff(state, prepend=-1) != 0), place, 0))
    return state, place - since


@dataclass(frozen=True, eq=False)
class Expected:
    """(horizons, windows) of all jobs that were known; (horizons, jobs) of those known in the last window."""

    amount: Floats
    of_job: Floats


def expected(work: Work, windows: int, horizons: tuple[int, ...], *, mean: bool, every: int = 1) -> Expected:
    """What jobs known at the end of a window move in the one `h` later; with `mean`, on average in the next `h`. Of
    `windows` of the work, `every` so many are one of those."""
    state, lasted = states(work)
    rows = np.flatnonzero(work.present & (work.window < windows))
    now, job, state, lasted = work.window[rows], work.job[rows], state[rows], lasted[rows]
    program = work.program[job]
    longer = np.rint(4 * np.log2(np.maximum(lasted / _EACH, 1))).astype(np.int64)
    alike = state * (_MOST + 1) + np.minimum(np.minimum(lasted, _EACH) + longer, _MOST)
    kinds = 4 * (_MOST + 1)
    teaches = now if work.live else np.where(work.ends[job] < windows, work.ends[job], windows)
    keys = (state, program * 4 + state, program * kinds + alike, job * kinds + alike)
    groups = [_Past(key, now, teaches, windows) for key in keys]
    total = np.concatenate([[0.0], np.cumsum(work.amount)])
    amount, of_job = np.zeros((len(horizons), windows // every)), np.zeros((len(horizons), len(work.program)))
    for place, horizon in enumerate(every * h for h in horizons):
        width = horizon if mean else every
        came = (total[rows + horizon + 1] - total[rows + horizon - width + 1]) / width
        guess = np.zeros(len(rows))
        for group in groups:
            guess = group.drawn(came, horizon if work.live else 0, guess)
        amount[place] = np.bincount(now, guess, minlength=windows)[every - 1 :: every]
        of_job[place, job[now == windows - 1]] = guess[now == windows - 1]
    return Expected(amount, of_job)


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


def periods(work: Work) -> Floats:
    """Of each program the median of the windows from one burst of a run to its next; NaN where bursts are few or come
    at any time: where half of the distances differ from it by more than a quarter."""
    state, lasted = states(work)
    begun = np.flatnonzero((state == BURST) & (lasted == 0))
    same = np.diff(work.job[begun]) == 0
    apart, program = np.diff(work.window[begun])[same], work.program[work.job[begun]][1:][same]
    found = np.full(int(work.program.max(initial=-1)) + 1, np.nan)
    for each in np.unique(program):
        distances = apart[program == each]
        middle = float(np.median(distances))
        if len(distances) >= _LEAST_BURSTS and np.median(np.abs(distances - middle)) <= middle / 4:
            found[each] = middle
    return found
