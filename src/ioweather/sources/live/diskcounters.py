"""Differences of the counters of /proc/diskstats, device by device, with wraps and restarts told apart.

The rules are those of `sources.devices.counters`, which does the same for whole logs at once; the tests hold both
together. Fields as in the kernel's Documentation/admin-guide/iostats.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SECTOR_BYTES = 512
# tables.Quality.RESET; `tables` would bring NumPy into the agent.
RESET = 2

_READS, _READ_SECTORS, _READ_MS = 0, 2, 3
_WRITES, _WRITE_SECTORS, _WRITE_MS = 4, 6, 7
_IN_FLIGHT, _BUSY_MS, _QUEUE_MS = 8, 9, 10
_DISCARDS, _DISCARD_SECTORS, _DISCARD_MS, _FLUSHES = 11, 13, 14, 15
_STEADY = frozenset((_READS, _READ_SECTORS, _WRITES, _WRITE_SECTORS, _DISCARDS, _DISCARD_SECTORS, _FLUSHES))
# The most a counter can plausibly grow in a second; a fall is a wrap only where the way round is no longer than that.
_MOST_PER_SECOND = {
    **dict.fromkeys((_READS, _WRITES, _DISCARDS, _FLUSHES), 1e6),
    **dict.fromkeys((_READ_SECTORS, _WRITE_SECTORS), 2e7),
    _DISCARD_SECTORS: 2e9,
    _BUSY_MS: 2e3,
    **dict.fromkeys((_READ_MS, _WRITE_MS, _QUEUE_MS, _DISCARD_MS), 1e6),
}
_LEAST_FIELDS = 11


@dataclass(frozen=True)
class Amounts:
    """Values by metric; None is left out. `restarted`: the device began anew, and these are lower bounds."""

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
    """None where the two cannot be compared: another kernel with other fields."""
    if len(before) != len(after) or seconds <= 0:
        return None
    grown: list[float | None] = []
    restarted = False
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        if new >= old or place == _IN_FLIGHT:
            grown.append(float(new - old))
            continue
        way_round = new + (1 << (32 if old < 1 << 32 else 64)) - old
        if way_round <= _MOST_PER_SECOND.get(place, 0.0) * seconds:
            grown.append(float(way_round))
        else:
            restarted = restarted or place in _STEADY
            grown.append(None)  # a counter of time that slipped back, as some kernels let them
    if restarted:
        grown = [float(new) for new in after]
    values = {name: value for name, value in _values(grown, seconds).items() if value is not None}
    return Amounts(values, restarted)


def _values(grown: Sequence[float | None], seconds: float) -> dict[str, float | None]:
    def field(place: int) -> float | None:
        return grown[place] if place < len(grown) else None

    reads, writes, discards = field(_READS), field(_WRITES), field(_DISCARDS)
    read_ms, write_ms, discard_ms = field(_READ_MS), field(_WRITE_MS), field(_DISCARD_MS)
    # The response time of all requests needs the time of each kind; kernels before 4.18 know no discards.
    times = [read_ms, write_ms] + ([discard_ms] if discards is not None else [])
    waited = None if None in times else sum(time for time in times if time is not None)
    busy = field(_BUSY_MS)
    return {
        "read_ops": reads,
        "write_ops": writes,
        "discard_ops": discards,
        "flush_ops": field(_FLUSHES),
        "read_bytes": _scaled(field(_READ_SECTORS), SECTOR_BYTES),
        "write_bytes": _scaled(field(_WRITE_SECTORS), SECTOR_BYTES),
        "discard_bytes": _scaled(field(_DISCARD_SECTORS), SECTOR_BYTES),
        "read_busy_seconds": _scaled(read_ms, 1e-3),
        "write_busy_seconds": _scaled(write_ms, 1e-3),
        "read_await_seconds": _mean_seconds(read_ms, reads),
        "write_await_seconds": _mean_seconds(write_ms, writes),
        "await_seconds": _mean_seconds(waited, (reads or 0) + (writes or 0) + (discards or 0)),
        "queue_length": _scaled(field(_QUEUE_MS), 1e-3 / seconds),
        "busy_ratio": None if busy is None else min(1.0, busy / 1e3 / seconds),
    }


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _mean_seconds(waited_ms: float | None, requests: float | None) -> float | None:
    """No request, no response time."""
    return None if waited_ms is None or not requests else waited_ms / requests / 1e3
