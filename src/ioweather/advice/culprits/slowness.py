"""How much of a facility's slowness is due to others' work. Pure.

Runs that met much work of others in their usual time are slow more often than runs that met none; the rest are slow
for reasons of their own. With x, the work met as a share of the usual time,

    P(slow | x) = p0 + (1 - p0) g(x),    g(x) = 1 - exp(-(x / theta)^1.75)

where p0 is how often runs are slow that met nothing and theta the work that slows most runs. Of slow runs that met x,
(1 - p0) g / P(slow | x) would not have been slow without it (the attributable share of epidemiology, Miettinen 1974).
Both numbers are learned of each facility; where few runs are known, as elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats

_THETA: Final = np.geomspace(0.15, 9.0, 40)[:, None]
_P0: Final = np.geomspace(0.002, 0.4, 30)[None, :]
_STEEPNESS: Final = 1.75
# Before any run is seen: the median of theta and the spread of its logarithm; p0 as of half a slow run among twenty.
# With the steepness chosen on the simulated facilities of seeds 208 to 245 of benchmarks/who.py. [ours]
_USUAL_THETA, _THETA_SPREAD = 0.6, 1.0
_SLOW_BEFORE, _RUNS_BEFORE = 0.5, 20.0


def _before() -> Floats:
    log = -0.5 * (np.log(_THETA / _USUAL_THETA) / _THETA_SPREAD) ** 2
    log = log + _SLOW_BEFORE * np.log(_P0) + (_RUNS_BEFORE - 1.0) * np.log1p(-_P0)
    return np.asarray(log)


def _harmful(work: float) -> Floats:
    return np.asarray(-np.expm1(-((work / _THETA) ** _STEEPNESS)))


@dataclass(frozen=True, eq=False)
class Slowness:
    """How likely each pair of theta and p0 is here: the logarithm, but for a constant."""

    log_weight: Floats = field(default_factory=_before)

    def due_to_work(self, work: float) -> float:
        """Of slow runs that met so much work (in usual times), the share that would not have been slow without it."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        by_work = (1.0 - _P0) * _harmful(work)
        return float((weight * by_work / (_P0 + by_work)).sum() / weight.sum())


def learned(work: Floats, slow: Bools) -> Slowness:
    """From runs of a facility: the work that each met in its usual time, as a share of it, and whether it was slow."""
    found = _before()
    for met, was_slow in zip(work.tolist(), slow.tolist(), strict=True):
        chance = _P0 + (1.0 - _P0) * _harmful(met)
        found = found + (np.log(chance) if was_slow else np.log1p(-np.minimum(chance, 1.0 - 1e-9)))
    return Slowness(found)
