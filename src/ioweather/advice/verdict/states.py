"""How the system was for each run, beyond what is usual for its group and what its own pattern makes of it.

A run in small random requests makes the devices move several times its bytes, and its requests wait longer, without
anybody else. So each measure is taken relative to the group's usual runs, and for a run that changed its pattern
relative to runs of any group with the same kind of change. What is left is others', or the system's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.advice.verdict.changes import Changes
from ioweather.advice.verdict.pool import Pool
from ioweather.advice.verdict.time_split import MAD_TO_SD
from ioweather.core.arrays import Bools, Floats

# Slowness counts from so many spreads of the group's quieter half on. [ours]
_DEAD_SPREADS: Final = 2.0
# The unit of load is what one run in twenty sees, within these shares of the most that servers ever did; from half of
# that unit on it may weigh more. [ours]
_UNIT_QUANTILE: Final = 0.95
_UNITS: Final = (0.05, 0.5)
_BUSY: Final = 0.5
# The quieter runs of a group, or with the same change, show what their own requests become: others only add to it.
_QUIET_QUANTILE: Final = 0.25
# Runs whose change is a little different say little about amplification: it is as sharp as the change.
_SHARPNESS: Final = 4
_PRIOR_RUNS: Final = 0.5


@dataclass(frozen=True, eq=False)
class States:
    """(run, measure), all at least 0, and what is usual for each run's group; `names` of the measures."""

    names: tuple[str, ...]
    values: Floats
    usual: Floats

    @property
    def beyond(self) -> Floats:
        return np.asarray(self.values - self.usual)

    @property
    def quiet(self) -> Bools:
        return np.asarray((self.beyond <= 0.1).all(axis=1))


def find_states(pool: Pool, changes: Changes, row: int) -> States:
    """From all runs but `row`, for all of them."""
    weights = changes.alike**_SHARPNESS * (1.0 + (pool.group[:, None] == pool.group[None]))
    np.fill_diagonal(weights, 0.0)
    weights[:, row] = 0.0
    baseline = _Baseline(pool, changes, row, weights)
    found: dict[str, Floats] = {}
    for name, load in pool.loads.items():
        share = _load_of_others(load.amount, load.own, load.peak, baseline)
        beyond = share / np.clip(np.quantile(np.delete(share, row), _UNIT_QUANTILE), *_UNITS)
        found[name] = beyond
        found[f"{name}_busy"] = np.maximum(beyond - _BUSY, 0.0)
    for name, column in pool.slowness.items():
        found[name] = baseline.slowness(column)
    if "contrast" in found:
        # Slow for the runs that use it while its device is not: the server, or the way to it.
        found["stalled"] = found.pop("contrast") * np.maximum(1.0 - found.get("service", 0.0), 0.0)
    values = np.stack(list(found.values()), axis=1) if found else np.zeros((pool.rows, 0))
    return States(tuple(found), values, baseline.per_group(values))


def _load_of_others(amount: Floats, own: Floats, peak: Floats, baseline: _Baseline) -> Floats:
    """Others' share of the most that the servers could do: amounts less what the run's own requests become there."""
    ratio = np.log(np.maximum(amount, 1.0) / np.maximum(own, 1.0))
    expected, error = baseline.of(ratio, _QUIET_QUANTILE)
    with np.errstate(invalid="ignore", divide="ignore"):
        others = amount - np.maximum(own, 1.0) * np.exp(np.minimum(expected + error, ratio))
        share = np.where(peak > 0, others / peak, 0.0)
    return np.asarray(np.clip(np.nan_to_num(share), 0.0, 2.0))


class _Baseline:
    """What a measure is for a run of this group with this pattern when nothing is the matter."""

    def __init__(self, pool: Pool, changes: Changes, row: int, weights: Floats) -> None:
        self.changed, self.weights = changes.changed, weights
        self.other = np.arange(pool.rows) != row
        self.members = [np.flatnonzero(pool.group == number) for number in np.unique(pool.group).tolist()]

    def of(self, column: Floats, quantile: float) -> tuple[Floats, Floats]:
        """Expected value of each run, as this quantile of those alike, and its error: 0 for runs that did as usual."""
        usual = self._per_group(column, lambda values: _quantile(values, quantile))
        beyond = column - usual
        shift, error = np.zeros(len(column)), np.zeros(len(column))
        rows = np.flatnonzero(self.changed)
        known = rows[np.isfinite(beyond[rows]) & self.other[rows]]
        if len(rows):
            weights = self.weights[np.ix_(rows, known)]
            shift[rows] = _weighted_quantile(beyond[known], weights, quantile)
            spread = MAD_TO_SD * float(np.median(np.abs(beyond[known]))) if len(known) else 1.0
            error[rows] = spread / (1.0 + weights.sum(axis=1))
        return usual + shift, error

    def slowness(self, column: Floats) -> Floats:
        """Beyond the expected by more than equal runs differ; unknown is as usual."""
        expected, error = self.of(column, 0.5)
        beyond = column - expected
        below = np.where(beyond <= 0, -beyond, np.nan)
        spread = self._per_group(below, lambda values: MAD_TO_SD * _quantile(values, 0.5))
        ordinary = below[self.other & ~self.changed & np.isfinite(below)]
        least = 0.5 * MAD_TO_SD * float(np.median(ordinary)) if len(ordinary) else 0.0
        dead = _DEAD_SPREADS * np.fmax(spread, least) + error
        with np.errstate(invalid="ignore", divide="ignore"):
            kept = np.where(beyond > dead, beyond - dead**2 / beyond, 0.0)
        return np.nan_to_num(kept)

    def per_group(self, values: Floats) -> Floats:
        """Median of each column in the runs of the group that did as usual."""
        columns = [self._per_group(column, lambda each: _quantile(each, 0.5)) for column in values.T]
        return np.stack(columns, axis=1) if columns else np.zeros(values.shape)

    def _per_group(self, column: Floats, middle: Callable[[Floats], float]) -> Floats:
        usual = self.other & ~self.changed & np.isfinite(column)
        found = np.full(len(column), middle(column[usual]) if usual.any() else 0.0)
        for members in self.members:
            mine = members[usual[members]]
            if len(mine):
                found[members] = middle(column[mine])
        return found


def _quantile(values: Floats, q: float) -> float:
    """As np.quantile, in an eighth of its time for the few runs of a group: a verdict asks for hundreds."""
    ordered, place = np.sort(values), q * (len(values) - 1)
    low = int(place)
    part = place - low
    return float(ordered[low]) if not part else float((1.0 - part) * ordered[low] + part * ordered[low + 1])


def _weighted_quantile(values: Floats, weights: Floats, quantile: float) -> Floats:
    """One for each row of weights; before any run is seen it is 0."""
    values = np.append(values, 0.0)
    order = np.argsort(values, kind="stable")
    weights = np.concatenate([weights, np.full((len(weights), 1), _PRIOR_RUNS)], axis=1)[:, order]
    reached = np.cumsum(weights, axis=1)
    return np.asarray(values[order][(reached >= quantile * reached[:, -1:]).argmax(axis=1)])
