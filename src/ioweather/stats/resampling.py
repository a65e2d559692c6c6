"""Intervals for statistics of dependent data: the circular moving-block bootstrap over sums of time units.

A series is first reduced to sums per unit of time (a day, an hour), because every statistic asked for here (means,
ratios, coefficients of variation, correlations, shares) is a function of sums. One matrix of resampling weights then
serves all of them: replicates = weights @ sums. Differences of two statistics share the same resampled days.

Sources: Politis & Romano 1992 (circular blocks: every unit has the same expected weight); Hesterberg 2015, "What
teachers should know about the bootstrap", section 5.3 (expanded percentiles, which mend the narrowness of the
percentile interval when there are few blocks).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats

# With fewer independent blocks than this an interval would be a guess.
MIN_BLOCKS = 6
DEFAULT_REPLICATES = 1000


def default_block(units: int) -> int:
    """n^(1/3) units: the order that minimises the error of the block-bootstrap variance (Künsch 1989).

    Less where that would leave fewer than MIN_BLOCKS blocks.
    """
    return max(1, min(math.ceil(math.cbrt(units) - 1e-9), units // MIN_BLOCKS))


def unit_steps(steps: int, steps_per_hour: float) -> int:
    """Length of a unit in steps: a day where there are 20 of them, else an hour, else a twentieth of the series."""
    for length in (24 * steps_per_hour, steps_per_hour):
        whole = max(1, round(length))
        if steps >= 20 * whole:
            return whole
    return max(1, steps // 20)


@dataclass(frozen=True)
class BlockBootstrap:
    """Resampling of `units` consecutive units of time in circular blocks of `block` units.

    The same seed gives the same weights, so that a result can be made again to the last digit.
    """

    units: int
    block: int = 0
    replicates: int = DEFAULT_REPLICATES
    level: float = 0.9
    seed: int = 20110523
    unit_name: str = "unit"
    weights: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ValueError("a bootstrap needs at least one unit")
        if not 0 < self.level < 1:
            raise ValueError(f"level {self.level} is not between 0 and 1")
        block = min(self.block or default_block(self.units), self.units)
        object.__setattr__(self, "block", block)
        object.__setattr__(self, "weights", _weights(self.units, block, self.replicates, self.seed))

    @property
    def blocks(self) -> int:
        return self.units // self.block

    @property
    def enough(self) -> bool:
        """Whether there are blocks enough for an interval to mean something."""
        return self.blocks >= MIN_BLOCKS

    @property
    def method(self) -> str:
        """The words that stand beside an estimate."""
        plural = "" if self.block == 1 else "s"
        if not self.enough:
            return f"no interval: {self.blocks} blocks of {self.block} {self.unit_name}{plural} are too few"
        return (
            f"circular block bootstrap, blocks of {self.block} {self.unit_name}{plural}, {self.replicates} replicates"
        )

    def sums(self, per_unit: NDArray[Any]) -> Floats:
        """Replicates of the totals of `per_unit` (units, ...) over all units: (replicates, ...)."""
        table = np.asarray(per_unit, np.float64)
        if len(table) != self.units:
            raise ValueError(f"{len(table)} unit sums for {self.units} units")
        flat = self.weights @ table.reshape(self.units, -1)
        return np.asarray(flat.reshape(self.replicates, *table.shape[1:]))

    def interval(self, replicates: NDArray[Any], about: float | None = None) -> tuple[float | None, float | None]:
        """Expanded percentile interval of one statistic, from its replicates; None where there cannot be one.

        A statistic that noise can only raise (a largest over a smallest, a spread) is raised once more in every
        resample; given its value as `about`, the interval is reflected there, which takes that off (the basic
        bootstrap, Davison & Hinkley 1997, section 5.2).
        """
        values = np.asarray(replicates, np.float64)
        finite = values[np.isfinite(values)]
        # A statistic that often does not exist in a resample (a division by nothing) has no honest interval.
        if not self.enough or finite.size < 0.9 * values.size:
            return None, None
        low, high = np.quantile(finite, expanded_levels(self.level, self.blocks))
        if about is not None:
            low, high = 2 * about - high, 2 * about - low
        return float(low), float(high)


def expanded_levels(level: float, blocks: int) -> tuple[float, float]:
    """Percentiles to read off for an interval of `level`: Phi(sqrt(n/(n-1)) * t) in place of the nominal tail."""
    from scipy.special import ndtr, stdtrit  # a third of a second, and only here

    tail = (1 - level) / 2
    quantile = float(stdtrit(blocks - 1, tail))
    low = float(ndtr(math.sqrt(blocks / (blocks - 1)) * quantile))
    return low, 1 - low


def _weights(units: int, block: int, replicates: int, seed: int) -> Floats:
    """How often each unit is drawn in each replicate, scaled so that a row sums to `units`."""
    rng = np.random.default_rng(seed)
    draws = math.ceil(units / block)
    starts = rng.integers(0, units, size=(replicates, draws))
    rows = np.repeat(np.arange(replicates), draws)
    begun = np.bincount(rows * units + starts.ravel(), minlength=replicates * units).reshape(replicates, units)
    # A block that starts at s covers s .. s + block - 1, around the end: a circular running sum of starts.
    running = np.cumsum(np.concatenate([begun[:, units - block + 1 :], begun], axis=1), axis=1, dtype=np.float64)
    counts = running[:, block - 1 :].copy()
    counts[:, 1:] -= running[:, : units - 1]
    return np.asarray(counts * (units / (draws * block)))


def sums_by_unit(values: NDArray[Any], unit: int) -> Floats:
    """Sums of consecutive rows in units of `unit` rows (the last may be shorter); NaN must be gone already."""
    edges = np.arange(0, len(values), unit)
    return np.add.reduceat(values, edges, axis=0, dtype=np.float64) if len(values) else np.zeros((0,))
