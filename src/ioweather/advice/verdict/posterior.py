"""Who took the seconds? From what is predicted for a run and how long it took: classes, probabilities, seconds.

Draws of (usual level, cost of its change, effect of the system), of a cause that nobody measured, and of noise are
weighed by the run's own time. One thing the run's time may not do: make its change costlier than other runs with such a
change say. It may only speak against the cost. Otherwise a harmless change beside an incident that nobody measured
would become the culprit, because it is the only thing to be seen.

B = exp(level); S and J are what the state and the change add to B, each alone with the one, and half of what they do
together; U = D - B - S - J.

The ranges of the seconds carry errors of the model beside those it knows of: with these 90% ranges cover about 90% of
true seconds. In the classes they would only blur which of the causes is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from ioweather.advice.verdict.model import Prediction
from ioweather.advice.verdict.time_split import STUDENT
from ioweather.core.arrays import Floats

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
