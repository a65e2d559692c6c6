"""How much equal runs differ, whenever they ran and when they ran at the same time (after Isakov et al., SC'22).

Equal runs asked for the same, in the same requests. What they differ by is the state of the system at the time, and
noise. Those whose I/O began at about the same time met about the same state, and where they were fast it hardly held
them up: what is left is the noise, which no model of the system can explain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.frames import Frame
from ioweather.core.units import MINUTE_NS
from ioweather.facts.runs import group_runs, program_names

QUANTILES: Final = (0.68, 0.95)
# [ours] Fewer minutes leave few runs. In as many, others come and go: that shows less in the fastest third.
SAME_TIME_NS: Final = 20 * MINUTE_NS
QUIET: Final = 1 / 3
_REQUESTS: Final = ("read_count", "write_count", "common_access_bytes", "io_rank_count")
LEVEL: Final = 0.9
_REPLICATES: Final = 400
# Fewer sets than these have no interval worth the name. [ours]
LEAST_SETS: Final = 5


@dataclass(frozen=True, eq=False)
class Deviations:
    """Logarithms of each run's time over the mean of its set, stretched as the mean of few is near to
    each of them; `of_set` numbers the sets."""

    values: Floats
    of_set: Ints

    @property
    def sets(self) -> int:
        return int(self.of_set.max(initial=-1)) + 1


@dataclass(frozen=True)
class Spread:
    """Share by which so many of the runs differ at most, with its interval over sets."""

    value: float
    low: float
    high: float


def deviations(seconds: Floats, of_set: Ints) -> Deviations:
    """Of runs in sets of two or more; runs of a negative set belong to none."""
    known = (of_set >= 0) & np.isfinite(seconds) & (seconds > 0)
    _, number, count = np.unique(of_set[known], return_inverse=True, return_counts=True)
    several = count[number] >= 2
    logs, number, size = np.log(seconds[known][several]), number[several], count[number][several]
    _, number = np.unique(number, return_inverse=True)
    mean = np.bincount(number, weights=logs) / np.maximum(np.bincount(number), 1) if len(logs) else np.zeros(0)
    return Deviations((logs - mean[number]) * np.sqrt(size / (size - 1.0)), np.asarray(number, np.int64))


def equal_runs(runs: Frame) -> Ints:
    """The set of each run: mad17's exact group, program, numbers of requests, their size, and ranks that moved data."""
    _, program = np.unique(program_names(runs), return_inverse=True)
    counts = [np.ma.filled(np.ma.masked_array(runs.array(name)), -1) for name in _REQUESTS]
    keys = np.stack([group_runs(runs, "exact").of_run, program, *counts], axis=1)
    return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1], np.int64).reshape(-1)


def at_the_same_time(group: Ints, began_ns: Ints) -> Ints:
    """Sets of runs of one group whose I/O began within SAME_TIME_NS of that of the first of them."""
    order = np.lexsort((began_ns, group))
    found = np.full(len(group), -1, np.int64)
    number, first, current = -1, 0, -1
    for row in order.tolist():
        if group[row] != current or began_ns[row] - first > SAME_TIME_NS:
            number, current, first = number + 1, int(group[row]), int(began_ns[row])
        found[row] = number
    return found


def while_quiet(seconds: Floats, group: Ints, of_set: Ints) -> Ints:
    """The sets whose mean is among the fastest of their group; the others are -1. A set is chosen by its mean, which
    says nothing of how far its runs are from it."""
    logs, found = np.log(seconds), of_set.copy()
    mean = np.bincount(of_set, logs) / np.maximum(np.bincount(of_set), 1) if len(logs) else logs
    for each in np.unique(group):
        rows = np.flatnonzero(group == each)
        found[rows[mean[of_set[rows]] > np.quantile(logs[rows], QUIET)]] = -1
    return found


def spread(found: Deviations, quantile: float) -> Spread:
    """As a share of the time: 0.06 is 6% more, or as much less."""
    sizes = np.abs(found.values)
    rng = np.random.default_rng(1)
    order = np.argsort(found.of_set, kind="stable")
    pieces = np.split(sizes[order], np.cumsum(np.bincount(found.of_set, minlength=found.sets))[:-1])
    drawn = [
        float(np.quantile(np.concatenate([pieces[i] for i in rng.integers(0, len(pieces), len(pieces))]), quantile))
        for _ in range(_REPLICATES)
    ]
    ends = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value, low, high = np.expm1([float(np.quantile(sizes, quantile)), *ends]).tolist()
    return Spread(value, low, high)
