"""Times of runs as they would be had each program moved the same bytes in all of its runs.

Similar runs move bytes within 25% of each other, and a program that grows goes through all of that range: the usual
time of a small run is not that of a large one, and a spread that growth makes is no noise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ioweather.advice.verdict.changes import Changes
from ioweather.advice.verdict.model import LEAST_NOISE
from ioweather.advice.verdict.patterns import BYTES_MOVED
from ioweather.advice.verdict.pool import Pool
from ioweather.advice.verdict.time_split import MAD_TO_SD, STUDENT
from ioweather.core.arrays import Floats

# Before any run is seen, time grows as bytes do, give or take this much of an exponent. [ours]
_EXPONENT: Final = 1.0
_EXPONENT_SD: Final = 0.5
_ROUNDS: Final = 3


def at_size_of(pool: Pool, changes: Changes, row: int) -> Pool:
    """Times of group 0 at the bytes of run `row`, of each other group at those of its middle. Where a run's bytes are
    themselves what it changed, its time stays."""
    size, times = pool.pattern[:, BYTES_MOVED], np.log(pool.io_seconds)
    stays = changes.columns[:, BYTES_MOVED]
    found = times.copy()
    for number in np.unique(pool.group).tolist():
        members = np.flatnonzero(pool.group == number)
        usual = members[(members != row) & ~changes.changed[members]]
        if len(usual) < 2 or not np.ptp(size[members]):
            continue
        exponent = _exponent(size[usual], times[usual])
        at = size[row] if number == 0 and not stays[row] else float(np.median(size[usual]))
        moved = members[~stays[members]]
        found[moved] -= exponent * (size[moved] - at)
    return replace(pool, io_seconds=np.exp(found))


def _exponent(size: Floats, times: Floats) -> float:
    """Of times over bytes, both in logarithms: ridge regression with Student's noise by weighted rounds."""
    exponent, trust = _EXPONENT, np.ones(len(size))
    for _ in range(_ROUNDS):
        apart, late = (each - np.average(each, weights=trust) for each in (size, times))
        rest = times - exponent * size
        rest = rest - np.median(rest)
        noise = max(MAD_TO_SD * float(np.median(np.abs(rest))), LEAST_NOISE)
        trust = (STUDENT + 1.0) / (STUDENT + (rest / noise) ** 2)
        held = (noise / _EXPONENT_SD) ** 2
        exponent = float((_EXPONENT * held + (trust * apart) @ late) / (held + (trust * apart) @ apart))
    return exponent
