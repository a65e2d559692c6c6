"""Counters that only grow: what was counted at a moment, and what happened between two moments.

Standard library only: live collectors use it too. Counters are whole numbers in the metric's base unit, except that
times stay in microseconds until they are written (`in_base_unit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Target(NamedTuple):
    """What is counted: a target, the service of a server, or the mount of a client; as `series` names it."""

    system: str
    kind: str
    name: str


class Origin(NamedTuple):
    """One parameter that counts: a target has several, each with a moment of its own."""

    target: Target
    parameter: str


@dataclass(frozen=True, slots=True)
class Sample:
    """What a target has counted at a moment; `since_ns`: from when on, where the server says it."""

    time_ns: int
    since_ns: int | None
    counters: dict[str, int]


@dataclass(frozen=True, slots=True)
class Growth:
    """What a target did in [start_ns, end_ns). After a restart it is what the counters show: the least it can be."""

    start_ns: int
    end_ns: int
    amounts: dict[str, int]
    restarted: bool


def in_base_unit(metric: str, amount: int) -> float:
    """Busy times are counted in microseconds."""
    return amount / 1e6 if metric.endswith("_seconds") else float(amount)


def growth(before: Sample, after: Sample) -> Growth:
    """A counter that fell, or a server that counts from another moment on, started again: with all its counters. One
    that was not there before has no growth yet."""
    amounts = {name: after.counters.get(name, 0) - count for name, count in before.counters.items()}
    restarted = before.since_ns != after.since_ns or any(amount < 0 for amount in amounts.values())
    if restarted:
        amounts = {name: after.counters.get(name, 0) for name in before.counters.keys() | after.counters.keys()}
    return Growth(before.time_ns, after.time_ns, amounts, restarted)


def cut_short(before: Sample, after: Sample) -> bool:
    """A line once shown does not vanish, unless all counters started again, and then those still shown have fallen.
    Lines that vanish while none has fallen are missing from the text, which was cut. Passing it over loses nothing."""
    pairs = [(count, after.counters.get(name, 0)) for name, count in before.counters.items()]
    vanished = any(old > 0 and new == 0 for old, new in pairs)
    return vanished and before.since_ns == after.since_ns and not any(0 < new < old for old, new in pairs)


class Differ:
    """Remembers the last sample of each parameter and tells what its target did since."""

    def __init__(self) -> None:
        self._last: dict[Origin, Sample] = {}
        self.compared: set[Origin] = set()

    @property
    def shown_once(self) -> int:
        """How many parameters there was nothing to compare with."""
        return len(self._last.keys() - self.compared)

    def update(self, samples: Iterable[tuple[Origin, Sample]]) -> Iterator[tuple[Origin, Growth]]:
        """A sample of the same moment is a repetition; an earlier one starts again (files joined out of order)."""
        for origin, sample in samples:
            before = self._last.get(origin)
            later = before is not None and before.time_ns < sample.time_ns
            if before is not None and later and cut_short(before, sample):
                continue
            self._last[origin] = sample
            if before is not None and later:
                self.compared.add(origin)
                yield origin, growth(before, sample)
