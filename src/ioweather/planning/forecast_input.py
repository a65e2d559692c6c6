"""Input of a forecast: the quantity, its history, and the jobs that are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.units import MIB, format_value
from ioweather.stats.forecast import Work


@dataclass(frozen=True)
class Quantity:
    """The forecast quantity: loads in bytes per second, slowdowns as ratios.

    Errors are of logarithms, so that a factor counts the same at every level; of loads log(1 + MiB/s), because idle
    is 0.
    """

    filesystem: str
    of: Literal["load", "slowdown"]
    op: str

    @property
    def unit(self) -> str:
        return "bytes_per_s" if self.of == "load" else "factor"

    @property
    def title(self) -> str:
        if self.of == "slowdown":
            return f"Slowdown of {self.op} on {self.filesystem}"
        return {"read": "Reads", "write": "Writes"}.get(self.op, "Reads and writes") + f" on {self.filesystem}"

    def forward(self, values: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log1p(values / MIB) if self.of == "load" else np.log(values)

    def back(self, values: Any) -> Any:
        return np.maximum(np.expm1(values), 0.0) * MIB if self.of == "load" else np.exp(values)

    def show(self, value: float | None) -> str:
        return format_value(None if value is None else float(value), self.unit)


@dataclass(frozen=True, eq=False)
class History:
    """Values of equal windows from `start_ns` on, NaN where a window was not seen."""

    start_ns: int
    window_ns: int
    values: Floats

    @property
    def end_ns(self) -> int:
        return self.start_ns + len(self.values) * self.window_ns


@dataclass(frozen=True, eq=False)
class KnownJobs:
    """Jobs and the bytes per second of each, in steps of `step_ns`, a whole fraction of the history's windows."""

    work: Work
    step_ns: int


@dataclass(frozen=True, eq=False)
class Seen:
    """Input of a forecast, and notes on it: its age, other file systems."""

    quantity: Quantity
    history: History
    notes: tuple[str, ...] = ()
    jobs: KnownJobs | None = None
