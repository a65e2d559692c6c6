"""The counters of /proc/diskstats: their places, what a fall of one means, and the differences of two samples.

The agent takes two samples at a time; `readers.device_logs` reads whole logs. Fields as in the
kernel's Documentation/admin-guide/iostats.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# /proc/diskstats and sysstat count in sectors of 512 bytes, whatever the device's own.
SECTOR_BYTES = 512
# tables.Quality.RESET; `tables` would bring NumPy into the agent.
RESET = 2

READS, READ_SECTORS, READ_MS = 0, 2, 3
WRITES, WRITE_SECTORS, WRITE_MS = 4, 6, 7
IN_FLIGHT, BUSY_MS, QUEUE_MS = 8, 9, 10
DISCARDS, DISCARD_SECTORS, DISCARD_MS, FLUSHES = 11, 13, 14, 15
# Counters of requests and sectors never fall but by a wrap or a restart. Those of milliseconds are 32 bits wide on
# every kernel, and some kernels let them slip back a little.
_STEADY = frozenset((READS, READ_SECTORS, WRITES, WRITE_SECTORS, DISCARDS, DISCARD_SECTORS, FLUSHES))
# The most a counter can plausibly grow in a second; a fall is a wrap only where the way round is no longer than that.
_MOST_PER_SECOND = {
    **dict.fromkeys((READS, WRITES, DISCARDS, FLUSHES), 1e6),
    **dict.fromkeys((READ_SECTORS, WRITE_SECTORS), 2e7),  # 10 GB/s
    DISCARD_SECTORS: 2e9,
    BUSY_MS: 2e3,
    **dict.fromkeys((READ_MS, WRITE_MS, QUEUE_MS, DISCARD_MS), 1e6),  # a thousand requests in flight
}
_LEAST_FIELDS = 11


@dataclass(frozen=True)
class Amounts:
    """Values by metric; None is left out. `restarted`: the device started again, and these are lower bounds."""

    values: dict[str, float]
    restarted: bool


def parse_diskstats(text: str) -> dict[str, tuple[int, ...]]:
    """Counters by device; lines of another shape (partitions before 2.6.25) are left out."""
    devices: dict[str, tuple[int, ...]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 + _LEAST_FIELDS and all(word.isdigit() for word in words[3:]):
            devices[words[2]] = tuple(int(word) for word in words[3:])
    return devices


def amounts_between(before: Sequence[int], after: Sequence[int], seconds: float) -> Amounts | None:
    """Differences of two samples; None if another kernel has other fields."""
    if len(before) != len(after) or seconds <= 0:
        return None
    grown: list[float | None] = []
    restarted = False
    for place, (old, new) in enumerate(zip(before, after)):
        if new >= old or place == IN_FLIGHT:
            grown.append(float(new - old))
        else:
            grown.append(growth_through_fall(place, old, new, seconds))
            restarted = restarted or (grown[-1] is None and is_restart(place))
    if restarted:
        grown = [float(new) for new in after]
    values = {name: value for name, value in _values(grown, seconds).items() if value is not None}
    return Amounts(values, restarted)


def growth_through_fall(place: int, before: int, after: int, seconds: float) -> float | None:
    """Growth of a counter that wrapped; None if it restarted or slipped back."""
    way_round = after + (1 << (32 if before < 1 << 32 else 64)) - before
    return float(way_round) if way_round <= _MOST_PER_SECOND.get(place, 0.0) * seconds else None


def is_restart(place: int) -> bool:
    """Whether a fall without a wrap means a restart of the device: a counter of time may only have slipped."""
    return place in _STEADY


def _values(grown: Sequence[float | None], seconds: float) -> dict[str, float | None]:
    def field(place: int) -> float | None:
        return grown[place] if place < len(grown) else None

    reads, writes, discards = field(READS), field(WRITES), field(DISCARDS)
    read_ms, write_ms, discard_ms = field(READ_MS), field(WRITE_MS), field(DISCARD_MS)
    # The response time of all requests needs the time of each kind; kernels before 4.18 know no discards.
    times = [read_ms, write_ms] + ([discard_ms] if discards is not None else [])
    waited = None if None in times else sum(time for time in times if time is not None)
    busy, queue_ms = field(BUSY_MS), field(QUEUE_MS)
    return {
        "read_ops": reads,
        "write_ops": writes,
        "discard_ops": discards,
        "flush_ops": field(FLUSHES),
        "read_bytes": _scaled(field(READ_SECTORS), SECTOR_BYTES),
        "write_bytes": _scaled(field(WRITE_SECTORS), SECTOR_BYTES),
        "discard_bytes": _scaled(field(DISCARD_SECTORS), SECTOR_BYTES),
        "read_busy_seconds": None if read_ms is None else read_ms / 1e3,
        "write_busy_seconds": None if write_ms is None else write_ms / 1e3,
        "read_await_seconds": _mean_seconds(read_ms, reads),
        "write_await_seconds": _mean_seconds(write_ms, writes),
        "await_seconds": _mean_seconds(waited, (reads or 0) + (writes or 0) + (discards or 0)),
        "queue_length": None if queue_ms is None else queue_ms / 1e3 / seconds,
        "busy_ratio": None if busy is None else min(1.0, busy / 1e3 / seconds),
    }


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _mean_seconds(waited_ms: float | None, requests: float | None) -> float | None:
    """Mean time of a request in seconds; None without requests."""
    return None if waited_ms is None or not requests else waited_ms / requests / 1e3
