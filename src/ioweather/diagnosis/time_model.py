"""Model of run times: the usual level, the cost of a changed pattern, the effect of the system's state.

The logarithm of a run's I/O time is a sum of Gaussian processes: the level of its group; the cost of its change, shared
by runs with the same kind of change, partly by all groups and partly within each (partial pooling); and the effect of
the system's states, whose slopes are at least 0, again partly common and partly of the group. The noise is heavy-tailed
(Student's t). A group with few runs borrows from the others as far as these agree. A run that changed nothing has no
cost of change, and a run at the usual state has no effect of the system, whatever its time was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.optimize import nnls

from ioweather.core.frames import Bools, Floats, Ints
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.diagnosis.comparison_pool import BYTES_MOVED, SAME_KIND, Changes, Pool

MAD_TO_SD: Final = 1.4826  # of a normal distribution
STUDENT: Final = 4.0  # degrees of freedom
# Noise of equal runs is never smaller than this, however few runs there are.
LEAST_NOISE: Final = 0.03
# Least extra time of a slow run: this share of the usual time, and so many median absolute deviations.
HARM_SHARE: Final = 0.15
HARM_MADS: Final = 2.0

# Prior of the exponent of time over bytes. [ours]
_EXPONENT_MEAN: Final = 1.0
_EXPONENT_SD: Final = 0.5
_EXPONENT_ROUNDS: Final = 3
# A run that moved so many times the usual bytes has grown: what these cost is its own.
LEAST_GROWTH: Final = 1.5


@dataclass(frozen=True)
class Growth:
    """A run that moved `factor` times its program's usual bytes: the logarithm of its extra time, and its error."""

    factor: float = 1.0
    log_cost: float = 0.0
    error: float = 0.0

    @property
    def has_grown(self) -> bool:
        """Whether the run moved so much more that this is said first."""
        return self.factor >= LEAST_GROWTH


def scale_to_size(pool: Pool, changes: Changes, row: int) -> tuple[Pool, Growth]:
    """Return the pool with times at equal bytes, and the growth of run `row`.

    In group 0 these are the bytes of run `row`, or the usual ones if it has grown; in other groups the median. Similar
    runs differ by up to 25% in bytes, and a growing program passes through all of that range.
    """
    log_size, log_time = pool.pattern[:, BYTES_MOVED], np.log(pool.io_seconds)
    scaled, growth = log_time.copy(), Growth()
    for number in np.unique(pool.group).tolist():
        members = np.flatnonzero(pool.group == number)
        usual = members[(members != row) & ~changes.changed[members]]
        if len(usual) < 2 or not np.ptp(log_size[members]):
            continue
        exponent, error = fit_size_exponent(log_size[usual], log_time[usual])
        at = float(np.median(log_size[usual]))
        if number == 0:
            more = float(log_size[row]) - at
            grown = Growth(float(np.exp(more)), exponent * more, error * abs(more))
            if grown.has_grown:
                growth = grown
            else:
                at = float(log_size[row])
        moved = members[members != row]
        scaled[moved] -= exponent * (log_size[moved] - at)
    return replace(pool, io_seconds=np.exp(scaled)), growth


def fit_size_exponent(log_size: Floats, log_time: Floats) -> tuple[float, float]:
    """Return (exponent of time over bytes, its error): ridge regression of logarithms towards the prior mean."""
    size, time = log_size - np.median(log_size), log_time - np.median(log_time)
    exponent, error = _EXPONENT_MEAN, _EXPONENT_SD
    for _ in range(_EXPONENT_ROUNDS):
        residual = time - exponent * size
        noise = max(MAD_TO_SD * float(np.median(np.abs(residual))), LEAST_NOISE)
        without_outliers = exponent * size + np.clip(residual, -2.0 * noise, 2.0 * noise)
        penalty = (noise / _EXPONENT_SD) ** 2
        precision = penalty + float(size @ size)
        exponent = (_EXPONENT_MEAN * penalty + float(size @ without_outliers)) / precision
        error = noise / precision**0.5
    return exponent, error


# A level moved from this factor on, by at least so many runs on either side. [ours]
_MOVED_LEVEL: Final = 1.15
_LEAST_ASIDE: Final = 3


@dataclass(frozen=True)
class LevelMove:
    """Since `since_ns` unchanged runs of other programs take `factor` times as long; None if none tells.

    `of_user`: other programs of this user do, those of others do not.
    """

    since_ns: int
    factor: float | None
    of_user: bool = False


def level_behind_change(pool: Pool, changes: Changes, row: int) -> LevelMove | None:
    """Return the move of the level of all programs, or of those of its user, that may be what the change of run `row`
    seems to cost.

    None if unchanged runs of its group lie between or after those with the change, or if other groups show that the
    level stood still.
    """
    start, mine, unchanged = pool.start_ns, pool.group == 0, ~changes.changed
    if unchanged[row] or not (mine & unchanged).any():
        return None
    alike = start[mine & ((changes.similarity[row] >= SAME_KIND) | (np.arange(pool.rows) == row))]
    own = start[mine & unchanged]
    if own.max() > alike.min() and own.min() < alike.max():
        return None
    is_later = own.max() <= alike.min()
    moment = int(alike.min() if is_later else own.min())
    sign, moves, of_user = 1.0 if is_later else -1.0, list[float](), list[float]()
    for number in np.unique(pool.group[~mine]).tolist():
        members = unchanged & (pool.group == number)
        before, after = (np.log(pool.io_seconds[members & side]) for side in (start < moment, start >= moment))
        if min(len(before), len(after)) >= _LEAST_ASIDE:
            moves.append(sign * float(np.median(after) - np.median(before)))
            of_user += moves[-1:] if (pool.user[members] == pool.user[row]).all() else []
    if not moves:
        return LevelMove(moment, None)
    everywhere, by_user = (float(np.exp(np.median(each))) if each else 1.0 for each in (moves, of_user))
    if everywhere >= _MOVED_LEVEL:
        return LevelMove(moment, everywhere)
    return LevelMove(moment, by_user, of_user=True) if by_user >= _MOVED_LEVEL else None


# Where the time went: metadata or data.
#
# What slows a run's own nodes slows both; the system slows data. The spread among equal runs says how much this shows.

# With fewer runs the spread is unknown; it is never smaller than the noise below. [ours]
_LEAST_SPLIT_RUNS: Final = 5
_LEAST_SPLIT_NOISE: Final = 0.05
# Where equal runs differ by nearly a factor of two, the split shows nothing. [ours]
_MOST_SPLIT_NOISE: Final = 0.6
# Quiet runs differ less than others. [ours]
_SPLIT_WIDENING: Final = 1.5
_LEAST_RATIO: Final = 1e-3


@dataclass(frozen=True)
class Split:
    """How one run divided its time, against its usual runs.

    `shift` is the logarithm of metadata over data time beyond the usual, `noise` its spread among equal runs,
    `data_ratio` the usual share of data. The system slowed the usual runs by `offset` less than it usually does, in
    logarithms.
    """

    shift: float
    noise: float
    data_ratio: float
    offset: float = 0.0

    def likelihood(self, data_effect: Floats) -> Floats:
        """Likelihood, up to a factor, of effects on the logarithm of the time that slow data only."""
        distance = (self.shift + effect_on_part(self.data_ratio, data_effect + self.offset)) / self.noise
        return np.asarray((1.0 + distance**2 / STUDENT) ** (-0.5 * (STUDENT + 1.0)))


def effect_on_part(share: float, effect: Floats) -> Floats:
    """Log slowdown of one part of the time if that part alone slows the whole by `effect`."""
    return np.asarray(np.log(np.maximum((np.expm1(effect) + share) / share, _LEAST_RATIO)))


def find_split(log_ratio: Floats, usual: Ints, row: int) -> Split | None:
    """Return the split of run `row` against the `usual` runs, from log(metadata / data) of all runs.

    None if too few runs are known, equal runs differ much, or metadata take most of the time: close() flushes data and
    counts as metadata, so these are no separate part.
    """
    known = log_ratio[usual][np.isfinite(log_ratio[usual])]
    if len(known) < _LEAST_SPLIT_RUNS:
        return None
    median = float(np.median(known))
    noise = _SPLIT_WIDENING * MAD_TO_SD * float(np.median(np.abs(known - median)))
    if median > 0.0 or noise > _MOST_SPLIT_NOISE or not np.isfinite(log_ratio[row]):
        return None
    return Split(float(log_ratio[row]) - median, max(noise, _LEAST_SPLIT_NOISE), 1.0 / (1.0 + float(np.exp(median))))


# Length scale of the shift beyond which changes are of different kinds, and the largest shift; logarithms. [ours]
_SHIFT_SCALE: Final = 0.5
_MOST_SHIFT: Final = 1.5


def compare_splits(log_ratio: Floats, group: Ints, changed: Bools, system_effect: Floats, row: int) -> Floats:
    """Return a (run, run) Gaussian kernel in [0, 1]: whether two changes made the same part of the time longer.

    `log_ratio` is log(metadata / data) of each run, `system_effect` the logarithm by which the system slowed data. A
    change of one kind may cost nothing in one program and much in another; where the time went tells these apart.
    Unchanged and unknown runs have shift 0. `row` is the judged run: in no baseline, and its group sets the noise.
    """
    shift, noise = np.zeros(len(log_ratio)), 0.0
    usual, known = ~changed & (np.arange(len(log_ratio)) != row), changed & np.isfinite(log_ratio)
    for number in np.unique(group[known]).tolist():
        members = np.flatnonzero(known & (group == number))
        split = find_split(log_ratio, np.flatnonzero(usual & (group == number)), int(members[0]))
        if split is not None:
            # Only the first member has a split; the others differ from it by their ratios.
            beyond_usual = log_ratio[members] - log_ratio[members[0]] + split.shift
            # The system made data longer, which lowered the ratio: add its effect back.
            shift[members] = np.clip(beyond_usual + system_effect[members], -_MOST_SHIFT, _MOST_SHIFT)
            noise = max(noise, split.noise if number == group[row] else 0.0)
    return np.asarray(np.exp(-0.5 * (shift[:, None] - shift[None]) ** 2 / (_SHIFT_SCALE**2 + (2.0 * noise) ** 2)))


# The state of the system during each run, beyond the usual of its group and beyond the run's own pattern.
#
# Small random requests make devices move several times their bytes, and wait longer, without other jobs. So each
# measure is relative to the usual runs of the group and, for a changed run, to runs of any group with the same change.

# Slowness counts from this many spreads of the group's quieter half. [ours]
_DEAD_SPREADS: Final = 2.0
# The unit of load is its 95% quantile over runs, within these shares of the peak; from `_BUSY` units on load may weigh
# more. [ours]
_UNIT_QUANTILE: Final = 0.95
_UNIT_RANGE: Final = (0.05, 0.5)
_BUSY: Final = 0.5
# The quieter runs show what a run's own requests become at the servers: other jobs only add to it.
_QUIET_QUANTILE: Final = 0.25
# Amplification depends sharply on the change: runs with a slightly different change say little about it.
_SHARPNESS: Final = 4
# A load that recurs every day, such as a backup, is not what a change makes of a run's requests. Hours count as the
# same up to about this distance. [ours]
_SAME_HOUR_NS: Final = HOUR_NS
_CLUSTERED, _RAYLEIGH = 0.8, 4.6  # mean resultant length of the hours, and n R^2 with a chance of 1% if all are equal
_PRIOR_WEIGHT: Final = 0.5


@dataclass(frozen=True, eq=False)
class States:
    """(run, measure) states beyond the usual of each run's group, and the `names` of the measures."""

    names: tuple[str, ...]
    excess: Floats

    @property
    def quiet(self) -> Bools:
        """Runs during which no measure was beyond the usual."""
        return np.asarray((self.excess <= 0.1).all(axis=1))


def find_states(pool: Pool, changes: Changes, row: int) -> States:
    """Return the states of all runs; run `row` does not enter the baselines."""
    baseline = _Baseline(pool, changes, row)
    found: dict[str, Floats] = {}
    for name, load in pool.loads.items():
        share = _load_of_others(load.amount, load.own, load.peak, baseline)
        found[name] = share / np.clip(np.quantile(np.delete(share, row), _UNIT_QUANTILE), *_UNIT_RANGE)
        found[f"{name}_busy"] = np.maximum(found[name] - _BUSY, 0.0)
    for name, column in pool.slowness.items():
        found[name] = baseline.excess_slowness(column)
    if "contrast" in found:
        # Slow for its users while the device is not: the server, or the path to it.
        found["stalled"] = found.pop("contrast") * np.maximum(1.0 - found.get("service", 0.0), 0.0)
    excess = [column - baseline.by_group(column, lambda each: float(np.median(each))) for column in found.values()]
    return States(tuple(found), np.stack(excess, axis=1) if excess else np.zeros((pool.rows, 0)))


def _load_of_others(amount: Floats, own: Floats, peak: Floats, baseline: _Baseline) -> Floats:
    """Load of other jobs as a share of the peak: the amount less what the run's own requests become there."""
    own = np.maximum(own, 1.0)
    log_ratio = np.log(np.maximum(amount, 1.0) / own)
    usual = baseline.by_group(log_ratio, lambda values: float(np.quantile(values, _QUIET_QUANTILE)))
    with np.errstate(invalid="ignore", divide="ignore"):
        beyond = np.where(peak > 0, (amount - own * np.exp(np.minimum(usual, log_ratio))) / peak, np.nan)
        least = np.maximum(np.minimum(amount, own), 1.0)
        without = np.log(np.maximum(amount - peak * baseline.recurring(beyond), least) / own)
        expected, error = baseline.expect(without, _QUIET_QUANTILE)
        others = amount - own * np.exp(np.minimum(expected + error, log_ratio))
        share = np.where(peak > 0, others / peak, 0.0)
    return np.asarray(np.clip(np.nan_to_num(share), 0.0, 2.0))


class _Baseline:
    """Expected value of a measure for a run of its group with its pattern in a quiet system."""

    def __init__(self, pool: Pool, changes: Changes, row: int) -> None:
        self.changed = changes.changed
        self.is_other = np.arange(pool.rows) != row
        self.members = [np.flatnonzero(pool.group == number) for number in np.unique(pool.group).tolist()]
        self.weights = changes.similarity**_SHARPNESS * (1.0 + (pool.group[:, None] == pool.group[None]))
        np.fill_diagonal(self.weights, 0.0)
        self.weights[:, row] = 0.0
        apart = np.abs(pool.start_ns[:, None] - pool.start_ns[None])
        from_hour = np.abs((apart + DAY_NS // 2) % DAY_NS - DAY_NS // 2) / _SAME_HOUR_NS
        self.same_hour = np.exp(-from_hour) * (apart > DAY_NS // 2) * (self.is_other & ~self.changed)
        # Only a change that is made at certain hours: the Rayleigh test of the runs with the same kind of change.
        same_kind = changes.similarity >= SAME_KIND
        count = np.maximum(same_kind.sum(axis=1), 1)
        resultant = np.abs(same_kind @ np.exp(2j * np.pi * (pool.start_ns % DAY_NS) / DAY_NS)) / count
        self.same_hour *= ((resultant >= _CLUSTERED) & (count * resultant**2 >= _RAYLEIGH))[:, None]

    def by_group(self, column: Floats, statistic: Callable[[Floats], float]) -> Floats:
        """A statistic of the unchanged runs of the run's group; of all unchanged runs if the group has none."""
        usual = self.is_other & ~self.changed & np.isfinite(column)
        found = np.full(len(column), statistic(column[usual]) if usual.any() else 0.0)
        for members in self.members:
            mine = members[usual[members]]
            if len(mine):
                found[members] = statistic(column[mine])
        return found

    def expect(self, column: Floats, quantile: float) -> tuple[Floats, Floats]:
        """(expected value, its error) of each run: this quantile of similar runs. Unchanged runs have error 0."""
        usual = self.by_group(column, lambda values: float(np.quantile(values, quantile)))
        excess = column - usual
        shift, error = np.zeros(len(column)), np.zeros(len(column))
        rows = np.flatnonzero(self.changed)
        known = rows[np.isfinite(excess[rows]) & self.is_other[rows]]
        if len(rows):
            weights = self.weights[np.ix_(rows, known)]
            shift[rows] = _weighted_quantile(excess[known], weights, quantile)
            spread = MAD_TO_SD * float(np.median(np.abs(excess[known]))) if len(known) else 1.0
            error[rows] = spread / (1.0 + weights.sum(axis=1))
        return usual + shift, error

    def recurring(self, excess: Floats) -> Floats:
        """Excess that unchanged runs met at the same hour of other days; 0 for unchanged runs."""
        met = self.same_hour * np.isfinite(excess)
        mean = met @ np.nan_to_num(excess) / (met.sum(axis=1) + _PRIOR_WEIGHT)
        return np.where(self.changed, mean, 0.0)

    def excess_slowness(self, column: Floats) -> Floats:
        """Slowness of each run beyond the expected, shrunk by the spread of equal runs; unknown is 0."""
        usual = self.by_group(column, lambda values: float(np.median(values)))
        expected, error = self.expect(column - self.recurring(column - usual), 0.5)
        excess = column - expected
        # Spread of the quieter half: runs above the median may be slow because of the system.
        below = np.where(excess <= 0, -excess, np.nan)
        spread = self.by_group(below, lambda values: MAD_TO_SD * float(np.median(values)))
        usual = below[self.is_other & ~self.changed & np.isfinite(below)]
        least = 0.5 * MAD_TO_SD * float(np.median(usual)) if len(usual) else 0.0
        threshold = _DEAD_SPREADS * np.fmax(spread, least) + error
        # The non-negative garrote: 0 up to the threshold, nearly the whole excess far above.
        with np.errstate(invalid="ignore", divide="ignore"):
            shrunk = np.where(excess > threshold, excess - threshold**2 / excess, 0.0)
        return np.nan_to_num(shrunk)


def _weighted_quantile(values: Floats, weights: Floats, quantile: float) -> Floats:
    """Quantile for each row of weights, with a prior observation at 0."""
    values = np.append(values, 0.0)
    order = np.argsort(values, kind="stable")
    weights = np.concatenate([weights, np.full((len(weights), 1), _PRIOR_WEIGHT)], axis=1)[:, order]
    cumulative = np.cumsum(weights, axis=1)
    return np.asarray(values[order][(cumulative >= quantile * cumulative[:, -1:]).argmax(axis=1)])


# Prior standard deviations, in logarithms of time. [ours]
_LEVEL_SD: Final = 2.0
_CHANGE_COMMON_SD: Final = 0.6
_CHANGE_GROUP_SD: Final = 0.35
_STATE_COMMON_SD: Final = 0.7
_STATE_GROUP_SD: Final = 0.4
# The effect of a state varies between runs by this share. It varies more where sampling intervals reach beyond the run:
# load comes in bursts, and samples do not show which of them met the run.
_STATE_SCATTER: Final = 0.3
_BURSTS: Final = 2.0
_LEAST_INSIDE: Final = 0.05
# Prior weight, in runs, of the other groups' noise.
_NOISE_RUNS: Final = 4.0
# Unmeasured causes only slow runs down: positive residuals of unchanged runs at quiet times count this many times.
# [ours]
_LATE_FACTOR: Final = 2.0
# States that slow any request of the same kind, so also those of other runs.
_PEER_STATES: Final = ("service", "queue", "stalled", "probe_data", "probe_targets")
_FIT_ROUNDS: Final = 2
_STATE_ROOT: Final = 0.5
# Effects have one direction where one side exceeds the other this many times.
_ONE_SIDED: Final = 3.0
# The typical effect is subtracted from the effect of the system, so their errors are anticorrelated.
_TYPICAL_ERROR: Final = (1.0, 0.0, -1.0)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Prediction of one run's log time from the other runs.

    `mean` and `covariance` are of (usual level, cost of its change, effect of the system). `noise` is that of equal
    runs, `mad_seconds` the MAD of their seconds at quiet times. `direction` is 1 where the system was busier or slower
    than usual, -1 where it was less so, 0 where it was as usual and 2 where measures disagree. The effect of the system
    on one run is off by `state_scatter` of itself. `peer_slowdown` is the largest slowdown of requests or probes.
    `split` shows which part of the time of an unchanged run became longer.
    """

    mean: Floats
    covariance: Floats
    noise: float
    mad_seconds: float
    changed: bool
    direction: int
    state_scatter: float
    peer_slowdown: float
    split: Split | None = None
    growth: Growth = Growth()


def predict(pool: Pool, changes: Changes, states: States, row: int, growth: Growth) -> Prediction:
    """Predict run `row` from all others."""
    known = np.flatnonzero(np.arange(pool.rows) != row)
    same_group = (pool.group[:, None] == pool.group[None]).astype(np.float64)
    excess, mine = states.excess, pool.group == 0
    level_kernel = _LEVEL_SD**2 * same_group
    change_kernel = changes.similarity * (_CHANGE_COMMON_SD**2 + _CHANGE_GROUP_SD**2 * same_group)
    others = np.where(mine, 0.0, 1.0)[:, None] * excess
    free_kernel = level_kernel + _STATE_GROUP_SD**2 * same_group * (others @ others.T)
    kernel = (free_kernel + change_kernel)[np.ix_(known, known)]
    # Slopes of all other groups, then those of this one.
    design = np.concatenate([others, np.where(mine[:, None], excess, 0.0)], axis=1)
    noise, mad_seconds = _estimate_noise(pool, changes, states, known)
    late_factor = np.where(~changes.changed & states.quiet, _LATE_FACTOR, 1.0)[known]
    log_time = np.log(pool.io_seconds[known])
    centre = float(np.median(log_time))
    fit = _fit(kernel, design[known], log_time - centre, noise[known], late_factor)
    if len(pool.split):
        effect = design @ fit.slopes
        change_kernel = change_kernel * compare_splits(pool.split, pool.group, changes.changed, effect, row)
        kernel = (free_kernel + change_kernel)[np.ix_(known, known)]
    # The effect of a busy system varies between runs, so runs at busy times weigh less. A run meets only the bursts of
    # load inside it, of all in its sampling intervals.
    inside = np.nan_to_num(pool.inside_ratio, nan=1.0)
    bursts = (1.0 / np.clip(inside, _LEAST_INSIDE, 1.0) - 1.0) / _BURSTS
    scatter = np.hypot(_STATE_SCATTER, np.sqrt(bursts))
    wider = np.hypot(noise, scatter * (design @ fit.slopes))[known]
    fit = _fit(kernel, design[known], log_time - centre, wider, late_factor, fit.weights)
    cross_kernel = np.stack([part[row, known] for part in (level_kernel, change_kernel)])
    level, change = cross_kernel @ fit.dual_coefficients + np.array([centre, 0.0])
    slopes, usual = fit.slopes[excess.shape[1] :], known[mine[known] & ~changes.changed[known]]
    # The level is that of a typical run, not of one at a state of 0 in every measure.
    residual = np.log(pool.io_seconds[usual]) - level
    usual_effect, typical_state, typical_effect, error = _typical_effect(
        excess[usual], slopes, residual, noise[usual], scatter[usual]
    )
    difference = excess[row] - typical_state
    covariance = np.outer(_TYPICAL_ERROR, _TYPICAL_ERROR) * error**2
    prior = np.diag([part[row, row] for part in (level_kernel, change_kernel)])
    covariance[:2, :2] += prior - cross_kernel @ fit.inverse @ cross_kernel.T
    padding, nothing = np.zeros(len(slopes)), np.zeros(2 * len(slopes))
    by_slope = np.stack([np.append(padding, typical_state), nothing]) - cross_kernel @ fit.inverse @ design[known]
    gradient = np.concatenate([by_slope, np.append(padding, difference)[None, :]])
    covariance += gradient @ fit.slope_covariance @ gradient.T
    peer_states = [float(excess[row, i]) for i, name in enumerate(states.names) if name in _PEER_STATES]
    split = None
    if not changes.changed[row]:
        split = _split_against_usual(pool.split, usual, row, states.quiet[usual], typical_effect - usual_effect, error)
    return Prediction(
        mean=np.array([level + typical_effect, change, float(excess[row] @ slopes) - typical_effect]),
        covariance=covariance,
        noise=float(noise[row]),
        mad_seconds=mad_seconds,
        changed=bool(changes.changed[row]),
        direction=_direction(np.append(difference * slopes, typical_state @ slopes - typical_effect)),
        state_scatter=float(scatter[row]),
        peer_slowdown=max([0.0, *peer_states]),
        growth=growth,
        split=split,
    )


def _direction(effects: Floats) -> int:
    """1 or -1 if the effects are mostly positive or negative, 0 if there are none, 2 if they disagree."""
    higher, lower = float(np.maximum(effects, 0.0).sum()), float(np.maximum(-effects, 0.0).sum())
    if higher == lower == 0.0:
        return 0
    return 1 if higher >= _ONE_SIDED * lower else -1 if lower >= _ONE_SIDED * higher else 2


def _split_against_usual(
    log_ratio: Floats, usual: Ints, row: int, quiet: Bools, offset: Floats, error: float
) -> Split | None:
    """Split of run `row` against the quiet ones of the `usual` runs if there are enough, else against all of them.

    The system slowed the usual runs by `offset` less than it usually does, with a standard error of `error`.
    """
    for chosen in (quiet, np.ones(len(usual), np.bool_)):
        split = find_split(log_ratio, usual[chosen], row)
        if split is not None:
            return replace(split, offset=float(np.median(offset[chosen])), noise=float(np.hypot(split.noise, error)))
    return None


def _typical_effect(
    excess: Floats, slopes: Floats, residual: Floats, noise: Floats, scatter: Floats
) -> tuple[Floats, Floats, float, float]:
    """(effect on each usual run, state of the median run, its effect, the error of that effect).

    Each of ten measures may be usual in most runs and all of them in none: a run where all are usual is quieter than a
    typical one. The effect of a state on a run is shrunk from its residual towards the effect that the slopes predict.
    """
    if not len(excess):
        return np.zeros(0), np.zeros(len(slopes)), 0.0, 0.0
    expected = excess @ slopes
    variance = (scatter * expected) ** 2 + _STATE_ROOT**2 * np.abs(expected)
    effect = expected + variance / (variance + noise**2) * (residual - expected)
    rank_error = 0.5 / np.sqrt(len(effect))  # standard error of the rank of the median
    low, median, high, below, above = np.quantile(effect, (0.4, 0.5, 0.6, 0.5 - rank_error, 0.5 + rank_error))
    middle = (effect >= low) & (effect <= high)
    if not middle.any():  # few runs, and an even number: take the two in the middle
        middle = np.argsort(effect)[len(effect) // 2 - 1 : len(effect) // 2 + 1]
    return effect, excess[middle].mean(axis=0), float(median), 0.5 * float(above - below)


@dataclass(frozen=True, eq=False)
class _Fit:
    """`dual_coefficients` predict the free part; `weights` are the robustness weights of the runs."""

    slopes: Floats
    slope_covariance: Floats
    inverse: Floats
    dual_coefficients: Floats
    weights: Floats


def _fit(
    kernel: Floats, design: Floats, log_time: Floats, noise: Floats, late_factor: Floats, weights: Floats | float = 1
) -> _Fit:
    """Fit non-negative slopes and a free Gaussian part with Student-t noise, by reweighting.

    A positive residual counts `late_factor` times.
    """
    weights, width = weights * np.ones(len(log_time)), design.shape[1] // 2
    # The slopes of this group are normal around those of the others.
    tie = np.eye(width) / _STATE_GROUP_SD**2
    prior_precision = np.block([[np.eye(width) / _STATE_COMMON_SD**2 + tie, -tie], [-tie, tie]])
    for _ in range(_FIT_ROUNDS):
        inverse = np.asarray(np.linalg.inv(kernel + np.diag(noise**2 / weights)), np.float64)
        precision = design.T @ inverse @ design + prior_precision
        slopes, covariance = _nonnegative_slopes(precision, design.T @ inverse @ log_time)
        dual_coefficients = inverse @ (log_time - design @ slopes)
        residual = noise * dual_coefficients / weights
        weights = (STUDENT + 1.0) / (STUDENT + (residual * np.where(residual > 0.0, late_factor, 1.0)) ** 2)
    return _Fit(slopes, covariance, inverse, dual_coefficients, weights)


def _nonnegative_slopes(precision: Floats, moment: Floats) -> tuple[Floats, Floats]:
    """Slopes >= 0 that minimize x'Ax/2 - b'x, and the covariance of the positive ones."""
    if not len(moment):
        return np.zeros(0), np.zeros((0, 0))
    factor = np.linalg.cholesky(precision)
    slopes, _ = nnls(factor.T, np.linalg.solve(factor, moment))
    positive = np.flatnonzero(slopes > 0)
    covariance = np.zeros(precision.shape)
    covariance[np.ix_(positive, positive)] = np.linalg.inv(precision[np.ix_(positive, positive)])
    return slopes, covariance


def _estimate_noise(pool: Pool, changes: Changes, states: States, known: Ints) -> tuple[Floats, float]:
    """(noise of equal runs at quiet times, by run; MAD of the seconds in group 0)."""
    usual = np.zeros(pool.rows, np.bool_)
    usual[known] = ~changes.changed[known]
    log_time, quiet = np.log(pool.io_seconds), usual & states.quiet
    variances, counts, mad_seconds = {}, {}, 0.0
    for number in np.unique(pool.group[usual]).tolist():
        mine = quiet & (pool.group == number)
        mine = mine if mine.sum() >= 3 else usual & (pool.group == number)
        n = int(mine.sum())
        if n >= 2:
            mad = float(np.median(np.abs(log_time[mine] - np.median(log_time[mine]))))
            variances[number], counts[number] = (MAD_TO_SD * mad) ** 2 * n / (n - 1), n
        if number == 0:
            mad_seconds = float(np.median(np.abs(pool.io_seconds[mine] - np.median(pool.io_seconds[mine]))))
    common = float(np.median(list(variances.values()))) if variances else 0.01
    found = np.full(pool.rows, common)
    for number, variance in variances.items():
        shrunk = (variance * counts[number] + common * _NOISE_RUNS) / (counts[number] + _NOISE_RUNS)
        found[pool.group == number] = shrunk
    return np.maximum(np.sqrt(found), LEAST_NOISE), mad_seconds
