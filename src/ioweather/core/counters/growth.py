"""Counters that only grow: amounts between two samples, and intervals that only move forward.

Standard library only: live collectors use it too. Counters are whole numbers in the metric's base unit, except that
times stay in microseconds until they are written (`in_base_unit`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Target(NamedTuple):
    """A counted object: a target, the service of a server, or the mount of a client; named as in `series`."""

    system: str
    kind: str
    name: str


class Origin(NamedTuple):
    """One parameter with counters; a target has several, each with its own time stamps."""

    target: Target
    parameter: str


@dataclass(frozen=True)
class Sample:
    """Counters of a target at one time; `since_ns`: when they started at 0, if the server says it."""

    time_ns: int
    since_ns: int | None
    counters: dict[str, int]


@dataclass(frozen=True)
class Growth:
    """Amounts of a target in [start_ns, end_ns). After a restart they are the counters themselves, a lower bound."""

    start_ns: int
    end_ns: int
    amounts: dict[str, int]
    restarted: bool


def in_base_unit(metric: str, amount: int) -> float:
    """The amount in the metric's unit; busy times are counted in microseconds."""
    return amount / 1e6 if metric.endswith("_seconds") else float(amount)


def growth(before: Sample, after: Sample) -> Growth:
    """What was counted between two samples. If a counter fell, or the server counts since another time, all of its
    counters restarted. A counter that is new has no growth yet."""
    amounts = {name: after.counters.get(name, 0) - count for name, count in before.counters.items()}
    restarted = before.since_ns != after.since_ns or any(amount < 0 for amount in amounts.values())
    if restarted:
        amounts = {name: after.counters.get(name, 0) for name in before.counters.keys() | after.counters.keys()}
    return Growth(before.time_ns, after.time_ns, amounts, restarted)


def cut_short(before: Sample, after: Sample) -> bool:
    """Whether the text of the later sample is truncated. A line vanishes only after a restart, and then other counters
    fall too. If lines vanish and none fell, the text was cut; skipping the sample loses nothing."""
    pairs = [(count, after.counters.get(name, 0)) for name, count in before.counters.items()]
    vanished = any(old > 0 and new == 0 for old, new in pairs)
    return vanished and before.since_ns == after.since_ns and not any(0 < new < old for old, new in pairs)


class Differ:
    """Keeps the last sample of each parameter and gives the growth since."""

    def __init__(self) -> None:
        self._last: dict[Origin, Sample] = {}
        self.compared: set[Origin] = set()

    @property
    def shown_once(self) -> int:
        """Number of parameters that were seen only once."""
        return len(self._last.keys() - self.compared)

    def update(self, samples: Iterable[tuple[Origin, Sample]]) -> Iterator[tuple[Origin, Growth]]:
        """Growth since the last sample of each parameter. A sample of the same time is a repetition; an earlier one
        starts again (files joined out of order)."""
        for origin, sample in samples:
            before = self._last.get(origin)
            later = before is not None and before.time_ns < sample.time_ns
            if before is not None and later and cut_short(before, sample):
                continue
            self._last[origin] = sample
            if before is not None and later:
                self.compared.add(origin)
                yield origin, growth(before, sample)


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
    """From one sample to the next: [start_ns, start_ns + interval_ns); length 0 if it cannot be placed in time."""

    start_ns: int
    interval_ns: int
    gap: Gap | None = None

    @property
    def is_placed(self) -> bool:
        return self.interval_ns > 0


class ForwardTime:
    """Turns times of samples by both clocks into intervals that neither overlap nor run backwards."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        # Reported intervals: all before the first sample, since an earlier agent may have reported them, and one more
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
            gap = Gap(wall_ns, self._reported_until(wall_ns), f"clock set back by {-jumped / 1e9:.3f} s")
        if wall_ns <= start or any(start < end and first < wall_ns for first, end in self._covered):
            # The interval was reported before: drop these amounts rather than count them in the same minutes again.
            return Step(start, 0, gap)
        first, until = self._covered[-1]
        if until == start:
            self._covered[-1] = (first, wall_ns)
        else:
            self._covered = [*self._covered[-_MOST_STRETCHES:], (start, wall_ns)]
        return Step(start, wall_ns - start, gap)

    def _reported_until(self, moment: int) -> int:
        return max([moment, *(end for first, end in self._covered if first < moment)])
