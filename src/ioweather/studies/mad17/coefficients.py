"""Dependence between two series: four coefficients with intervals and null distributions.

Pearson and Spearman are signed. Distance correlation (Szekely, Rizzo & Bakirov 2007) is 0 only under independence.
Mutual information is the first estimator of Kraskov, Stoegbauer & Grassberger (2004), on the scale of a correlation by
Linfoot (1957): sqrt(1 - exp(-2 I)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import digamma, stdtrit

from ioweather.core.frames import Floats, Ints
from ioweather.core.units import HOUR_NS
from ioweather.facts.system_grid import Steps
from ioweather.stats.dependence import midranks, pearson, spearman
from ioweather.stats.estimates import LEVEL, MIN_BLOCKS, EffectiveSample, default_block, effective_sample

Measure: TypeAlias = Callable[[Floats, Floats], Any]

NEIGHBOURS: Final = 3
REPLICATES: Final = 400
MOST_SHIFTS: Final = 199
_TIME_SHIFTS: Final = 99
MIN_PAIRS: Final = 8
# Beyond this many pairs intervals, p values and distances come from a sample of this size: they are narrow enough.
MOST_RESAMPLED: Final = 500
_SEED: Final = 20170807
# Half samples of autocorrelated pairs vary too little: least share of the standard error of a correlation. [ours], by
# coverage.
_LEAST_ERROR: Final = 0.8


@dataclass(frozen=True)
class Association:
    """A coefficient with its interval, and the share of shuffled pairings that reach it."""

    value: float
    n: int
    method: str
    low: float | None = None
    high: float | None = None
    p: float | None = None


def _centred_distances(x: Floats) -> Floats:
    """Return all pairwise distances minus the means of their rows and columns."""
    distances = np.abs(x[:, None] - x)
    means = distances.mean(axis=0)
    return np.asarray(distances - means - means[:, None] + means.mean())


def distance_correlation(x: Floats, y: Floats) -> float:
    """Return the distance correlation in [0, 1], by the biased V-statistic; NaN where one of the two does not vary."""
    if len(x) > MOST_RESAMPLED:
        rows = _sample_rows(len(x))
        x, y = x[rows], y[rows]
    a, b = _centred_distances(x), _centred_distances(y)
    scale = float((a * a).sum()) * float((b * b).sum())
    return float(np.sqrt(max(float((a * b).sum()), 0.0) / np.sqrt(scale))) if scale > 0 else float("nan")


def normalised_information(x: Floats, y: Floats) -> float:
    """Return mutual information on the scale of a correlation, 0 to 1.

    Ties are broken by noise far below the smallest difference, with a fixed seed.
    """
    n = len(x)
    if n <= NEIGHBOURS + 1 or not np.ptp(x) or not np.ptp(y):
        return 0.0
    rng = np.random.default_rng(_SEED)
    sides = [values / values.std() + 1e-10 * rng.standard_normal(n) for values in (x, y)]
    points = np.stack(sides, axis=1)
    distances = np.asarray(cKDTree(points).query(points, k=NEIGHBOURS + 1, p=np.inf)[0])
    # Strictly inside the distance to the k-th neighbour; rounding must not take that neighbour in.
    radius = distances[:, -1] * (1 - 1e-10)
    counts = []  # points within the radius of each, itself counted: n_x + 1 of KSG's equation 8
    for values in sides:
        ordered = np.sort(values)
        below = np.searchsorted(ordered, values - radius, "left")
        counts.append(np.searchsorted(ordered, values + radius, "right") - below)
    nats = max(float(digamma(NEIGHBOURS) + digamma(n) - np.mean(digamma(counts[0]) + digamma(counts[1]))), 0.0)
    return float(np.sqrt(1 - np.exp(-2 * nats)))


MEASURES: Final[dict[str, Measure]] = {
    "pearson": pearson,
    "spearman": spearman,
    "distance_correlation": distance_correlation,
    "mutual_information": normalised_information,
}
SIGNED: Final = ("pearson", "spearman")


def above_resolution(seconds: Floats, resolution: float = 1e-6) -> Floats:
    """Return the values; all equal to their mean if they vary by less than the clock's resolution in seconds."""
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
    """Return the four coefficients without intervals; NaN with fewer than MIN_PAIRS pairs, or where one side is
    constant."""
    a, b = complete_pairs(x, y)
    if len(a) < MIN_PAIRS or not (np.ptp(a) and np.ptp(b)):
        return dict.fromkeys(MEASURES, float("nan"))
    return {name: measure(a, b) for name, measure in MEASURES.items()}


def _sample_rows(n: int) -> Ints:
    """Return MOST_RESAMPLED of n rows in order, always the same."""
    return np.sort(np.random.default_rng(_SEED).choice(n, MOST_RESAMPLED, replace=False))


def associate(x: NDArray[Any], y: NDArray[Any], *, replicates: int = REPLICATES) -> dict[str, Association]:
    """Return the four coefficients with intervals and p-values, by name.

    Pairs must be in the order of time: neighbours share a state of the system, so they are resampled in blocks.
    """
    a, b = complete_pairs(x, y)
    n = len(a)
    if n > MOST_RESAMPLED:
        rows, whole, out = _sample_rows(n), coefficients(a, b), {}
        for name, found in associate(a[rows], b[rows], replicates=replicates).items():
            shift = whole[name] - found.value
            low, high = (None if end is None else end + shift for end in (found.low, found.high))
            method = f"{found.method}, of {MOST_RESAMPLED:,} pairs"
            out[name] = Association(whole[name], n, method, low, high, found.p)
        return out
    words = f"{n} pairs are too few" if n < MIN_PAIRS else "one of the two variables is constant"
    out = {name: Association(value, n, words) for name, value in coefficients(a, b).items()}
    for name, found in out.items():
        if np.isfinite(found.value):
            low, high, method = interval_of(name, a, b, found.value, replicates)
            out[name] = Association(found.value, n, method, low, high, shift_p(name, a, b, found.value))
    return out


def interval_of(
    name: str, x: Floats, y: Floats, value: float, replicates: int
) -> tuple[float | None, float | None, str]:
    """Return low, high and method of a coefficient.

    Of a signed one: percentiles over circular blocks of pairs on Fisher's scale, stretched by the effective sample.
    """
    spread = effective_pairs(name, x, y)
    if not spread.enough:
        return None, None, f"too few independent runs, about {float(spread.count):.0f}"
    if name not in SIGNED:
        return _half_samples(MEASURES[name], x, y, value, float(spread.count), replicates)
    drawn = _draw_blocks(len(x), replicates)
    found = _fisher_z(MEASURES[name](x[drawn], y[drawn]))
    low, high = np.tanh(_stretched_percentiles(found, float(_fisher_z(value)), spread))
    return float(low), float(high), f"bootstrap of blocks of {default_block(len(x))} runs, {replicates} replicates"


def _fisher_z(r: Floats | float) -> Floats:
    """Return Fisher's transform of correlations, finite also at 1."""
    return np.asarray(np.arctanh(np.clip(r, -0.999999, 0.999999)))


def effective_pairs(name: str, x: Floats, y: Floats) -> EffectiveSample:
    """Return the effective sample of pairs in time order, from each pair's contribution to the coefficient on Fisher's
    scale; of Spearman's for measures that are not correlations."""
    if name != "pearson":
        return effective_sample(_spearman_parts(x, y) / max(1 - spearman(x, y) ** 2, 1e-6))
    r = pearson(x, y)
    a, b = ((values - values.mean()) / values.std() for values in (x, y))
    found = effective_sample((a * b - r / 2 * (a * a + b * b)) / max(1 - r * r, 1e-6))
    # In short series products are less autocorrelated than they should be; the columns give a better estimate.
    count = _bartlett_count(x, y)
    return replace(found, count=min(found.count, count), error=max(found.error, count**-0.5))


def _bartlett_count(x: Floats, y: Floats) -> float:
    """Return the effective number of pairs of two autocorrelated columns, for their correlation (Bartlett 1935).

    The lag-one autocorrelations are corrected for the bias of short series (Kendall 1954).
    """
    shared = 1.0
    for values in (x, y):
        centred = values - values.mean()
        squares = float(centred @ centred)
        found = float(centred[1:] @ centred[:-1]) / squares if squares > 0 else 0.0
        shared *= min(max(found + (1 + 3 * found) / len(values), 0.0), 0.99)
    return len(x) * (1 - shared) / (1 + shared)


def _spearman_parts(x: Floats, y: Floats) -> Floats:
    """Return the influence of each pair on Spearman's coefficient (Croux & Dehon 2010, Eq. 3): a pair also moves the
    ranks of others."""
    u, v = (midranks(values) / len(values) - 0.5 for values in (x, y))

    def sums_above(x: Floats, v: Floats) -> Floats:
        """Mean over j of v_j where x_j >= x_i."""
        order = np.argsort(x, kind="stable")
        from_here = np.cumsum(v[order][::-1])[::-1]
        return np.asarray(from_here[np.searchsorted(x[order], x, "left")] / len(x))

    return np.asarray(12 * (u * v + sums_above(x, v) + sums_above(y, u)))


def _draw_blocks(n: int, replicates: int) -> Ints:
    """Return rows drawn in circular blocks: (replicates, n)."""
    block = default_block(n)
    starts = np.random.default_rng(_SEED).integers(0, n, (replicates, -(-n // block)))
    return np.asarray(((starts[:, :, None] + np.arange(block)).reshape(replicates, -1) % n)[:, :n], np.int64)


def _stretched_percentiles(found: Floats, value: float, spread: EffectiveSample) -> Floats:
    """Return the ends of the central interval of replicates, moved away from the value by the effective sample."""
    finite = found[np.isfinite(found)]
    stretches = np.array(spread.stretches(float(finite.std())))
    return np.asarray(value + stretches * (np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - value))


def spearman_interval(x: Floats, y: Floats, replicates: int = REPLICATES) -> tuple[float, float, float] | None:
    """Return value, low and high of Spearman's coefficient; None without an interval."""
    value = spearman(x, y) if len(x) >= MIN_PAIRS else float("nan")
    low, high, _ = interval_of("spearman", x, y, value, replicates) if np.isfinite(value) else (None, None, "")
    return (value, low, high) if low is not None and high is not None else None


def spearman_change(
    *columns: Floats, least: int = MIN_PAIRS, explained: bool = False
) -> tuple[float, float, float, int] | None:
    """Return Spearman of the last two columns minus that of the first two, with an interval: value, low, high, n.

    With `explained`, the difference of the variances that they explain: of the squares, with the coefficients' signs.
    The same rows are drawn for both. None without an interval, and for fewer than `least` complete rows.
    """
    there = np.isfinite(np.stack(columns)).all(axis=0)
    x, y, later_x, later_y = (column[there] for column in columns)
    if len(x) < least:
        return None

    def change(first: Any, last: Any) -> Any:
        return last * np.abs(last) - first * np.abs(first) if explained else last - first

    first, last = spearman(x, y), spearman(later_x, later_y)
    value = change(first, last)
    slopes = (2 * abs(first), 2 * abs(last)) if explained else (1.0, 1.0)
    spread = effective_sample(slopes[1] * _spearman_parts(later_x, later_y) - slopes[0] * _spearman_parts(x, y))
    if not np.isfinite(value) or not spread.enough:
        return None
    drawn = _draw_blocks(len(x), REPLICATES)
    found = change(spearman(x[drawn], y[drawn]), spearman(later_x[drawn], later_y[drawn]))
    low, high = _stretched_percentiles(found, value, spread)
    return value, float(low), float(high), len(x)


def _half_samples(
    measure: Measure, x: Floats, y: Floats, value: float, independent: float, replicates: int
) -> tuple[float, float, str]:
    """Return the interval by the delete-half jackknife (Shao & Wu 1989): pairs drawn twice would raise these measures.

    The spread over half samples is the standard error, and their mean excess the bias. The bias is uncertain, so the
    interval covers the value with and without it. Blocks are drawn as a whole, and are longer with autocorrelation.
    Autocorrelated pairs raise mutual information, while every k-th pair, being few, gives too low a value: the lower
    end moves half of the way between the two."""
    n, count_of_pairs = len(x), _bartlett_count(x, y)
    block = max(default_block(n), min(round(3 * n / independent), n // MIN_BLOCKS))
    rng = np.random.default_rng(_SEED)
    labels = np.arange(n) // block
    count = int(labels[-1]) + 1
    found = []
    for _ in range(min(replicates, 100)):
        chosen = np.zeros(count, np.bool_)
        chosen[rng.choice(count, (count + 1) // 2, replace=False)] = True
        rows = chosen[labels]
        found.append(measure(x[rows], y[rows]))
    halves, at = _fisher_z(np.array(found)), float(_fisher_z(value))
    freed = 2 * at - float(np.nanmean(halves))
    error = max(float(np.nanstd(halves)), _LEAST_ERROR * count_of_pairs**-0.5)
    half = -float(stdtrit(count - 1, (1 - LEVEL) / 2)) * error
    step = max(1, min(round(n / count_of_pairs), n // MIN_PAIRS))
    thinned = np.mean([_fisher_z(measure(x[first::step], y[first::step])) for first in range(step)])
    lifted = max(0.0, at - float(thinned))
    low, high = max(0.0, float(np.tanh(min(at, freed) - half - 0.5 * lifted))), float(np.tanh(max(at, freed) + half))
    return low, high, f"spread of half samples in blocks of {block} runs, with and without bias correction"


def shift_p(name: str, x: Floats, y: Floats, value: float, most: int = MOST_SHIFTS) -> float:
    """Return the share of circular shifts of y against x, in both directions of time, that reach `value`.

    Two-sided for signed measures; the observed pairing counts as one shift. Shifts preserve autocorrelation. Free
    permutations do not: of independent series with an autocorrelation of 0.8 they reject a third at 5%.
    """
    shifted = np.stack(list(_circular_shifts(y, most)))
    if name in SIGNED:
        found = MEASURES[name](np.broadcast_to(x, shifted.shape), shifted)
    elif name == "distance_correlation":
        # The covariance alone: a shifted y has the same variance. Not a dot product of BLAS: its threads cost more than
        # they save on a busy machine.
        a, b = _centred_distances(x), _centred_distances(y)
        value = value**2 * float(np.sqrt((a * a).sum() * (b * b).sum()))
        found = np.array([(a * np.abs(each[:, None] - each)).sum() for each in shifted])
    else:
        found = np.array([MEASURES[name](x, each) for each in shifted])
    return float((np.abs(found) >= abs(value) * (1 - 1e-9)).sum() + 1) / (len(found) + 1)


def best_shift_p(xs: list[Floats], y: Floats, most: int = MOST_SHIFTS) -> float:
    """Return the p-value of the largest of several rank correlations with y, by shifts as in `shift_p`.

    The largest is selected again in every shift, so the selection is accounted for. NaN where no complete pair is left
    or nothing varies.
    """
    there = np.isfinite(np.stack([*xs, y])).all(axis=0)
    ranks = [midranks(x[there]) for x in xs if np.ptp(x[there]) > 0] if there.any() else []
    y = midranks(y[there])
    if not ranks or len(y) < MIN_PAIRS or not np.ptp(y):
        return float("nan")
    scores = np.stack([(rank - rank.mean()) / np.linalg.norm(rank - rank.mean()) for rank in ranks])
    value = float(np.abs(scores @ y).max())
    reached = [float(np.abs(scores @ each).max()) >= value * (1 - 1e-9) for each in _circular_shifts(y, most)]
    return (sum(reached) + 1) / (len(reached) + 1)


def _circular_shifts(y: Floats, most: int) -> Iterator[Floats]:
    """Yield y rotated by up to `most` different shifts, forwards and backwards in time."""
    n = len(y)
    shifts = np.arange(1, 2 * n)
    if len(shifts) > most:
        shifts = np.random.default_rng(_SEED + 1).choice(shifts, most, replace=False)
    return (np.roll(y if shift < n else y[::-1], shift) for shift in shifts.tolist())


@dataclass(frozen=True)
class ShiftNull:
    """Null distribution of a coefficient: that of runs shifted in time, without contention.

    `p` is the share of shifts that reach the observed value; `values` are in the order of the shifts, NaN where too few
    runs were left.
    """

    median: float
    p: float
    values: tuple[float, ...]


def time_shifts(grid: Steps) -> Ints:
    """Return shifts in steps around the end of the period; none is within an hour (or a tenth of the period) of no
    shift."""
    least = min(int(max(1, HOUR_NS // grid.step_ns)), grid.count // 10)
    if grid.count < 2 * least + 2:
        return np.zeros(0, np.int64)
    rng = np.random.default_rng(_SEED + 2)
    width = grid.count - 2 * least
    return np.asarray(least + rng.choice(width, min(_TIME_SHIFTS, width), replace=False), np.int64)


def shift_null(y: Floats, observed: dict[str, float], shifted: Iterator[Floats]) -> dict[str, ShiftNull]:
    """Return the null distributions of the signed coefficients of y with each series of `shifted`.

    Missing values are left out pairwise. A coefficient without 19 known values has no null distribution.
    """
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
            nulls[name] = ShiftNull(float(np.median(known)), p, tuple(values))
    return nulls


def best_excess_p(values: list[float], nulls: list[ShiftNull]) -> float:
    """Return the p-value of the largest excess of several coefficients over the medians of their null distributions.

    Every shift selects its own largest, so p accounts for the selection.
    """
    observed = max(value - null.median for value, null in zip(values, nulls, strict=True))
    excess = np.array([null.values for null in nulls]) - np.array([[null.median] for null in nulls])
    largest = np.fmax.reduce(excess, axis=0)
    largest = largest[np.isfinite(largest)]
    return float((1 + (largest >= observed).sum()) / (1 + len(largest)))
