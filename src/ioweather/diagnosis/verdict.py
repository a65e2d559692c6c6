"""Verdict on a run: was it the job or the system? (METHODS section 9)

A run took D seconds of I/O. B is the time of the group's usual pattern at the system's usual state, S what the system's
state during the run adds, J what the run's own change of pattern adds, and U = D - B - S - J is unexplained. A slowdown
counts from h = max(0.15 B, 2 MAD of the group's usual runs at quiet times).

normal: D - B < h; system: S >= h > J; you: J >= h > S; both: S >= h and J >= h; unexplained: slower, and neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ioweather.core.frames import Bools, Floats, Frame
from ioweather.core.results import Answer, Finding
from ioweather.core.units import format_time_ns
from ioweather.diagnosis import time_model
from ioweather.diagnosis.comparison_pool import BYTES_MOVED, Pool, find_changes
from ioweather.facts.run_targets import StandsOut
from ioweather.job_io.outcomes import Reason, RecordedVerdict, Unhealthy, VerdictKind, WhyOutcome

# Raised with every change that gives other verdicts on the same data; stored verdicts record it.
MODEL_VERSION: Final = 12
KINDS: Final[tuple[VerdictKind, ...]] = ("normal", "system", "you", "both", "unexplained")
# With fewer similar runs nothing is usual. From here to about ten the groups of other programs carry most of it.
LEAST_RUNS: Final = 3
LEAST_COVERAGE: Final = 0.8
LEAST_PROBABILITY: Final = 0.7
# A run must fill this share of the sampling intervals with its I/O, else the samples describe other times. [ours]
LEAST_INSIDE: Final = 0.2
# One run with such a change does not show its cost: it may have been slow for another reason. [ours]
LEAST_CHANGED: Final = 2

# Largest probability of an accusation that a move of the common level may explain as well, and of one that it explains
# in full: then the run became so much slower with the others, up to this factor. [ours]
_MOST_UNIDENTIFIED: Final = 0.7
_MOST_EXPLAINED: Final = 0.2
_AS_MUCH: Final = 1.15

# Prior: one run in twenty has an unmeasured cause, which multiplies its time by up to this. [ours]
_HIDDEN: Final = 0.05
_LARGEST_FACTOR: Final = 30.0
# A quarter of these causes are on the way to the targets: they slow data only and belong to the system. [ours]
_ON_WAY: Final = 0.25
# A component of the run's targets that was unhealthy or stood out slows one run in two by more than was measured. Three
# quarters of the unmeasured causes are then its. [ours]
_HIDDEN_AT_SICK: Final = 0.5
_AT_SICK: Final = 0.75
# One run in ten is slowed as much as the others, or partly, whatever such a state usually does to its program: which of
# its files are on the slow target differs from run to run. [ours]
_AS_OTHERS: Final = 0.1
# Share of the noise of equal runs that the system causes. [ours]
_SYSTEM_SHARE: Final = 0.5
# Largest probability of a class: one answer in twenty-five is wrong in ways that the model does not know.
_MOST_CERTAIN: Final = 0.96
_STRATA, _PER_STRATUM = 50, 160
_INTERVAL: Final = (0.05, 0.5, 0.95)


# With these errors of the model itself, in logarithms, the 90% intervals cover about 90% of the true seconds; in the
# classes they would blur the cause. Unmeasured conditions are shared by runs that are close in time, so the usual level
# has an error of `_LEVEL_ERROR` and `_LEVEL_SHARE` of the noise. The effect of a state has an error of `_STATE_ROOT`
# times its root. The cost of a change varies between runs by `_CHANGE_SCATTER` of itself. [ours]
_LEVEL_ERROR, _LEVEL_SHARE, _STATE_ROOT, _CHANGE_SCATTER = 0.02, 0.25, 0.9, 0.35


@dataclass(frozen=True)
class Seconds:
    """Seconds with their 90% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class _Draws:
    """Weighted draws of B, of S and J (each without the other), and of h."""

    weight: Floats
    usual: Floats
    system: Floats
    change: Floats
    harm: Floats

    def probabilities(self, duration: float) -> dict[VerdictKind, float]:
        """Weight of the draws in each class."""
        late = duration - self.usual >= self.harm
        index = np.where(late, 1 + (self.system >= self.harm) + 2 * (self.change >= self.harm), 0)
        share = np.bincount(index, self.weight, len(KINDS)).tolist()
        return dict(zip(("normal", "unexplained", "system", "you", "both"), share, strict=True))

    def interval(self, values: Floats) -> Seconds:
        """Weighted median and 90% interval."""
        order = np.argsort(values, kind="stable")
        cumulative = np.cumsum(self.weight[order])
        low, median, high = (float(v) for v in np.interp(_INTERVAL, cumulative, values[order]))
        return Seconds(median, low, high)


def _draw(prediction: time_model.Prediction, duration: float, *, has_errors: bool, met_sick: bool) -> _Draws:
    """Importance sampling: draws from the prior of all causes, weighted by the likelihood of the run's time."""
    rng = np.random.default_rng(1)
    level, change, state = _draw_prior(prediction, rng, has_errors=has_errors)
    hidden = np.where(
        rng.random(len(level)) < (_HIDDEN_AT_SICK if met_sick else _HIDDEN),
        rng.random(len(level)) * math.log(_LARGEST_FACTOR),
        0.0,
    )
    own_noise = prediction.noise * math.sqrt(1.0 - _SYSTEM_SHARE**2)
    residual = (math.log(duration) - level - change - state - hidden) / own_noise
    weight = (1.0 + residual**2 / time_model.STUDENT) ** (-0.5 * (time_model.STUDENT + 1.0))
    if met_sick or prediction.split is not None:
        state = state + np.where(rng.random(len(level)) < (_AT_SICK if met_sick else _ON_WAY), hidden, 0.0)
    if prediction.split is not None:
        weight = weight * prediction.split.likelihood(state)
    if prediction.changed and not prediction.growth.has_grown:
        weight = _drop_evidence_for_cost(weight, change)
    usual = np.exp(level)
    harm = np.maximum(time_model.HARM_SHARE * usual, time_model.HARM_MADS * prediction.mad_seconds)
    return _Draws(weight / weight.sum(), usual, np.expm1(state) * usual, np.expm1(change) * usual, harm)


def _draw_prior(
    prediction: time_model.Prediction, rng: np.random.Generator, *, has_errors: bool
) -> tuple[Floats, Floats, Floats]:
    """Draws of (usual level, cost of the change, effect of the system), in order of the cost.

    A change that is absent costs nothing. Except for noise, a busier system is never faster.
    """
    count = _STRATA * _PER_STRATUM
    covariance = 0.5 * (prediction.covariance + prediction.covariance.T)
    if has_errors:
        covariance[0, 0] += _LEVEL_ERROR**2 + (_LEVEL_SHARE * prediction.noise) ** 2
    values, vectors = np.linalg.eigh(covariance)
    normal = rng.standard_normal((count, 3)) * np.sqrt(np.maximum(values, 1e-12))
    level, change, state = (prediction.mean + normal @ vectors.T).T
    if prediction.changed:
        change = change * (1.0 + has_errors * _CHANGE_SCATTER * rng.standard_normal(count))
    else:
        change = np.zeros(count)
    if prediction.growth.has_grown:
        change = change + prediction.growth.log_cost + prediction.growth.error * rng.standard_normal(count)
    scatter = np.hypot(prediction.state_scatter * state, has_errors * _STATE_ROOT * np.sqrt(np.abs(state)))
    state = state + scatter * rng.standard_normal(count)
    bounds = {0: (0.0, 0.0), 1: (0.0, np.inf), -1: (-np.inf, 0.0)}
    low, high = bounds.get(prediction.direction, (-np.inf, np.inf))
    state = np.clip(state, low, high) + _SYSTEM_SHARE * prediction.noise * rng.standard_normal(count)
    as_others = rng.random(count) * prediction.peer_slowdown
    state = np.where(rng.random(count) < _AS_OTHERS, np.maximum(state, as_others), state)
    order = np.argsort(change, kind="stable")
    return level[order], change[order], state[order]


def _drop_evidence_for_cost(weight: Floats, change: Floats) -> Floats:
    """Weights with which the run's time speaks against the cost of its change, never for a higher cost.

    Otherwise a harmless change during an unmeasured incident would become the culprit, as the only visible cause.
    Strata of the cost (`change` is ascending) lose weight only if they are less likely than a stratum of smaller cost.
    """
    strata = weight.reshape(_STRATA, _PER_STRATUM)
    likelihood = strata.mean(axis=1)
    relative = likelihood / np.maximum.accumulate(likelihood)
    return np.asarray((strata / np.maximum(likelihood, 1e-300)[:, None] * relative[:, None]).reshape(-1))


@dataclass(frozen=True)
class Verdict:
    """Verdict on one run: probabilities of the classes, which add up to 1, and the seconds of each part.

    `reason` says why the verdict is unknown. `harm_seconds` is the least that counts as a slowdown. `changed` are the
    columns of the pattern in which the run differs, `changed_alike` the number of other runs with that kind of change,
    `pooled` the number of runs of other groups in the model.
    """

    io_seconds: float
    n: int
    coverage_ratio: float
    reason: Reason | None = None
    probabilities: Mapping[VerdictKind, float] = field(default_factory=dict)
    usual: Seconds | None = None
    system: Seconds | None = None
    own: Seconds | None = None
    unexplained: Seconds | None = None
    harm_seconds: float | None = None
    changed: tuple[int, ...] = ()
    changed_alike: int = 0
    pooled: int = 0
    growth: time_model.Growth | None = None
    level: time_model.LevelMove | None = None

    @property
    def likeliest(self) -> VerdictKind:
        """The class with the highest probability."""
        return max(KINDS, key=lambda kind: self.probabilities[kind]) if self.probabilities else "unknown"

    @property
    def kind(self) -> VerdictKind:
        """The likeliest class, unless there is a reason to doubt it."""
        return "unknown" if self.reason else self.likeliest

    @property
    def probability(self) -> float:
        """Probability of the likeliest class."""
        return self.probabilities.get(self.likeliest, 0.0)

    def capped(self, most: float, rest: VerdictKind) -> Verdict:
        """The verdict with at most this probability of the likeliest class; the excess goes to `rest`."""
        likeliest, probabilities = self.likeliest, dict(self.probabilities)
        excess = max(0.0, probabilities[likeliest] - most)
        probabilities[likeliest] -= excess
        probabilities[rest] += excess
        return replace(self, probabilities=probabilities)


def judge(pool: Pool, row: int, *, met_sick: bool = False) -> Verdict:
    """Return the verdict on run `row`, which is of group 0, from the other runs.

    `met_sick`: a component of its targets was unhealthy or stood out during the run.
    """
    duration, sampled = float(pool.io_seconds[row]), bool(pool.loads)
    coverage = float(np.nan_to_num(pool.coverage_ratio[row]))
    usable = _usable(pool)
    usable[row] = True
    pool, row = pool.take(usable), int(usable[:row].sum())
    n = int((pool.group == 0).sum()) - 1
    found = Verdict(duration, n, coverage)
    if not (math.isfinite(duration) and duration > 0):
        return replace(found, reason=Reason.NO_IO_TIME)
    if n < LEAST_RUNS:
        return replace(found, reason=Reason.FEW_SIMILAR_RUNS)
    changes = find_changes(pool.pattern, pool.group, row)
    states = time_model.find_states(pool, changes, row)
    scaled, growth = time_model.scale_to_size(pool, changes, row)
    prediction = time_model.predict(scaled, changes, states, row, growth)
    exact = _draw(prediction, duration, has_errors=False, met_sick=met_sick)
    wide = _draw(prediction, duration, has_errors=True, met_sick=met_sick)
    # What system and change do together is divided evenly.
    common = 0.5 * wide.system * wide.change / wide.usual
    parts = (wide.usual, wide.system + common, wide.change + common)
    usual, system, own, unexplained = map(wide.interval, (*parts, duration - parts[0] - parts[1] - parts[2]))
    found = replace(
        found,
        probabilities=exact.probabilities(duration),
        usual=usual,
        system=system if sampled else None,
        own=own,
        unexplained=unexplained if sampled else None,
        harm_seconds=exact.interval(exact.harm).value,
        changed=(*np.flatnonzero(changes.columns[row]).tolist(), *((BYTES_MOVED,) if growth.has_grown else ())),
        changed_alike=changes.count_similar(row),
        pooled=pool.rows - 1 - n,
        growth=growth if growth.has_grown else None,
    )
    found = found.capped(_MOST_CERTAIN, "normal" if found.likeliest == "unexplained" else "unexplained")
    reason = _doubt(pool, row, found, is_changed=bool(changes.changed[row]))
    level = time_model.level_behind_change(scaled, changes, row) if found.likeliest in ("you", "both") else None
    if level is not None:
        # What moved with everybody is not held against one program.
        is_explained = level.factor is not None and own.value + usual.value <= _AS_MUCH * level.factor * usual.value
        found = found.capped(_MOST_EXPLAINED if is_explained else _MOST_UNIDENTIFIED, "unexplained")
        reason = reason or _doubt(pool, row, found, is_changed=True)
    return replace(found, reason=reason, level=level)


def _usable(pool: Pool) -> Bools:
    """Runs with a time that the samples cover, where there are samples."""
    known = np.isfinite(pool.io_seconds) & (pool.io_seconds > 0)
    if pool.loads:
        known &= pool.sampled & (pool.coverage_ratio >= LEAST_COVERAGE)
    return np.asarray(known)


def _doubt(pool: Pool, row: int, found: Verdict, *, is_changed: bool) -> Reason | None:
    """Why there is no verdict; None if there is one."""
    if not pool.loads:
        return Reason.NO_SYSTEM_DATA
    # Missing samples can only hide load: what is known to be the system's stays.
    is_enough = found.coverage_ratio >= LEAST_COVERAGE or found.likeliest == "system"
    if not (is_enough and pool.sampled[row]):
        return Reason.PARTLY_SAMPLED
    if found.likeliest not in ("normal", "unexplained") and not float(pool.inside_ratio[row]) >= LEAST_INSIDE:
        return Reason.COARSE_SAMPLES
    accused = found.probabilities["you"] + found.probabilities["both"] >= 0.5
    if is_changed and accused and found.changed_alike < LEAST_CHANGED:
        return Reason.COST_NOT_KNOWN
    return Reason.LOW_PROBABILITY if found.probability < LEAST_PROBABILITY else None


@dataclass(frozen=True, eq=False)
class Comparison:
    """A run, similar runs, and the state of the system during them.

    `runs` are `job_io` rows with uid, exe and job id of the run, which comes first, and similar ones.
    `system` is the state during each (None if not sampled). `pool` adds runs of other groups, the run first.
    `unhealthy` are the components that were unhealthy during the run; `slowdown` the run's I/O time over the median of
    the similar runs; `queue`, `wait` and `probe` the target with the longest queue, the one with the slowest requests
    and the slowest probed place, if they stood out; `node_slowdown` how many times as long as usual runs of other
    programs took on its nodes then, if they were slow.
    """

    runs: Frame
    system: Frame | None
    pool: Pool
    filesystem: str
    step_seconds: float
    slowdown: float = math.nan
    unhealthy: tuple[Unhealthy, ...] = ()
    queue: StandsOut | None = None
    wait: StandsOut | None = None
    probe: StandsOut | None = None
    node_slowdown: float | None = None


def with_recorded(answer: Answer, recorded: Sequence[RecordedVerdict], as_of_ns: int | None) -> Answer:
    """Add to the answer its time and the recorded verdicts, which do not change it."""
    if not isinstance(answer.result, WhyOutcome):
        return answer
    shown = "now, from all runs in the lake" if as_of_ns is None else f"as of {format_time_ns(as_of_ns)}"
    text = f"Judged {shown} (model {MODEL_VERSION})."
    if recorded:
        text += f" Recorded: {'; '.join(map(describe_recorded, recorded))}."
    result = replace(answer.result, model_version=MODEL_VERSION, as_of_ns=as_of_ns, recorded=tuple(recorded))
    return replace(answer, result=result, findings=(*answer.findings, Finding(text, name="as_of")))


def describe_recorded(verdict: RecordedVerdict) -> str:
    """A recorded verdict in words, such as: system (96%) at its end."""
    sure = f" ({verdict.probability:.0%})" if verdict.kind != "unknown" and verdict.probability is not None else ""
    when = "at its end" if verdict.at_end else f"as of {format_time_ns(verdict.as_of_ns)}"
    model = "" if verdict.model_version == MODEL_VERSION else f", model {verdict.model_version}"
    return f"{verdict.kind}{sure} {when}{model}"
