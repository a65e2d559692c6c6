"""Was it you or the system? A run against its group, at the state the system was in (METHODS section 9). Pure.

B is what the group's usual pattern takes at the system's usual state, S what the system's state during this run adds to
it, J what the run's own visible change costs, by the runs that made such a change, and U = D - B - S - J what nothing
that was measured explains. h = max(0.15 B, 2 MAD of the group's usual runs at quiet times): less is no slowdown.
normal: D - B < h; system: S >= h > J; you: J >= h > S; both: S >= h and J >= h; unexplained: slower, and neither.

`changes` finds what the run did otherwise, `sizes` takes off what programs have grown, `states` finds how the system
was beyond what the run's own pattern makes of it, `time_split` which part of the time became longer, `model` predicts
from all groups at once, `posterior` makes the classes, their probabilities and the seconds of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.outcomes import Reason, RecordedVerdict, WhyOutcome
from ioweather.core.results import Answer, Finding
from ioweather.core.units import format_time_ns
from ioweather.diagnosis.comparison_pool import Changes, Pool, find_changes
from ioweather.diagnosis.time_model import STUDENT, Prediction, at_size_of, find_states, predict

# Who took the seconds? From what is predicted for a run and how long it took: classes, probabilities, seconds.
#
# Draws of (usual level, cost of its change, effect of the system), of a cause that nobody measured, and of noise are
# weighed by the run's own time. One thing the run's time may not do: make its change costlier than other runs with
# such a change say. It may only speak against the cost. Otherwise a harmless change beside an incident that nobody
# measured would become the culprit, because it is the only thing to be seen.
#
# B = exp(level); S and J are what the state and the change add to B, each alone with the one, and half of what they
# do together; U = D - B - S - J.
#
# The ranges of the seconds carry errors of the model beside those it knows of: with these 90% ranges cover about 90%
# of true seconds. In the classes they would only blur which of the causes is there.

Kind: TypeAlias = Literal["normal", "system", "you", "both", "unexplained", "unknown"]
Chances: TypeAlias = Mapping[Kind, float]

KINDS: Final[tuple[Kind, ...]] = ("normal", "system", "you", "both", "unexplained")
HARM_SHARE: Final = 0.15
HARM_MADS: Final = 2.0
# One run in twenty has a cause that nobody measured, which multiplies its time by anything up to this. [ours]
_HIDDEN: Final = 0.05
_LARGEST_FACTOR: Final = 30.0
# One in four of these is on the way to the targets: it slows data alone, and is the system's. [ours]
_ON_WAY: Final = 0.25
# One run in ten loses what the others do then, or a part of it, whatever such a state usually does to its program:
# which of its files lie on the slow target differs from run to run. [ours]
_AS_OTHERS: Final = 0.1
# Of the noise of equal runs this share is the system's. [ours]
_SYSTEM_SHARE: Final = 0.5
# No class is stated as more probable than this: one answer in twenty-five is wrong in ways that no model of ours knows.
_MOST_CERTAIN: Final = 0.96
_STRATA, _PER_STRATUM = 50, 160
_LEVEL: Final = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class _Errors:
    """Of the model itself, in logarithms. Runs near in time share what nobody measured, so the usual level is known no
    better than to `level`, and to `level_share` of the noise. The effect of a state is off by `state_root` times its
    root: a small one may well be three times as large. What a change costs differs from run to run by
    `change_scatter` of itself. [ours]"""

    level: float = 0.0
    level_share: float = 0.0
    state_root: float = 0.0
    change_scatter: float = 0.0


_OF_RANGES: Final = _Errors(0.02, 0.25, 0.9, 0.35)


@dataclass(frozen=True)
class Seconds:
    """An amount of time with its 90% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Posterior:
    """`chances` add up to 1; `wide` are those with the errors of the ranges."""

    chances: Chances
    wide: Chances
    usual: Seconds
    system: Seconds
    own: Seconds
    unexplained: Seconds
    harm: float

    @property
    def likeliest(self) -> Kind:
        return max(KINDS, key=lambda kind: self.chances[kind])


def weigh(found: Prediction, duration: float) -> Posterior:
    drawn = _weighed(found, duration, _Errors())
    chances, middle = _less_certain(_shares(duration, *drawn)), _interval(drawn[-1], drawn[0]).value
    weight, usual, by_state, by_change, harm = _weighed(found, duration, _OF_RANGES)
    wide = _shares(duration, weight, usual, by_state, by_change, harm)
    together = 0.5 * by_state * by_change / usual
    parts = (usual, by_state + together, by_change + together)
    rest = duration - parts[0] - parts[1] - parts[2]
    seconds = [_interval(part, weight) for part in (*parts, rest)]
    return Posterior(chances, wide, seconds[0], seconds[1], seconds[2], seconds[3], middle)


def _shares(duration: float, weight: Floats, usual: Floats, state: Floats, change: Floats, harm: Floats) -> Chances:
    late = duration - usual >= harm
    place = np.where(late, 1 + (state >= harm) + 2 * (change >= harm), 0)
    found = np.bincount(place, weight, len(KINDS)).tolist()
    return dict(zip(("normal", "unexplained", "system", "you", "both"), found, strict=True))


def _less_certain(shares: Chances) -> Chances:
    """What the likeliest has too much accuses nobody: it may be unexplained, or else normal."""
    likeliest = max(shares, key=lambda kind: shares[kind])
    excess = max(0.0, shares[likeliest] - _MOST_CERTAIN)
    rest: Kind = "normal" if likeliest == "unexplained" else "unexplained"
    return {**shares, likeliest: shares[likeliest] - excess, rest: shares[rest] + excess}


def _weighed(found: Prediction, duration: float, errors: _Errors) -> tuple[Floats, ...]:
    """Weights of draws, their B, S and J without what S and J do together, and the least that counts as a slowdown."""
    rng = np.random.default_rng(1)
    level, change, state = _draws(found, errors, rng)
    hidden = np.where(rng.random(len(level)) < _HIDDEN, rng.random(len(level)) * math.log(_LARGEST_FACTOR), 0.0)
    own_noise = found.noise * math.sqrt(1.0 - _SYSTEM_SHARE**2)
    distance = (math.log(duration) - level - change - state - hidden) / own_noise
    weight = (1.0 + distance**2 / STUDENT) ** (-0.5 * (STUDENT + 1.0))
    if found.split is not None:
        on_way = np.where(rng.random(len(level)) < _ON_WAY, hidden, 0.0)
        weight = weight * found.split.likelihood(state, on_way)
        state = state + on_way
    if found.changed:
        weight = _only_against(weight, change)
    usual = np.exp(level)
    harm = np.maximum(HARM_SHARE * usual, HARM_MADS * found.mad_seconds)
    return weight / weight.sum(), usual, np.expm1(state) * usual, np.expm1(change) * usual, harm


def _draws(found: Prediction, errors: _Errors, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """In order of the cost of the change. A change that is not there costs nothing; but for noise a busier system is
    never faster."""
    count = _STRATA * _PER_STRATUM
    covariance = 0.5 * (found.covariance + found.covariance.T)
    covariance[0, 0] += errors.level**2 + (errors.level_share * found.noise) ** 2
    values, vectors = np.linalg.eigh(covariance)
    normal = rng.standard_normal((count, 3)) * np.sqrt(np.maximum(values, 1e-12))
    level, change, state = (found.mean + normal @ vectors.T).T
    change = change * (1.0 + errors.change_scatter * rng.standard_normal(count)) if found.changed else np.zeros(count)
    scatter = np.hypot(found.state_scatter * state, errors.state_root * np.sqrt(np.abs(state)))
    state = state + scatter * rng.standard_normal(count)
    low, high = {0: (0.0, 0.0), 1: (0.0, np.inf), -1: (-np.inf, 0.0)}.get(found.direction, (-np.inf, np.inf))
    state = np.clip(state, low, high) + _SYSTEM_SHARE * found.noise * rng.standard_normal(count)
    as_others = rng.random(count) * found.for_others
    state = np.where(rng.random(count) < _AS_OTHERS, np.maximum(state, as_others), state)
    order = np.argsort(change, kind="stable")
    return level[order], change[order], state[order]


def _only_against(weight: Floats, change: Floats) -> Floats:
    """Weights by strata of the cost: within each as the time says, and of the strata only those count less that are
    less likely than a smaller cost. `change` is in ascending order."""
    strata = weight.reshape(_STRATA, _PER_STRATUM)
    likelihood = strata.mean(axis=1)
    kept = likelihood / np.maximum.accumulate(likelihood)
    return np.asarray((strata / np.maximum(likelihood, 1e-300)[:, None] * kept[:, None]).reshape(-1))


def _interval(values: Floats, weight: Floats) -> Seconds:
    order = np.argsort(values, kind="stable")
    low, middle, high = (float(v) for v in np.interp(_LEVEL, np.cumsum(weight[order]), values[order]))
    return Seconds(middle, low, high)


def with_recorded(answer: Answer, recorded: Sequence[RecordedVerdict], as_of_ns: int | None) -> Answer:
    """The answer, which says as of when it holds. What was recorded stands beside it and does not change it."""
    if not isinstance(answer.result, WhyOutcome):
        return answer
    result = replace(answer.result, model_version=MODEL_VERSION, as_of_ns=as_of_ns, recorded=tuple(recorded))
    return replace(answer, result=result, findings=(*answer.findings, _which(recorded, as_of_ns)))


def _which(recorded: Sequence[RecordedVerdict], as_of_ns: int | None) -> Finding:
    shown = "now, from all runs" if as_of_ns is None else f"as of {format_time_ns(as_of_ns)}"
    text = f"Judged {shown} (model {MODEL_VERSION})."
    if recorded:
        text += f" Recorded: {'; '.join(map(words, recorded))}."
    return Finding(text, name="as_of")


def words(verdict: RecordedVerdict) -> str:
    """Such as: system (96%) as of its end."""
    sure = f" ({verdict.probability:.0%})" if verdict.kind != "unknown" and verdict.probability is not None else ""
    when = "as of its end" if verdict.at_end else f"as of {format_time_ns(verdict.as_of_ns)}"
    model = "" if verdict.model_version == MODEL_VERSION else f", model {verdict.model_version}"
    return f"{verdict.kind}{sure} {when}{model}"


__all__ = ["KINDS", "Kind", "Seconds", "Verdict", "judge"]

# Raised with every change that makes other verdicts of the same data: stored ones say by which version they are.
MODEL_VERSION: Final = 6
# With fewer similar runs nothing is usual. From here to about ten the groups of other programs carry most of it.
LEAST_RUNS: Final = 3
LEAST_COVERAGE: Final = 0.8
LEAST_PROBABILITY: Final = 0.7
# Nobody is told that it was not the system where that is as likely as this. [ours]
_MOST_BY_SYSTEM: Final = 0.15
# What is said must hold with the errors of the ranges, too. Nobody is cleared or named by what these may undo; that
# nothing explains a run clears and names nobody. [ours]
_LEAST_WIDE: Final[Chances] = {"normal": 0.8, "system": 0.5, "you": 0.6, "both": 0.6, "unexplained": 0.0}
# Of the sampling intervals with its I/O a run must fill this share, else their samples speak of other times. [ours]
LEAST_INSIDE: Final = 0.2
# One run with such a change is no estimate of what it costs: something else may have happened to it. [ours]
LEAST_CHANGED: Final = 2


@dataclass(frozen=True)
class Verdict:
    """`reason` says why it is unknown, `detail` in words; `changed` are the columns of the pattern in which the run
    differs, `changed_alike` how many other runs made that kind of change; `pooled` how many runs of other groups were
    asked."""

    kind: Kind
    probability: float
    probabilities: Chances
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


def judge(pool: Pool, row: int) -> Verdict:
    """The verdict on run `row`, which is of group 0, from the others."""
    duration = float(pool.io_seconds[row])
    seen = bool(pool.loads)
    covered = float(pool.coverage_ratio[row]) if len(pool.coverage_ratio) else 0.0
    usable = _usable(pool)
    usable[row] = True
    pool, row = pool.take(usable), int(usable[:row].sum())
    n = int((pool.group == 0).sum()) - 1
    if not (math.isfinite(duration) and duration > 0):
        return _unknown(Reason.NO_IO_TIME, "the log records no I/O time", duration, covered, n)
    if n < LEAST_RUNS:
        text = f"{n} similar runs{' with samples of the system' if seen else ''}, {LEAST_RUNS} are needed"
        return _unknown(Reason.FEW_SIMILAR_RUNS, text, duration, covered, n)
    changes = find_changes(pool.pattern, pool.group, row)
    states = find_states(pool, changes, row)
    found = weigh(predict(at_size_of(pool, changes, row), changes, states, row), duration)
    reason, detail = _doubt(pool, row, found, changes, covered)
    return Verdict(
        "unknown" if reason else found.likeliest, found.chances[found.likeliest], found.chances, duration, found.usual,
        found.system if seen else None, found.own, found.unexplained if seen else None, found.harm, n, covered, reason,
        detail, tuple(np.flatnonzero(changes.columns[row]).tolist()), found.likeliest, changes.seen(row),
        pool.rows - 1 - n,
    )  # fmt: skip


def _usable(pool: Pool) -> Bools:
    """Runs with a time, and where the system was sampled those that it covers."""
    known = np.isfinite(pool.io_seconds) & (pool.io_seconds > 0)
    if pool.loads:
        known &= pool.sampled & (pool.coverage_ratio >= LEAST_COVERAGE)
    return np.asarray(known)


def _unknown(reason: Reason, detail: str, duration: float, covered: float, n: int) -> Verdict:
    return Verdict("unknown", 0.0, {}, duration, None, None, None, None, None, n, covered, reason, detail)


def _doubt(pool: Pool, row: int, found: Posterior, changes: Changes, covered: float) -> tuple[Reason | None, str]:
    """Why there is no verdict, also in words; None where there is one."""
    likeliest = found.likeliest
    probability = found.chances[likeliest]
    if not pool.loads:
        late = found.chances["normal"] < LEAST_PROBABILITY
        took = f"{float(pool.io_seconds[row]) / found.usual.value:.1f} times as long" if late else "as long"
        return Reason.NO_SYSTEM_DATA, f"it took {took} as usual, and there are no samples of the system"
    if covered < LEAST_COVERAGE or not pool.sampled[row]:
        return Reason.PARTLY_SAMPLED, f"the system was sampled in {covered:.0%} of the run"
    if likeliest not in ("normal", "unexplained") and not float(pool.inside_ratio[row]) >= LEAST_INSIDE:
        text = "the samples are too coarse for so short a run: its intervals speak mostly of other times"
        return Reason.COARSE_SAMPLES, text
    accused = found.chances["you"] + found.chances["both"] >= 0.5
    if accused and changes.seen(row) < LEAST_CHANGED:
        return Reason.COST_NOT_KNOWN, "what it did differently was done by too few runs to know what it costs"
    if probability < LEAST_PROBABILITY:
        return Reason.LOW_PROBABILITY, f"{likeliest} is likeliest, but with {probability:.0%} only"
    by_system = found.chances["system"] + found.chances["both"]
    if likeliest not in ("system", "both") and by_system >= _MOST_BY_SYSTEM:
        return Reason.LOW_PROBABILITY, f"{likeliest} is likeliest, but it may be the system's with {by_system:.0%}"
    if found.wide[likeliest] < _LEAST_WIDE[likeliest]:
        return Reason.LOW_PROBABILITY, f"{likeliest} is likeliest, but small errors of what is usual would undo that"
    return None, ""
