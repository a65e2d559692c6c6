"""The system's activity as amounts per step of a regular grid, with sums over any stretch of time at once.

Sums of all steps before each stamp are made once; the amount between two moments is then a difference of two
interpolated sums, so no run scans the samples it does not touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class SystemGrid:
    """Amounts of one or more metrics in [start + i step, start + (i+1) step); NaN where a step cannot be used.

    A step counts as monitored when `needed` metrics are all there.
    """

    start_ns: int
    step_ns: int
    values: Mapping[str, Floats]
    needed: tuple[str, ...] = ("read_bytes", "write_bytes")

    @property
    def count(self) -> int:
        return len(next(iter(self.values.values()), ()))

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.count * self.step_ns

    @property
    def step_seconds(self) -> float:
        return self.step_ns / 1e9

    @cached_property
    def monitored(self) -> Bools:
        present = np.ones(self.count, np.bool_)
        for name in self.needed:
            present &= ~np.isnan(self.values[name])
        return present

    @cached_property
    def _sums(self) -> dict[str, NDArray[Any]]:
        return {name: _running(np.nan_to_num(values, nan=0.0)) for name, values in self.values.items()}

    @cached_property
    def _missing(self) -> dict[str, Ints]:
        """Missing steps before each stamp, by metric; '' is for steps that are not monitored."""
        found = {name: _running(np.isnan(values)) for name, values in self.values.items()}
        return {**found, "": _running(~self.monitored)}

    def opened(self, times_ns: NDArray[Any]) -> Ints:
        """Step that a stretch beginning at these moments begins in: T0 <= T < T1."""
        return np.asarray((np.asarray(times_ns, np.int64) - self.start_ns) // self.step_ns, np.int64)

    def closed(self, times_ns: NDArray[Any]) -> Ints:
        """Step that these moments end: a moment on a stamp belongs to the step before it."""
        return np.asarray(-((self.start_ns - np.asarray(times_ns, np.int64)) // self.step_ns) - 1, np.int64)

    def stamp(self, steps: NDArray[Any]) -> Ints:
        """Start of steps."""
        return np.asarray(self.start_ns + np.asarray(steps, np.int64) * self.step_ns, np.int64)

    def inside(self, first: Ints, last: Ints) -> Bools:
        return np.asarray((first >= 0) & (last < self.count) & (last >= first))

    def missing(self, first: Ints, last: Ints, metric: str = "") -> Ints:
        """How many of steps first .. last are missing; steps outside the grid are."""
        low, high = np.clip(first, 0, self.count), np.clip(last + 1, 0, self.count)
        sums = self._missing[metric]
        return np.asarray((last + 1 - first) - (np.maximum(high - low, 0) - (sums[high] - sums[low])), np.int64)

    def total(self, metric: str, first: Ints, last: Ints) -> Floats:
        """Sum of whole steps first .. last, which must lie inside; a missing step adds nothing."""
        sums = self._sums[metric]
        return np.asarray(sums[last + 1] - sums[first], np.float64)

    def amount(self, metric: str, steps: Ints) -> Floats:
        return self.values[metric][steps]

    def coarsened(self, factor: int) -> SystemGrid:
        """`factor` steps in one: amounts add up, and one missing step makes the whole missing. A rest is dropped."""
        count = self.count // factor
        values = {name: v[: count * factor].reshape(count, factor).sum(axis=1) for name, v in self.values.items()}
        return SystemGrid(self.start_ns, self.step_ns * factor, values, self.needed)


def _running(values: NDArray[Any]) -> NDArray[Any]:
    # A year of bytes reaches 1e18, where float64 counts in hundreds: the wider type keeps small runs exact.
    kind = np.longdouble if values.dtype.kind == "f" else np.int64
    return np.concatenate([np.zeros(1, kind), np.cumsum(values, dtype=kind)])
