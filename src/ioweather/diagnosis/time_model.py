"""One model of the times of all groups: what is usual, what a change of the pattern costs, what the system does.

The logarithm of a run's I/O time is a sum of Gaussian processes: the group's usual level; the cost of its own change,
alike for runs with the same kind of change, in part for all groups and in part for each (partial pooling); the effect
of the system's states, with slopes of at least 0, in part common and in part of the group; and heavy-tailed noise. Few
runs of a group borrow from the others as much as these agree. A run that changed nothing has no cost of change, and a
run in the usual state no effect of the system, whatever its time was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.diagnosis.comparison_pool import BYTES_MOVED, Changes, Pool

# Times of runs as they would be had each program moved the same bytes in all of its runs.
#
# Similar runs move bytes within 25% of each other, and a program that grows goes through all of that range: the usual
# time of a small run is not that of a large one, and a spread that growth makes is no noise.

# Before any run is seen, time grows as bytes do, give or take this much of an exponent. [ours]
_EXPONENT: Final = 1.0
_EXPONENT_SD: Final = 0.5
_SIZE_ROUNDS: Final = 3


def at_size_of(pool: Pool, changes: Changes, row: int) -> Pool:
    """Times of group 0 at the bytes of run `row`, of each other group at those of its middle. Where a run's bytes are
    themselves what it changed, its time stays."""
    size, times = pool.pattern[:, BYTES_MOVED], np.log(pool.io_seconds)
    stays = changes.columns[:, BYTES_MOVED]
    found = times.copy()
    for number in np.unique(pool.group).tolist():
        members = np.flatnonzero(pool.group == number)
        usual = members[(members != row) & ~changes.changed[members]]
        if len(usual) < 2 or not np.ptp(size[members]):
            continue
        exponent = _exponent(size[usual], times[usual])
        at = size[row] if number == 0 and not stays[row] else float(np.median(size[usual]))
        moved = members[~stays[members]]
        found[moved] -= exponent * (size[moved] - at)
    return replace(pool, io_seconds=np.exp(found))


def _exponent(size: Floats, times: Floats) -> float:
    """Of times over bytes, both in logarithms: ridge regression with Student's noise by weighted rounds."""
    exponent, trust = _EXPONENT, np.ones(len(size))
    for _ in range(_SIZE_ROUNDS):
        apart, late = (each - np.average(each, weights=trust) for each in (size, times))
        rest = times - exponent * size
        rest = rest - np.median(rest)
        noise = max(MAD_TO_SD * float(np.median(np.abs(rest))), LEAST_NOISE)
        trust = (STUDENT + 1.0) / (STUDENT + (rest / noise) ** 2)
        held = (noise / _EXPONENT_SD) ** 2
        exponent = float((_EXPONENT * held + (trust * apart) @ late) / (held + (trust * apart) @ apart))
    return exponent


# Where a run's time went, into metadata or data, against what is usual of its group.
#
# What slows its own nodes slows both alike. A slow target slows data, a busy metadata server metadata; so do changes:
# more files cost metadata, smaller requests data. How much equal runs differ in this says how much it tells.

MAD_TO_SD: Final = 1.4826  # of a normal distribution
STUDENT: Final = 4.0
# With fewer runs nobody knows how much equal ones differ; they never agree better than this. [ours]
_LEAST_RUNS: Final = 5
_LEAST_NOISE: Final = 0.05
# Where equal runs differ by nearly twice it tells nothing. [ours]
_MOST_NOISE: Final = 0.6
# What the system does is done to data, to metadata, to both. [ours]
_BY_SYSTEM: Final = (0.94, 0.05, 0.01)
# Quiet runs differ less than others. [ours]
_WIDER: Final = 1.5
# Over this distance changes stop being of one kind; beyond the other they are all alike. Logarithms. [ours]
_MOVED_SCALE: Final = 0.5
_MOST_MOVED: Final = 1.5
_SMALLEST: Final = 1e-3


@dataclass(frozen=True)
class Split:
    """Of one run: by how much the logarithm of its time in metadata over that in data is beyond the usual, how much
    equal runs differ in it, and which share of the time metadata usually have. Those that are usual here the system
    slowed by `offset` less than it usually does, in logarithms."""

    shift: float
    noise: float
    metadata_ratio: float
    offset: float = 0.0

    def likelihood(self, by_system: Floats, on_data: Floats) -> Floats:
        """Of effects on the logarithm of the time, up to a factor; `on_data` is one that no metadata feel."""
        metadata, data = self.metadata_ratio, 1.0 - self.metadata_ratio
        by_system = by_system + self.offset
        moved = np.stack([-_on_part(data, by_system), _on_part(metadata, by_system), np.zeros(len(by_system))])
        distance = (self.shift - moved + _on_part(data, on_data)) / self.noise
        return np.asarray(_BY_SYSTEM @ (1.0 + distance**2 / STUDENT) ** (-0.5 * (STUDENT + 1.0)))


def _on_part(share: float, effect: Floats) -> Floats:
    """Logarithm of how much longer a part of the time takes, where that alone makes the whole longer by `effect`."""
    return np.asarray(np.log(np.maximum((np.expm1(effect) + share) / share, _SMALLEST)))


def split_of(column: Floats, usual: Ints, row: int) -> Split | None:
    """Of the logarithms of all runs; None where too few are known, equal runs differ much, or most of the time is
    metadata: close() writes what is left and counts there, so that they are no separate part."""
    known = column[usual][np.isfinite(column[usual])]
    if len(known) < _LEAST_RUNS:
        return None
    middle = float(np.median(known))
    noise = _WIDER * MAD_TO_SD * float(np.median(np.abs(known - middle)))
    if middle > 0.0 or noise > _MOST_NOISE or not np.isfinite(column[row]):
        return None
    return Split(float(column[row]) - middle, max(noise, _LEAST_NOISE), 1.0 / (1.0 + float(np.exp(-middle))))


def same_part(split: Floats, group: Ints, changed: Bools, effect: Floats, row: int) -> Floats:
    """(run, run), from 1 to 0: whether it was the same part of the time that became longer with their changes. Changes
    that look alike may cost nothing in one run and much in another. `effect` is the system's, which is on data."""
    moved, noise = np.zeros(len(split)), 0.0
    usual, known = ~changed & (np.arange(len(split)) != row), changed & np.isfinite(split)
    for number in np.unique(group[known]).tolist():
        members = np.flatnonzero(known & (group == number))
        found = split_of(split, np.flatnonzero(usual & (group == number)), int(members[0]))
        if found is not None:
            shift = split[members] - split[members[0]] + found.shift + effect[members]
            moved[members] = np.clip(shift, -_MOST_MOVED, _MOST_MOVED)
            noise = max(noise, found.noise if number == group[row] else 0.0)
    return np.asarray(np.exp(-0.5 * (moved[:, None] - moved[None]) ** 2 / (_MOVED_SCALE**2 + (2.0 * noise) ** 2)))


# How the system was for each run, beyond what is usual for its group and what its own pattern makes of it.
#
# A run in small random requests makes the devices move several times its bytes, and its requests wait longer, without
# anybody else. So each measure is taken relative to the group's usual runs, and for a run that changed its pattern
# relative to runs of any group with the same kind of change. What is left is others', or the system's.

# Slowness counts from so many spreads of the group's quieter half on. [ours]
_DEAD_SPREADS: Final = 2.0
# The unit of load is what one run in twenty sees, within these shares of the most that servers ever did; from half of
# that unit on it may weigh more. [ours]
_UNIT_QUANTILE: Final = 0.95
_UNITS: Final = (0.05, 0.5)
_BUSY: Final = 0.5
# The quieter runs of a group, or with the same change, show what their own requests become: others only add to it.
_QUIET_QUANTILE: Final = 0.25
# Runs whose change is a little different say little about amplification: it is as sharp as the change.
_SHARPNESS: Final = 4
_PRIOR_RUNS: Final = 0.5


@dataclass(frozen=True, eq=False)
class States:
    """(run, measure), all at least 0, and what is usual for each run's group; `names` of the measures."""

    names: tuple[str, ...]
    values: Floats
    usual: Floats

    @property
    def beyond(self) -> Floats:
        return np.asarray(self.values - self.usual)

    @property
    def quiet(self) -> Bools:
        return np.asarray((self.beyond <= 0.1).all(axis=1))


def find_states(pool: Pool, changes: Changes, row: int) -> States:
    """From all runs but `row`, for all of them."""
    weights = changes.alike**_SHARPNESS * (1.0 + (pool.group[:, None] == pool.group[None]))
    np.fill_diagonal(weights, 0.0)
    weights[:, row] = 0.0
    baseline = _Baseline(pool, changes, row, weights)
    found: dict[str, Floats] = {}
    for name, load in pool.loads.items():
        share = _load_of_others(load.amount, load.own, load.peak, baseline)
        beyond = share / np.clip(np.quantile(np.delete(share, row), _UNIT_QUANTILE), *_UNITS)
        found[name] = beyond
        found[f"{name}_busy"] = np.maximum(beyond - _BUSY, 0.0)
    for name, column in pool.slowness.items():
        found[name] = baseline.slowness(column)
    if "contrast" in found:
        # Slow for the runs that use it while its device is not: the server, or the way to it.
        found["stalled"] = found.pop("contrast") * np.maximum(1.0 - found.get("service", 0.0), 0.0)
    values = np.stack(list(found.values()), axis=1) if found else np.zeros((pool.rows, 0))
    return States(tuple(found), values, baseline.per_group(values))


def _load_of_others(amount: Floats, own: Floats, peak: Floats, baseline: _Baseline) -> Floats:
    """Others' share of the most that the servers could do: amounts less what the run's own requests become there."""
    ratio = np.log(np.maximum(amount, 1.0) / np.maximum(own, 1.0))
    expected, error = baseline.of(ratio, _QUIET_QUANTILE)
    with np.errstate(invalid="ignore", divide="ignore"):
        others = amount - np.maximum(own, 1.0) * np.exp(np.minimum(expected + error, ratio))
        share = np.where(peak > 0, others / peak, 0.0)
    return np.asarray(np.clip(np.nan_to_num(share), 0.0, 2.0))


class _Baseline:
    """What a measure is for a run of this group with this pattern when nothing is the matter."""

    def __init__(self, pool: Pool, changes: Changes, row: int, weights: Floats) -> None:
        self.changed, self.weights = changes.changed, weights
        self.other = np.arange(pool.rows) != row
        self.members = [np.flatnonzero(pool.group == number) for number in np.unique(pool.group).tolist()]

    def of(self, column: Floats, quantile: float) -> tuple[Floats, Floats]:
        """Expected value of each run, as this quantile of those alike, and its error: 0 for runs that did as usual."""
        usual = self._per_group(column, lambda values: _quantile(values, quantile))
        beyond = column - usual
        shift, error = np.zeros(len(column)), np.zeros(len(column))
        rows = np.flatnonzero(self.changed)
        known = rows[np.isfinite(beyond[rows]) & self.other[rows]]
        if len(rows):
            weights = self.weights[np.ix_(rows, known)]
            shift[rows] = _weighted_quantile(beyond[known], weights, quantile)
            spread = MAD_TO_SD * float(np.median(np.abs(beyond[known]))) if len(known) else 1.0
            error[rows] = spread / (1.0 + weights.sum(axis=1))
        return usual + shift, error

    def slowness(self, column: Floats) -> Floats:
        """Beyond the expected by more than equal runs differ; unknown is as usual."""
        expected, error = self.of(column, 0.5)
        beyond = column - expected
        below = np.where(beyond <= 0, -beyond, np.nan)
        spread = self._per_group(below, lambda values: MAD_TO_SD * _quantile(values, 0.5))
        ordinary = below[self.other & ~self.changed & np.isfinite(below)]
        least = 0.5 * MAD_TO_SD * float(np.median(ordinary)) if len(ordinary) else 0.0
        dead = _DEAD_SPREADS * np.fmax(spread, least) + error
        with np.errstate(invalid="ignore", divide="ignore"):
            kept = np.where(beyond > dead, beyond - dead**2 / beyond, 0.0)
        return np.nan_to_num(kept)

    def per_group(self, values: Floats) -> Floats:
        """Median of each column in the runs of the group that did as usual."""
        columns = [self._per_group(column, lambda each: _quantile(each, 0.5)) for column in values.T]
        return np.stack(columns, axis=1) if columns else np.zeros(values.shape)

    def _per_group(self, column: Floats, middle: Callable[[Floats], float]) -> Floats:
        usual = self.other & ~self.changed & np.isfinite(column)
        found = np.full(len(column), middle(column[usual]) if usual.any() else 0.0)
        for members in self.members:
            mine = members[usual[members]]
            if len(mine):
                found[members] = middle(column[mine])
        return found


def _quantile(values: Floats, q: float) -> float:
    """As np.quantile, in an eighth of its time for the few runs of a group: a verdict asks for hundreds."""
    ordered, place = np.sort(values), q * (len(values) - 1)
    low = int(place)
    part = place - low
    return float(ordered[low]) if not part else float((1.0 - part) * ordered[low] + part * ordered[low + 1])


def _weighted_quantile(values: Floats, weights: Floats, quantile: float) -> Floats:
    """One for each row of weights; before any run is seen it is 0."""
    values = np.append(values, 0.0)
    order = np.argsort(values, kind="stable")
    weights = np.concatenate([weights, np.full((len(weights), 1), _PRIOR_RUNS)], axis=1)[:, order]
    reached = np.cumsum(weights, axis=1)
    return np.asarray(values[order][(reached >= quantile * reached[:, -1:]).argmax(axis=1)])


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
