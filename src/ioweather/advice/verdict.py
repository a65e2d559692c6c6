"""Was it you or the system? A run against its group, at the state the system was in (METHODS section 9). Pure.

B is what the group's usual pattern takes at the system's usual state, S what the system's state during this run adds to
it, J = D - B - S the rest: what the run itself did, or what nobody measured. h = max(0.15 B, 2 MAD of the group) is
what counts as harm. normal: D - B < h; system: S >= h > J; you: J >= h > S; both: S >= h and J >= h.

Time given the state is a rising curve (more load is never faster) through the logarithms of the times of runs with the
group's usual pattern. Logarithms, because what a busy system does to equal runs differs by factors. Whether the rest is
more than that spread is a matter of odds: a run that did what the group does rarely has a cause of its own, one with
another pattern often has. The four probabilities follow; below 0.7 the verdict is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ioweather.advice.patterns import alike_patterns, usual_pattern
from ioweather.stats.dependence import spearman

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Kind: TypeAlias = Literal["normal", "system", "you", "both", "unknown"]

KINDS: Final[tuple[Kind, ...]] = ("normal", "system", "you", "both")
LEAST_RUNS: Final = 8
LEAST_COVERAGE: Final = 0.8
LEAST_PROBABILITY: Final = 0.7
# Of the sampling intervals with its I/O a run must fill this share, else their samples speak of other times. [ours]
LEAST_INSIDE: Final = 0.4
HARM_SHARE: Final = 0.15
HARM_MADS: Final = 2.0
# Odds that a run has a cause of its own, before its time is known: with the group's pattern, and with another. [ours]
OWN_CAUSE_ALIKE: Final = 0.05
OWN_CAUSE_CHANGED: Final = 0.5
# A cause of its own multiplies the time by anything up to this, all factors alike. [ours]
_LARGEST_FACTOR: Final = 30.0
# Times of equal runs never agree better than this, whatever few of them say.
_LEAST_SPREAD: Final = 0.03
_MAD_TO_SD: Final = 1.4826
_LEVEL_Z: Final = 1.645


@dataclass(frozen=True, eq=False)
class GroupRuns:
    """Runs of a group. `states` are measures of the system during each (higher is busier), by name. `pattern` has one
    row per run and one column per measure of what the run did. `coverage_ratio` is how much of each run was monitored,
    `inside_ratio` how much of its sampling intervals with I/O lies between its first and its last I/O."""

    io_seconds: Floats
    states: Mapping[str, Floats]
    pattern: Floats
    coverage_ratio: Floats
    inside_ratio: Floats

    def without(self, row: int) -> GroupRuns:
        keep = np.arange(len(self.io_seconds)) != row
        return self.take(keep)

    def take(self, rows: NDArray[np.generic]) -> GroupRuns:
        states = {name: column[rows] for name, column in self.states.items()}
        return GroupRuns(
            self.io_seconds[rows], states, self.pattern[rows], self.coverage_ratio[rows], self.inside_ratio[rows]
        )


@dataclass(frozen=True)
class Seconds:
    """An amount of time with its 90% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """`reason` says why it is unknown; `changed` are the columns of the pattern in which the run differs."""

    kind: Kind
    probability: float
    probabilities: Mapping[Kind, float]
    io_seconds: float
    usual: Seconds | None
    system: Seconds | None
    own: Seconds | None
    harm_seconds: float | None
    n: int
    coverage_ratio: float
    reason: str = ""
    changed: tuple[int, ...] = ()
    state: str = ""
    likeliest: Kind = "unknown"


def judge(runs: GroupRuns, row: int) -> Verdict:
    """The verdict on run `row` of the group, from the others."""
    duration, covered = float(runs.io_seconds[row]), float(runs.coverage_ratio[row])
    others = runs.without(row)
    usable = np.isfinite(others.io_seconds) & (others.io_seconds > 0) & (others.coverage_ratio >= LEAST_COVERAGE)
    for column in others.states.values():
        usable &= np.isfinite(column)
    others = others.take(usable)
    n = len(others.io_seconds)
    if not (math.isfinite(duration) and duration > 0):
        return _unknown("the log records no I/O time", duration, covered, n)
    if n < LEAST_RUNS:
        return _unknown(f"{n} like runs with samples of the system, {LEAST_RUNS} are needed", duration, covered, n)
    usual = usual_pattern(others.pattern)
    same = alike_patterns(others.pattern, usual)
    if same.sum() < LEAST_RUNS:
        return _unknown(f"only {int(same.sum())} of {n} like runs do the same as each other", duration, covered, n)
    here = {name: float(column[row]) for name, column in runs.states.items()}
    if covered < LEAST_COVERAGE or not all(math.isfinite(value) for value in here.values()):
        return _unknown(f"the system was sampled in {covered:.0%} of the run", duration, covered, n)
    changed = tuple(int(c) for c in np.flatnonzero(~alike_columns(runs.pattern[row], usual)))
    peers = others.take(same)
    name = _telling_state(peers)
    curve = Curve.through(peers.states[name], peers.io_seconds)
    coarse = not float(runs.inside_ratio[row]) >= LEAST_INSIDE
    return _weigh(curve, Observed(duration, here[name], covered, coarse, changed, name), n)


def alike_columns(one: Floats, usual: Floats) -> Bools:
    return np.asarray(alike_patterns(one[None, :], usual, each=True)[0])


def _unknown(reason: str, duration: float, covered: float, n: int) -> Verdict:
    return Verdict("unknown", 0.0, {}, duration, None, None, None, None, n, covered, reason)


def _telling_state(peers: GroupRuns) -> str:
    """Of several measures of the system the one that the group's times follow best; the first where they are close."""
    names = list(peers.states)
    scores = [spearman(peers.states[name], peers.io_seconds) for name in names]
    first = scores[0] if math.isfinite(scores[0]) else 0.0
    best = max(range(len(names)), key=lambda i: scores[i] if math.isfinite(scores[i]) else -1.0)
    return names[best] if scores[best] > first + 0.1 else names[0]


@dataclass(frozen=True, eq=False)
class Curve:
    """Time of the usual pattern as a rising function of the system's state, with its spread in logarithms."""

    state: Floats
    log_time: Floats
    fitted: Floats
    usual_state: float
    spread_all: float
    mad_seconds: float

    @classmethod
    def through(cls, state: Floats, seconds: Floats) -> Curve:
        order = np.argsort(state, kind="stable")
        x, y = state[order], np.log(seconds[order])
        fitted = rising(y)
        residual = y - fitted
        spread = max(_LEAST_SPREAD, _MAD_TO_SD * float(np.median(np.abs(residual))))
        mad = float(np.median(np.abs(seconds - np.median(seconds))))
        return cls(x, y, fitted, float(np.median(state)), spread, mad)

    def at(self, state: float) -> float:
        """Logarithm of the expected time. Below all states seen it stays level; above them it goes on rising as it did
        from the usual state to the busiest seen."""
        return float(np.interp(state, self.state, self.fitted)) + self._beyond(state)

    def _beyond(self, state: float) -> float:
        """What the state adds above the busiest seen. Nobody saw it, so the same amount adds to the spread."""
        reach = float(self.state[-1]) - self.usual_state
        if state <= self.state[-1] or reach <= 0:
            return 0.0
        rise = float(self.fitted[-1]) - float(np.interp(self.usual_state, self.state, self.fitted))
        return rise * (state - float(self.state[-1])) / reach

    def spread_at(self, state: float) -> float:
        """Spread of the nearest runs, drawn half way to that of all: a few near ones say little alone."""
        k = min(len(self.state), max(5, len(self.state) // 5))
        near = np.argsort(np.abs(self.state - state), kind="stable")[:k]
        local = float(np.mean((self.log_time[near] - self.fitted[near]) ** 2))
        return max(_LEAST_SPREAD, math.sqrt((local + self.spread_all**2) / 2 + self._beyond(state) ** 2))

    def error_at(self, state: float) -> float:
        """Standard error of the expected logarithm."""
        k = min(len(self.state), max(5, len(self.state) // 5))
        beyond = self._beyond(state)
        return math.sqrt((self.spread_at(state) ** 2 - beyond**2) / k + beyond**2)


def rising(values: Floats) -> Floats:
    """Least absolute deviations among sequences that never fall (pool adjacent violators, medians of pools): a few
    runs with a cause of their own do not bend it."""
    pools: list[tuple[float, list[float]]] = []
    for value in values.tolist():
        level, members = value, [value]
        while pools and pools[-1][0] >= level:
            members = pools.pop()[1] + members
            level = float(np.median(members))
        pools.append((level, members))
    return np.repeat([level for level, _ in pools], [len(members) for _, members in pools])


@dataclass(frozen=True)
class Observed:
    """What is known of the run that is judged."""

    duration: float
    state: float
    coverage_ratio: float
    coarse: bool
    changed: tuple[int, ...]
    state_name: str


def _weigh(curve: Curve, run: Observed, n: int) -> Verdict:
    duration, state = run.duration, run.state
    base_log, here_log = curve.at(curve.usual_state), max(curve.at(state), curve.at(curve.usual_state))
    base, here = math.exp(base_log), math.exp(here_log)
    harm = max(HARM_SHARE * base, HARM_MADS * curve.mad_seconds)
    error, spread = curve.error_at(state), curve.spread_at(state)
    base_error = curve.error_at(curve.usual_state)
    # normal: the time is known, the usual time to within its error.
    normal = float(ndtr((math.log(base + harm) - math.log(duration)) / base_error))
    # P(S >= h); a state busier than all seen adds at least what the busiest of them does.
    limit, seen = math.log(base + harm), min(state, float(curve.state[-1]))
    busy = max(float(ndtr((curve.at(s) - limit) / curve.error_at(s))) for s in (state, seen))
    own = _own_cause(duration, here_log, spread, harm, bool(run.changed))  # P(J >= h)
    # What is left of 1 is a slow run of which neither part alone reaches h.
    chances: dict[Kind, float] = {
        "normal": normal, "system": (1 - normal) * busy * (1 - own), "you": (1 - normal) * (1 - busy) * own,
        "both": (1 - normal) * busy * own,
    }  # fmt: skip
    likeliest = max(KINDS, key=lambda kind: chances[kind])
    probability = chances[likeliest]
    reason = ""
    if likeliest != "normal" and run.coarse:
        reason = "the samples are too coarse for so short a run: its intervals speak mostly of other times"
    elif probability < LEAST_PROBABILITY:
        reason = f"{likeliest} is likeliest, but with {probability:.0%} only"
        if sum(chances.values()) < 0.5:
            reason = "slower than usual, but not by more than equal runs differ when the system is like that"
    system = _seconds(here - base, here, base, error)
    rest = Seconds(duration - here, duration - math.exp(here_log + _LEVEL_Z * spread),
                   duration - math.exp(here_log - _LEVEL_Z * spread))  # fmt: skip
    usual = Seconds(base, math.exp(base_log - _LEVEL_Z * base_error), math.exp(base_log + _LEVEL_Z * base_error))
    return Verdict(
        "unknown" if reason else likeliest, probability, chances, duration, usual, system, rest, harm, n,
        run.coverage_ratio, reason, run.changed, run.state_name, likeliest,
    )  # fmt: skip


def _seconds(value: float, here: float, base: float, error: float) -> Seconds:
    return Seconds(value, here * math.exp(-_LEVEL_Z * error) - base, here * math.exp(_LEVEL_Z * error) - base)


def _own_cause(duration: float, expected_log: float, spread: float, harm: float, differs: bool) -> float:
    """P(J >= h): odds of a cause of its own against the spread of equal runs in that state.

    Without one the logarithm of the time scatters around the expected (Student's t with 4 degrees of freedom: few runs,
    and tails are heavy); with one it lies anywhere between h above and a large factor.
    """
    excess = math.log(duration) - expected_log
    least = math.log1p(harm / math.exp(expected_log))
    if excess < least:
        return 0.0
    z = excess / spread
    without = 0.375 / spread * (1 + z * z / 4) ** -2.5
    width = max(math.log(_LARGEST_FACTOR) - least, 1e-6)
    prior = OWN_CAUSE_CHANGED if differs else OWN_CAUSE_ALIKE
    odds = prior / (1 - prior) * (1 / width) / max(without, 1e-300)
    return float(odds / (1 + odds))
