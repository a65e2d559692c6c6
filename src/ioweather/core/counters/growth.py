"""Counters that only grow, and the amounts between two samples of them.

Standard library only: live collectors use it too. Counters are whole numbers in the metric's base unit, except that
times stay in microseconds until they are written (`in_base_unit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Target(NamedTuple):
    """A counted object: a target, the service of a server, or the mount of a client; named as in `series`."""

    system: str
    kind: str
    name: str


class Sample(NamedTuple):
    """Counters of a target at one time. A target has several sources, each with its own time stamps: a parameter, a
    request, or a job in its list. `since_ns`: when they started at 0, if the server says it."""

    target: Target
    source: str
    time_ns: int
    since_ns: int | None
    counters: dict[str, int]


class Growth(NamedTuple):
    """Amounts of a target in [start_ns, end_ns). After a restart they are the counters themselves, a lower bound."""

    target: Target
    source: str
    start_ns: int
    end_ns: int
    amounts: dict[str, int]
    restarted: bool


def in_base_unit(metric: str, amount: int) -> float:
    """The amount in the metric's unit; busy times are counted in microseconds."""
    return amount / 1e6 if metric.endswith("_seconds") else float(amount)


def growth(before: Sample, after: Sample) -> Growth:
    """The increase of each counter between two samples.

    If a counter fell, or the server counts since another time, all counters restarted at zero. A new counter has no
    growth yet.
    """
    amounts = {name: after.counters.get(name, 0) - count for name, count in before.counters.items()}
    restarted = before.since_ns != after.since_ns or any(amount < 0 for amount in amounts.values())
    if restarted:
        amounts = {name: after.counters.get(name, 0) for name in before.counters.keys() | after.counters.keys()}
    return Growth(after.target, after.source, before.time_ns, after.time_ns, amounts, restarted)


def is_truncated(before: Sample, after: Sample) -> bool:
    """Whether the text of the later sample was cut off. A line vanishes only after a restart, and then other counters
    fall too. If lines vanish and no counter fell, the text was cut; skipping the sample loses nothing."""
    pairs = [(count, after.counters.get(name, 0)) for name, count in before.counters.items()]
    vanished = any(old > 0 and new == 0 for old, new in pairs)
    return vanished and before.since_ns == after.since_ns and not any(0 < new < old for old, new in pairs)


class Differ:
    """Stores the last sample of each source and computes the growth since."""

    def __init__(self) -> None:
        self._last: dict[tuple[Target, str], Sample] = {}
        self._compared: set[tuple[Target, str]] = set()

    @property
    def shown_once(self) -> int:
        """Number of sources that were seen only once."""
        return len(self._last.keys() - self._compared)

    def update(self, samples: Iterable[Sample]) -> Iterator[Growth]:
        """Yield the growth since the last sample of each source. A sample of the same time is a repetition; after an
        earlier one (files joined out of order) the comparison starts again."""
        for sample in samples:
            place = (sample.target, sample.source)
            before = self._last.get(place)
            is_later = before is not None and before.time_ns < sample.time_ns
            if before is not None and is_later and is_truncated(before, sample):
                continue
            self._last[place] = sample
            if before is not None and is_later:
                self._compared.add(place)
                yield growth(before, sample)
