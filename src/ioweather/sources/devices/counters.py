"""Differences of the counters of /proc/diskstats: amounts per interval, with wraps and restarts told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.sources.devices.rows import Spans, Values
from ioweather.sources.disk_counters import (
    BUSY_MS,
    DISCARD_MS,
    DISCARD_SECTORS,
    DISCARDS,
    FLUSHES,
    IN_FLIGHT,
    QUEUE_MS,
    READ_MS,
    READ_SECTORS,
    READS,
    SECTOR_BYTES,
    WRITE_MS,
    WRITE_SECTORS,
    WRITES,
    growth_through_fall,
    is_restart,
)
from ioweather.tables import Quality

Counters: TypeAlias = NDArray[np.uint64]

Difference: TypeAlias = "tuple[list[str], Spans, Values, Ints]"


class Differences:
    """Takes samples piece by piece and keeps the last of each device, so that pieces give the rows of the whole."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, Counters]] = {}

    def add(self, devices: Sequence[str], times_ns: Sequence[int], counters: Counters) -> Iterator[Difference]:
        if len(devices) == 0:
            return
        known = [name for name in dict.fromkeys(devices) if name in self._last]
        if known and counters.shape[1] != len(self._last[known[0]][1]):
            self._last, known = {}, []  # another kernel: its counters started again
        names = [*known, *devices]
        times = np.array([self._last[name][0] for name in known] + list(times_ns), np.int64)
        table = np.vstack([*(self._last[name][1] for name in known), counters])
        codes = _codes(names)
        order = np.argsort(codes, kind="stable")
        codes, times, table = codes[order], times[order], table[order]
        fresh = np.ones(len(codes), np.bool_)
        fresh[1:] = (codes[1:] != codes[:-1]) | (times[1:] != times[:-1])  # a sample that is there twice
        codes, times, table, order = codes[fresh], times[fresh], table[fresh], order[fresh]
        # A clock that was set back leaves an interval of unknown length: that pair makes no row.
        pairs = np.flatnonzero((codes[1:] == codes[:-1]) & (times[1:] > times[:-1]))
        for last in np.flatnonzero(np.append(codes[1:] != codes[:-1], True)):
            self._last[names[order[last]]] = (int(times[last]), table[last])
        if len(pairs):
            spans = Spans(times[pairs], times[pairs + 1] - times[pairs])
            amounts, restarted = _amounts(table[pairs], table[pairs + 1], spans.seconds)
            quality = np.where(restarted, int(Quality.RESET), int(Quality.OK)).astype(np.int64)
            yield [names[place] for place in order[pairs]], spans, _values(amounts, spans.seconds), quality


def _codes(names: Sequence[str]) -> Ints:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _amounts(before: Counters, after: Counters, seconds: Floats) -> tuple[Floats, Bools]:
    """What each counter grew by, and where the device's counters restarted: there all that it counted since is given,
    a lower bound. NaN where a fall means nothing."""
    amounts = (after - before).astype(np.float64)
    restarted = np.zeros(len(before), np.bool_)
    fell = after < before
    fell[:, IN_FLIGHT] = False
    for row in np.flatnonzero(fell.any(axis=1)):
        for place in np.flatnonzero(fell[row]).tolist():
            grown = growth_through_fall(place, int(before[row, place]), int(after[row, place]), seconds[row])
            amounts[row, place] = np.nan if grown is None else grown
            restarted[row] |= grown is None and is_restart(place)
    amounts[restarted] = after[restarted]
    return amounts, restarted


def _values(amounts: Floats, seconds: Floats) -> Values:
    values: dict[str, tuple[Floats, Bools | None]] = {}

    def put(metric: str, numbers: Floats) -> None:
        values[metric] = (numbers, None)

    put("read_ops", amounts[:, READS])
    put("write_ops", amounts[:, WRITES])
    put("read_bytes", amounts[:, READ_SECTORS] * SECTOR_BYTES)
    put("write_bytes", amounts[:, WRITE_SECTORS] * SECTOR_BYTES)
    put("read_busy_seconds", amounts[:, READ_MS] / 1e3)
    put("write_busy_seconds", amounts[:, WRITE_MS] / 1e3)
    requests = amounts[:, READS] + amounts[:, WRITES]
    waited_ms = amounts[:, READ_MS] + amounts[:, WRITE_MS]
    if amounts.shape[1] > DISCARD_MS:
        put("discard_ops", amounts[:, DISCARDS])
        put("discard_bytes", amounts[:, DISCARD_SECTORS] * SECTOR_BYTES)
        requests = requests + amounts[:, DISCARDS]
        waited_ms = waited_ms + amounts[:, DISCARD_MS]
    if amounts.shape[1] > FLUSHES:
        put("flush_ops", amounts[:, FLUSHES])
    put("read_await_seconds", _mean_seconds(amounts[:, READ_MS], amounts[:, READS]))
    put("write_await_seconds", _mean_seconds(amounts[:, WRITE_MS], amounts[:, WRITES]))
    put("await_seconds", _mean_seconds(waited_ms, requests))
    put("queue_length", amounts[:, QUEUE_MS] / 1e3 / seconds)
    put("busy_ratio", np.clip(amounts[:, BUSY_MS] / 1e3 / seconds, 0.0, 1.0))
    return values


def _mean_seconds(waited_ms: Floats, requests: Floats) -> Floats:
    """No request, no response time: null."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(requests > 0, waited_ms / requests / 1e3, np.nan)
