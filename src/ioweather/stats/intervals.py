"""Estimates with intervals: one statistic, written once as a function of sums, gives the value and its interval.

A study may switch intervals off (its `intervals` parameter); values stay the same and findings become notes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats
from ioweather.core.contracts import Param
from ioweather.core.papers.claims import NO_INTERVAL
from ioweather.core.results import Estimate, Finding, identifier, quantity_label
from ioweather.core.units import DAY_NS, HOUR_NS, format_seconds
from ioweather.stats.resampling import (
    BlockBootstrap,
    Independent,
    contributions,
    independent,
    independent_units,
    sums_by_unit,
    unit_steps,
)

# Sums on the last axis to a value: works on one set of sums and on all replicates at once.
Statistic: TypeAlias = Callable[[Floats], Any]

LEVEL = 0.9
INTERVALS = Param("intervals", "give 90% intervals by block bootstrap", kind="flag", default=True)


class Intervals:
    """Estimates of statistics of a series of `steps` steps, resampled in blocks of days (hours, where days are few).

    `unit` is the length of a unit in steps; sums per unit have `units` rows. Units in which no step is `usable` are
    not resampled: a year with a month of data is a month. `alike` False: units are too long to resemble the next.
    """

    def __init__(
        self, usable: Bools, step_ns: int, *, on: bool, unit: int = 0, unit_name: str = "", alike: bool = True
    ) -> None:
        self._alike = alike
        steps = len(usable)
        self.unit = unit or unit_steps(steps, HOUR_NS / step_ns)
        self.units = max(1, -(-steps // self.unit))
        self._seen = np.flatnonzero(sums_by_unit(usable, self.unit)) if steps else np.zeros(0, np.int64)
        self.on = on
        self.unit_name = unit_name or _name(self.unit * step_ns)
        self._bootstrap = BlockBootstrap(max(1, len(self._seen)), level=LEVEL, unit_name=self.unit_name) if on else None

    @property
    def block(self) -> int:
        """Units in a block; 0 when intervals are off."""
        return self._bootstrap.block if self._bootstrap else 0

    def sums(self, *columns: NDArray[Any]) -> Floats:
        """Sums per unit of columns (steps,), missing values as nothing: (units, columns)."""
        table = np.stack([np.nan_to_num(np.asarray(column, np.float64), nan=0.0) for column in columns], axis=1)
        return sums_by_unit(table, self.unit)

    def estimate(
        self,
        name: str,
        unit: str,
        per_unit: Floats,
        statistic: Statistic,
        *,
        n: int,
        bounds: tuple[float, float] | None = None,
    ) -> Estimate:
        """The statistic of all sums, and its interval from resampled ones. `per_unit` has the units first.

        `bounds` marks a statistic that noise can only raise, and the least and most it can be: its interval speaks of
        what would be left without noise (see BlockBootstrap.interval), and reaches up to the value itself.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            value = number(np.asarray(statistic(per_unit.sum(axis=0)[None]))[0])
            if self._bootstrap is None:
                return Estimate(name, value, unit, n=n, method=NO_INTERVAL)
            seen = self._of_seen(per_unit)
            replicates = statistic(self._bootstrap.sums(seen))
        spread = independent(contributions(seen, statistic), in_time=self._alike)
        low, high = self._bootstrap.interval(replicates, value, spread=spread, reflect=bounds is not None)
        if bounds is not None and low is not None and high is not None and value is not None:
            low, high = max(bounds[0], low), min(bounds[1], max(value, high))
        level = None if low is None else LEVEL
        return Estimate(name, value, unit, low, high, level, n, self._told(spread))

    def estimates(self, per_unit: Floats, statistic: Statistic) -> tuple[Floats, Floats, Floats]:
        """A statistic with many values (units, ...) -> value, low, high, each of the statistic's shape; NaN = none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.asarray(statistic(per_unit.sum(axis=0)[None]), np.float64)[0]
            if self._bootstrap is None:
                return value, np.full(value.shape, np.nan), np.full(value.shape, np.nan)
            seen = self._of_seen(per_unit)
            replicates = np.asarray(statistic(self._bootstrap.sums(seen)), np.float64)
        spreads = independent_units(contributions(seen, statistic), in_time=self._alike)
        flat = replicates.reshape(len(replicates), -1)
        low, high = self._bootstrap.intervals(flat, value.ravel(), spreads.ravel())
        return value, low.reshape(value.shape), high.reshape(value.shape)

    def _of_seen(self, per_unit: Floats) -> Floats:
        return per_unit[self._seen] if len(self._seen) else per_unit[:1]

    def _told(self, spread: Independent) -> str:
        if spread.enough or not self._bootstrap or not self._bootstrap.enough:
            return self.method
        return f"no interval: too few independent {self.unit_name}s, about {spread.count:.0f} of {len(self._seen)}"

    @property
    def method(self) -> str:
        return self._bootstrap.method if self._bootstrap else NO_INTERVAL


def _name(unit_ns: int) -> str:
    if unit_ns == DAY_NS:
        return "day"
    return "hour" if unit_ns == HOUR_NS else f"stretch of {format_seconds(unit_ns / 1e9)}"


def number(value: Any) -> float | None:
    """A plain float, or None where there is no number."""
    plain = float(value)
    return plain if np.isfinite(plain) else None


def plain(name: str, value: float | None, unit: str, *, n: int | None = None, method: str = "exact count") -> Estimate:
    """An estimate that has no interval by its nature: a total, a peak, a count."""
    return Estimate(name, None if value is None else number(value), unit, n=n, method=method)


def surely(estimate: Estimate, *, above: float | None = None, below: float | None = None) -> bool:
    """Whether the whole interval lies above (or below) a number."""
    if estimate.low is None or estimate.high is None:
        return False
    return estimate.low > above if above is not None else estimate.high < (below if below is not None else -np.inf)


def directed(estimate: Estimate, pivot: float, above: str, below: str) -> Finding:
    """Of what no paper has a word on: the sentence that the interval speaks for, and that it speaks for none."""
    if estimate.value is None:
        text = f"Too few data to tell: {quantity_label(estimate.name, estimate.unit)}."
        return Finding(text, "undecided", identifier(estimate.name))
    text, name = (above if estimate.value > pivot else below), identifier(estimate.name)
    if surely(estimate, above=pivot) or surely(estimate, below=pivot) or estimate.method == NO_INTERVAL:
        return Finding(text, name=name)
    return Finding(f"{text} (these data do not decide it)", "undecided", name)
