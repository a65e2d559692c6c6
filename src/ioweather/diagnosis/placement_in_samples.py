"""When jobs did what their logs say. A log tells how much was done between two moments; samples of the targets tell
when these were busy.

Each log's work is divided among the sampling intervals that it reaches into: evenly at first, then again and again in
proportion to what its targets did beside what all logs put there, until both agree. Of several targets the one that did
least counts most: a job that uses targets alike did not work while one of them rested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.diagnosis.shared_work import Capacity, JobLoads, joined_loads

_ROUNDS: Final = 20
_FILLING: Final = 3
# In an interval a log does its I/O at most so many times faster than over all of its I/O time. [ours]
_FASTEST: Final = 2.0
# What takes less of an interval than this is noise. [ours]
_LEAST_BUSY: Final = 0.02
# Work of targets in a second that is nobody's; shares are taken beside it. [ours]
_IDLE_WORK: Final = 1e-3
# Logs of which less was sampled stay as they are. [ours]
_LEAST_SAMPLED: Final = 0.8


@dataclass(frozen=True, eq=False)
class Samples:
    """Seconds of work of each target (column) in sampling intervals (rows, in order); NaN where it was not sampled."""

    start_ns: Ints
    end_ns: Ints
    work: Floats

    @property
    def length_ns(self) -> Ints:
        return np.asarray(self.end_ns - self.start_ns)

    @property
    def seconds(self) -> Floats:
        return np.asarray(self.length_ns / 1e9)

    def touching(self, first_ns: Ints, last_ns: Ints) -> Samples:
        """Those that reach into one of the times [first, last)."""
        order = np.argsort(last_ns)
        following = np.searchsorted(last_ns[order], self.start_ns, side="right")
        never = np.iinfo(np.int64).max
        begins = np.append(np.minimum.accumulate(first_ns[order][::-1])[::-1], never)
        rows = np.flatnonzero(begins[following] < self.end_ns)
        return Samples(self.start_ns[rows], self.end_ns[rows], self.work[rows])


def placed_in_samples(
    loads: JobLoads, near: Ints, samples: Samples, capacity: Capacity, io_seconds: Floats
) -> JobLoads:
    """The stretches `near`, cut at the samples as if servers had counted them; `io_seconds` are those of each job's
    I/O."""
    begin, end = loads.first_ns[near], np.maximum(loads.last_ns[near], loads.first_ns[near] + 1)
    samples = samples.touching(begin, end)
    overlap = np.minimum(end[:, None], samples.end_ns) - np.maximum(begin[:, None], samples.start_ns)
    overlap = np.maximum(overlap, 0) / 1e9
    sampled = overlap.sum(axis=1) >= _LEAST_SAMPLED * (end - begin) / 1e9
    left = loads.taken(near[~sampled])
    if not sampled.any():
        return left
    near, overlap = near[sampled], overlap[sampled]
    entries = loads.entries_of(near)
    of = np.searchsorted(near, loads.stretch[entries]).astype(np.int64)
    width = samples.work.shape[1]
    data = loads.target[entries] < width
    place, seconds = of[data] * width + loads.target[entries][data], capacity.work(loads, entries[data], of_bytes=True)
    work = np.bincount(place, weights=seconds, minlength=len(near) * width).astype(np.float64)
    spans = np.bincount(loads.job, weights=loads.seconds, minlength=len(io_seconds))[loads.job[near]]
    busy = np.minimum(io_seconds[loads.job[near]] * loads.seconds[near] / spans, overlap.sum(axis=1))
    share = _divided(work.reshape(-1, width), overlap, samples, busy)
    return joined_loads([_cut(loads, near, entries, of, share, samples), left])


def _divided(work: Floats, overlap: Floats, samples: Samples, busy: Floats) -> Floats:
    """(stretch, interval) shares of the work of each stretch, whose I/O takes `busy` seconds. Most reach into few of
    the intervals, and use few targets: all but two products is reckoned of these alone."""
    used = work.any(axis=0)
    work, sampled = work[:, used], samples.work[:, used]
    shares = np.zeros(overlap.shape)
    place = np.nonzero(overlap)
    stretch = place[0]
    first = np.flatnonzero(np.diff(stretch, prepend=-1))
    inside = overlap[place]
    share = inside / np.add.reduceat(inside, first)[stretch]
    busy = np.where(busy > 0, busy, overlap.sum(axis=1))[stretch]
    most = np.minimum(1.0, _FASTEST * inside / busy)
    nobody = _IDLE_WORK * samples.seconds[:, None]
    known = np.isfinite(sampled)
    did = np.where(known, sampled, 0.0) + nobody
    # Logs may say wrong targets (files move): one that did less than they say has less to say about when.
    trusted = work * np.minimum(1.0, did.sum(axis=0) / np.maximum(work.sum(axis=0), 1e-9)) ** 2
    total = trusted.sum(axis=1)
    part = trusted / np.where(total > 0, total, 1.0)[:, None]
    moves = total[stretch] > 0
    for _ in range(_ROUNDS):
        shares[place] = share
        over = np.where(known, (shares.T @ work + nobody) / did, 1.0)
        fitting = share / np.sqrt(np.maximum((part @ over.T)[place], 1e-9))
        share = np.where(moves, _filled(fitting, most, stretch, first), share)
    noise = (share * busy < _LEAST_BUSY * inside) & (share < np.maximum.reduceat(share, first)[stretch])
    share = np.where(noise, 0.0, share)
    shares[place] = share / np.add.reduceat(share, first)[stretch]
    return shares


def _filled(share: Floats, most: Floats, stretch: Ints, first: Ints) -> Floats:
    """In proportion to `share`, up to `most` in each interval; 1 in all of a stretch."""
    share = share / np.add.reduceat(share, first)[stretch]
    for _ in range(_FILLING):
        held = share >= most
        room = 1.0 - np.add.reduceat(np.where(held, most, 0.0), first)
        rest = np.add.reduceat(np.where(held, 0.0, share), first)
        share = np.where(held, most, share * (room / np.maximum(rest, 1e-30))[stretch])
    return np.asarray(share / np.add.reduceat(share, first)[stretch])


def _cut(loads: JobLoads, near: Ints, entries: Ints, of: Ints, share: Floats, samples: Samples) -> JobLoads:
    stretch, row = np.nonzero(share > 0)
    number = np.full(share.shape, -1, np.int64)
    number[stretch, row] = np.arange(len(stretch))
    which, column = np.nonzero(number[of] >= 0)
    new = number[of[which], column]
    order = np.argsort(new, kind="stable")
    which, column, new = which[order], column[order], new[order]
    factor = share[of[which], column]
    return JobLoads(
        loads.job[near][stretch], samples.start_ns[row], samples.end_ns[row], new, loads.target[entries[which]],
        {name: values[entries[which]] * factor for name, values in loads.amounts.items()},
    )  # fmt: skip
