"""Was it you or the system? A run against its group, at the state the system was in (METHODS section 9). Pure.

B is what the group's usual pattern takes at the system's usual state, S what the system's state during this run adds to
it, J = D - B - S the rest: what the run itself did, or what nobody measured. h = max(0.15 B, 2 MAD of the group) is
what counts as harm. normal: D - B < h; system: S >= h > J; you: J >= h > S; both: S >= h and J >= h.

Time given the state is a rising function (more load is never faster) of how busy the system was and of how slow it was
for others, through the logarithms of the times of runs with the group's usual pattern. Logarithms, because what a busy
system does to equal runs differs by factors. `posterior` makes the verdict, its probability and the seconds of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ioweather.advice.verdict.patterns import FILES_ALONE, alike_patterns, costs_more, usual_pattern
from ioweather.advice.verdict.posterior import (
    KINDS,
    OWN_CAUSE_ALIKE,
    OWN_CAUSE_CHANGED,
    OWN_CAUSE_WORSE,
    Evidence,
    Kind,
    Posterior,
    Seconds,
    weigh,
)
from ioweather.core.arrays import Bools, Floats
from ioweather.core.outcomes import Reason
from ioweather.stats.dependence import spearman
from ioweather.stats.rising import MAD_TO_SD, fit_rising, hinges

__all__ = ["KINDS", "GroupRuns", "Kind", "Seconds", "Verdict", "judge"]


LEAST_RUNS: Final = 8
LEAST_COVERAGE: Final = 0.8
LEAST_PROBABILITY: Final = 0.7
# Of the sampling intervals with its I/O a run must fill this share, else their samples speak of other times. [ours]
LEAST_INSIDE: Final = 0.4
HARM_SHARE: Final = 0.15
HARM_MADS: Final = 2.0
# Times of equal runs never agree better than this, whatever few of them say.
_LEAST_SPREAD: Final = 0.03
# How far a state's true effect lies from the predicted one, as a share of it: what is believed before the group is
# seen, with the weight of this sum of squared effects. [ours]
_STATE_SHARE: Final = 0.35
_STATE_WEIGHT: Final = 0.16
_UNMEASURED_RUNS: Final = 20


@dataclass(frozen=True, eq=False)
class GroupRuns:
    """Runs of a group. `states` are measures of the load during each (higher is busier), by name; `slowdowns` are
    logarithms of how much longer others took than they usually do, NaN where nobody knows. `pattern` has one row per
    run and one column per measure of what the run did. `coverage_ratio` is how much of each run was monitored,
    `inside_ratio` how much of its sampling intervals with I/O lies between its first and its last I/O,
    `metadata_ratio` the share of metadata in its I/O time (empty: not known)."""

    io_seconds: Floats
    states: Mapping[str, Floats]
    pattern: Floats
    coverage_ratio: Floats
    inside_ratio: Floats
    slowdowns: Mapping[str, Floats] = field(default_factory=dict)
    metadata_ratio: Floats = field(default_factory=lambda: np.zeros(0))

    def without(self, row: int) -> GroupRuns:
        keep = np.arange(len(self.io_seconds)) != row
        return self.take(keep)

    def take(self, rows: NDArray[np.generic]) -> GroupRuns:
        states, slowdowns = (
            {name: column[rows] for name, column in measures.items()} for measures in (self.states, self.slowdowns)
        )
        return GroupRuns(
            self.io_seconds[rows], states, self.pattern[rows], self.coverage_ratio[rows], self.inside_ratio[rows],
            slowdowns, self.metadata_ratio[rows] if len(self.metadata_ratio) else self.metadata_ratio,
        )  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """`reason` says why it is unknown, `detail` in words; `changed` are the columns of the pattern in which the run
    differs; `state` is the measure of load that was used."""

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
    reason: Reason | None = None
    detail: str = ""
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
        return _unknown(Reason.NO_IO_TIME, "the log records no I/O time", duration, covered, n)
    if n < LEAST_RUNS:
        text = f"{n} like runs with samples of the system, {LEAST_RUNS} are needed"
        return _unknown(Reason.FEW_SIMILAR_RUNS, text, duration, covered, n)
    usual = usual_pattern(others.pattern)
    same = alike_patterns(others.pattern, usual)
    if same.sum() < LEAST_RUNS:
        text = f"only {int(same.sum())} of {n} like runs do the same as each other"
        return _unknown(Reason.SIMILAR_RUNS_DIFFER, text, duration, covered, n)
    if covered < LEAST_COVERAGE or not all(math.isfinite(column[row]) for column in runs.states.values()):
        text = f"the system was sampled in {covered:.0%} of the run"
        return _unknown(Reason.PARTLY_SAMPLED, text, duration, covered, n)
    peers = others.take(same)
    state = _telling_state(peers)
    pattern = runs.pattern[row]
    changed = tuple(int(c) for c in np.flatnonzero(~alike_columns(pattern, usual)))
    odds = OWN_CAUSE_ALIKE
    if changed:
        odds = OWN_CAUSE_WORSE if costs_more(pattern, usual, changed) else OWN_CAUSE_CHANGED
    evidence = _evidence(peers, runs.take(np.array([row])), state, odds)
    if changed == FILES_ALONE:
        evidence = replace(evidence, without_change_log=_data_alone(peers, runs, row))
    coarse = not float(runs.inside_ratio[row]) >= LEAST_INSIDE
    found = weigh(evidence)
    reason, detail = _doubt(found, coarse)
    return Verdict(
        "unknown" if reason else found.likeliest, found.chances[found.likeliest],
        found.chances, duration, found.usual, found.system, found.own, evidence.harm, n, covered, reason, detail,
        changed, state, found.likeliest,
    )  # fmt: skip


def alike_columns(one: Floats, usual: Floats) -> Bools:
    return np.asarray(alike_patterns(one[None, :], usual, each=True)[0])


def _unknown(reason: Reason, detail: str, duration: float, covered: float, n: int) -> Verdict:
    return Verdict("unknown", 0.0, {}, duration, None, None, None, None, n, covered, reason, detail)


def _doubt(found: Posterior, coarse: bool) -> tuple[Reason | None, str]:
    """Why there is no verdict, also in words; None where there is one."""
    likeliest = found.likeliest
    probability = found.chances[likeliest]
    if likeliest != "normal" and coarse:
        text = "the samples are too coarse for so short a run: its intervals speak mostly of other times"
        return Reason.COARSE_SAMPLES, text
    if probability < LEAST_PROBABILITY:
        if sum(found.chances.values()) < 0.5:
            text = "slower than usual, but not by more than equal runs differ when the system is like that"
            return Reason.WITHIN_SPREAD, text
        return Reason.LOW_PROBABILITY, f"{likeliest} is likeliest, but with {probability:.0%} only"
    if not found.agrees:
        return Reason.SECONDS_DISAGREE, f"{likeliest} is likeliest, but the seconds do not bear it out"
    return None, ""


def _telling_state(peers: GroupRuns) -> str:
    """Of several measures of load the one that the group's times follow best; the first where they are close."""
    names = list(peers.states)
    scores = [spearman(peers.states[name], peers.io_seconds) for name in names]
    first = scores[0] if math.isfinite(scores[0]) else 0.0
    best = max(range(len(names)), key=lambda i: scores[i] if math.isfinite(scores[i]) else -1.0)
    return names[best] if scores[best] > first + 0.1 else names[0]


def _columns(runs: GroupRuns, peers: GroupRuns, state: str) -> Floats:
    """What the time depends on: hinges of the load, and how slow it was for others. Faster than usual is usual, and so
    is what nobody measured."""
    slow = [np.maximum(np.nan_to_num(column), 0.0) for column in runs.slowdowns.values()]
    return np.concatenate([hinges(runs.states[state], peers.states[state]), *(each[:, None] for each in slow)], axis=1)


def _evidence(peers: GroupRuns, run: GroupRuns, state: str, own_cause: float) -> Evidence:
    known, here = _columns(peers, peers, state), _columns(run, peers, state)[0]
    times = np.log(peers.io_seconds)
    fit = fit_rising(known, times, _LEAST_SPREAD)
    predicted = fit.at(known)
    base, here_log = float(np.median(predicted)), float(fit.at(here[None, :])[0])
    typical = known[int(np.argmin(np.abs(predicted - base)))]
    # In a quiet system equal runs differ by themselves; what more they differ in a busy one is the system's.
    run_spread = max(_LEAST_SPREAD, MAD_TO_SD * float(np.median(np.abs(fit.residuals[predicted <= base]))))
    effect = predicted - predicted.min()
    busy = effect > np.median(effect)
    excess = np.clip(fit.residuals[busy] ** 2 - run_spread**2, 0.0, 1.0)
    share = math.sqrt(
        (float(excess.sum()) + _STATE_WEIGHT * _STATE_SHARE**2) / (float((effect[busy] ** 2).sum()) + _STATE_WEIGHT)
    )
    unsure = share * max(0.0, here_log - float(predicted.min()))
    mad = float(np.median(np.abs(peers.io_seconds - np.median(peers.io_seconds))))
    return Evidence(
        duration=float(run.io_seconds[0]),
        base_log=base,
        base_error=fit.error_between(typical, np.zeros(0)),
        here_log=here_log,
        state_spread=math.hypot(unsure, fit.error_between(here, typical)),
        run_spread=run_spread,
        harm=max(HARM_SHARE * math.exp(base), HARM_MADS * mad),
        own_cause=own_cause,
        unmeasured=_unmeasured(fit.residuals, run_spread),
    )


def _data_alone(peers: GroupRuns, runs: GroupRuns, row: int) -> float | None:
    """More or fewer files cost metadata time: its data took what the usual pattern's would have taken here."""
    if not len(peers.metadata_ratio):
        return None
    usual_metadata = float(np.median(peers.io_seconds * peers.metadata_ratio))
    seconds = float(runs.io_seconds[row] * (1.0 - runs.metadata_ratio[row])) + usual_metadata
    return math.log(seconds) if math.isfinite(seconds) and seconds > 0 else None


def _unmeasured(residuals: Floats, run_spread: float) -> float:
    """How often runs with the usual pattern are slow without a measured reason: the group's share, and before it is
    seen one run in twenty."""
    slow = residuals > max(3.0 * run_spread, math.log1p(HARM_SHARE))
    return (1.0 + float(slow.sum())) / (_UNMEASURED_RUNS + len(residuals))
