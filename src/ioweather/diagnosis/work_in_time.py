"""What jobs did while a run did I/O, piece by piece of that time.

A run that waits now for one target and then for another waits for the one that is busiest at each moment: what a job
cost it is added up over pieces of time, and is not the work on the target that was busiest over all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.diagnosis.shared_work import JobLoads

# Time is cut where a job begins or ends something; into more pieces than these it is not. [ours]
MOST_PIECES: Final = 64


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of time, in order: those of one number of `group` count as one."""

    first_ns: Ints
    last_ns: Ints
    group: Ints

    @property
    def seconds(self) -> Floats:
        """Of each group."""
        return np.bincount(self.group, weights=(self.last_ns - self.first_ns) / 1e9).astype(np.float64)


def pieces_of(windows: tuple[Ints, Ints], loads: JobLoads, near: Ints) -> Pieces:
    """The windows [first, last), of which none overlap, cut where one of the stretches begins or ends."""
    order = np.argsort(windows[0], kind="stable")
    first, last = windows[0][order], windows[1][order]
    edges = np.unique(np.concatenate([loads.first_ns[near], loads.last_ns[near]]))
    inside = np.searchsorted(first, edges, side="right") - 1
    edges = edges[(inside >= 0) & (edges > first[inside]) & (edges < last[inside])]
    room = MOST_PIECES - len(first)
    if len(edges) > room:
        edges = edges[np.unique(np.linspace(0, len(edges) - 1, max(room, 0)).astype(np.int64))]
    begin, end = np.sort(np.concatenate([first, edges])), np.sort(np.concatenate([edges, last]))
    return Pieces(begin, end, np.arange(len(begin)) * min(len(begin), MOST_PIECES) // max(len(begin), 1))


@dataclass(frozen=True, eq=False)
class During:
    """What of the loads fell into pieces of time: `near` are the stretches that did, `share` (stretch, group of pieces)
    which part of each."""

    loads: JobLoads
    near: Ints
    share: Floats

    @cached_property
    def jobs(self) -> Ints:
        """Numbers of the jobs, ascending; rows of the sums."""
        return np.unique(self.loads.job[self.near]).astype(np.int64)

    @cached_property
    def _entries(self) -> tuple[Ints, Ints, Ints]:
        """Entries of the stretches; which of `near`, and which of `jobs` each is of."""
        entries = self.loads.entries_of(self.near)
        of = np.searchsorted(self.near, self.loads.stretch[entries]).astype(np.int64)
        job = np.searchsorted(self.jobs, self.loads.job[self.near][of]).astype(np.int64)
        return entries, of, job

    def sums(self, values: Floats, width: int) -> Floats:
        """(job, target) sums of a value of entries."""
        entries, of, job = self._entries
        weights = values[entries] * self.share.sum(axis=1)[of]
        place = job * width + self.loads.target[entries]
        found = np.bincount(place, weights=weights, minlength=len(self.jobs) * width)
        return np.asarray(found.reshape(-1, width), np.float64)

    def in_time(self, values: Floats, columns: Ints, width: int) -> Floats:
        """(group of pieces, job, column) sums of a value of entries, on some targets."""
        entries, of, job = self._entries
        column = np.full(width, -1, np.int64)
        column[columns] = np.arange(len(columns))
        at = column[self.loads.target[entries]]
        there = np.flatnonzero(at >= 0)
        place, size = job[there] * len(columns) + at[there], len(self.jobs) * len(columns)
        amounts, shares = values[entries[there]], self.share[of[there]]
        found = [np.bincount(place, weights=amounts * part, minlength=size) for part in shares.T]
        return np.reshape(found, (self.share.shape[1], len(self.jobs), len(columns)))


def near_windows(loads: JobLoads, windows: tuple[Ints, Ints]) -> Ints:
    """Stretches that reach into the time from the first window to the last."""
    first, last = windows
    return np.flatnonzero((loads.first_ns < last.max(initial=0)) & (loads.last_ns >= first.min(initial=2**62)))


def united(windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Windows that touch or overlap are one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(windows):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def during(loads: JobLoads, near: Ints, pieces: Pieces) -> During:
    begin = loads.first_ns[near]
    end = np.maximum(loads.last_ns[near], begin + 1)
    groups = int(pieces.group.max(initial=-1)) + 1
    share = np.zeros((len(near), groups))
    for low, high, group in zip(pieces.first_ns.tolist(), pieces.last_ns.tolist(), pieces.group.tolist(), strict=True):
        share[:, group] += np.maximum(np.minimum(end, high) - np.maximum(begin, low), 0) / (end - begin)
    inside = share.any(axis=1)
    return During(loads, near[inside], share[inside])


# A target that others share may do so many times less than it ever did before the work on it no longer explains that a
# run waits: half-broken disks do a fifth. [ours]
MOST_TIMES_LESS: Final = 5.0


@dataclass(frozen=True, eq=False)
class Waiting:
    """What a run waits for, in pieces of time: `own` work and `rest`, which nobody's record explains, are (piece,
    target), `others` (piece, job, target), `used` the targets that it waits for in each piece, of `seconds`."""

    own: Floats
    others: Floats
    rest: Floats
    seconds: Floats
    used: Bools

    @cached_property
    def _total(self) -> Floats:
        return np.asarray(self.own + self.rest + self.others.sum(axis=1))

    def _scale(self, most: float) -> Floats:
        """By piece: a target does a second of work in a second. Where the busiest seems to do more, targets can do more
        than was ever seen of them; where it seems to do less, they could do up to `most` times less."""
        busiest = self._longest(self._total)
        full = np.divide(self.seconds, busiest, out=np.ones(len(busiest)), where=busiest > 0)
        return np.asarray(np.minimum(most, full))

    def _longest(self, work: Floats) -> Floats:
        """(piece, ...) seconds on the busiest target."""
        used = self.used.reshape(len(self.used), *(1,) * (work.ndim - 2), -1)
        return np.asarray(np.where(used, work, 0.0).max(axis=-1, initial=0.0))

    @property
    def met_seconds(self) -> float:
        """What others' work adds to its own on the busiest target."""
        return float((self._longest(self._total) - self._longest(self.own)).sum())

    def without_each(self) -> Floats:
        """Seconds that it would wait less without each of the others and, last, without the rest."""
        parts = np.concatenate([self.others, self.rest[:, None, :]], axis=1)
        without = self._longest(self._total[:, None, :] - parts)
        return np.asarray(((self._longest(self._total)[:, None] - without) * self._scale(1.0)[:, None]).sum(axis=0))

    def longer_with(self, kept: Floats, more: Floats, *, all_waiting: bool) -> float:
        """Seconds that it would wait longer with `more` work (piece, target), and of each of the others a `kept` share.
        `all_waiting`: it is known to have waited for its busiest target all the time, however little that did."""
        changed = self._total + more - (self.others * (1.0 - kept)[:, None]).sum(axis=1)
        scale = self._scale(MOST_TIMES_LESS if all_waiting else 1.0)
        return float(((self._longest(changed) - self._longest(self._total)) * scale).sum())


def io_in_time(own: Floats, beside: Floats, seconds: Floats, io_seconds: float, usual_seconds: float) -> Floats:
    """Seconds of I/O of a run in each piece of its time, which is `seconds` long: the usual ones as its own work is
    (piece), the rest where it met others' work (`beside`, seconds in each piece)."""
    whole = float(seconds.sum())
    io_seconds = min(io_seconds, whole)
    own_share = own / own.sum() if own.sum() > 0 else seconds / whole
    met = own_share * np.divide(beside, seconds, out=np.zeros(len(seconds)), where=seconds > 0)
    lost = max(0.0, io_seconds - usual_seconds)
    met_share = met / met.sum() if met.sum() > 0 else own_share
    found = np.minimum((io_seconds - lost) * own_share + lost * met_share, seconds)
    room = seconds - found
    left = io_seconds - float(found.sum())
    return np.asarray(found + room * min(1.0, left / room.sum()) if room.sum() > 0 else found)
