"""Given how long a run took and what the system's state predicts: who took the seconds? One distribution answers.

With B the usual time, D = exp(L + j + e): L is the logarithm of what the usual pattern takes in that state, j a cause
of the run's own, e the difference of equal runs in a quiet system. Three stories are weighed:

* nothing but the state: L scatters about its prediction, the more the busier it was, j = 0;
* the system did something that nobody measured: L lies anywhere above its prediction, j = 0;
* a cause of its own: j > 0, alike for all factors. Likely beforehand for a run that did other things than its like in
  a way that costs, unlikely for one that did the same.

S = exp(L) - B and J = D - exp(L) with a cause of its own. Without one e stretches B and S alike: S = D (1 - B/exp(L)).
The verdict, its probability and the seconds all come from the distribution of (S, J) that remains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy.special import ndtr

from ioweather.core.arrays import Floats

Kind: TypeAlias = Literal["normal", "system", "you", "both", "unknown"]

KINDS: Final[tuple[Kind, ...]] = ("normal", "system", "you", "both")
# Odds of a cause of its own, before the time is known: the group's pattern; another; another that costs. [ours]
OWN_CAUSE_ALIKE: Final = 0.05
OWN_CAUSE_CHANGED: Final = 0.5
OWN_CAUSE_WORSE: Final = 0.9
# A cause multiplies the time by anything up to this, all factors alike. [ours]
_LARGEST_FACTOR: Final = 30.0
# A part of a run says what the whole would have taken to within this factor (logarithm). [ours]
_PART_SPREAD: Final = 0.1
_POINTS: Final = 1200
_MEASURED, _UNMEASURED, _OWN = range(3)
_LEVEL: Final = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Evidence:
    """Logarithms of seconds: `base_log` is the usual time, `here_log` the usual pattern's in this state. `state_spread`
    is how far the truth may lie from the latter, `run_spread` how equal runs differ in a quiet system. `own_cause` and
    `unmeasured` are the odds of the second and third story before the run's time is known. `without_change_log` is what
    the part of the run that did as its like took, with the usual time of the other part; None where all changed."""

    duration: float
    base_log: float
    base_error: float
    here_log: float
    state_spread: float
    run_spread: float
    harm: float
    own_cause: float
    unmeasured: float
    without_change_log: float | None = None


@dataclass(frozen=True)
class Seconds:
    """An amount of time with its 90% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Posterior:
    """`chances` add up to less than 1: the rest is a slow run of which neither part alone reaches the harm."""

    chances: Mapping[Kind, float]
    usual: Seconds
    system: Seconds
    own: Seconds
    agrees: bool  # the seconds lie in the region of the likeliest verdict

    @property
    def likeliest(self) -> Kind:
        return max(KINDS, key=lambda kind: self.chances[kind])


def weigh(found: Evidence) -> Posterior:
    took, base = found.duration, math.exp(found.base_log)
    level, stories = _weights(found)
    without = took * (1.0 - base * np.exp(-level))
    system = np.concatenate([without, without, np.exp(level) - base])
    story = np.repeat(np.arange(3), len(level))
    weight = np.concatenate(stories)
    rest = took - base - system
    late = float(ndtr((math.log(took) - math.log(base + found.harm)) / max(found.base_error, 1e-3)))
    # Without a cause of its own the rest is a difference of equal runs, and nobody's; what nobody measured is nobody's.
    by_system, by_run = (system >= found.harm) & (story != _UNMEASURED), (rest >= found.harm) & (story == _OWN)
    chances: dict[Kind, float] = {
        "normal": 1.0 - late,
        "system": late * float(weight[by_system & ~by_run].sum()),
        "you": late * float(weight[~by_system & by_run].sum()),
        "both": late * float(weight[by_system & by_run].sum()),
    }
    low, middle, high = _quantiles(system, weight)
    beyond = took - base
    error = math.exp(1.645 * found.base_error)
    posterior = Posterior(
        chances, Seconds(base, base / error, base * error), Seconds(middle, low, high),
        Seconds(beyond - middle, beyond - high, beyond - low), agrees=True,
    )  # fmt: skip
    regions = {"system": (True, False), "you": (False, True), "both": (True, True)}
    # What the state predicts beyond the time that was lost did not happen.
    shown = min(max(middle, 0.0), max(beyond, 0.0))
    point = (shown >= found.harm, beyond - shown >= found.harm)
    agrees = regions.get(posterior.likeliest, point) == point
    return Posterior(chances, posterior.usual, posterior.system, posterior.own, agrees)


def _weights(found: Evidence) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
    """Values of L, and the weight of each in the three stories; all weights add up to 1."""
    took, widest = math.log(found.duration), math.log(_LARGEST_FACTOR)
    state, noise = max(found.state_spread, 1e-3), found.run_spread
    least = min(found.here_log, found.base_log, took) - 4 * max(state, noise)
    most = max(found.here_log + 4 * state, took) + 4 * noise
    # As fine around the prediction as its spread asks for, however far away the observed time is.
    level = np.unique(np.concatenate([
        np.linspace(least, most, _POINTS), found.here_log + state * np.linspace(-6, 6, 241),
        took + noise * np.linspace(-6, 6, 241),
    ]))  # fmt: skip
    width = np.gradient(level)
    measured = _student(level - found.here_log, state)
    unmeasured = ((level >= found.here_log) & (level <= found.here_log + widest)) / widest
    if found.without_change_log is not None:
        width = width * _student(found.without_change_log - level, math.hypot(noise, _PART_SPREAD))
    measured *= width * (1 - found.unmeasured)
    unmeasured = unmeasured * width * found.unmeasured
    alone = (1 - found.own_cause) * _student(took - level, noise)
    rest = (took - level) / noise
    own = found.own_cause * (ndtr(rest) - ndtr(rest - widest / noise)) / widest * (measured + unmeasured)
    total = float((alone * (measured + unmeasured)).sum() + own.sum())
    return level, (alone * measured / total, alone * unmeasured / total, own / total)


def _student(distance: Floats, spread: float) -> Floats:
    """Density of Student's t with 4 degrees of freedom: few runs, and tails are heavy."""
    return np.asarray(0.375 / spread * (1.0 + (distance / spread) ** 2 / 4.0) ** -2.5)


def _quantiles(values: Floats, weight: Floats) -> tuple[float, float, float]:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    low, middle, high = (float(v) for v in np.interp(_LEVEL, reached, values[order]))
    return low, middle, high
