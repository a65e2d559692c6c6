"""The empirical distribution of times, distances of fitted ones from it, and maximum-likelihood fits of heads, of
bounded tails and of whole samples.

- Power law, Exponential, LogNormal and Gamma tails need only sums over the tail (they are exponential families in x/low
  and its logarithm), and suffix sums give those for all candidates in one pass. Normal heads come from prefix sums.
- Cauchy heads and Weibull tails have no such sums: they are solved split by split on weighted points. Up to
  EXACT_POINTS distinct values the points are the values. Beyond, runs of neighbouring values become two points each
  that preserve the mean and variance of the run; runs are short at both ends, where values lie far from each other.
  benchmarks/tails.py measures the error of this; the chosen split is solved again on all values.
- `fit_whole` fits the eight single families of don15 section 4.1. Positive families start at 0 (scipy's floc=0);
  Uniform and Power Law take their support from the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq, minimize
from scipy.special import digamma, erfcx, ndtr

from ioweather.core.frames import Floats, Indices
from ioweather.stats.families import GAMMA_SHAPE_MIN, LOGNORMAL_OFFSET_MAX, WEIBULL_SHAPE_MIN, Law

# With fewer times no family can be distinguished from another.
MINIMUM_TIMES = 10
# Times that differ by less than a billionth are equal: such differences are rounding of doubles.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Sample:
    """A sorted sample: `values` are distinct and ascending; `below[i]` counts the observations < values[i], and
    `below[-1]` is n.

    So the ECDF jumps at values[i] from below[i]/n to below[i + 1]/n, and ties need no further care anywhere.
    """

    values: Floats
    below: Floats

    @property
    def n(self) -> int:
        return int(self.below[-1])

    @property
    def distinct(self) -> int:
        return len(self.values)

    @property
    def counts(self) -> Floats:
        return np.diff(self.below)

    def resampled(self, rng: np.random.Generator) -> Sample:
        """Return a bootstrap sample: as many observations, drawn with replacement."""
        # Draws of each observation, in ascending order; then summed over observations with the same value.
        drawn = np.bincount(rng.integers(0, self.n, self.n), minlength=self.n)
        counts = np.add.reduceat(drawn, self.below[:-1].astype(np.intp))
        present = counts > 0
        return Sample(self.values[present], np.concatenate([[0.0], np.cumsum(counts[present], dtype=np.float64)]))


def sample_of(times: ArrayLike) -> Sample:
    """Return the sorted sample; ValueError for missing, infinite, negative, too few or equal times."""
    array = np.asarray(times, np.float64)
    if array.ndim != 1:
        raise ValueError(f"times must be one-dimensional, not of shape {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{np.isnan(array).sum()} of {array.size} times are missing (NaN): remove them")
    if np.isinf(array).any():
        raise ValueError(f"{np.isinf(array).sum()} of {array.size} times are infinite: remove them")
    if array.size < MINIMUM_TIMES:
        raise ValueError(f"a fit needs at least {MINIMUM_TIMES} times; there are {array.size}")
    ordered = np.sort(array)
    if ordered[0] < 0:
        raise ValueError(f"{(ordered < 0).sum()} of {array.size} times are negative")
    if ordered[-1] - ordered[0] <= _SAME * ordered[-1]:
        raise ValueError(f"all {array.size} times are equal ({ordered[0]:g}): there is no distribution to fit")
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Sample(ordered[starts], np.append(starts, array.size).astype(np.float64))


Gap: TypeAlias = tuple[float, int]  # the largest distance, and the index of its value


def largest_gap(sample: Sample, model: Any, first: int = 0, stop: int | None = None) -> Gap:
    """Return sup |model - ECDF| of values[first:stop], exactly, and the index of the value where it is."""
    stop = sample.distinct if stop is None else stop
    base, size = sample.below[first], sample.below[stop] - sample.below[first]

    below = sample.below[first : stop + 1]
    model_cdf, ecdf = model.cdf(sample.values[first:stop]), (below - base) / size
    gap = np.maximum(np.abs(model_cdf - ecdf[:-1]), np.abs(model_cdf - ecdf[1:]))
    place = int(np.argmax(gap))
    return float(gap[place]), first + place


@dataclass(frozen=True, eq=False)
class _TailSums:
    """Per candidate tail: its lower bound and the means over it of x/low - 1, log(x/low) and log(x/low)^2."""

    low: Floats
    excess: Floats
    log: Floats
    log_square: Floats


def tail_sums(sample: Sample, low: Floats, first: Indices) -> _TailSums:
    """Return the means over values[first:] for each candidate, summed from the top down: small tails lose no digits."""
    values, counts = sample.values, sample.counts
    # Centred where the tails begin, because squares about a far origin cancel. Values below the first tail (zeros
    # among them) take no part.
    start = int(first.min())
    used, weight = values[start:], counts[start:]
    centre = float(low[len(low) // 2])
    logs = np.log(used / centre)

    def from_top(terms: Floats) -> Floats:
        return np.cumsum(terms[::-1])[::-1][first - start]

    size = sample.n - sample.below[first]
    shift = np.log(low / centre)
    log_sum = from_top(weight * logs) / size
    log = log_sum - shift
    log_square = from_top(weight * logs * logs) / size - 2 * shift * log_sum + shift * shift
    excess = (from_top(weight * (used - centre)) / size - (low - centre)) / low
    return _TailSums(low, excess, log, np.maximum(log_square, log * log))


def fit_power_law_tails(sums: _TailSums) -> Law:
    """Fit alpha = 1 + n / sum log(x/low) (Clauset, Shalizi & Newman 2009, Eq. 3.1)."""
    return Law("power_law", sums.low, 1.0 + 1.0 / sums.log)


def fit_exponential_tails(sums: _TailSums) -> Law:
    """Fit the scale: the mean excess over the bound."""
    return Law("exponential", sums.low, sums.excess * sums.low)


def fit_lognormal_tails(sums: _TailSums) -> Law:
    """Fit by the first two moments of log(x/low), a normal truncated at 0; their ratio fixes the offset."""
    ratio = sums.log_square / (sums.log * sums.log)
    # Below -12 the bound does not cut anything that double precision could see (ratio 1 + 1/offset^2).
    offsets = np.concatenate([-np.geomspace(1e4, 12, 400), np.linspace(-12, LOGNORMAL_OFFSET_MAX, 4000)[1:]])
    ratios = _truncated_normal_ratio(offsets)[1]
    offset = np.interp(ratio, ratios, offsets)
    for _ in range(3):
        mean, value, slope = _truncated_normal_ratio(offset)
        offset = np.clip(offset - (value - ratio) / slope, offsets[0], offsets[-1])
    mean, _, _ = _truncated_normal_ratio(offset)
    bound = ratio >= ratios[-1]
    offset = np.where(bound, LOGNORMAL_OFFSET_MAX, offset)
    # At the bound log_sd has a closed form: E[z (offset + z)] = 1 with z = log(x/low) / log_sd.
    linear = LOGNORMAL_OFFSET_MAX * sums.log
    inverse = (np.sqrt(linear * linear + 4 * sums.log_square) - linear) / (2 * sums.log_square)
    return Law("lognormal", sums.low, offset, np.where(bound, 1.0 / inverse, sums.log / mean))


def _truncated_normal_ratio(offset: Floats) -> tuple[Floats, Floats, Floats]:
    """Return E[z], E[z^2]/E[z]^2 and its slope, for z > 0 with density ~ phi(offset + z)."""
    hazard = math.sqrt(2 / math.pi) / erfcx(offset / math.sqrt(2))
    mean = hazard - offset
    square = 1.0 - offset * mean
    mean_slope = hazard * mean - 1.0
    square_slope = -mean - offset * mean_slope
    ratio = square / (mean * mean)
    return mean, ratio, square_slope / (mean * mean) - 2 * ratio * mean_slope / mean


def fit_gamma_tails(sums: _TailSums) -> Law:
    """Fit by Newton on the concave likelihood in (log y, y), y = x/low, all candidates at once."""
    shape, cut = np.ones(len(sums.low)), 1.0 / sums.excess
    alive = np.arange(len(shape))
    for _ in range(60):
        a, c = shape[alive], cut[alive]
        mean_s, mean_y, var_s, var_y, covariance = _gamma_moments(a, c)
        gap_s, gap_y = sums.log[alive] - mean_s, sums.excess[alive] - mean_y
        determinant = np.maximum(var_s * var_y - covariance * covariance, 1e-300)
        step_a = (gap_s * var_y - gap_y * covariance) / determinant
        step_c = -(gap_y * var_s - gap_s * covariance) / determinant
        # At the bound, and pushed against it, only `cut` moves.
        bound = (a <= GAMMA_SHAPE_MIN) & (gap_s - gap_y * covariance / var_y <= 0)
        step_a = np.where(bound, 0.0, step_a)
        step_c = np.where(bound, -gap_y / var_y, step_c)
        # A full step is right near the solution; far from it, keep within a factor.
        limit = np.minimum(1.0, 2.0 * (a + 1.0) / np.maximum(np.abs(step_a), 1e-300))
        new_a = np.maximum(a + limit * step_a, GAMMA_SHAPE_MIN)
        new_c = np.clip(c + limit * step_c, c / 4, c * 8)
        shape[alive], cut[alive] = new_a, new_c
        alive = alive[(np.abs(new_a - a) > 1e-9 * (1 + a)) | (np.abs(new_c - c) > 1e-9 * c)]
        if not alive.size:
            break
    return Law("gamma", sums.low, shape, cut)


_LEGENDRE = np.polynomial.legendre.leggauss(64)


def _gamma_moments(shape: Floats, cut: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Means, variances and covariance of s = log y and y - 1 under y^(shape-1) e^(-cut y), y > 1, by quadrature in s.

    Gauss-Legendre over the range that contains all but e^-40 of the mass (tail bounds of Laurent & Massart 2000).
    """
    nodes, weights = (_LEGENDRE[0] + 1) / 2, _LEGENDRE[1] / 2
    peak = np.maximum(shape, cut)
    high = np.log((peak + np.sqrt(80 * peak) + 40) / cut)
    low = np.log(np.maximum((shape - np.sqrt(80 * shape)) / cut, 1.0))
    s = low[:, None] + (high - low)[:, None] * nodes
    y = np.expm1(s)
    exponent = shape[:, None] * s - cut[:, None] * y
    density = weights * np.exp(exponent - exponent.max(axis=1, keepdims=True))
    density /= density.sum(axis=1, keepdims=True)
    mean_s = np.einsum("ij,ij->i", density, s)
    mean_y = np.einsum("ij,ij->i", density, y)
    s -= mean_s[:, None]
    y -= mean_y[:, None]
    weighted = density * s
    var_s = np.einsum("ij,ij->i", weighted, s)
    covariance = np.einsum("ij,ij->i", weighted, y)
    var_y = np.einsum("ij,ij,ij->i", density, y, y)
    return mean_s, mean_y, var_s, var_y, covariance


def fit_weibull_tail(low: float, values: Floats, weights: Floats, start: float = 1.0) -> Law:
    """Fit one tail of weighted points > low, by Newton on the profile likelihood of the shape inside its bracket."""
    logs = np.log(values / low)
    total = weights.sum()
    mean_log = float(weights @ logs) / total
    # y^shape must stay a number.
    ceiling = min(200.0, 600.0 / float(logs.max()))
    left, right = WEIBULL_SHAPE_MIN, ceiling
    shape = min(max(start, left), right)
    for _ in range(60):
        powered = np.exp(shape * logs)
        mean = float(weights @ powered) / total
        first = float(weights @ (powered * logs)) / total
        second = float(weights @ (powered * logs * logs)) / total
        # B = mean((y^b - 1)/b); the score is mean log y - B'/B, falling in b.
        box = (mean - 1.0) / shape
        slope = (first - box) / shape
        bend = (second - 2 * slope) / shape
        score = mean_log - slope / box
        left, right = (shape, right) if score > 0 else (left, shape)
        curvature = (slope / box) ** 2 - bend / box
        step = -score / curvature if curvature < 0 else math.inf
        target = shape + step if left < shape + step < right else math.sqrt(left * right)
        if abs(target - shape) <= 1e-10 * shape:
            break
        shape = target
    return Law("weibull", low, shape, 1.0 / (float(weights @ np.expm1(shape * logs)) / total / shape))


EXACT_POINTS = 2000
_RUNS = 1024


def points_of(sample: Sample, cuts: Indices) -> tuple[Floats, Floats, Indices]:
    """Values and weights of points for splits after values[cut], for each cut (ascending), and how many of the points
    lie at or below it."""
    if sample.distinct <= EXACT_POINTS:
        return sample.values, sample.counts, cuts + 1
    # Even in rank in the middle, geometric towards both ends.
    size = sample.distinct
    from_end = np.geomspace(1, size / 2, _RUNS // 2)
    runs = np.concatenate([np.linspace(0, size - 1, _RUNS), from_end, size - from_end]).astype(np.intp)
    edges = np.unique(np.concatenate([runs, cuts + 1, [0]]))
    edges = edges[edges < size]
    counts = sample.counts
    weight = np.add.reduceat(counts, edges)
    mean = np.add.reduceat(counts * sample.values, edges) / weight
    stops = np.append(edges[1:], size)
    centred = sample.values - np.repeat(mean, stops - edges)
    sd = np.sqrt(np.add.reduceat(counts * centred * centred, edges) / weight)
    low, high = sample.values[edges], sample.values[stops - 1]
    # Inside the run, or a point might change sides.
    away = np.minimum(sd, np.minimum(mean - low, high - mean))
    pair = np.stack([mean - away, mean + away], axis=1)
    return pair.ravel(), np.repeat(weight / 2, 2), 2 * np.searchsorted(edges, cuts + 1)


def fit_cauchy_heads(sample: Sample, cuts: Indices) -> Law:
    """Fit a Cauchy head up to every cut; each starts from the solution of the one before."""
    values, weights, split = points_of(sample, cuts)
    location, scale = np.empty(len(cuts)), np.empty(len(cuts))
    last: Law | None = None
    for row, stop in enumerate(split):
        last = fit_cauchy(values[:stop], weights[:stop], last)
        location[row], scale[row] = last["location"], last["scale"]
    return Law("cauchy", location, scale)


def fit_weibull_tails(sample: Sample, cuts: Indices) -> Law:
    """Fit a Weibull tail beyond every cut; each starts from the solution of the one before."""
    values, weights, split = points_of(sample, cuts)
    low = sample.values[cuts]
    shape, steepness = np.empty(len(cuts)), np.empty(len(cuts))
    start = 1.0
    for row, first in enumerate(split):
        fitted = fit_weibull_tail(float(low[row]), values[first:], weights[first:], start)
        start = float(fitted["shape"])
        shape[row], steepness[row] = start, fitted["steepness"]
    return Law("weibull", low, shape, steepness)


def fit_cauchy(values: Floats, weights: Floats, start: Law | None = None) -> Law:
    """Newton in (location, log scale), with an EM step where Newton would leave the neighbourhood.

    The joint likelihood has one maximum (Copas 1975), so the start does not matter for the result.
    """
    total = float(weights.sum())
    if start is None:
        rank = np.cumsum(weights)
        quartile, location, upper = (float(values[np.searchsorted(rank, p * total)]) for p in (0.25, 0.5, 0.75))
        scale = max((upper - quartile) / 2, (float(values[-1]) - float(values[0])) * 1e-6)
    else:
        location, scale = float(start["location"]), float(start["scale"])
    # Where half of the values are one tied value the likelihood grows without end as the scale falls.
    floor = 1e-9 * float(values[-1] - values[0])
    weights = weights / total
    for _ in range(200):
        away = values - location
        square = scale * scale
        near = 1.0 / (away * away + square)
        pull = weights * near
        mean_near, mean_away = float(pull.sum()), float(pull @ away)
        mean_near2 = float(pull @ near)
        mean_away2 = float((pull * near) @ away)
        grad_m, grad_u = 2 * mean_away, 1 - 2 * square * mean_near
        # sum away^2 near^2 = sum near - scale^2 sum near^2
        hess_mm = 2 * mean_near - 4 * square * mean_near2
        hess_mu = -4 * square * mean_away2
        hess_uu = -4 * square * mean_near + 4 * square * square * mean_near2
        determinant = hess_mm * hess_uu - hess_mu * hess_mu
        step_m = step_u = math.inf
        if hess_mm < 0 < determinant:
            step_m = -(grad_m * hess_uu - grad_u * hess_mu) / determinant
            step_u = -(grad_u * hess_mm - grad_m * hess_mu) / determinant
        if abs(step_m) > scale or abs(step_u) > 1:
            # EM for Student's t with one degree of freedom: never falls.
            step_m = mean_away / mean_near
            step_u = 0.5 * math.log(max(2 * (1 - square * mean_near), 1e-12))
        location += step_m
        scale *= math.exp(step_u)
        if scale <= floor:
            return Law("cauchy", location, floor)
        if abs(step_m) <= 1e-11 * scale and abs(step_u) <= 1e-11:
            break
    return Law("cauchy", location, scale)


def fit_normal_heads(sample: Sample, cuts: Indices) -> Law:
    """Mean and standard deviation of every head by prefix sums, about the median so that squares do not cancel."""
    centre = float(sample.values[np.searchsorted(sample.below, sample.n / 2) - 1])
    away = sample.values - centre
    counts = sample.counts
    size = sample.below[cuts + 1]
    mean = np.cumsum(counts * away)[cuts] / size
    variance = np.cumsum(counts * away * away)[cuts] / size - mean * mean
    smallest = 1e-12 * float(sample.values[-1] - sample.values[0])
    return Law("normal", mean + centre, np.maximum(np.sqrt(np.maximum(variance, 0.0)), smallest))


def fit_truncated_normal_heads(sample: Sample, cuts: Indices) -> Law:
    """Every head as a Normal that ends at its pivot: pivot - x is then a normal truncated at 0, as log(x/low) is for
    the LogNormal tail, and the same solve serves."""
    high = sample.values[cuts]
    plain = fit_normal_heads(sample, cuts)
    below = high - plain["location"]
    square = below * below + np.square(plain["scale"])
    solved = fit_lognormal_tails(_TailSums(high, below, below, square))
    return Law("truncated_normal", high + solved["offset"] * solved["log_sd"], solved["log_sd"], high)


def truncated_head(sample: Sample, cut: int, plain: Law) -> Law:
    """Maximum likelihood between 0 and the pivot; the peak stays within the head, which is what makes it a head."""
    normal = plain.name == "normal"
    if normal:
        solved = fit_truncated_normal_heads(sample, np.array([cut])).at(0)
        # The closed solve knows the upper bound only; it is the answer where 0 is far away and the peak inside.
        unbounded = Law("normal", solved["location"], solved["scale"])
        if unbounded.cdf(0.0) < 1e-9 and solved["location"] <= solved["high"]:
            return solved
    # In units of the paper's head.
    high, centre, width = float(sample.values[cut]), float(plain["location"]), float(plain["scale"])
    values, weights, split = points_of(sample, np.array([cut]))
    values, weights = (values[: split[0]] - centre) / width, weights[: split[0]] / weights[: split[0]].sum()
    ends = np.array([-centre / width, (high - centre) / width])

    def loss(place: Floats) -> tuple[float, Floats]:
        """Mean of minus the log density within the ends but for a constant, and its slopes by place and log scale."""
        location, scale = float(place[0]), math.exp(place[1])
        z, (a, b) = (values - location) / scale, (ends - location) / scale
        if normal:
            own, pull, mass = z * z / 2, z, float(ndtr(b) - ndtr(a))
            at_a, at_b = (math.exp(-end * end / 2) / math.sqrt(2 * math.pi) for end in (a, b))
        else:
            own, pull = np.log1p(z * z), 2 * z / (1 + z * z)
            mass = (math.atan2(1.0, -b) - math.atan2(1.0, -a)) / math.pi
            at_a, at_b = (1 / (math.pi * (1 + end * end)) for end in (a, b))
        mass = max(mass, 1e-300)
        by_place = -(weights @ pull + (at_b - at_a) / mass) / scale
        by_scale = 1 - weights @ (pull * z) - (b * at_b - a * at_a) / mass
        return float(weights @ own) + place[1] + math.log(mass), np.array([by_place, by_scale])

    bounds = [(float(values[0]), float(ends[1])), (-5.0, 5.0)]
    start = np.array([min(max(0.0, bounds[0][0]), bounds[0][1]), 0.0])
    found = minimize(
        loss, start, jac=True, method="TNC", bounds=bounds, options={"ftol": 0, "gtol": 1e-10, "xtol": 1e-11}
    )
    location, scale = centre + width * found.x[0], width * math.exp(found.x[1])
    return Law(f"truncated_{plain.name}", location, scale, high)


# Families of whole samples in scipy, and the number of parameters that each takes from the data.
WHOLE_FAMILIES = {
    "uniform": 2,
    "normal": 2,
    "gamma": 2,
    "cauchy": 2,
    "weibull": 2,
    "lognormal": 2,
    "power_law": 2,
    "exponential": 1,
}
_POSITIVE = {"gamma", "weibull", "lognormal", "power_law"}


def fit_whole(times: ArrayLike) -> list[tuple[str, float | None, float | None, Mapping[str, float], str]]:
    """Fit all families by maximum likelihood, least KS distance first, families that cannot be fitted last.

    Rows are (family, KS distance, AIC, parameters, why it cannot be fitted).
    """
    sample = sample_of(times)
    fits: list[tuple[str, float | None, float | None, Mapping[str, float], str]] = []
    for name, degrees in WHOLE_FAMILIES.items():
        if name in _POSITIVE and sample.values[0] == 0:
            problem = f"{int(sample.below[1])} of {sample.n} times are 0, which this family cannot produce"
            fits.append((name, None, None, {}, problem))
            continue
        parameters, law = _fit_family(name, sample.values, sample.counts / sample.n)
        log_likelihood = float(sample.counts @ law.logpdf(sample.values))
        fits.append((name, largest_gap(sample, law)[0], 2 * degrees - 2 * log_likelihood, parameters, ""))
    return sorted(fits, key=lambda fit: math.inf if fit[1] is None else fit[1])


def _fit_family(name: str, values: Floats, share: Floats) -> tuple[dict[str, float], Any]:
    """Parameters and distribution of the likeliest member of a family, of distinct values and the share of each."""
    low, high, mean = float(values[0]), float(values[-1]), float(share @ values)
    if name == "uniform":
        return {"low": low, "high": high}, stats.uniform(low, high - low)
    if name == "normal":
        sd = math.sqrt(float(share @ (values - mean) ** 2))
        return {"location": mean, "scale": sd}, stats.norm(mean, sd)
    if name == "cauchy":
        found = fit_cauchy(values, share).parameters
        return {**found}, stats.cauchy(found["location"], found["scale"])
    if name == "exponential":
        return {"low": 0.0, "scale": mean}, stats.expon(0.0, mean)
    logs = np.log(values)
    mean_log, top = float(share @ logs), float(logs[-1])
    if name == "lognormal":
        sd = math.sqrt(float(share @ (logs - mean_log) ** 2))
        return {"log_mean": mean_log, "log_sd": sd}, stats.lognorm(sd, scale=math.exp(mean_log))
    if name == "power_law":
        alpha = 1 + 1 / float(share @ np.log(values / low))
        return {"low": low, "alpha": alpha}, stats.pareto(alpha - 1, scale=low)
    if name == "gamma":
        # log(shape) - digamma(shape) = log(mean) - mean(log); the left side is between 1 / (2 shape) and 1 / shape.
        gap = math.log(mean) - mean_log
        shape = float(brentq(lambda a: math.log(a) - digamma(a) - gap, 0.4 / gap, 1.1 / gap, xtol=1e-14, rtol=1e-13))
        return {"shape": shape, "scale": mean / shape}, stats.gamma(shape, scale=mean / shape)

    def score(shape: float) -> float:
        """E_w[log x] - 1/shape - mean log x with weights x^shape: the profile likelihood has one maximum."""
        weights = share * np.exp(shape * (logs - top))
        return float(weights @ logs / weights.sum()) - 1 / shape - mean_log

    # Beyond 1 / (top - mean) the score may be positive; below it never is.
    nearest = highest = 1 / (top - mean_log)
    while score(highest) < 0:
        highest *= 2
    shape = float(brentq(score, nearest / 2, highest, xtol=1e-14, rtol=1e-13))
    scale = math.exp(top + math.log(float(share @ np.exp(shape * (logs - top)))) / shape)
    return {"shape": shape, "scale": scale}, stats.weibull_min(shape, scale=scale)
