"""Time of samples moves forward. A clock that is set makes a gap, never a negative or a doubled interval."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# Clocks that NTP slews differ by 500 ppm at most; what differs more was set, or the machine slept.
_TOLERANCE_NS = 20_000_000
_MOST_STRETCHES = 100


@dataclass(frozen=True)
class Clocks:
    """The two clocks of this machine; tests bring their own."""

    wall_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True)
class Gap:
    start_ns: int
    end_ns: int
    label: str


@dataclass(frozen=True)
class Step:
    """From one sample to the next: [start_ns, start_ns + interval_ns), or no interval where none can be placed."""

    start_ns: int
    interval_ns: int
    gap: Gap | None = None

    @property
    def is_placed(self) -> bool:
        return self.interval_ns > 0


class ForwardTime:
    """Takes the moments of samples by both clocks; gives intervals that neither overlap nor run backwards."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        # Stretches that are told of: all before the first sample, for an agent before may have told of it, and one more
        # after each jump ahead. So a clock that was ahead for a while, and is right again, goes on at once.
        self._covered: list[tuple[int, int]] = []

    def step(self, wall_ns: int, monotonic_ns: int) -> Step | None:
        """The interval since the sample before; None for the first."""
        last, self._last = self._last, (wall_ns, monotonic_ns)
        if last is None:
            self._covered = [(0, wall_ns)]
            return None
        length = monotonic_ns - last[1]
        jumped = wall_ns - last[0] - length
        gap = None
        if abs(jumped) <= max(_TOLERANCE_NS, length // 10):
            start = last[0]
        elif jumped > 0:
            start = wall_ns - length
            gap = Gap(last[0], start, f"clock set forward, or sleep, by {jumped / 1e9:.3f} s")
        else:
            start = wall_ns - length
            gap = Gap(wall_ns, self._told_until(wall_ns), f"clock set back by {-jumped / 1e9:.3f} s")
        if wall_ns <= start or any(start < end and first < wall_ns for first, end in self._covered):
            # Time that is told of already: these amounts are given up rather than counted in the same minutes again.
            return Step(start, 0, gap)
        self._cover(start, wall_ns)
        return Step(start, wall_ns - start, gap)

    def _told_until(self, moment: int) -> int:
        return max([moment, *(end for first, end in self._covered if first < moment)])

    def _cover(self, start: int, end: int) -> None:
        first, until = self._covered[-1]
        if until == start:
            self._covered[-1] = (first, end)
        else:
            self._covered = [*self._covered[-_MOST_STRETCHES:], (start, end)]
