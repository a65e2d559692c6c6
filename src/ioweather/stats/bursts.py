"""Is a burst coming? Whether the load of the next windows will be above what nine in ten such stretches stay below.

A logistic regression of what is known at the moment (the load and whether it is a burst, its means over the last
minutes to a day, how often this hour brings bursts), beside two references: a burst now, and the hour's frequency. All
three are fitted to the past alone, at every `refits` moment; so are the limit that makes a burst and the probability
from which one is called (the best F1 of the past). The regression also knows what else says of the coming windows; it
is drawn towards the references as far as that would have served before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.stats.forecast import SPANS_MINUTES, WEIGHTS, recent_means

HIGH: Final = 0.9
WAYS: Final = ("persistence", "climatology", "regression")
PERSISTENCE, CLIMATOLOGY, REGRESSION = range(3)
_HOURS: Final = 24
# [ours] Past windows, and bursts among them, that a fit needs; and how many windows the common frequency counts for in
# that of an hour.
_LEAST: Final = 60
_LEAST_BURSTS: Final = 5
_SHRINK: Final = 72.0
_RIDGE: Final = 1.0
_STEPS: Final = 12
_CUTS: Final = np.linspace(0.05, 0.95, 19)


@dataclass(frozen=True, eq=False)
class Bursts:
    """Forecasts at every window: `probability` and `called` are (ways, T), NaN and False where none could be made;
    `truth` (T,) is 1 where a burst came, 0 where none did, NaN where it is not known."""

    horizon: int
    truth: Floats
    probability: Floats
    called: Bools

    @property
    def judged(self) -> Bools:
        return np.asarray(np.isfinite(self.truth) & np.isfinite(self.probability).all(axis=0))

    @property
    def squares(self) -> Floats:
        """Squared errors of the probabilities (ways, T): Brier's score is their mean."""
        return np.asarray((self.probability - self.truth) ** 2)

    def f1(self, way: int) -> float:
        """Harmonic mean of the share of calls that were right and the share of bursts that were called."""
        judged = self.judged
        return f1_of(self.called[way][judged], self.truth[judged] > 0)

    @property
    def independent(self) -> int:
        """Stretches judged that do not overlap."""
        return int(self.judged.sum()) // self.horizon


def f1_of(called: Bools, came: Bools) -> float:
    """NaN where nothing came and nothing was called."""
    either = int(called.sum()) + int(came.sum())
    return 2 * int((called & came).sum()) / either if either else float("nan")


@dataclass(frozen=True, eq=False)
class Load:
    """`amount` (T,), NaN where missing; `values` the same on a scale where it is not skewed; `hour` of the day."""

    amount: Floats
    values: Floats
    hour: Ints
    window_minutes: float = 5.0


def burst_forecasts(load: Load, horizon: int, refits: Ints, memory: int, known: Floats | None = None) -> Bursts:
    """At each of `refits` everything is fitted to the `memory` windows before it whose future was known by then.
    `known` (k, T) are forecasts of the mean of the next `horizon` windows from what else is known."""
    count, hour = len(load.values), load.hour
    ahead, last = (_means(load.amount, horizon, forward=forward) for forward in (True, False))
    inputs = np.column_stack([recent_means(load.values, load.window_minutes), *([] if known is None else known)])
    truth, chance = np.full(count, np.nan), np.full((len(WAYS), count), np.nan)
    probability, called = chance.copy(), np.zeros((len(WAYS), count), np.bool_)
    # [ours] An hour at least: load changes with the jobs, and these rarely end sooner.
    alike = max(horizon, round(60 / load.window_minutes))
    usable = np.isfinite(inputs).all(axis=1) & np.isfinite(last)
    for place, begin in enumerate(refits.tolist()):
        end = int(refits[place + 1]) if place + 1 < len(refits) else count
        before = np.arange(max(0, begin - memory), max(0, begin - horizon))
        past = before[usable[before] & np.isfinite(ahead[before])]
        if len(past) < _LEAST:
            continue
        limit = float(np.quantile(ahead[past], HIGH))
        came = ahead[past] > limit
        if came.sum() < _LEAST_BURSTS:
            continue
        now = np.arange(begin, end)[usable[begin:end]]
        truth[now] = np.where(np.isfinite(ahead[now]), ahead[now] > limit, np.nan)
        for way, (of_past, of_now) in enumerate(_chances(inputs, last > limit, hour, past, came, now, alike)):
            cut = _best_cut(of_past, came, np.zeros(len(past), np.bool_))
            chance[way, now], called[way, now] = of_now, of_now >= (_CUTS[0] if cut is None else cut)
        judged = before[np.isfinite(truth[before])]
        weights = _best_weights(chance[:, judged], truth[judged])
        probability[:, now] = chance[:, now]
        probability[REGRESSION, now] = weights @ chance[:, now]
        cut = _best_cut(weights @ chance[:, judged], truth[judged] > 0, called[PERSISTENCE, judged])
        called[REGRESSION, now] = called[PERSISTENCE, now] if cut is None else probability[REGRESSION, now] >= cut
    return Bursts(horizon, truth, probability, called)


def _best_weights(chance: Floats, truth: Floats) -> Floats:
    """Of the ways, by Brier's score of what they said before; persistence alone where that is too little."""
    if truth.sum() < _LEAST_BURSTS:
        return np.asarray(WEIGHTS[0])
    # Up to what does not depend on the weights.
    scores = np.einsum("wi,ij,wj->w", WEIGHTS, chance @ chance.T, WEIGHTS) - 2 * WEIGHTS @ (chance @ truth)
    return np.asarray(WEIGHTS[scores.argmin()])


def _chances(
    inputs: Floats, high_now: Bools, hour: Ints, past: Ints, came: Bools, now: Ints, alike: int
) -> list[tuple[Floats, Floats]]:
    """Probabilities of past moments and of those to come, by each way."""
    by_state = np.array([_frequency(came[high_now[past] == state], came, 1.0) for state in (False, True)])
    by_hour = np.array([_frequency(came[hour[past] == each], came, _SHRINK) for each in range(_HOURS)])
    usual = np.log(by_hour / (1 - by_hour))
    middle, spread = inputs[past].mean(axis=0), inputs[past].std(axis=0) + 1e-9

    def columns(rows: Ints) -> Floats:
        scaled = (inputs[rows] - middle) / spread
        return np.column_stack([np.ones(len(rows)), high_now[rows], usual[hour[rows]] - usual.mean(), scaled])

    state = [high_now[rows].astype(np.int64) for rows in (past, now)]
    # What is now, and what is known of what comes, is surely of use; what was before, and the hour, have to show it
    # over many hours.
    shy = len(SPANS_MINUTES)
    penalty = _RIDGE * np.array([1e-3, 1.0, alike, 1.0, *[alike] * shy, *[1.0] * (inputs.shape[1] - 1 - shy)])
    weights = _logistic(columns(past), came.astype(np.float64), penalty)
    fitted = [_chance(columns(rows) @ weights) for rows in (past, now)]
    return [(by_state[state[0]], by_state[state[1]]), (by_hour[hour[past]], by_hour[hour[now]]), (fitted[0], fitted[1])]


def _frequency(came: Bools, everywhere: Bools, shrink: float) -> float:
    """Drawn to the common frequency as by so many windows, and never quite 0 or 1."""
    common = (everywhere.sum() + 0.5) / (len(everywhere) + 1)
    return float((came.sum() + shrink * common) / (len(came) + shrink))


def _logistic(x: Floats, y: Floats, penalty: Floats) -> Floats:
    """Ridge logistic regression by Newton's steps."""
    weights = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        chance = _chance(x @ weights)
        slope = x.T @ (y - chance) - penalty * weights
        step = np.linalg.solve((x * (chance * (1 - chance))[:, None]).T @ x + np.diag(penalty), slope)
        weights = weights + step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def _chance(logit: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(logit, -30, 30))))


def _best_cut(chance: Floats, came: Bools, otherwise: Bools) -> float | None:
    """The probability from which calls would have had the best F1; None where no better than the calls `otherwise`."""
    scores = [f1_of(chance >= cut, came) for cut in _CUTS]
    best = int(np.nanargmax(scores)) if came.any() else 0
    return float(_CUTS[best]) if came.any() and scores[best] > f1_of(otherwise, came) else None


def _means(values: Floats, width: int, *, forward: bool) -> Floats:
    """Means of the next (or of the last, this one counted) `width` windows; NaN where one is missing."""
    padded = np.concatenate([[0.0], np.cumsum(np.nan_to_num(values))])
    holes = np.concatenate([[0], np.cumsum(~np.isfinite(values))])
    at = np.arange(len(values)) + 1
    first, last = (at, at + width) if forward else (at - width, at)
    inside = (first >= 0) & (last <= len(values))
    first, last = np.where(inside, first, 0), np.where(inside, last, 0)
    whole = inside & (holes[last] - holes[first] == 0)
    return np.where(whole, (padded[last] - padded[first]) / width, np.nan)
