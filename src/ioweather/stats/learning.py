"""How many runs a model of their time needs: its error by the number of runs it was fitted to (mad17 VII).

The model is a straight line between logarithms: one factor per measure of the system. Of `runs` that are fitted and p
measures, the mean squared error of a new run is that of endless runs times 1 + h, with h = (runs + 1)(runs - 2) /
(runs (runs - p - 2)) - 1 (Normal measures; Stein 1960, Breiman & Freedman 1983). The error of subsets of the runs there
are, on runs of another time, gives both parts: error^2 = limit^2 + slope h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.stats.resampling import default_block, expanded_levels

LEAST_RUNS: Final = 30
LEVEL: Final = 0.9
# The error is what this share of new runs stays within: one standard deviation of a Normal error.
SHARE: Final = 0.6827
# [ours] A curve says little of more runs than so many times those there are.
FAR: Final = 10
# [ours] The last runs tell; a thousand of them give the curve to a percent.
_MOST_RUNS: Final = 1000
_FOLDS: Final = 5
_DRAWS: Final = 10
_SIZES: Final = 8
_REPLICATES: Final = 200
_SEED: Final = 20170807


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """`sizes` and the error at each (of logarithms), measured; error^2 = `limit_squared` + `slope` * excess(size).
    `resampled` are limit and slope of resampled runs, `residuals` the error of each run with the most runs fitted."""

    runs: int
    measures: int
    sizes: Ints
    errors: Floats
    limit_squared: float
    slope: float
    resampled: Floats
    residuals: Floats

    def limit(self) -> tuple[float, float, float]:
        """The error with endless runs, as a ratio, and its interval."""
        low, high = np.quantile(self.resampled[:, 0], self._levels())
        value, low, high = np.expm1(np.sqrt([self.limit_squared, low, high])).tolist()
        return value, low, high

    def error_at(self, runs: float) -> float:
        """As a ratio: 0.1 is 10% more or less."""
        return float(np.expm1(np.sqrt(self.limit_squared + self.slope * excess(runs, self.measures))))

    def runs_for(self, error: float) -> tuple[float, float, float]:
        """How many runs bring the error to this ratio, and an interval; infinite where no number of them does."""
        value = runs_to(error, self.limit_squared, self.slope, self.measures)
        every = [runs_to(error, limit, slope, self.measures) for limit, slope in self.resampled.tolist()]
        low, high = np.quantile(every, self._levels(), method="nearest").tolist()
        return value, min(low, value), max(high, value)

    def _levels(self) -> tuple[float, float]:
        return expanded_levels(LEVEL, max(2, self.runs // default_block(self.runs)))


def excess(runs: float, measures: int) -> float:
    """h: by how much the squared error of so many fitted runs exceeds that of endless ones."""
    return (runs + 1) * (runs - 2) / (runs * (runs - measures - 2)) - 1


def runs_to(error: float, limit_squared: float, slope: float, measures: int) -> float:
    """The least number of runs whose error is at most `error`; infinite where endless runs do not get there."""
    spare = np.log1p(error) ** 2 - limit_squared
    if spare <= 0:
        return np.inf
    low, high = measures + 3, measures + 3
    while slope * excess(high, measures) > spare:
        low, high = high, 2 * high
        if high > 1 << 40:
            return np.inf
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if slope * excess(middle, measures) <= spare else (middle + 1, high)
    return float(low)


def learning_curve(measures: Floats, seconds: Floats) -> LearningCurve | None:
    """Of runs in the order of time: `measures` (runs, p) of the system and the time that each took; None of too few.

    The runs that a model is tried on lie together in time and apart from those it was fitted to, for neighbours share
    the system's state."""
    known = np.isfinite(measures).all(axis=1) & (measures >= 0).all(axis=1) & np.isfinite(seconds) & (seconds > 0)
    x, y = np.log1p(measures[known][-_MOST_RUNS:]), np.log(seconds[known][-_MOST_RUNS:])
    n, p = x.shape
    if n < LEAST_RUNS:
        return None
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    fold = np.arange(n) * _FOLDS // n
    most = n - int(np.bincount(fold).max())
    sizes = np.unique(np.geomspace(min(p + 8, most), most, _SIZES).astype(np.int64))
    misses = _misses(x, y, fold, sizes)
    errors = np.quantile(misses.reshape(len(sizes), -1), SHARE, axis=1)
    over = np.array([excess(size, p) for size in sizes.tolist()])
    limit, slope = _fit(over, errors**2)
    rng = np.random.default_rng(_SEED)
    block = default_block(n)
    starts = rng.integers(0, n, (_REPLICATES, -(-n // block)))
    drawn = ((starts[..., None] + np.arange(block)) % n).reshape(_REPLICATES, -1)[:, :n]
    resampled = np.array(
        [_fit(over, np.quantile(misses[:, rows].reshape(len(sizes), -1), SHARE, axis=1) ** 2) for rows in drawn]
    )
    return LearningCurve(n, p, sizes, errors, limit, slope, resampled, np.sqrt((misses[-1] ** 2).mean(axis=1)))


def _misses(x: Floats, y: Floats, fold: Ints, sizes: Ints) -> Floats:
    """|log of foretold over actual| of each run by models of each size that other times were fitted to: (size, run,
    draw)."""
    rng = np.random.default_rng(_SEED)
    out = np.empty((len(sizes), len(y), _DRAWS))
    design = np.column_stack([np.ones(len(y)), x])
    for number in range(_FOLDS):
        held, pool = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        for draw in range(_DRAWS):
            order = rng.permutation(pool)
            for place, size in enumerate(sizes.tolist()):
                chosen = order[:size]
                factors = np.linalg.lstsq(design[chosen], y[chosen], rcond=None)[0]
                out[place, held, draw] = np.abs(design[held] @ factors - y[held])
    return out


def _fit(over: Floats, squares: Floats) -> tuple[float, float]:
    """Least squares of squared errors; neither part is below 0."""
    centred = over - over.mean()
    slope = max(0.0, float(centred @ squares) / float(centred @ centred)) if centred.any() else 0.0
    limit = float(squares.mean() - slope * over.mean())
    if limit < 0:
        return 0.0, max(0.0, float(over @ squares) / float(over @ over))
    return limit, slope
