"""The counters of /proc/diskstats: their places, what a fall of one means, and the differences of two samples.

The agent takes two samples at a time; `readers.device_logs` reads whole logs. Fields as in the
kernel's Documentation/admin-guide/iostats.rst.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def parse_diskstats(text: str) -> dict[str, tuple[int, ...]]:
    """Counters by device; lines of another shape (partitions before 2.6.25) are left out."""
    devices: dict[str, tuple[int, ...]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 + _LEAST_FIELDS and all(word.isdigit() for word in words[3:]):
            devices[words[2]] = tuple(int(word) for word in words[3:])
    return devices


def amounts_between(
    before: Sequence[int], after: Sequence[int], seconds: float
) -> tuple[dict[str, float], bool] | None:
    """Amounts by metric between two samples, without those that are unknown, and whether the device restarted: they are
    lower bounds then. None if another kernel has other fields."""
    if len(before) != len(after) or seconds <= 0:
        return None
    grown: list[float | None] = []
    restarted = False
    for place, (old, new) in enumerate(zip(before, after)):
        growth: float | None = float(new - old)
        if new < old and place != IN_FLIGHT:
            # A wrap is the way round, where that is short enough; else the counter restarted, or slipped back.
            growth = float(new + (1 << (32 if old < 1 << 32 else 64)) - old)
            if growth > _MOST_PER_SECOND.get(place, 0.0) * seconds:
                growth, restarted = None, restarted or place in _STEADY
        grown.append(growth)
    if restarted:
        grown = [float(new) for new in after]
    values = {name: value for name, value in _values(grown, seconds).items() if value is not None}
    return values, restarted


def _values(grown: Sequence[float | None], seconds: float) -> dict[str, float | None]:
    """Return metrics from the growth of each field; None is unknown."""

    def field(place: int) -> float | None:
        return grown[place] if place < len(grown) else None

    def scaled(place: int, times: float = 1.0, per: float = 1.0) -> float | None:
        value = field(place)
        return None if value is None else value * times / per

    def mean_seconds(waited_ms: float | None, requests: float | None) -> float | None:
        return None if waited_ms is None or not requests else waited_ms / requests / 1e3

    reads, writes, discards = field(READS), field(WRITES), field(DISCARDS)
    # The response time of all requests needs the time of each kind; kernels before 4.18 know no discards.
    times = [field(READ_MS), field(WRITE_MS)] + ([field(DISCARD_MS)] if discards is not None else [])
    waited = None if None in times else sum(time for time in times if time is not None)
    busy, queued = scaled(BUSY_MS, per=1e3), scaled(QUEUE_MS, per=1e3)
    return {
        "read_ops": reads,
        "write_ops": writes,
        "discard_ops": discards,
        "flush_ops": field(FLUSHES),
        "read_bytes": scaled(READ_SECTORS, SECTOR_BYTES),
        "write_bytes": scaled(WRITE_SECTORS, SECTOR_BYTES),
        "discard_bytes": scaled(DISCARD_SECTORS, SECTOR_BYTES),
        "read_busy_seconds": scaled(READ_MS, per=1e3),
        "write_busy_seconds": scaled(WRITE_MS, per=1e3),
        "read_await_seconds": mean_seconds(field(READ_MS), reads),
        "write_await_seconds": mean_seconds(field(WRITE_MS), writes),
        "await_seconds": mean_seconds(waited, (reads or 0) + (writes or 0) + (discards or 0)),
        "queue_length": None if queued is None else queued / seconds,
        "busy_ratio": None if busy is None else min(1.0, busy / seconds),
    }
