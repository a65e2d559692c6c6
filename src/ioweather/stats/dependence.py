"""Dependence between two series: coefficients with intervals and null distributions, tests of ranks and normality.

Pearson and Spearman are signed. Distance correlation (Szekely, Rizzo & Bakirov 2007) is 0 only under independence, and
takes O(n log n) by counting in sorted halves (after Chaudhuri & Hu 2019). Mutual information is the first estimator of
Kraskov, Stoegbauer & Grassberger (2004), on the scale of a correlation by Linfoot (1957): sqrt(1 - exp(-2 I)).

`moments` tests normality by skewness and kurtosis (Jarque & Bera 1987) for autocorrelated values. Skewness and kurtosis
of n such values vary as those of n over the sums of the third and fourth powers of the autocorrelations (Lobato &
Velasco 2004, Eq. 2). Mean and variances are the exact ones of small samples (Urzua 1996), not those of the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Ints
from ioweather.stats.bootstrap import MIN_BLOCKS, EffectiveSample, default_block, effective_sample
from ioweather.stats.series import midranks, pearson, spearman

Measure: TypeAlias = Callable[[Floats, Floats], Any]

NEIGHBOURS: Final = 3
REPLICATES: Final = 400
MOST_SHIFTS: Final = 199
LEVEL: Final = 0.9
MIN_PAIRS: Final = 8
# Beyond this many pairs intervals and p values come from a sample of this size: they are narrow enough.
MOST_RESAMPLED: Final = 2000
_SEED: Final = 20170807
# Up to here the table of all distances beats counting in sorted halves.
_SMALL: Final = 256


@dataclass(frozen=True)
class Association:
    """A coefficient with its interval, and the share of shuffled pairings that reach it."""

    measure: str
    value: float
    low: float | None
    high: float | None
    n: int
    p: float | None
    method: str


def distance_correlation(x: Floats, y: Floats) -> float:
    """The biased (V-statistic) form, in [0, 1]; NaN where one of the two does not vary."""
    joint = _distance_covariance(x, y)
    scale = _distance_covariance(x, x) * _distance_covariance(y, y)
    return float(np.sqrt(max(joint, 0.0) / np.sqrt(scale))) if scale > 0 else float("nan")


def _distance_covariance(x: Floats, y: Floats) -> float:
    """Squared distance covariance: mean |dx||dy| + mean |dx| mean |dy| - 2 mean of products of row means."""
    n = len(x)
    if n <= _SMALL:
        return float((_centred_distances(x) * _centred_distances(y)).sum()) / n**2
    # Centred, so that the sums of products below lose no digits to a common offset.
    x, y = x - x.mean(), y - y.mean()
    a, b = _row_sums(x), _row_sums(y)
    return float(_sum_of_products(x, y) / n**2 + a.sum() * b.sum() / n**4 - 2 * (a @ b) / n**3)


def _centred_distances(x: Floats) -> Floats:
    """All distances, less the means of their rows and columns: the definition, quicker while it is small."""
    distances = np.abs(x[:, None] - x)
    means = distances.mean(axis=0)
    return np.asarray(distances - means - means[:, None] + means.mean())


def _row_sums(x: Floats) -> Floats:
    """sum_j |x_i - x_j| for every i."""
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    n = len(x)
    before = np.cumsum(ordered) - ordered
    below = np.arange(n)
    rows = np.empty(n)
    rows[order] = ordered * (2 * below - n) + ordered.sum() - 2 * before
    return rows


def _sum_of_products(x: Floats, y: Floats) -> float:
    """sum_ij |x_i - x_j| |y_i - y_j|.

    In order of x, a pair i < j adds (x_j - x_i)(y_j - y_i) where y_i < y_j and its negative otherwise: all pairs with
    their sign, plus twice those with y_i < y_j. These are found for pairs whose first half of a block meets its second,
    blocks doubling: within a block sorted by y, sums over its first half up to each member of the second.
    """
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    n = len(x)
    rising = 0.0
    by_y = np.argsort(y, kind="stable")
    width = 1
    while width < n:
        block = by_y // (2 * width)
        index = by_y[np.argsort(block, kind="stable")]
        left = (index // width) % 2 == 0
        xs, ys = x[index], y[index]
        terms = np.stack(
            [left.astype(np.float64), np.where(left, xs, 0.0), np.where(left, ys, 0.0), np.where(left, xs * ys, 0.0)]
        )
        sums = np.cumsum(terms, axis=1)
        starts = np.arange(0, n, 2 * width)
        sums -= np.concatenate([np.zeros((4, 1)), sums], axis=1)[:, starts][:, index // (2 * width)]
        right = ~left
        count, sx, sy, sxy = sums[:, right]
        xr, yr = xs[right], ys[right]
        rising += float(np.sum(count * xr * yr - xr * sy - yr * sx + sxy))
        width *= 2
    # sum over all pairs i < j of (x_j - x_i)(y_j - y_i) = n sum xy - sum x sum y.
    every = n * float(x @ y) - float(x.sum() * y.sum())
    return 2 * (2 * rising - every)


def mutual_information(x: Floats, y: Floats) -> float:
    """Nats, not below 0. Ties are broken by noise far below the smallest difference, with a fixed seed."""
    from scipy.spatial import cKDTree  # a third of a second of start-up
    from scipy.special import digamma  # a third of a second of start-up

    n = len(x)
    if n <= NEIGHBOURS + 1 or not np.ptp(x) or not np.ptp(y):
        return 0.0
    rng = np.random.default_rng(_SEED)
    a, b = (values / values.std() + 1e-10 * rng.standard_normal(n) for values in (x, y))
    points = np.stack([a, b], axis=1)
    distances = np.asarray(cKDTree(points).query(points, k=NEIGHBOURS + 1, p=np.inf)[0])
    # Strictly inside the distance to the k-th neighbour; rounding must not take that neighbour in.
    radius = distances[:, -1] * (1 - 1e-10)
    counts = [_within(values, radius) for values in (a, b)]
    value = digamma(NEIGHBOURS) + digamma(n) - np.mean(digamma(counts[0]) + digamma(counts[1]))
    return max(float(value), 0.0)


def _within(values: Floats, radius: Floats) -> Ints:
    """Points within the radius of each, itself counted: n_x + 1 of KSG's equation 8."""
    ordered = np.sort(values)
    return np.asarray(
        np.searchsorted(ordered, values + radius, "right") - np.searchsorted(ordered, values - radius, "left"), np.int64
    )


def normalised_information(x: Floats, y: Floats) -> float:
    """Return mutual information on the scale of a correlation, 0 to 1."""
    return float(np.sqrt(1 - np.exp(-2 * mutual_information(x, y))))


MEASURES: Final[dict[str, Measure]] = {
    "pearson": pearson,
    "spearman": spearman,
    "distance_correlation": distance_correlation,
    "mutual_information": normalised_information,
}
SIGNED: Final = ("pearson", "spearman")


def above_resolution(seconds: Floats, resolution: float = 1e-6) -> Floats:
    """The values, or their mean where they vary by less than the resolution of the clock: rounding is no order."""
    there = np.isfinite(seconds)
    if there.any() and np.ptp(seconds[there]) < resolution:
        return np.where(there, seconds[there].mean(), np.nan)
    return seconds


def complete_pairs(x: NDArray[Any], y: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the pairs without a missing member."""
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    there = np.isfinite(a) & np.isfinite(b)
    return a[there], b[there]


def coefficients(x: NDArray[Any], y: NDArray[Any]) -> dict[str, float]:
    """The four coefficients alone; NaN with fewer than MIN_PAIRS pairs."""
    a, b = complete_pairs(x, y)
    if len(a) < MIN_PAIRS:
        return dict.fromkeys(MEASURES, float("nan"))
    return {name: measure(a, b) for name, measure in MEASURES.items()}


def associate(x: NDArray[Any], y: NDArray[Any], *, replicates: int = REPLICATES) -> dict[str, Association]:
    """All four with intervals and p by shifts. Pairs are taken in the order of time: neighbours share a state of the
    system, so they are resampled in blocks."""
    a, b = complete_pairs(x, y)
    n = len(a)
    if n < MIN_PAIRS:
        words = f"{n} pairs are too few"
        return {name: Association(name, float("nan"), None, None, n, None, words) for name in MEASURES}
    if n > MOST_RESAMPLED:
        chosen = np.sort(np.random.default_rng(_SEED).choice(n, MOST_RESAMPLED, replace=False))
        few = associate(a[chosen], b[chosen], replicates=replicates)
        whole = coefficients(a, b)
        return {name: _moved(found, whole[name], n) for name, found in few.items()}
    return {name: _associate(name, a, b, replicates) for name in MEASURES}


def _moved(found: Association, value: float, n: int) -> Association:
    shift = value - found.value
    low, high = (None if end is None else end + shift for end in (found.low, found.high))
    return Association(found.measure, value, low, high, n, found.p, f"{found.method}, of {MOST_RESAMPLED:,} pairs")


def _associate(name: str, x: Floats, y: Floats, replicates: int) -> Association:
    value = MEASURES[name](x, y) if np.ptp(x) and np.ptp(y) else float("nan")
    if not np.isfinite(value):
        return Association(name, value, None, None, len(x), None, "one of the two does not vary")
    low, high, method = (_bootstrap if name in SIGNED else _half_samples)(name, x, y, value, replicates)
    return Association(name, value, low, high, len(x), shift_p(name, x, y, value), method)


def _bootstrap(
    name: str, x: Floats, y: Floats, value: float, replicates: int
) -> tuple[float | None, float | None, str]:
    """Percentiles of circular blocks of pairs on Fisher's scale, moved out by what neighbours share."""
    spread = effective_pairs(name, x, y)
    if not spread.enough:
        return None, None, _too_few(spread)
    drawn = _blocks(len(x), replicates)
    found = _z(MEASURES[name](x[drawn], y[drawn]))
    low, high = np.tanh(_percentiles(found, float(_z(value)), spread))
    return float(low), float(high), f"bootstrap of blocks of {default_block(len(x))} runs, {replicates} replicates"


def _too_few(spread: EffectiveSample) -> str:
    return f"too few independent runs, about {spread.count:.0f}"


def _z(r: Floats | float) -> Floats:
    return np.asarray(np.arctanh(np.clip(r, -0.999999, 0.999999)))


def effective_pairs(name: str, x: Floats, y: Floats) -> EffectiveSample:
    """What of pairs in the order of time is independent: of what each contributes to the coefficient on Fisher's scale
    (Spearman's for measures that are no correlation)."""
    r = pearson(x, y) if name == "pearson" else spearman(x, y)
    parts = _pearson_parts(x, y, r) if name == "pearson" else _spearman_parts(x, y)
    found = effective_sample(parts / max(1 - r * r, 1e-6))
    if name != "pearson":
        return found
    # In short series products are less autocorrelated than they should be; the columns give a better estimate.
    count = _bartlett_count(x, y)
    return replace(found, count=min(found.count, count), error=max(found.error, count**-0.5))


def _bartlett_count(x: Floats, y: Floats) -> float:
    """Pairs as good as independent for a correlation, of columns in the order of time (Bartlett 1935)."""
    shared = _lag_one(x) * _lag_one(y)
    return len(x) * (1 - shared) / (1 + shared)


def _lag_one(values: Floats) -> float:
    """Return the lag-one autocorrelation, corrected for the bias of short series (Kendall 1954); not below 0."""
    centred = values - values.mean()
    squares = float(centred @ centred)
    found = float(centred[1:] @ centred[:-1]) / squares if squares > 0 else 0.0
    return min(max(found + (1 + 3 * found) / len(values), 0.0), 0.99)


def _pearson_parts(x: Floats, y: Floats, r: float) -> Floats:
    a, b = ((values - values.mean()) / values.std() for values in (x, y))
    return np.asarray(a * b - r / 2 * (a * a + b * b))


def _spearman_parts(x: Floats, y: Floats) -> Floats:
    """Its influence function (Croux & Dehon 2010, Eq. 3): a pair moves the ranks of others too."""
    u, v = (midranks(values) / len(values) - 0.5 for values in (x, y))
    return np.asarray(12 * (u * v + _sums_above(x, v) + _sums_above(y, u)))


def _sums_above(x: Floats, v: Floats) -> Floats:
    """Mean over j of v_j where x_j >= x_i."""
    order = np.argsort(x, kind="stable")
    from_here = np.cumsum(v[order][::-1])[::-1]
    return np.asarray(from_here[np.searchsorted(x[order], x, "left")] / len(x))


def _blocks(n: int, replicates: int) -> Ints:
    """Rows drawn in circular blocks: (replicates, n)."""
    block = default_block(n)
    starts = np.random.default_rng(_SEED).integers(0, n, (replicates, -(-n // block)))
    return np.asarray(((starts[:, :, None] + np.arange(block)).reshape(replicates, -1) % n)[:, :n], np.int64)


def _percentiles(found: Floats, value: float, spread: EffectiveSample) -> Floats:
    finite = found[np.isfinite(found)]
    stretches = np.array(spread.stretches(LEVEL, float(finite.std())))
    return np.asarray(value + stretches * (np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - value))


def spearman_interval(x: Floats, y: Floats, replicates: int = REPLICATES) -> tuple[float, float, float] | None:
    """Value, low and high of the rank correlation alone; None where it, or its interval, does not exist."""
    value = spearman(x, y) if len(x) >= MIN_PAIRS else float("nan")
    low, high, _ = _bootstrap("spearman", x, y, value, replicates) if np.isfinite(value) else (None, None, "")
    return (value, low, high) if low is not None and high is not None else None


def spearman_change(columns: tuple[Floats, Floats, Floats, Floats]) -> tuple[float, float, float] | None:
    """Spearman of the last two less that of the first two, with its interval: the same rows are drawn for both."""
    x, y, later_x, later_y = columns
    value = spearman(later_x, later_y) - spearman(x, y)
    if not np.isfinite(value):
        return None
    spread = effective_sample(_spearman_parts(later_x, later_y) - _spearman_parts(x, y))
    if not spread.enough:
        return None
    drawn = _blocks(len(x), REPLICATES)
    before, after = (spearman(a[drawn], b[drawn]) for a, b in ((x, y), (later_x, later_y)))
    found = after - before
    low, high = _percentiles(found, value, spread)
    return value, float(low), float(high)


# Half samples of autocorrelated pairs vary too little: least share of the standard error of a correlation. [ours], by
# coverage.
_LEAST_ERROR: Final = 0.8


def _half_samples(
    name: str, x: Floats, y: Floats, value: float, replicates: int
) -> tuple[float | None, float | None, str]:
    """Return the interval by the delete-half jackknife (Shao & Wu 1989): pairs drawn twice would raise these measures.

    The spread over half samples is the standard error, and their mean excess the bias. The bias is uncertain, so the
    interval covers the value with and without it. Blocks are drawn as a whole, and are longer with autocorrelation.
    Autocorrelated pairs raise mutual information, while every k-th pair, being few, gives too low a value: the lower
    end moves half of the way between the two."""
    from scipy.special import stdtrit  # a third of a second of start-up

    n, spread = len(x), effective_pairs(name, x, y)
    if not spread.enough:
        return None, None, _too_few(spread)
    block = max(default_block(n), min(round(3 * n / spread.count), n // MIN_BLOCKS))
    rng = np.random.default_rng(_SEED)
    labels = np.arange(n) // block
    count = int(labels[-1]) + 1
    measure = MEASURES[name]
    found = []
    for _ in range(min(replicates, 100)):
        chosen = np.zeros(count, np.bool_)
        chosen[rng.choice(count, (count + 1) // 2, replace=False)] = True
        rows = chosen[labels]
        found.append(measure(x[rows], y[rows]))
    halves, at = _z(np.array(found)), float(_z(value))
    freed = 2 * at - float(np.nanmean(halves))
    error = max(float(np.nanstd(halves)), _LEAST_ERROR * _bartlett_count(x, y) ** -0.5)
    half = -float(stdtrit(count - 1, (1 - LEVEL) / 2)) * error
    lifted = max(0.0, at - _thinned_mean(measure, x, y))
    low, high = max(0.0, float(np.tanh(min(at, freed) - half - 0.5 * lifted))), float(np.tanh(max(at, freed) + half))
    return low, high, f"spread over half samples of blocks of {block} runs, about the value with and without its bias"


def _thinned_mean(measure: Measure, x: Floats, y: Floats) -> float:
    """Return the mean of the measure, on Fisher's scale, over every k-th pair: far enough in time to be independent."""
    step = max(1, min(round(len(x) / _bartlett_count(x, y)), len(x) // MIN_PAIRS))
    return float(np.mean([_z(measure(x[first::step], y[first::step])) for first in range(step)]))


def shift_p(name: str, x: Floats, y: Floats, value: float, most: int = MOST_SHIFTS) -> float:
    """Share of circular shifts of y against x, forwards and backwards in time, that reach the value, the pairing at
    hand counted: two-sided for signed measures. A shift keeps what neighbours in time have in common. Free permutations
    do not: of independent series with an autocorrelation of 0.8 they reject a third at 5%."""
    if name in SIGNED:
        shifted = np.stack(list(_shifted(y, most)))
        found = MEASURES[name](np.broadcast_to(x, shifted.shape), shifted)
    else:
        measure: Callable[[Floats], float] = partial(MEASURES[name], x)
        if name == "distance_correlation":
            measure, value = _covariance_with(x), value**2 * _covariance_scale(x, y)
        found = np.array([measure(each) for each in _shifted(y, most)])
    return float((np.abs(found) >= abs(value) * (1 - 1e-9)).sum() + 1) / (len(found) + 1)


def best_shift_p(xs: list[Floats], y: Floats, most: int = MOST_SHIFTS) -> float:
    """The same for the largest of the rank correlations of y with several x: it is chosen in every shift as it was
    chosen here, so that the choice is no evidence. NaN where no complete pair is left, or nothing varies."""
    there = np.isfinite(np.stack([*xs, y])).all(axis=0)
    ranks = [midranks(x[there]) for x in xs if np.ptp(x[there]) > 0] if there.any() else []
    y = midranks(y[there])
    if not ranks or len(y) < MIN_PAIRS or not np.ptp(y):
        return float("nan")
    scores = np.stack([(rank - rank.mean()) / np.linalg.norm(rank - rank.mean()) for rank in ranks])
    value = float(np.abs(scores @ y).max())
    reached = [float(np.abs(scores @ each).max()) >= value * (1 - 1e-9) for each in _shifted(y, most)]
    return (sum(reached) + 1) / (len(reached) + 1)


def _shifted(y: Floats, most: int) -> Iterator[Floats]:
    n = len(y)
    shifts = np.arange(1, 2 * n)
    if len(shifts) > most:
        shifts = np.random.default_rng(_SEED + 1).choice(shifts, most, replace=False)
    return (np.roll(y if shift < n else y[::-1], shift) for shift in shifts.tolist())


def _covariance_scale(x: Floats, y: Floats) -> float:
    return float(np.sqrt(_distance_covariance(x, x) * _distance_covariance(y, y)))


def _covariance_with(x: Floats) -> Callable[[Floats], float]:
    """Distance covariance with x; a shuffled y has the same variance, so the ranking is that of the correlation."""
    n = len(x)
    if n > _SMALL:
        return partial(_distance_covariance, x)
    centred = _centred_distances(x)
    # Not a dot product of BLAS: its threads cost more than they save on a busy machine.
    return lambda y: float((centred * np.abs(y[:, None] - y)).sum()) / n**2


@dataclass(frozen=True)
class ShiftNull:
    """A coefficient under moved times: what remains without any contention. `p` is the share that reaches the value.
    `values` are in the order of the shifts, NaN where too few runs were left."""

    measure: str
    median: float
    p: float
    values: tuple[float, ...]


def time_shifts(steps: int, most: int, *, least: int) -> Ints:
    """Up to `most` shifts of a circular series of `steps`, none within `least` of standing still."""
    if steps < 2 * least + 2:
        return np.zeros(0, np.int64)
    rng = np.random.default_rng(_SEED + 2)
    width = steps - 2 * least
    return np.asarray(least + rng.choice(width, min(most, width), replace=False), np.int64)


def shift_null(y: Floats, observed: dict[str, float], shifted: Iterator[Floats]) -> dict[str, ShiftNull]:
    """`shifted` yields the system's side at moved times; its gaps are left out pair by pair."""
    found: dict[str, list[float]] = {name: [] for name in SIGNED}
    for x in shifted:
        a, b = complete_pairs(x, y)
        enough = len(a) >= max(MIN_PAIRS, len(y) // 2)
        for name in SIGNED:
            found[name].append(MEASURES[name](a, b) if enough else float("nan"))
    nulls = {}
    for name, values in found.items():
        known = [value for value in values if np.isfinite(value)]
        if len(known) >= 19 and np.isfinite(observed[name]):
            p = (1 + sum(value >= observed[name] for value in known)) / (1 + len(known))
            nulls[name] = ShiftNull(name, float(np.median(known)), p, tuple(values))
    return nulls


def best_moved_p(values: list[float], nulls: list[ShiftNull]) -> float:
    """p of the coefficient that exceeds the median of its moved ones most, chosen in every move as it was here."""
    beyond = max(value - null.median for value, null in zip(values, nulls, strict=True))
    table = np.array([null.values for null in nulls]) - np.array([[null.median] for null in nulls])
    moved = np.fmax.reduce(table, axis=0)
    moved = moved[np.isfinite(moved)]
    return float((1 + (moved >= beyond).sum()) / (1 + len(moved)))


# [ours] With fewer independent values the statistic is far from its law: of 50 of AR(0.8) it refused .025 at .05.
_LEAST = 25


@dataclass(frozen=True)
class Moments:
    """`statistic` is chi-square with two degrees of freedom where the values are Normal."""

    skewness: float
    kurtosis: float
    skewness_error: float
    statistic: float

    @property
    def p_value(self) -> float:
        return math.exp(-self.statistic / 2)


def moments(values: Floats) -> Moments | None:
    """Of values in the order of time; None where they do not vary, or too few are independent of the others."""
    if not len(values) or values.min() == values.max():
        return None
    away = values - values.mean()
    variance = float(np.mean(away**2))
    skewness, kurtosis = float(np.mean(away**3)) / variance**1.5, float(np.mean(away**4)) / variance**2
    n = len(values)
    lags = math.isqrt(n)
    correlations = np.array([float(away[lag:] @ away[: n - lag]) / (n * variance) for lag in range(1, lags + 1)])
    # Chance correlations are small, and their powers next to nothing; a sum below 1 would be chance.
    third, fourth = (n / max(1.0, 1 + 2 * float((correlations**power).sum())) for power in (3, 4))
    if third < _LEAST:
        return None
    skewness_variance = 6 * (third - 2) / ((third + 1) * (third + 3))
    usual = 3 * (fourth - 1) / (fourth + 1)
    kurtosis_variance = 24 * fourth * (fourth - 2) * (fourth - 3) / ((fourth + 1) ** 2 * (fourth + 3) * (fourth + 5))
    statistic = skewness**2 / skewness_variance + (kurtosis - usual) ** 2 / kurtosis_variance
    return Moments(skewness, kurtosis, math.sqrt(skewness_variance), statistic)
