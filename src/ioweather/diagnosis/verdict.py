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
from typing import Final, Literal, TypeAlias

import numpy as np

from ioweather.core.frames import Bools, Floats, Frame
from ioweather.core.results import Answer, Finding
from ioweather.core.units import format_time_ns
from ioweather.diagnosis.comparison_pool import BYTES_MOVED, Changes, Pool, find_changes
from ioweather.diagnosis.time_model import (
    HARM_MADS,
    HARM_SHARE,
    STUDENT,
    Growth,
    LevelMove,
    Prediction,
    find_states,
    level_behind_change,
    predict,
    scale_to_size,
)
from ioweather.facts.run_targets import StandsOut
from ioweather.job_io.outcomes import Reason, RecordedVerdict, Unhealthy, WhyOutcome

Kind: TypeAlias = Literal["normal", "system", "you", "both", "unexplained", "unknown"]
Probabilities: TypeAlias = Mapping[Kind, float]

# Raised with every change that gives other verdicts on the same data; stored verdicts record it.
MODEL_VERSION: Final = 8
KINDS: Final[tuple[Kind, ...]] = ("normal", "system", "you", "both", "unexplained")
# With fewer similar runs nothing is usual. From here to about ten the groups of other programs carry most of it.
LEAST_RUNS: Final = 3
LEAST_COVERAGE: Final = 0.8
LEAST_PROBABILITY: Final = 0.7
# A run must fill this share of the sampling intervals with its I/O, else the samples describe other times. [ours]
LEAST_INSIDE: Final = 0.2
# One run with such a change does not show its cost: it may have been slow for another reason. [ours]
LEAST_CHANGED: Final = 2

# Largest probability of an accusation that a move of the common level may explain as well. [ours]
_MOST_UNIDENTIFIED: Final = 0.7

# Prior: one run in twenty has an unmeasured cause, which multiplies its time by up to this. [ours]
_HIDDEN: Final = 0.05
_LARGEST_FACTOR: Final = 30.0
# A quarter of these causes are on the way to the targets: they slow data only and belong to the system. [ours]
_ON_WAY: Final = 0.25
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


@dataclass(frozen=True)
class Posterior:
    """Posterior probabilities of the classes, which add up to 1, and the seconds of each part.

    `harm` is the least that counts as a slowdown.
    """

    probabilities: Probabilities
    usual: Seconds
    system: Seconds
    own: Seconds
    unexplained: Seconds
    harm: float

    @property
    def likeliest(self) -> Kind:
        """The class with the highest probability."""
        return max(KINDS, key=lambda kind: self.probabilities[kind])


@dataclass(frozen=True, eq=False)
class _Draws:
    """Weighted draws of B, of S and J (each without the other), and of h."""

    weight: Floats
    usual: Floats
    system: Floats
    change: Floats
    harm: Floats

    def probabilities(self, duration: float) -> Probabilities:
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


def _draw(prediction: Prediction, duration: float, *, has_errors: bool) -> _Draws:
    """Importance sampling: draws from the prior of all causes, weighted by the likelihood of the run's time."""
    rng = np.random.default_rng(1)
    level, change, state = _draw_prior(prediction, rng, has_errors=has_errors)
    hidden = np.where(rng.random(len(level)) < _HIDDEN, rng.random(len(level)) * math.log(_LARGEST_FACTOR), 0.0)
    own_noise = prediction.noise * math.sqrt(1.0 - _SYSTEM_SHARE**2)
    residual = (math.log(duration) - level - change - state - hidden) / own_noise
    weight = (1.0 + residual**2 / STUDENT) ** (-0.5 * (STUDENT + 1.0))
    if prediction.split is not None:
        on_way = np.where(rng.random(len(level)) < _ON_WAY, hidden, 0.0)
        state = state + on_way
        weight = weight * prediction.split.likelihood(state)
    if prediction.changed and not prediction.growth.has_grown:
        weight = _only_against(weight, change)
    usual = np.exp(level)
    harm = np.maximum(HARM_SHARE * usual, HARM_MADS * prediction.mad_seconds)
    return _Draws(weight / weight.sum(), usual, np.expm1(state) * usual, np.expm1(change) * usual, harm)


def _draw_prior(prediction: Prediction, rng: np.random.Generator, *, has_errors: bool) -> tuple[Floats, Floats, Floats]:
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


def _only_against(weight: Floats, change: Floats) -> Floats:
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
    """Verdict on one run.

    `reason` says why it is unknown, `detail` the same in words. `changed` are the columns of the pattern in which the
    run differs, `changed_alike` the number of other runs with that kind of change, `pooled` the number of runs of other
    groups in the model.
    """

    kind: Kind
    probability: float
    probabilities: Probabilities
    io_seconds: float
    usual: Seconds | None
    system: Seconds | None
    own: Seconds | None
    unexplained: Seconds | None
    harm_seconds: float | None
    n: int
    coverage_ratio: float
    reason: Reason | None = None
    detail: str = ""
    changed: tuple[int, ...] = ()
    likeliest: Kind = "unknown"
    changed_alike: int = 0
    pooled: int = 0
    growth: Growth | None = None
    level: LevelMove | None = None


def judge(pool: Pool, row: int) -> Verdict:
    """Return the verdict on run `row`, which is of group 0, from the other runs."""
    duration = float(pool.io_seconds[row])
    sampled = bool(pool.loads)
    coverage = float(pool.coverage_ratio[row]) if len(pool.coverage_ratio) else 0.0
    usable = _usable(pool)
    usable[row] = True
    pool, row = pool.take(usable), int(usable[:row].sum())
    n = int((pool.group == 0).sum()) - 1

    def unknown(reason: Reason, detail: str) -> Verdict:
        return Verdict("unknown", 0.0, {}, duration, None, None, None, None, None, n, coverage, reason, detail)

    if not (math.isfinite(duration) and duration > 0):
        return unknown(Reason.NO_IO_TIME, "the log records no I/O time")
    if n < LEAST_RUNS:
        with_samples = " with samples of the system" if sampled else ""
        return unknown(Reason.FEW_SIMILAR_RUNS, f"{n} similar runs{with_samples}, {LEAST_RUNS} are needed")
    changes = find_changes(pool.pattern, pool.group, row)
    states = find_states(pool, changes, row)
    scaled, growth = scale_to_size(pool, changes, row)
    # Return classes, probabilities and seconds of a run that took `duration` seconds.
    prediction = predict(scaled, changes, states, row, growth)
    exact = _draw(prediction, duration, has_errors=False)
    probabilities = dict(exact.probabilities(duration))
    # The excess over the largest certainty goes to `unexplained`, or from there to `normal`.
    likeliest = max(KINDS, key=lambda kind: probabilities[kind])
    excess = max(0.0, probabilities[likeliest] - _MOST_CERTAIN)
    probabilities[likeliest] -= excess
    probabilities["normal" if likeliest == "unexplained" else "unexplained"] += excess
    wide = _draw(prediction, duration, has_errors=True)
    # What system and change do together is divided evenly.
    common = 0.5 * wide.system * wide.change / wide.usual
    parts = (wide.usual, wide.system + common, wide.change + common)
    rest = duration - parts[0] - parts[1] - parts[2]
    usual, system, own, unexplained = (wide.interval(part) for part in (*parts, rest))
    found = Posterior(probabilities, usual, system, own, unexplained, exact.interval(exact.harm).value)
    reason, detail = _doubt(pool, row, found, changes, coverage)
    level = level_behind_change(scaled, changes, row) if found.likeliest in ("you", "both") else None
    if level is not None:
        # What moved with everybody is not held against one program.
        probabilities = dict(found.probabilities)
        excess = max(0.0, probabilities[found.likeliest] - _MOST_UNIDENTIFIED)
        probabilities[found.likeliest] -= excess
        probabilities["unexplained"] += excess
        found = replace(found, probabilities=probabilities)
    return Verdict(
        kind="unknown" if reason else found.likeliest,
        probability=found.probabilities[found.likeliest],
        probabilities=found.probabilities,
        io_seconds=duration,
        usual=found.usual,
        system=found.system if sampled else None,
        own=found.own,
        unexplained=found.unexplained if sampled else None,
        harm_seconds=found.harm,
        n=n,
        coverage_ratio=coverage,
        reason=reason,
        detail=detail,
        changed=(*np.flatnonzero(changes.columns[row]).tolist(), *((BYTES_MOVED,) if growth.has_grown else ())),
        likeliest=found.likeliest,
        changed_alike=changes.count_similar(row),
        pooled=pool.rows - 1 - n,
        growth=growth if growth.has_grown else None,
        level=level,
    )


def _usable(pool: Pool) -> Bools:
    """Runs with a time that the samples cover, where there are samples."""
    known = np.isfinite(pool.io_seconds) & (pool.io_seconds > 0)
    if pool.loads:
        known &= pool.sampled & (pool.coverage_ratio >= LEAST_COVERAGE)
    return np.asarray(known)


# Verdicts in a sentence that begins with "most likely".
CAUSES: Final = {
    "normal": "nothing was slow",
    "system": "the storage system",
    "you": "the job itself",
    "both": "both the job and the storage system",
    "unexplained": "a cause that was not measured",
}


def _doubt(pool: Pool, row: int, found: Posterior, changes: Changes, coverage: float) -> tuple[Reason | None, str]:
    """(reason, the same in words) why there is no verdict; (None, "") if there is one."""
    likeliest = found.likeliest
    probability = found.probabilities[likeliest]
    if not pool.loads:
        late = found.probabilities["normal"] < LEAST_PROBABILITY
        took = f"{float(pool.io_seconds[row]) / found.usual.value:.1f} times as long" if late else "as long"
        return Reason.NO_SYSTEM_DATA, f"it took {took} as usual, and there are no samples of the system"
    if coverage < LEAST_COVERAGE or not pool.sampled[row]:
        return Reason.PARTLY_SAMPLED, f"the system was sampled in {coverage:.0%} of the run"
    if likeliest not in ("normal", "unexplained") and not float(pool.inside_ratio[row]) >= LEAST_INSIDE:
        text = "the sampling interval is too long for this run: most of each sample falls outside its I/O"
        return Reason.COARSE_SAMPLES, text
    accused = found.probabilities["you"] + found.probabilities["both"] >= 0.5
    if accused and changes.changed[row] and changes.count_similar(row) < LEAST_CHANGED:
        return Reason.COST_NOT_KNOWN, "too few runs have made this change to estimate its cost"
    if probability < LEAST_PROBABILITY:
        return Reason.LOW_PROBABILITY, f"most likely ({probability:.0%}) {CAUSES[likeliest]}"
    return None, ""


@dataclass(frozen=True, eq=False)
class Explained:
    """A run, similar runs, and the state of the system during them.

    `runs` are `job_io` rows with uid, exe and job id of the run, which comes first, and similar ones.
    `system` is the state during each (None if not sampled). `pool` adds runs of other groups, the run first.
    `unhealthy` are the components that were unhealthy during the run; `week_before` rates of the week before by metric,
    over windows as long as the run; `slowdown` the run's I/O time over the median of the similar runs; `queue` and
    `probe` the target with the longest queue and the slowest probed place, if they stood out; `node_slowdown` how many
    times as long as usual runs of other programs took on its nodes then, if they were slow.
    """

    runs: Frame
    system: Frame | None
    pool: Pool
    filesystem: str
    step_seconds: float
    slowdown: float = math.nan
    unhealthy: tuple[Unhealthy, ...] = ()
    week_before: Mapping[str, Floats] = field(default_factory=dict)
    queue: StandsOut | None = None
    probe: StandsOut | None = None
    node_slowdown: float | None = None


def with_recorded(answer: Answer, recorded: Sequence[RecordedVerdict], as_of_ns: int | None) -> Answer:
    """Add to the answer its time and the recorded verdicts, which do not change it."""
    if not isinstance(answer.result, WhyOutcome):
        return answer
    shown = "now, from all runs" if as_of_ns is None else f"as of {format_time_ns(as_of_ns)}"
    text = f"Judged {shown} (model {MODEL_VERSION})."
    if recorded:
        text += f" Recorded: {'; '.join(map(describe_recorded, recorded))}."
    result = replace(answer.result, model_version=MODEL_VERSION, as_of_ns=as_of_ns, recorded=tuple(recorded))
    return replace(answer, result=result, findings=(*answer.findings, Finding(text, name="as_of")))


def describe_recorded(verdict: RecordedVerdict) -> str:
    """A recorded verdict in words, such as: system (96%) as of its end."""
    sure = f" ({verdict.probability:.0%})" if verdict.kind != "unknown" and verdict.probability is not None else ""
    when = "as of its end" if verdict.at_end else f"as of {format_time_ns(verdict.as_of_ns)}"
    model = "" if verdict.model_version == MODEL_VERSION else f", model {verdict.model_version}"
    return f"{verdict.kind}{sure} {when}{model}"
