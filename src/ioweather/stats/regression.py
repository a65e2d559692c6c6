"""How one measure depends on another: learning curve, random forest, conformal band and joint density.

- The learning curve says how many runs a model of run time needs (mad17 VII). The model is a straight line between
  logarithms. The squared error of a new run is that of infinitely many fitted runs times 1 + h, with
  h = (runs + 1)(runs - 2) / (runs (runs - p - 2)) - 1 for p Normal measures (Stein 1960, Breiman & Freedman 1983).
- The conformal band widens quantiles of nearest neighbours by how far held-out values fell outside theirs
  (Romano, Patterson & Candes 2019), with cross-validation (CV+, Barber et al. 2021).
- The joint density uses binned Gaussian kernels applied by a Fourier transform, so its cost depends on the grid and
  not on the number of points. The bandwidth is Scott's, as in scipy's gaussian_kde.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Indices, Ints
from ioweather.core.errors import UsageError
from ioweather.stats.bootstrap import default_block, expanded_levels

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

    Test runs are contiguous in time and disjoint from the fitted ones, because neighbours share the system's state."""
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
    """Return |log(predicted / actual)| of each run by models of each size, fitted to other times: (size, run, draw)."""
    rng = np.random.default_rng(_SEED)
    out = np.empty((len(sizes), len(y), _DRAWS))
    design = np.column_stack([np.ones(len(y)), x])
    for number in range(_FOLDS):
        test, train = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        for draw in range(_DRAWS):
            order = rng.permutation(train)
            for place, size in enumerate(sizes.tolist()):
                chosen = order[:size]
                factors = np.linalg.lstsq(design[chosen], y[chosen], rcond=None)[0]
                out[place, test, draw] = np.abs(design[test] @ factors - y[test])
    return out


def _fit(over: Floats, squares: Floats) -> tuple[float, float]:
    """Least squares of squared errors; neither part is below 0."""
    centred = over - over.mean()
    slope = max(0.0, float(centred @ squares) / float(centred @ centred)) if centred.any() else 0.0
    limit = float(squares.mean() - slope * over.mean())
    if limit < 0:
        return 0.0, max(0.0, float(over @ squares) / float(over @ over))
    return limit, slope


TREES: Final = 200
# Leaves of one job draw the noise; the paper does not name its setting. [ours]
LEAST_LEAF: Final = 5


def forest_curve(x: Floats, y: Floats, at: Floats) -> tuple[Floats, float]:
    """The mean of all trees at `at`, and the share of variance explained out of bag."""
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        raise UsageError("A random forest needs scikit-learn.", hint="pip install 'ioweather[forest]'") from None
    forest = RandomForestRegressor(TREES, min_samples_leaf=LEAST_LEAF, oob_score=True, random_state=_SEED)
    forest.fit(x[:, None], y)
    return np.asarray(forest.predict(at[:, None])), float(forest.oob_score_)


FOLDS: Final = 10
MIN_POINTS: Final = 20
_CONFORMAL_SEED: Final = 20190508


@dataclass(frozen=True)
class Band:
    """Median and central interval of y at each place asked for."""

    median: Floats
    low: Floats
    high: Floats
    level: float
    method: str


def neighbour_count(n: int) -> int:
    """Enough for the outer quantiles to mean something, few enough to stay near."""
    return int(min(n, max(10, round(2 * math.sqrt(n)))))


class NeighbourQuantiles:
    """Quantiles of y among the nearest of the known points; features are brought to one scale first."""

    def __init__(self, x: NDArray[Any], y: NDArray[Any], neighbours: int = 0) -> None:
        self._y = np.asarray(y, np.float64)
        known = _columns(x)
        self._centre, spread = np.median(known, axis=0), known.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._points = (known - self._centre) / self._spread
        self.neighbours = neighbours or neighbour_count(len(self._y))

    def nearest(self, x: NDArray[Any]) -> Indices:
        from scipy.spatial import cKDTree  # a third of a second of start-up

        wanted = (_columns(x) - self._centre) / self._spread
        _, found = cKDTree(self._points).query(wanted, k=min(self.neighbours, len(self._y)))
        return np.asarray(found, np.intp).reshape(len(wanted), -1)

    def __call__(self, x: NDArray[Any], levels: tuple[float, ...]) -> Floats:
        """(len(levels), len(x))."""
        return np.asarray(np.quantile(self._y[self.nearest(x)], levels, axis=1), np.float64)


def _columns(x: NDArray[Any]) -> Floats:
    values = np.asarray(x, np.float64)
    return values[:, None] if values.ndim == 1 else values


def conformal_folds(x: NDArray[Any], y: NDArray[Any], at: NDArray[Any]) -> Band | None:
    """Return the CV+ band of y at `at` over FOLDS folds; None with fewer than MIN_POINTS points."""
    n = len(y)
    if n < MIN_POINTS:
        return None
    levels = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    known, values = _columns(x), np.asarray(y, np.float64)
    fold = np.random.default_rng(_CONFORMAL_SEED).permutation(n) % min(FOLDS, n)
    lows, highs = [], []
    for number in range(int(fold.max()) + 1):
        out = fold == number
        model = NeighbourQuantiles(known[~out], values[~out])
        low, high = model(known[out], levels)
        miss = np.maximum(low - values[out], values[out] - high)
        low_at, high_at = model(at, levels)
        lows.append(low_at[None, :] - miss[:, None])
        highs.append(high_at[None, :] + miss[:, None])
    low_all, high_all = np.concatenate(lows), np.concatenate(highs)
    rank = math.ceil(LEVEL * (n + 1))
    # The rank-th smallest upper end, and the rank-th largest lower end.
    high_end = np.sort(high_all, axis=0)[min(rank, n) - 1]
    low_end = np.sort(low_all, axis=0)[max(n - rank, 0)]
    median = NeighbourQuantiles(known, values)(at, (0.5,))[0]
    method = f"{FOLDS}-fold conformalised quantile regression on {neighbour_count(n)} nearest neighbours"
    return Band(median, np.minimum(low_end, median), np.maximum(high_end, median), LEVEL, method)


GRID: Final = 256
# How many bandwidths the grid reaches beyond the outermost points.
_MARGIN: Final = 4.0


@dataclass(frozen=True, eq=False)
class Density:
    """`values[i, j]` is the density at (x[i], y[j])."""

    x: Floats
    y: Floats
    values: Floats
    covariance: Floats

    def conditional_quantiles(self, levels: tuple[float, ...]) -> Floats:
        """Quantiles of y at each x: (len(levels), len(x)); NaN where the density of x is nothing."""
        step = self.y[1] - self.y[0]
        edges = np.concatenate([[self.y[0] - step / 2], self.y + step / 2])
        cumulated = np.concatenate([np.zeros((len(self.x), 1)), np.cumsum(self.values, axis=1)], axis=1)
        found = np.full((len(levels), len(self.x)), np.nan)
        # Rounding of the transform is 1e-16 of the greatest value: columns below a million times that are empty.
        floor = self.values.sum(axis=1).max() * 1e-10
        for i in np.flatnonzero(cumulated[:, -1] > floor):
            found[:, i] = np.interp(np.asarray(levels) * cumulated[i, -1], cumulated[i], edges)
        return found


def density(x: NDArray[Any], y: NDArray[Any]) -> Density | None:
    """None where there are fewer than three points, or no spread in one direction."""
    points = np.stack([np.asarray(x, np.float64), np.asarray(y, np.float64)], axis=1)
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) < 3 or np.ptp(points, axis=0).min() <= 0:
        return None
    # In units of the standard deviation, so that the two scales (bytes, seconds) meet.
    scale = points.std(axis=0, ddof=1)
    unit = points / scale
    kernel = np.cov(unit.T) * len(unit) ** (-2 / 6)  # Scott: n^(-1/(d+4)) times the root of the covariance, d = 2
    reach = _MARGIN * np.sqrt(np.diag(kernel))
    low, high = unit.min(axis=0) - reach, unit.max(axis=0) + reach
    step = (high - low) / (GRID - 1)
    mass = _shared_bins(unit, low, step, GRID)
    smooth = _convolved(mass, kernel, step)
    values = np.clip(smooth, 0.0, None) / (len(points) * step.prod() * scale.prod())
    axes = [(low[k] + step[k] * np.arange(GRID)) * scale[k] for k in (0, 1)]
    return Density(axes[0], axes[1], values, kernel * np.outer(scale, scale))


def _shared_bins(unit: Floats, low: Floats, step: Floats, grid: int) -> Floats:
    place = (unit - low) / step
    corner = np.clip(np.floor(place).astype(np.int64), 0, grid - 2)
    part = place - corner
    mass = np.zeros(grid * grid)
    for dx in (0, 1):
        for dy in (0, 1):
            weight = np.abs(1 - dx - part[:, 0]) * np.abs(1 - dy - part[:, 1])
            mass += np.bincount((corner[:, 0] + dx) * grid + corner[:, 1] + dy, weight, minlength=grid * grid)
    return mass.reshape(grid, grid)


def _convolved(mass: Floats, kernel: Floats, step: Floats) -> Floats:
    """The kernel's transform is known: exp(-w' H w / 2). Zeros behind keep one edge from the other."""
    from scipy.fft import irfft2, next_fast_len, rfft2  # a third of a second of start-up

    grid = len(mass)
    reach = np.ceil(8 * np.sqrt(np.diag(kernel)) / step).astype(int)
    shape = tuple(next_fast_len(int(grid + r), real=True) for r in reach)
    wx = 2 * np.pi * np.fft.fftfreq(shape[0], step[0])[:, None]
    wy = 2 * np.pi * np.fft.rfftfreq(shape[1], step[1])[None, :]
    quadratic = kernel[0, 0] * wx**2 + 2 * kernel[0, 1] * wx * wy + kernel[1, 1] * wy**2
    return np.asarray(irfft2(rfft2(mass, shape) * np.exp(-quadratic / 2), shape)[:grid, :grid])
