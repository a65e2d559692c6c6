"""The fits that no sums can give: Cauchy heads and Weibull tails, solved split by split on weighted points.

Up to EXACT_POINTS distinct values the points are the values. Beyond, runs of neighbouring values are replaced by two
points each that keep the run's mean and variance; runs are short at both ends of the sample, where values lie far
apart. What that costs is measured in benchmarks/tails.py; the chosen split is solved again on all values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.stats.tails.bounded import BoundedWeibull
from ioweather.stats.tails.boundedfit import fit_weibull_tail
from ioweather.stats.tails.families import Cauchy
from ioweather.stats.tails.sample import Sample

EXACT_POINTS = 2000
_RUNS = 1024


@dataclass(frozen=True, eq=False)
class Points:
    """`split[i]` of the points lie at or below the i-th cut."""

    values: Floats
    weights: Floats
    split: Indices


def points_of(sample: Sample, cuts: Indices) -> Points:
    """Points for splits after values[cut], for each cut (ascending)."""
    if sample.distinct <= EXACT_POINTS:
        return Points(sample.values, sample.counts, cuts + 1)
    edges = np.unique(np.concatenate([_run_starts(sample), cuts + 1, [0]]))
    edges = edges[edges < sample.distinct]
    counts = sample.counts
    weight = np.add.reduceat(counts, edges)
    mean = np.add.reduceat(counts * sample.values, edges) / weight
    stops = np.append(edges[1:], sample.distinct)
    centred = sample.values - np.repeat(mean, stops - edges)
    sd = np.sqrt(np.add.reduceat(counts * centred * centred, edges) / weight)
    low, high = sample.values[edges], sample.values[stops - 1]
    # Inside the run, or a point might change sides.
    away = np.minimum(sd, np.minimum(mean - low, high - mean))
    pair = np.stack([mean - away, mean + away], axis=1)
    return Points(pair.ravel(), np.repeat(weight / 2, 2), 2 * np.searchsorted(edges, cuts + 1))


def _run_starts(sample: Sample) -> Indices:
    """Even in rank in the middle, geometric towards both ends."""
    size = sample.distinct
    from_end = np.geomspace(1, size / 2, _RUNS // 2)
    return np.concatenate([np.linspace(0, size - 1, _RUNS), from_end, size - from_end]).astype(np.intp)


def fit_cauchy_heads(sample: Sample, cuts: Indices) -> Cauchy:
    """Each split is started from the solution of the one before."""
    points = points_of(sample, cuts)
    location, scale = np.empty(len(cuts)), np.empty(len(cuts))
    last: Cauchy | None = None
    for row, stop in enumerate(points.split):
        last = fit_cauchy(points.values[:stop], points.weights[:stop], last)
        location[row], scale[row] = last.location, last.scale
    return Cauchy(location, scale)


def fit_weibull_tails(sample: Sample, cuts: Indices) -> BoundedWeibull:
    points = points_of(sample, cuts)
    low = sample.values[cuts]
    shape, steepness = np.empty(len(cuts)), np.empty(len(cuts))
    start = 1.0
    for row, first in enumerate(points.split):
        fitted = fit_weibull_tail(float(low[row]), points.values[first:], points.weights[first:], start)
        start = float(fitted.shape)
        shape[row], steepness[row] = fitted.shape, fitted.steepness
    return BoundedWeibull(low, shape, steepness)


def fit_cauchy(values: Floats, weights: Floats, start: Cauchy | None = None) -> Cauchy:
    """Newton in (location, log scale), with an EM step where Newton would leave the neighbourhood.

    The joint likelihood has one maximum (Copas 1975), so the start does not matter for the result.
    """
    total = float(weights.sum())
    if start is None:
        rank = np.cumsum(weights)
        quartile, location, upper = (float(values[np.searchsorted(rank, p * total)]) for p in (0.25, 0.5, 0.75))
        scale = max((upper - quartile) / 2, (float(values[-1]) - float(values[0])) * 1e-6)
    else:
        location, scale = float(start.location), float(start.scale)
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
            return Cauchy(location, floor)
        if abs(step_m) <= 1e-11 * scale and abs(step_u) <= 1e-11:
            break
    return Cauchy(location, scale)
