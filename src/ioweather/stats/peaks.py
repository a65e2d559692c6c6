"""Whether hours of the day (days of the week) differ by more than chance makes them: the null of a chosen maximum.

The largest of 24 hourly means is large by being chosen. What it would be without any pattern is found by turning each
day by a random number of hours: bursts keep their lengths and heights, and only what days have in common is lost.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ioweather.core.arrays import Floats, Ints

REPLICATES = 999


def turned(
    cycles: Floats, statistic: Callable[[Floats], Floats], replicates: int = REPLICATES, seed: int = 0
) -> Floats:
    """`statistic` of (cycles, places, ...) with every cycle turned at random, once per replicate, sorted; NaN last."""
    random = np.random.default_rng(seed)
    count, places = cycles.shape[:2]
    out = np.empty(replicates)
    for replicate in range(replicates):
        shift: Ints = random.integers(0, places, (count,))
        index = (np.arange(places)[None, :] + shift[:, None]) % places
        out[replicate] = statistic(cycles[np.arange(count)[:, None], index])
    return np.sort(out)


def chance_bound(null: Floats, level: float) -> float:
    """What chance exceeds with a probability of 1 - level; NaN where there is no null."""
    known = null[~np.isnan(null)]
    return float(np.quantile(known, level)) if len(known) else float("nan")
