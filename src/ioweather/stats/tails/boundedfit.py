"""Maximum likelihood of the bounded families, for one tail or for every candidate tail at once.

Power law, Exponential, LogNormal and Gamma need only sums over the tail (they are exponential families in x/low and
its logarithm), and suffix sums give those for all candidates in one pass. LogNormal then takes a one-dimensional and
Gamma a two-dimensional solve. The Weibull has no such sums: it is solved tail by tail on points (`points.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import erfcx

from ioweather.core.arrays import Floats, Indices
from ioweather.stats.tails.bounded import (
    GAMMA_SHAPE_MIN,
    LOGNORMAL_OFFSET_MAX,
    WEIBULL_SHAPE_MIN,
    BoundedGamma,
    BoundedLogNormal,
    BoundedWeibull,
    Exponential,
    PowerLaw,
)
from ioweather.stats.tails.sample import Sample

_NODES = 64
_CHUNK = 2048


@dataclass(frozen=True, eq=False)
class TailSums:
    """Per candidate tail: its lower bound and the means over it of x/low - 1, log(x/low) and log(x/low)^2."""

    low: Floats
    excess: Floats
    log: Floats
    log_square: Floats

    def at(self, rows: Indices) -> TailSums:
        return TailSums(self.low[rows], self.excess[rows], self.log[rows], self.log_square[rows])


def tail_sums(sample: Sample, low: Floats, first: Indices) -> TailSums:
    """Means over values[first:] for each candidate. Summed from the top down, so that small tails lose no digits."""
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
    return TailSums(low, excess, log, np.maximum(log_square, log * log))


def fit_power_law_tails(sums: TailSums) -> PowerLaw:
    """alpha = 1 + n / sum log(x/low) (Clauset, Shalizi & Newman 2009, Eq. 3.1)."""
    return PowerLaw(sums.low, 1.0 + 1.0 / sums.log)


def fit_exponential_tails(sums: TailSums) -> Exponential:
    return Exponential(sums.low, sums.excess * sums.low)


def fit_lognormal_tails(sums: TailSums) -> BoundedLogNormal:
    """log(x/low) is a normal truncated at 0: its first two moments are sufficient, and their ratio fixes the offset."""
    ratio = sums.log_square / (sums.log * sums.log)
    offsets, ratios = _lognormal_table()
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
    return BoundedLogNormal(sums.low, offset, np.where(bound, 1.0 / inverse, sums.log / mean))


def _truncated_normal_ratio(offset: Floats) -> tuple[Floats, Floats, Floats]:
    """E[z], E[z^2]/E[z]^2 and its slope, for z > 0 with density ~ phi(offset + z)."""
    hazard = math.sqrt(2 / math.pi) / erfcx(offset / math.sqrt(2))
    mean = hazard - offset
    square = 1.0 - offset * mean
    mean_slope = hazard * mean - 1.0
    square_slope = -mean - offset * mean_slope
    ratio = square / (mean * mean)
    return mean, ratio, square_slope / (mean * mean) - 2 * ratio * mean_slope / mean


@cache
def _lognormal_table() -> tuple[Floats, Floats]:
    # Below -12 the bound does not cut anything that double precision could see (ratio 1 + 1/offset^2).
    offsets = np.concatenate([-np.geomspace(1e4, 12, 400), np.linspace(-12, LOGNORMAL_OFFSET_MAX, 4000)[1:]])
    return offsets, _truncated_normal_ratio(offsets)[1]


def fit_gamma_tails(sums: TailSums) -> BoundedGamma:
    """Two-parameter exponential family in (log y, y), y = x/low: Newton on its concave likelihood, all rows at once.

    Long runs of neighbouring candidates are started from an interpolation between a few solved ones.
    """
    rows = len(sums.low)
    shape, cut = np.ones(rows), 1.0 / sums.excess
    if rows > 4 * _CHUNK:
        few = np.unique(np.linspace(0, rows - 1, 512).astype(np.intp))
        solved = fit_gamma_tails(sums.at(few))
        shape = np.interp(np.arange(rows), few, np.asarray(solved.shape))
        cut = np.exp(np.interp(np.arange(rows), few, np.log(solved.cut)))
    for begin in range(0, rows, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        shape[part], cut[part] = _solve_gamma(sums.log[part], sums.excess[part], shape[part], cut[part])
    return BoundedGamma(sums.low, shape, cut)


def _solve_gamma(log: Floats, excess: Floats, shape: Floats, cut: Floats) -> tuple[Floats, Floats]:
    shape, cut = shape.copy(), cut.copy()
    alive = np.arange(len(shape))
    for _ in range(60):
        a, c = shape[alive], cut[alive]
        mean_s, mean_y, var_s, var_y, covariance = _gamma_moments(a, c)
        gap_s, gap_y = log[alive] - mean_s, excess[alive] - mean_y
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
        moving = (np.abs(new_a - a) > 1e-9 * (1 + a)) | (np.abs(new_c - c) > 1e-9 * c)
        alive = alive[moving]
        if not alive.size:
            break
    return shape, cut


def _gamma_moments(shape: Floats, cut: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Means, variances and covariance of s = log y and y - 1 under y^(shape-1) e^(-cut y), y > 1, by quadrature in s.

    Gauss-Legendre over the stretch that holds all but e^-40 of the mass (tail bounds of Laurent & Massart 2000).
    """
    nodes, weights = _legendre()
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


@cache
def _legendre() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def fit_weibull_tail(low: float, values: Floats, weights: Floats, start: float = 1.0) -> BoundedWeibull:
    """One tail of weighted points > low: Newton on the profile likelihood of the shape, kept inside its bracket."""
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
    return BoundedWeibull(low, shape, 1.0 / (float(weights @ np.expm1(shape * logs)) / total / shape))
