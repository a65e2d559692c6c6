"""Statistics of series: variation, distribution, windows, correlation of values, ranks and lags, change points, drift.

Missing values are NaN and are left out pairwise. pat19 section 2.3 defines the coefficient of variation and the lagged
correlation: corr(X[1:n-k], Y[1+k:n]) with means and standard deviations of exactly those ranges.

`single_change` finds one change in the level of a weighted series by weighted least squares over all places (values as
shares, weights as volumes: the level of a side is then its volume share). Its p-value compares with autoregressive
series of order one without a change. Shuffled blocks would forget more than days do: on series with an autocorrelation
of 0.8 they found a change in a quarter of the cases at 5%.

`drift` models growth as a random walk: increments over dt have mean mu*dt and variance s2*dt, so observations need not
be evenly spaced. The first and the last observation give the drift, those between give its uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats

# Order of the six sums that a correlation is made of.
N, SX, SY, SXX, SYY, SXY = range(6)


def coefficient_of_variation(values: NDArray[Any], axis: int | None = None) -> Any:
    """sd / mean (population sd), NaN left out; NaN where the mean is not positive."""
    array = np.asarray(values, np.float64)
    count = np.sum(~np.isnan(array), axis=axis)
    total = np.nansum(array, axis=axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / count
        centred = array - (mean if axis is None else np.expand_dims(mean, axis))
        spread = np.sqrt(np.nansum(centred**2, axis=axis) / count)
        return np.where(mean > 0, spread / mean, np.nan)[()]


def variation_from_sums(count: NDArray[Any], total: NDArray[Any], squares: NDArray[Any]) -> Floats:
    """The same from n, sum and sum of squares, for bootstrap replicates."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / count
        variance = np.maximum(squares / count - mean**2, 0.0)
        return np.asarray(np.where(mean > 0, np.sqrt(variance) / mean, np.nan), np.float64)


def ecdf(values: NDArray[Any]) -> tuple[Floats, Floats]:
    """Distinct values in order, and the share of values <= each."""
    array = np.asarray(values, np.float64)
    distinct, counts = np.unique(array[~np.isnan(array)], return_counts=True)
    return distinct, np.cumsum(counts) / max(1, counts.sum())


def ecdf_points(values: NDArray[Any], points: int) -> tuple[Floats, Floats]:
    """At most `points` points of the ECDF, even in probability, both ends included."""
    x, share = ecdf(values)
    if len(x) <= points:
        return x, share
    wanted = np.linspace(share[0], 1.0, points)
    picks = np.unique(np.minimum(np.searchsorted(share, wanted), len(x) - 1))
    return x[picks], share[picks]


def window_sums(values: NDArray[Any], width: int, *, mean: bool = False) -> Floats:
    """Non-overlapping windows of `width` rows, summed (or averaged); a window with a missing value is missing.

    Rows that do not fill the last window are left out.
    """
    array = np.asarray(values, np.float64)
    if width == 1:
        return array
    whole = len(array) // width
    folded = array[: whole * width].reshape(whole, width, *array.shape[1:])
    return np.asarray(folded.mean(axis=1) if mean else folded.sum(axis=1))


def lagged_sums(x: NDArray[Any], y: NDArray[Any], lags: int, unit: int) -> Floats:
    """The six sums of the pairs (x[i], y[i+k]) for k = 0..lags, by unit of i: an array (units, lags + 1, 6).

    Adding units up and calling `correlation` gives the lagged correlation; resampling units gives its interval.
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
    array = np.asarray(values, np.float64)
    present = array[~np.isnan(array)]
    return np.asarray(array - present.mean() if present.size else array.copy())


def correlation(sums: NDArray[Any]) -> Floats:
    """Pearson's r from the six sums on the last axis; NaN where a side does not vary or fewer than 3 pairs exist."""
    n, sx, sy, sxx, syy, sxy = (sums[..., place] for place in range(6))
    with np.errstate(divide="ignore", invalid="ignore"):
        vx, vy = sxx - sx * sx / n, syy - sy * sy / n
        r = (sxy - sx * sy / n) / np.sqrt(vx * vy)
        # What is left of a constant column after rounding is not variation.
        real = (n > 2) & (vx > 1e-12 * sxx) & (vy > 1e-12 * syy)
        return np.asarray(np.where(real, np.clip(r, -1.0, 1.0), np.nan), np.float64)


def lagged_column_sums(x: Floats, y: Floats, lags: Iterable[int], first: int = 0) -> Floats:
    """The six sums of the pairs (x[i, j], y[i + lag, j]) by lag and column j: an array (lags, 6, columns).

    Pairs count whose second row is `first` or later, so that stretches which overlap by the largest lag add up. Sums
    are of the values as they are: they lose about twice the digits of mean / sd, which for amounts is little.
    """
    has_x, xs, xx = _with_squares(x)
    has_y, ys, yy = (has_x, xs, xx) if y is x else _with_squares(y)
    factors = ((has_x, has_y), (xs, has_y), (has_x, ys), (xx, has_y), (has_x, yy), (xs, ys))
    chosen = list(lags)
    out = np.zeros((len(chosen), 6, x.shape[1]))
    for place, lag in enumerate(chosen):
        start = max(first, lag)
        if start < len(y):
            earlier, later = slice(start - lag, len(x) - lag), slice(start, None)
            out[place] = [np.einsum("ij,ij->j", a[earlier], b[later]) for a, b in factors]
    return out


def _with_squares(values: Floats) -> tuple[Floats, Floats, Floats]:
    """1 where a value is there, the values, and their squares; 0 where it is missing."""
    there = ~np.isnan(values)
    filled = np.where(there, values, 0.0)
    return there.astype(np.float64), filled, filled * filled


def pearson(x: Floats, y: Floats) -> Any:
    """Return Pearson's coefficient along the last axis; NaN where one of the two does not vary."""
    a, b = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    scale = np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))
    return np.divide((a * b).sum(axis=-1), scale, out=np.full(scale.shape, np.nan), where=scale > 0)[()]


def spearman(x: Floats, y: Floats) -> Any:
    """Return Spearman's coefficient along the last axis; NaN where one of the two does not vary."""
    return pearson(midranks(x), midranks(y))


def rank_correlation_within(x: Floats, y: Floats, groups: NDArray[Any]) -> tuple[float, int]:
    """Return Spearman's coefficient within groups, pooled, and the pairs it rests on less one for each further group.

    Ranks are taken within each group in which both vary, and centred; a group weighs as much as its ranks vary relative
    to its size, so that no group rules by its size alone. (nan, 0) where no group has three pairs that vary.
    """
    u, v, pairs, used = [], [], 0, 0
    for group in np.unique(groups):
        a, b = x[groups == group], y[groups == group]
        if len(a) >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0:
            first, second = midranks(a), midranks(b)
            u.append((first - first.mean()) / len(a))
            v.append((second - second.mean()) / len(a))
            pairs, used = pairs + len(a), used + 1
    if not used:
        return float("nan"), 0
    return float(pearson(np.concatenate(u), np.concatenate(v))), pairs - used + 1


def rank_correlation(x: NDArray[Any], y: NDArray[Any]) -> Any:
    """Return Spearman's coefficient along the last axis, of the places that are complete; NaN for fewer than 3."""
    there = np.isfinite(x) & np.isfinite(y)
    there = there.all(axis=tuple(range(there.ndim - 1)))
    if there.sum() < 3:
        return np.full(np.shape(x)[:-1], np.nan)[()]
    return spearman(np.asarray(x, np.float64)[..., there], np.asarray(y, np.float64)[..., there])


def midranks(values: Floats) -> Floats:
    """Ranks from 1 along the last axis, ties share their mean."""
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, -1)
    changes = ordered[..., 1:] != ordered[..., :-1]
    edge = np.ones((*values.shape[:-1], min(1, values.shape[-1])), np.bool_)
    index = np.arange(values.shape[-1])
    first = np.maximum.accumulate(np.where(np.concatenate([edge, changes], -1), index, 0), axis=-1)
    ends = np.where(np.concatenate([changes, edge], -1), index, len(index))
    last = np.minimum.accumulate(ends[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, -1)
    return ranks


# Autocorrelations that are simulated, and the number of series for each.
_TRIED: Final = np.array([0.0, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 0.95])
_SERIES: Final = 150
# [ours] Quantile of the residual correlation that is matched. A low one overestimates the correlation; an underestimate
# would find changes in series without any.
_MATCHED_QUANTILE: Final = 0.16
_BEFORE: Final = 100
_SEED: Final = 20110225


@dataclass(frozen=True)
class Change:
    """The series is at `before` up to `index` (not included), at `after` from there. `explained` is the share of the
    weighted variance that the change explains; `p_value` how often series without a change, with the autocorrelation
    `lag_one`, have as much explained by their best one."""

    index: int
    before: float
    after: float
    explained: float
    p_value: float
    lag_one: float
    replicates: int


def single_change(
    values: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    min_side: int = 3,
    replicates: int = 999,
) -> Change | None:
    """Return the best single change with at least `min_side` values on each side; None if too short or flat."""
    level = np.asarray(values, np.float64)
    weight = np.ones(len(level)) if weights is None else np.asarray(weights, np.float64)
    if len(level) < 2 * min_side or weight.sum() <= 0:
        return None
    gains, total = _gains(level[None], weight[None], min_side)
    if not total[0] > 0:
        return None
    index = int(np.argmax(gains[0])) + min_side
    explained = float(gains[0].max() / total[0])
    rng = np.random.default_rng(_SEED)
    rest = _without_best(level[None], weight, min_side)[0]
    lag_one = _calibrated_lag_one(rest, weight, min_side, rng)
    null_gains, totals = _gains(_drawn(rng, rest, lag_one, replicates), np.tile(weight, (replicates, 1)), min_side)
    # The observed order counts as one of the series, so p is never 0.
    reached = int(np.sum(null_gains.max(axis=1) / totals >= explained * (1 - 1e-12)))
    levels = [_level(level[part], weight[part]) for part in (slice(None, index), slice(index, None))]
    return Change(index, levels[0], levels[1], explained, (1 + reached) / (1 + replicates), lag_one, replicates)


def _without_best(values: Floats, weight: Floats, min_side: int) -> Floats:
    """Return rows minus their levels before and after the best change of each."""
    gains, _ = _gains(values, np.tile(weight, (len(values), 1)), min_side)
    before = np.arange(values.shape[1]) < (gains.argmax(axis=1) + min_side)[:, None]
    out = values.copy()
    for side in (before, ~before):
        mass = (side * weight).sum(axis=1)
        level = (side * weight * values).sum(axis=1) / np.where(mass > 0, mass, 1.0)
        out -= side * level[:, None]
    return out


def _lag_one(rows: Floats) -> Floats:
    squares = (rows**2).sum(axis=1)
    return np.asarray((rows[:, 1:] * rows[:, :-1]).sum(axis=1) / np.where(squares > 0, squares, 1.0))


def _calibrated_lag_one(rest: Floats, weight: Floats, min_side: int, rng: np.random.Generator) -> float:
    """Return the lag-one autocorrelation, calibrated by simulation: removing the best change biases it down."""
    seen = [
        np.quantile(
            _lag_one(_without_best(_drawn(rng, None, tried, _SERIES, len(rest)), weight, min_side)), _MATCHED_QUANTILE
        )
        for tried in _TRIED
    ]
    return float(np.interp(_lag_one(rest[None])[0], np.maximum.accumulate(seen), _TRIED, left=0.0))


def _drawn(rng: np.random.Generator, rest: Floats | None, lag_one: float, rows: int, n: int = 0) -> Floats:
    """Draw autoregressive series, with normal innovations or those of the residuals `rest`."""
    if rest is None:
        innovations = rng.standard_normal((rows, n + _BEFORE))
    else:
        own = rest[1:] - float(_lag_one(rest[None])[0]) * rest[:-1]
        innovations = rng.choice(own - own.mean(), (rows, len(rest) + _BEFORE))
    out = innovations.copy()
    for step in range(1, out.shape[1]):
        out[:, step] += lag_one * out[:, step - 1]
    return out[:, _BEFORE:]


def _level(values: Floats, weights: Floats) -> float:
    total = weights.sum()
    return float(values @ weights / total) if total > 0 else float("nan")


def _gains(values: Floats, weights: Floats, min_side: int) -> tuple[Floats, Floats]:
    """Fall of the weighted sum of squares for a change before each admissible place; and the sum without one."""
    w, wx = np.cumsum(weights, axis=1), np.cumsum(weights * values, axis=1)
    all_w, all_wx = w[:, -1:], wx[:, -1:]
    left = slice(min_side - 1, values.shape[1] - min_side)
    mean = all_wx / all_w
    with np.errstate(divide="ignore", invalid="ignore"):
        # Between-sides sum of squares: (W_l * W / W_r) * (mean_l - mean)^2, written so that an empty side gives 0.
        shift = wx[:, left] - mean * w[:, left]
        gain = shift**2 * all_w / (w[:, left] * (all_w - w[:, left]))
    total = np.sum(weights * (values - mean) ** 2, axis=1)
    return np.nan_to_num(gain, nan=0.0, posinf=0.0), total


@dataclass(frozen=True)
class Drift:
    """`rate` per unit of time; `variance` per unit of time, None with fewer than three observations."""

    rate: float
    variance: float | None
    span: float
    steps: int

    def rate_interval(self, level: float) -> tuple[float, float] | None:
        if self.variance is None:
            return None
        # mu = sum(dN) / T has variance s2 / T.
        half = self._quantile(level) * math.sqrt(self.variance / self.span)
        return self.rate - half, self.rate + half

    def _quantile(self, level: float) -> float:
        from scipy.special import stdtrit  # a third of a second of start-up

        return -float(stdtrit(self.steps - 1, (1 - level) / 2))

    def reaches(self, distance: float) -> float | None:
        """Time until it has grown by `distance`; None if it does not grow."""
        if distance <= 0:
            return 0.0
        return distance / self.rate if self.rate > 0 else None

    def reach_interval(self, distance: float, level: float) -> tuple[float, float | None] | None:
        """Times between which it reaches `distance`; no upper end where it may never.

        After t the growth is mu*t with variance s2*t*(1 + t/T): its random steps, and the error of the drift.
        """
        if self.variance is None or distance <= 0:
            return None
        if self.variance == 0:
            exact = self.reaches(distance)
            return None if exact is None else (exact, exact)
        q, s2, span, mu = self._quantile(level), self.variance, self.span, self.rate

        # The bounds d = mu t +- q sqrt(s2 t (1 + t/T)) are the roots of a t^2 - b t + d^2 = 0.
        low_slope, high_slope = mu - q * math.sqrt(s2 / span), mu + q * math.sqrt(s2 / span)
        if high_slope <= 0:
            return None
        a, b = low_slope * high_slope, 2 * distance * mu + q * q * s2
        root = math.sqrt(b * b - 4 * a * distance**2)
        # A lower bound that does not rise may never reach the distance.
        return 2 * distance**2 / (b + root), (b + root) / (2 * a) if low_slope > 0 else None


def drift(times: NDArray[Any], values: NDArray[Any]) -> Drift | None:
    """Return the drift of two or more observations at increasing times; None with fewer."""
    t, v = np.asarray(times, np.float64), np.asarray(values, np.float64)
    dt, dv = np.diff(t), np.diff(v)
    if len(dt) == 0 or (dt <= 0).any():
        return None
    span = float(dt.sum())
    rate = float(dv.sum()) / span
    # Standardised residuals have variance s2; one degree of freedom went to the rate.
    residual = (dv - rate * dt) ** 2 / dt
    variance = float(residual.sum()) / (len(dt) - 1) if len(dt) > 1 else None
    return Drift(rate, variance, span, len(dt))
