"""Maximum likelihood of heads: a Normal for every candidate pivot by prefix sums, and one head that ends at it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from scipy.special import ndtr

from ioweather.core.arrays import Floats, Indices
from ioweather.stats.tails.boundedfit import TailSums, fit_lognormal_tails
from ioweather.stats.tails.families import Cauchy, Normal
from ioweather.stats.tails.points import points_of
from ioweather.stats.tails.sample import Sample
from ioweather.stats.tails.truncated import TruncatedHead

_Pair: TypeAlias = tuple[float, float]
_Bowl: TypeAlias = tuple[float, _Pair, tuple[float, float, float]]
_MOST_STEPS: Final = 200
_LEAST_PART: Final = 1e-12  # of a step
_STILL: Final = 1e-10


def fit_normal_heads(sample: Sample, cuts: Indices) -> Normal:
    """Mean and standard deviation of every head by prefix sums, about the median so that squares do not cancel."""
    centre = float(sample.values[np.searchsorted(sample.below, sample.n / 2) - 1])
    away = sample.values - centre
    counts = sample.counts
    size = sample.below[cuts + 1]
    mean = np.cumsum(counts * away)[cuts] / size
    variance = np.cumsum(counts * away * away)[cuts] / size - mean * mean
    smallest = 1e-12 * float(sample.values[-1] - sample.values[0])
    return Normal(mean + centre, np.maximum(np.sqrt(np.maximum(variance, 0.0)), smallest))


def fit_truncated_normal_heads(sample: Sample, cuts: Indices) -> TruncatedHead:
    """Every head as a Normal that ends at its pivot: pivot - x is then a normal truncated at 0, as log(x/low) is for
    the LogNormal tail, and the same solve serves."""
    high = sample.values[cuts]
    plain = fit_normal_heads(sample, cuts)
    below = high - plain.location
    square = below * below + np.square(plain.scale)
    solved = fit_lognormal_tails(TailSums(high, below, below, square))
    return TruncatedHead(Normal(high + solved.offset * solved.log_sd, solved.log_sd), high)


def truncated_head(sample: Sample, cut: int, plain: Normal | Cauchy) -> TruncatedHead:
    """Maximum likelihood between 0 and the pivot; the peak stays within the head, which is what makes it a head."""
    if isinstance(plain, Normal):
        solved = fit_truncated_normal_heads(sample, np.array([cut])).one(0)
        # The closed solve knows the upper bound only; it is the answer where 0 is far away and the peak inside.
        if solved.base.cdf(0.0) < 1e-9 and solved.base.location <= solved.high:
            return solved
    return _bounded_fit(sample, cut, plain)


def _bounded_fit(sample: Sample, cut: int, plain: Normal | Cauchy) -> TruncatedHead:
    """Newton in (location, log scale), in units of the head as the paper fits it; downhill where that is no bowl."""
    high, centre, width = float(sample.values[cut]), float(plain.location), float(plain.scale)
    points = points_of(sample, np.array([cut]))
    weights = points.weights[: points.split[0]] / points.weights[: points.split[0]].sum()
    loss = _Loss((points.values[: points.split[0]] - centre) / width, weights, -centre / width, (high - centre) / width)
    of = loss.of_normal if isinstance(plain, Normal) else loss.of_cauchy
    bounds = (float(loss.values[0]), loss.high), (-5.0, 5.0)
    place = _within(0.0, bounds[0]), 0.0
    here = of(*place)
    for _ in range(_MOST_STEPS if np.isfinite(here[0]) else 0):
        step = _step(place, here, bounds)
        part = 1.0
        while part > _LEAST_PART:
            moved = _within(place[0] + part * step[0], bounds[0]), _within(place[1] + part * step[1], bounds[1])
            there = of(*moved)
            if there[0] <= here[0]:
                break
            part /= 4
        else:
            break
        still = abs(moved[0] - place[0]) + abs(moved[1] - place[1]) <= _STILL
        place, here = moved, there
        if still:
            break
    return TruncatedHead(type(plain)(centre + width * place[0], width * math.exp(place[1])), high)


def _within(value: float, bounds: _Pair) -> float:
    return min(max(value, bounds[0]), bounds[1])


def _step(place: _Pair, here: _Bowl, bounds: tuple[_Pair, _Pair]) -> _Pair:
    """Towards the least; along a bound where the way down leads out."""
    _, (da, db), (aa, ab, bb) = here
    sides = zip(place, (da, db), bounds, strict=True)
    held = [(x <= low and slope > 0) or (x >= high and slope < 0) for x, slope, (low, high) in sides]
    whole = aa * bb - ab * ab
    if not any(held) and aa > 0 < whole:
        return (ab * db - bb * da) / whole, (ab * da - aa * db) / whole
    a, b = (-d / max(abs(dd), abs(d)) if d else 0.0 for d, dd in ((da, aa), (db, bb)))
    return 0.0 if held[0] else a, 0.0 if held[1] else b


@dataclass(frozen=True, eq=False)
class _Loss:
    """Mean of minus the logarithm of a density between `low` and `high`, but for a constant: its value, slopes and
    curvatures by location and log scale."""

    values: Floats
    weights: Floats
    low: float
    high: float

    def of_normal(self, location: float, log_scale: float) -> _Bowl:
        scale = math.exp(log_scale)
        mean = float(self.weights @ self.values)
        square = float(self.weights @ (self.values - mean) ** 2) / scale**2 + ((mean - location) / scale) ** 2
        away = (mean - location) / scale
        ends = [(self.low - location) / scale, (self.high - location) / scale]
        heights = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in ends]
        mass = float(ndtr(ends[1]) - ndtr(ends[0]))
        own = square / 2, (-away, -square), (1.0, 2 * away, 2 * square)
        return _between(own, log_scale, ends, heights, [-z * c for z, c in zip(ends, heights, strict=True)], mass)

    def of_cauchy(self, location: float, log_scale: float) -> _Bowl:
        scale = math.exp(log_scale)
        z = (self.values - location) / scale
        square = z * z
        near = 1 / (1 + square)
        pull = self.weights * near
        first, second = pull * z, pull * near
        slopes = -2 * float(first.sum()), -2 * float(first @ z)
        bends = 2 * float(second @ (1 - square)), 4 * float(second @ z), 4 * float(second @ square)
        ends = [(self.low - location) / scale, (self.high - location) / scale]
        heights = [1 / (math.pi * (1 + end * end)) for end in ends]
        mass = (math.atan2(1.0, -ends[1]) - math.atan2(1.0, -ends[0])) / math.pi
        falls = [-2 * math.pi * end * c * c for end, c in zip(ends, heights, strict=True)]
        own = -float(self.weights @ np.log(near)), slopes, bends
        return _between(own, log_scale, ends, heights, falls, mass)


def _between(
    own: _Bowl, log_scale: float, ends: list[float], heights: list[float], falls: list[float], mass: float
) -> _Bowl:
    """A loss in units of the scale, with the logarithm of what lies between the ends of a density that has these
    heights and slopes there, and of the scale."""
    if mass <= 1e-300:
        return math.inf, (0.0, 0.0), (1.0, 0.0, 1.0)
    low, high = ends
    a, b = (heights[1] - heights[0]) / mass, (high * heights[1] - low * heights[0]) / mass
    c, d, e = ((high**power * falls[1] - low**power * falls[0]) / mass for power in range(3))
    value, (da, db), (aa, ab, bb) = own
    scale = math.exp(log_scale)
    slopes = (da - a) / scale, db - b + 1
    bends = (aa + c - a * a) / scale**2, (ab + d + a - a * b) / scale, bb + e + b - b * b
    return value + log_scale + math.log(mass), slopes, bends
