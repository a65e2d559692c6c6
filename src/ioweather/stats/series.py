"""Statistics of series: variation, distribution, windows, lagged correlation, cycles, phases, and imbalance of
components.

Missing values are NaN and are left out pairwise. pat19 section 2.3 defines the coefficient of variation and the lagged
correlation: corr(X[1:n-k], Y[1+k:n]) with means and standard deviations of exactly those ranges.

- Cycles: the largest of 24 hourly means is large by selection. Rotating each day by a random number of hours gives its
  distribution without a daily pattern: bursts keep their lengths and heights, and only the common phase is lost.
- A phase is a maximal run of high steps (at or above the 75th percentile of all steps) or low ones (below the 25th). A
  gap breaks a phase. Means come from rates of starts over recorded time (`phase_sums`), which gaps do not bias; the
  times from start to start of the chart leave out those that span a gap, long ones first.
- Imbalance: the extremes of totals per component.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Bools, Floats, Ints
from ioweather.core.results import Estimate
from ioweather.stats.estimates import LEVEL, sums_by_unit

# Order of the six sums that a correlation is made of.
N, SX, SY, SXX, SYY, SXY = range(6)


def coefficient_of_variation(values: NDArray[Any], axis: int | None = None) -> Any:
    """Return sd / mean (population sd), missing values left out; NaN where the mean is not positive."""
    array = np.asarray(values, np.float64)
    count = np.sum(~np.isnan(array), axis=axis)
    total = np.nansum(array, axis=axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / count
        centred = array - (mean if axis is None else np.expand_dims(mean, axis))
        spread = np.sqrt(np.nansum(centred**2, axis=axis) / count)
        return np.where(mean > 0, spread / mean, np.nan)[()]


def variation_from_sums(count: NDArray[Any], total: NDArray[Any], squares: NDArray[Any]) -> Floats:
    """Return sd / mean from n, sum and sum of squares, for bootstrap replicates."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / count
        variance = np.maximum(squares / count - mean**2, 0.0)
        return np.asarray(np.where(mean > 0, np.sqrt(variance) / mean, np.nan), np.float64)


def window_sums(values: NDArray[Any], width: int, *, mean: bool = False) -> Floats:
    """Return sums (or means) of non-overlapping windows of `width` rows.

    A window with a missing value is missing. Rows that do not fill the last window are left out.
    """
    array = np.asarray(values, np.float64)
    if width == 1:
        return array
    whole = len(array) // width
    folded = array[: whole * width].reshape(whole, width, *array.shape[1:])
    return np.asarray(folded.mean(axis=1) if mean else folded.sum(axis=1))


def lagged_sums(x: NDArray[Any], y: NDArray[Any], lags: int, unit: int) -> Floats:
    """Return the six sums of the pairs (x[i], y[i+k]) for k = 0..lags, by unit of i: (units, lags + 1, 6).

    Sums of units through `correlation` give the lagged correlation; resampled units give its interval.
    """
    # A correlation does not change when a constant is taken off; the sums lose fewer digits.
    xs, ys = _centred(x), _centred(y)
    edges = np.arange(0, len(xs), unit)
    out = np.zeros((len(edges), lags + 1, 6))
    for lag in range(min(lags, max(0, len(xs) - 1)) + 1):
        left = xs.copy() if lag == 0 else np.concatenate([xs[:-lag], np.full(lag, np.nan)])
        right = np.concatenate([ys[lag:], np.full(lag, np.nan)])
        both = ~(np.isnan(left) | np.isnan(right))
        left[~both], right[~both] = 0.0, 0.0
        both_of = {N: both.astype(np.float64), SX: left, SY: right}
        both_of |= {SXX: left * left, SYY: right * right, SXY: left * right}
        for place, terms in both_of.items():
            out[:, lag, place] = np.add.reduceat(terms, edges)
    return out


def _centred(values: NDArray[Any]) -> Floats:
    """Return the values minus their mean; missing ones stay."""
    array = np.asarray(values, np.float64)
    present = array[~np.isnan(array)]
    return np.asarray(array - present.mean() if present.size else array.copy())


def correlation(sums: NDArray[Any]) -> Floats:
    """Return Pearson's r from the six sums on the last axis; NaN for fewer than 3 pairs or a side that does not
    vary."""
    n, sx, sy, sxx, syy, sxy = (sums[..., place] for place in range(6))
    with np.errstate(divide="ignore", invalid="ignore"):
        vx, vy = sxx - sx * sx / n, syy - sy * sy / n
        r = (sxy - sx * sy / n) / np.sqrt(vx * vy)
        # What is left of a constant column after rounding is not variation.
        real = (n > 2) & (vx > 1e-12 * sxx) & (vy > 1e-12 * syy)
        return np.asarray(np.where(real, np.clip(r, -1.0, 1.0), np.nan), np.float64)


def lagged_column_sums(x: Sequence[Floats], y: Sequence[Floats], lags: Sequence[int], first: int = 0) -> Floats:
    """Return the six sums of the pairs (x[i, j], y[i + lag, j]) by lag and column j: (lags, 6, columns).

    Both sides are as `with_squares` returns them. Pairs count whose second row is `first` or later, so that stretches
    which overlap by the largest lag add up. Sums are of uncentred values: they lose about twice the digits of mean /
    sd, which for amounts is little.
    """
    (has_x, xs, xx), (has_y, ys, yy) = x, y
    factors = ((has_x, has_y), (xs, has_y), (has_x, ys), (xx, has_y), (has_x, yy), (xs, ys))
    out = np.zeros((len(lags), 6, xs.shape[1]))
    for place, lag in enumerate(lags):
        start = max(first, lag)
        if start < len(ys):
            earlier, later = slice(start - lag, len(xs) - lag), slice(start, None)
            out[place] = [np.einsum("ij,ij->j", a[earlier], b[later]) for a, b in factors]
    return out


def with_squares(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return 1 where a value is known, the values and their squares; 0 where it is missing."""
    there = ~np.isnan(values)
    filled = np.where(there, values, 0.0)
    return there.astype(np.float64), filled, filled * filled


REPLICATES: Final = 999


def rotated_sums(cycles: Floats, replicates: int = REPLICATES, seed: int = 0) -> Floats:
    """Return sums over cycles (cycles, places, ...), each rotated at random: (replicates, places, ...).

    The seed is fixed, so all statistics use the same rotations.
    """
    count, places = cycles.shape[:2]
    shift = np.random.default_rng(seed).integers(0, places, (replicates, count))
    days, hours = np.arange(count)[:, None], np.arange(places)
    return np.stack([cycles[days, (hours + turn[:, None]) % places].sum(axis=0) for turn in shift])


def chance_bound(null: Floats, level: float) -> float:
    """Return the quantile of the null distribution at `level`; NaN where there is none."""
    known = null[~np.isnan(null)]
    return float(np.quantile(known, level)) if len(known) else float("nan")


def means_of(sums: Floats) -> Floats:
    """Return means from n and sum on the last axis; NaN for n = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 1] / sums[..., 0])


def cycle_spread(name: str, sums: Floats, null: Floats, aside: int = 0, *, n: int) -> Estimate:
    """Return sd / mean of the means along a cycle, without the `aside` largest; 0 is flat.

    `sums` are n and sum by unit and place, `null` those of rotated units. Noise makes means differ too: the lower end
    is reduced by what chance gives; the upper one is the spread itself.
    """

    def squared(summed: Floats) -> Floats:
        means = means_of(summed)
        kept = np.sort(means, axis=-1)[..., : means.shape[-1] - aside]
        return np.asarray(kept.std(axis=-1) / kept.mean(axis=-1)) ** 2

    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(np.sqrt(squared(sums.sum(axis=0))))
    if len(sums) < 2 or not np.isfinite(value):
        known = value if np.isfinite(value) else None
        return Estimate(name, known, "ratio", n=n, method="too few values for an interval")
    chance = chance_bound(squared(null), (1 + LEVEL) / 2)
    low = float(np.sqrt(max(0.0, value**2 - chance)))
    return Estimate(name, value, "ratio", low, value, LEVEL, n, "sd / mean of the means; the low end excludes chance")


Side: TypeAlias = Literal["high", "low"]

HIGH_QUANTILE = 0.75
LOW_QUANTILE = 0.25


@dataclass(frozen=True, eq=False)
class _Phases:
    """Runs in time order: first step, length in steps, and whether an edge or a gap cut the run short.

    `interarrival` are the times in steps from one start to the next, those without a gap between them.
    """

    start: Ints
    length: Ints
    cut: Bools
    interarrival: Ints

    @property
    def count(self) -> int:
        """Number of phases."""
        return len(self.start)


def thresholds(values: NDArray[Any]) -> tuple[float, float]:
    """Return the 25th and 75th percentile of the known steps; NaN without any."""
    array = np.asarray(values, np.float64)
    present = array[~np.isnan(array)]
    if not present.size:
        return float("nan"), float("nan")
    low, high = np.quantile(present, (LOW_QUANTILE, HIGH_QUANTILE))
    return float(low), float(high)


def members(values: NDArray[Any], threshold: float, side: Side) -> Bools:
    """Return which steps are >= the threshold ('high') or below it ('low'); missing steps are in neither."""
    array = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(array >= threshold if side == "high" else array < threshold)


def find_phases(values: NDArray[Any], threshold: float, side: Side) -> _Phases:
    """Return the maximal runs of steps in the high or low state."""
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
    return _Phases(start, end - start, cut, np.diff(start)[clean])


# Thresholds around the percentile: those that resampled days may have.
_LEVELS = np.linspace(-0.2, 0.2, 17)


def phase_sums(values: NDArray[Any], side: Side, unit: int, short: float) -> Floats:
    """Return per unit of time, for thresholds around the percentile, the sums of phases: (units, thresholds, 7).

    Columns: recorded steps; steps in the state; steps whose predecessor was recorded (or the first one); those of them
    that begin a phase; those of them in the state; phases; phases of at most `short` steps. The middle threshold is the
    percentile itself. Only a step with a recorded predecessor can be seen to begin a phase, so means over these steps
    are right whatever is missing.
    """
    array = np.asarray(values, np.float64)
    there = ~np.isnan(array)
    exposed = there.copy()
    exposed[1:] &= there[:-1]
    middle = HIGH_QUANTILE if side == "high" else LOW_QUANTILE
    cuts = np.quantile(array[there], np.clip(middle + _LEVELS, 0, 1)) if there.any() else np.full(len(_LEVELS), np.nan)
    out = []
    for cut in cuts:
        phases = find_phases(array, float(cut), side)
        state = members(array, float(cut), side)
        begins = np.zeros(len(array), np.bool_)
        begins[phases.start] = True
        runs = np.zeros((len(array), 2))
        runs[phases.start] = np.stack([np.ones(phases.count), phases.length <= short], axis=1)
        columns = [there, state, exposed, exposed & begins, exposed & state, runs[:, 0], runs[:, 1]]
        out.append(sums_by_unit(np.stack(columns, axis=1).astype(np.float64), unit))
    return np.stack(out, axis=1)


def at_percentile(sums: Floats, whole: Floats) -> Floats:
    """Return the sums at the threshold that selects the same share of the drawn units as the percentile does of all.

    `sums` and `whole` are from `phase_sums`, thresholds and columns on the last two axes: (..., 7). So the threshold is
    estimated again from the units drawn, between two thresholds by interpolation.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = whole[..., whole.shape[-2] // 2, :]
        wanted = (middle[..., 1] / middle[..., 0])[..., None]
        share = sums[..., 1] / sums[..., 0]
        falling = (share[..., -1] < share[..., 0])[..., None]
        share = np.where(falling, share[..., ::-1], share)
        ordered = np.where(falling[..., None], sums[..., ::-1, :], sums)
        after = np.clip((share < wanted * (1 - 1e-12)).sum(axis=-1), 1, share.shape[-1] - 1)[..., None]
        low, high = (np.take_along_axis(share, at, axis=-1) for at in (after - 1, after))
        part = np.clip(np.where(high > low, (wanted - low) / (high - low), 1.0), 0.0, 1.0)
    first, second = (np.take_along_axis(ordered, at[..., None], axis=-2)[..., 0, :] for at in (after - 1, after))
    return np.asarray((1 - part) * first + part * second)


def mean_length(sums: Floats) -> Floats:
    """Return the mean length of a phase in steps: steps in the state per start."""
    return np.asarray(sums[..., 4] / sums[..., 3])


def mean_interarrival(sums: Floats) -> Floats:
    """Return the mean time from one start to the next in steps: recorded time per start."""
    return np.asarray(sums[..., 2] / sums[..., 3])


def max_to_min(totals: NDArray[Any]) -> Any:
    """Return the largest over the smallest along the last axis; infinite over zero, NaN where all are zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.max(totals, axis=-1) / np.min(totals, axis=-1)
