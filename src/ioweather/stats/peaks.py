"""Whether hours of the day (days of the week) differ by more than chance makes them: the null of a chosen maximum.

The largest of 24 hourly means is large by being chosen. What it would be without any pattern is found by turning each
day by a random number of hours: bursts keep their lengths and heights, and only what days have in common is lost.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ioweather.core.arrays import Floats

REPLICATES = 999
_AT_ONCE = 2**20  # numbers, which stay near the processor


def turned_sums(cycles: Floats, replicates: int = REPLICATES, seed: int = 0) -> Floats:
    """Sums over the cycles of (cycles, places, ...), every cycle turned at random: (replicates, places, ...). The same
    for every statistic that is made of them."""
    count, places = cycles.shape[:2]
    shift = np.random.default_rng(seed).integers(0, places, (replicates, count))
    # Twice in a row, a cycle that is turned lies in one piece.
    twice = np.concatenate([cycles, cycles], axis=1)
    depth = twice[0, 0].size
    pieces = sliding_window_view(twice.reshape(-1), places * depth)[::depth]
    out = np.empty((replicates, places * depth))
    step = max(1, _AT_ONCE // max(1, count * places * depth))
    for first in range(0, replicates, step):
        out[first : first + step] = pieces[np.arange(count) * 2 * places + shift[first : first + step]].sum(axis=1)
    return out.reshape(replicates, *cycles.shape[1:])


def chance_bound(null: Floats, level: float) -> float:
    """What chance exceeds with a probability of 1 - level; NaN where there is no null."""
    known = null[~np.isnan(null)]
    return float(np.quantile(known, level)) if len(known) else float("nan")
