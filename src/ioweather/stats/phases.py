"""Phases: maximal runs of high or low activity (pat19 section 4).

High is at or above the 75th percentile of all steps, low is below the 25th. A gap breaks a phase, and a time between
two starts that spans a gap is not counted: what happened in the gap is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints

HIGH_QUANTILE = 0.75
LOW_QUANTILE = 0.25


@dataclass(frozen=True, eq=False)
class Phases:
    """Runs in time order: first step, length in steps, and whether an edge or a gap cut the run short.

    `interarrival[i]` is the time in steps from start i to start i + 1; `interarrival_of[i]` says which phase it
    belongs to, because those that span a gap are missing.
    """

    start: Ints
    length: Ints
    cut: Bools
    interarrival: Ints
    interarrival_of: Ints

    @property
    def count(self) -> int:
        return len(self.start)


def thresholds(values: NDArray[Any]) -> tuple[float, float]:
    """(P25, P75) of the steps that are there; NaN if none is."""
    array = np.asarray(values, np.float64)
    present = array[~np.isnan(array)]
    if not present.size:
        return float("nan"), float("nan")
    low, high = np.quantile(present, (LOW_QUANTILE, HIGH_QUANTILE))
    return float(low), float(high)


def members(values: NDArray[Any], threshold: float, side: Literal["high", "low"]) -> Bools:
    """Steps in the state: >= the threshold for high, < for low; missing steps are in neither."""
    array = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(array >= threshold if side == "high" else array < threshold)


def find_phases(values: NDArray[Any], threshold: float, side: Literal["high", "low"]) -> Phases:
    array = np.asarray(values, np.float64)
    state = members(array, threshold, side)
    missing = np.isnan(array)
    padded = np.concatenate([[False], state, [False]])
    start = np.flatnonzero(padded[1:] & ~padded[:-1]).astype(np.int64)
    end = np.flatnonzero(padded[:-1] & ~padded[1:]).astype(np.int64)
    # A missing step, or the end of the data, on either side: the run may have been longer.
    open_ended = np.concatenate([[True], missing, [True]])
    cut = open_ended[start] | open_ended[end + 1]
    gaps_before = np.concatenate([[0], np.cumsum(missing)])
    clean = np.flatnonzero(gaps_before[start[1:]] == gaps_before[start[:-1]])
    return Phases(start, end - start, cut, np.diff(start)[clean], clean.astype(np.int64))


def phase_sums(phases: Phases, steps: int, unit: int) -> Floats:
    """Per unit of time (by a phase's start): phases, their total length, inter-arrivals, their total: (units, 4)."""
    units = -(-steps // unit)
    of = phases.start // unit
    between = of[phases.interarrival_of]
    return np.stack(
        [
            np.bincount(of, minlength=units),
            np.bincount(of, weights=phases.length, minlength=units),
            np.bincount(between, minlength=units),
            np.bincount(between, weights=phases.interarrival, minlength=units),
        ],
        axis=1,
    ).astype(np.float64)
