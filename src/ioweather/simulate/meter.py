"""Meters: rates that change at any moment, added up in even steps, one day at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.simulate.flows import OPERATIONS
from ioweather.simulate.resources import Resources


@dataclass(frozen=True, eq=False)
class Readings:
    """One day: amounts in steps of `step_seconds` from `start` on (seconds since the facility's start).

    Arrays are (step, target); `operations` is (step, operation); `stretch` the mean of phi, (step, resource).
    """

    day: int
    start: float
    step_seconds: int
    read_bytes: Floats
    write_bytes: Floats
    read_requests: Floats
    write_requests: Floats
    operations: Floats
    stretch: Floats

    @property
    def steps(self) -> int:
        return len(self.read_bytes)

    @property
    def times(self) -> Floats:
        """Starts of the steps."""
        return self.start + np.arange(self.steps, dtype=np.float64) * self.step_seconds


class Meter:
    """A change of a rate by d at time t adds d x (end of its step - t) to that step, and d x step to all later ones."""

    def __init__(self, resources: Resources) -> None:
        self._osts = resources.osts
        self.operations = len(OPERATIONS)
        self._width = 4 * resources.osts + self.operations
        self._rates = np.zeros(self._width + resources.count)
        self._rates[self._width :] = 1.0
        self._begin = 0.0
        self._step = 60.0
        self._day = 0

    def open_day(self, day: int, begin: float, seconds: int, step_seconds: int) -> None:
        self._day, self._begin, self._step = day, begin, float(step_seconds)
        steps = seconds // step_seconds
        self._partial = np.zeros((steps + 1, len(self._rates)))
        self._onward = np.zeros((steps + 2, len(self._rates)))
        self._onward[0] = self._rates * self._step

    def level(self, now: float, rates: Floats, stretch: Floats) -> None:
        """From `now` on the rates are these."""
        change = np.concatenate([rates, stretch])
        change, self._rates = change - self._rates, change
        index = int((now - self._begin) // self._step)
        rest = self._begin + (index + 1) * self._step - now
        self._partial[index] += change * rest
        self._onward[index + 1] += change * self._step

    def close_day(self) -> Readings:
        amounts = np.cumsum(self._onward[:-2], axis=0)
        amounts += self._partial[:-1]
        osts, width = self._osts, self._width
        # Adding and taking away leaves dust of less than a byte.
        moved = np.maximum(amounts[:, : 4 * osts], 0.0)
        parts = [moved[:, i * osts : (i + 1) * osts] for i in range(4)]
        return Readings(
            self._day, self._begin, round(self._step), parts[0], parts[1], parts[2], parts[3],
            np.maximum(amounts[:, 4 * osts : width], 0.0), np.maximum(amounts[:, width:] / self._step, 1.0),
        )  # fmt: skip
