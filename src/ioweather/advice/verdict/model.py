"""One model of the times of all groups: what is usual, what a change of the pattern costs, what the system does.

The logarithm of a run's I/O time is a sum of Gaussian processes: the group's usual level; the cost of its own change,
alike for runs with the same kind of change, in part for all groups and in part for each (partial pooling); the effect
of the system's states, with slopes of at least 0, in part common and in part of the group; and heavy-tailed noise. Few
runs of a group borrow from the others as much as these agree. A run that changed nothing has no cost of change, and a
run in the usual state no effect of the system, whatever its time was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.advice.verdict.changes import Changes
from ioweather.advice.verdict.pool import Pool
from ioweather.advice.verdict.states import States
from ioweather.advice.verdict.time_split import MAD_TO_SD, STUDENT, Split, same_part, split_of
from ioweather.core.arrays import Bools, Floats, Ints

# Standard deviations before any run is seen, in logarithms of time. [ours]
_LEVEL: Final = 2.0
_CHANGE_COMMON: Final = 0.6
_CHANGE_OF_GROUP: Final = 0.35
# Per logarithm of a measure in the way that costs: halving requests costs nothing to a fifth.
_CHANGE_SLOPE: Final = 0.15
_STATE_COMMON: Final = 0.7
_STATE_OF_GROUP: Final = 0.4
# The effect of a state differs from run to run by this share of itself. Where sampling intervals reach beyond the run
# it differs by more: load comes in so many bursts per interval, and the samples do not say which of them met the run.
_STATE_SCATTER: Final = 0.3
_BURSTS: Final = 2.0
_LEAST_INSIDE: Final = 0.05
# Times of equal runs never agree better than this, whatever few of them say.
LEAST_NOISE: Final = 0.03
# Noise of a group before it is seen is that of the others, with the weight of so many runs.
_NOISE_RUNS: Final = 4.0
# What nobody measured makes runs late and never early: of those that did as usual at quiet times a late one counts as
# so many times as far off. [ours]
_LATE: Final = 2.0
# So many times more in one direction than in the other is that direction.
_CLEARLY: Final = 3.0
# What took longer for others too, as long as a run that waits for the same.
_FOR_OTHERS: Final = ("service", "stalled", "probe_data", "probe_targets", "neighbours")
_ROUNDS: Final = 2
_MIDDLE: Final = (0.4, 0.5, 0.6)
_STATE_ROOT: Final = 0.5
# What is usual is taken off the effect of the system: where the one is off, the other is off the other way.
_SHIFTED: Final = (1.0, 0.0, -1.0)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Of one run, from the others: mean and covariance of (usual level, cost of its change, effect of the system), in
    logarithms; the noise of equal runs; the spread of their seconds (MAD) at quiet times. `direction` is 1 where
    the system was busier or slower than usual, -1 the other way round, 0 where it was as usual, and 2 where some
    measures were higher and others lower. The effect of the system on one run is off by `state_scatter` of itself.
    `for_others` is how much slower than usual it was for requests, probes or runs of others, where it was most. `split`
    of a run that changed nothing is which part of its time became longer."""

    mean: Floats
    covariance: Floats
    noise: float
    mad_seconds: float
    changed: bool
    direction: int
    state_scatter: float
    for_others: float
    split: Split | None = None


def predict(pool: Pool, changes: Changes, states: States, row: int) -> Prediction:
    known = np.flatnonzero(np.arange(pool.rows) != row)
    same = (pool.group[:, None] == pool.group[None]).astype(np.float64)
    beyond, mine = states.beyond, pool.group == 0
    level = _LEVEL**2 * same
    change = changes.alike * (_CHANGE_COMMON**2 + _CHANGE_OF_GROUP**2 * same)
    change += _CHANGE_SLOPE**2 * (changes.steps @ changes.steps.T) * (1.0 + same) * 0.5
    others = np.where(mine, 0.0, 1.0)[:, None] * beyond
    free = level + _STATE_OF_GROUP**2 * same * (others @ others.T)
    # Slopes of all other groups, then those of this one.
    design = np.concatenate([others, np.where(mine[:, None], beyond, 0.0)], axis=1)
    noise, mad = _noise(pool, changes, states, known)
    late = np.where(~changes.changed & states.quiet, _LATE, 1.0)[known]
    times = np.log(pool.io_seconds[known])
    centre = float(np.median(times))
    fit = _fit((free + change)[np.ix_(known, known)], design[known], times - centre, noise[known], late)
    effect = design @ fit.slopes
    if len(pool.split):
        change = change * same_part(pool.split, pool.group, changes.changed, effect, row)
    # What a busy system does differs from run to run: such runs say less.
    scatter = _state_scatter(pool)
    wider = np.hypot(noise, scatter * effect)[known]
    fit = _fit((free + change)[np.ix_(known, known)], design[known], times - centre, wider, late, fit.trust)
    # The level is that of a typical run, not of one to which nothing of all that is measured happened.
    towards = np.stack([part[row, known] for part in (level, change)])
    found = towards @ fit.weights + np.array([centre, 0.0])
    slopes, like = fit.slopes[beyond.shape[1] :], known[mine[known] & ~changes.changed[known]]
    spread = np.stack([noise, scatter])[:, like]
    effects, state, typical, error = _typical(beyond[like], slopes, np.log(pool.io_seconds[like]) - found[0], spread)
    usually, here = (np.append(np.zeros(len(slopes)), each) for each in (state, beyond[row] - state))
    sides = np.append((beyond[row] - state) * slopes, state @ slopes - typical)
    mean = np.append(found + np.array([typical, 0.0]), beyond[row] @ slopes - typical)
    by_slope = np.stack([usually, np.zeros(len(usually))]) - towards @ fit.inverse @ design[known]
    covariance = np.outer(_SHIFTED, _SHIFTED) * error**2
    covariance[:2, :2] += np.diag([part[row, row] for part in (level, change)]) - towards @ fit.inverse @ towards.T
    both = np.concatenate([by_slope, here[None, :]])
    covariance += both @ fit.slope_covariance @ both.T
    told = len(pool.split) > 0 and not changes.changed[row]
    return Prediction(
        mean, covariance, float(noise[row]), mad, bool(changes.changed[row]), _direction(sides), float(scatter[row]),
        max([0.0, *(float(beyond[row, i]) for i, name in enumerate(states.names) if name in _FOR_OTHERS)]),
        _split(pool, states.quiet, row, like, typical - effects, error) if told else None,
    )  # fmt: skip


def _split(pool: Pool, quiet: Bools, row: int, like: Ints, less: Floats, error: float) -> Split | None:
    """Against the quiet of the runs `like` it, where there are enough. The system slowed these by `less` than usual."""
    for chosen in (quiet[like], np.ones(len(like), np.bool_)):
        found = split_of(pool.split, like[chosen], row)
        if found is not None:
            return replace(found, offset=float(np.median(less[chosen])), noise=float(np.hypot(found.noise, error)))
    return None


def _typical(beyond: Floats, slopes: Floats, late: Floats, spread: Floats) -> tuple[Floats, Floats, float, float]:
    """What the system did to usual runs; of the middle one its state, what that did, and the error of this. Of ten
    measures each may be usual in most runs and none in all: where all of them are usual, it is quieter than usual.
    What a state did to a run is what such a state does, put right by how late that run was."""
    if not len(beyond):
        return np.zeros(0), np.zeros(len(slopes)), 0.0, 0.0
    expected, (noise, scatter) = beyond @ slopes, spread
    variance = (scatter * expected) ** 2 + _STATE_ROOT**2 * np.abs(expected)
    effect = expected + variance / (variance + noise**2) * (late - expected)
    apart = 0.5 / np.sqrt(len(effect))  # one standard error of the rank of the median
    low, median, high, below, above = np.quantile(effect, (*_MIDDLE, 0.5 - apart, 0.5 + apart))
    middle = (effect >= low) & (effect <= high)
    if not middle.any():  # an even number, and few: the two in the middle
        middle = np.argsort(effect)[len(effect) // 2 - 1 : len(effect) // 2 + 1]
    return effect, beyond[middle].mean(axis=0), float(median), 0.5 * float(above - below)


def _state_scatter(pool: Pool) -> Floats:
    """By run, as a share of the effect: of the bursts in its sampling intervals a run meets those inside it."""
    if not len(pool.inside_ratio):
        return np.full(pool.rows, _STATE_SCATTER)
    inside = np.clip(np.nan_to_num(pool.inside_ratio, nan=1.0), _LEAST_INSIDE, 1.0)
    return np.hypot(_STATE_SCATTER, np.sqrt((1.0 / inside - 1.0) / _BURSTS))


@dataclass(frozen=True, eq=False)
class _Fit:
    """`weights` are those of the residuals in predictions of the free part; `trust` is less for runs far off."""

    slopes: Floats
    slope_covariance: Floats
    inverse: Floats
    weights: Floats
    trust: Floats


def _fit(free: Floats, design: Floats, times: Floats, noise: Floats, late: Floats, trusted: Floats | float = 1) -> _Fit:
    """Slopes of at least 0 beside a free Gaussian part; Student's noise by weighted rounds. A run that took longer than
    expected counts as `late` times as far off."""
    trust, width = trusted * np.ones(len(times)), design.shape[1] // 2
    # Slopes of this group lie about those of the others.
    tie = np.eye(width) / _STATE_OF_GROUP**2
    prior = np.block([[np.eye(width) / _STATE_COMMON**2 + tie, -tie], [-tie, tie]])
    for _ in range(_ROUNDS):
        inverse = np.asarray(np.linalg.inv(free + np.diag(noise**2 / trust)), np.float64)
        information = design.T @ inverse @ design + prior
        slopes, covariance = _at_least_zero(information, design.T @ inverse @ times)
        weights = inverse @ (times - design @ slopes)
        residual = noise * weights / trust
        trust = (STUDENT + 1.0) / (STUDENT + (residual * np.where(residual > 0.0, late, 1.0)) ** 2)
    return _Fit(slopes, covariance, inverse, weights, trust)


def _at_least_zero(information: Floats, towards: Floats) -> tuple[Floats, Floats]:
    """Most likely slopes, and the covariance of those that are not held at 0."""
    if not len(towards):
        return np.zeros(0), np.zeros((0, 0))
    from scipy.optimize import nnls  # a third of a second, and only here

    # Slopes of at least 0 with the least x'Ax/2 - b'x, by the Cholesky factor of A.
    factor = np.linalg.cholesky(information)
    slopes, _ = nnls(factor.T, np.linalg.solve(factor, towards))
    kept = np.flatnonzero(slopes > 0)
    covariance = np.zeros(information.shape)
    covariance[np.ix_(kept, kept)] = np.linalg.inv(information[np.ix_(kept, kept)])
    return slopes, covariance


def _direction(effects: Floats) -> int:
    """By what the measures do to such runs: one that does nothing to them may be as low as it likes."""
    higher, lower = float(np.maximum(effects, 0.0).sum()), float(np.maximum(-effects, 0.0).sum())
    if higher == lower == 0.0:
        return 0
    return 1 if higher >= _CLEARLY * lower else -1 if lower >= _CLEARLY * higher else 2


def _noise(pool: Pool, changes: Changes, states: States, known: np.ndarray) -> tuple[Floats, float]:
    """How much equal runs of each group differ at quiet times, by run, and the MAD of the seconds in group 0."""
    usual = np.zeros(pool.rows, np.bool_)
    usual[known] = ~changes.changed[known]
    times, quiet = np.log(pool.io_seconds), usual & states.quiet
    spread, count, mad = {}, {}, 0.0
    for number in np.unique(pool.group[usual]).tolist():
        mine = quiet & (pool.group == number)
        mine = mine if mine.sum() >= 3 else usual & (pool.group == number)
        n = int(mine.sum())
        if n >= 2:
            apart = float(np.median(np.abs(times[mine] - np.median(times[mine]))))
            spread[number], count[number] = (MAD_TO_SD * apart) ** 2 * n / (n - 1), n
        if number == 0:
            mad = float(np.median(np.abs(pool.io_seconds[mine] - np.median(pool.io_seconds[mine]))))
    common = float(np.median(list(spread.values()))) if spread else 0.01
    found = np.full(pool.rows, common)
    for number, variance in spread.items():
        shrunk = (variance * count[number] + common * _NOISE_RUNS) / (count[number] + _NOISE_RUNS)
        found[pool.group == number] = shrunk
    return np.maximum(np.sqrt(found), LEAST_NOISE), mad
