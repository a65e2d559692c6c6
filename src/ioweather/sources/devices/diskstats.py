"""Logs of /proc/diskstats: the source `diskstats`.

Three shapes: every line begins with its time (`1794726355242525983 254 0 vda ...`), each snapshot follows a line with
its time (`date +%s.%N; cat /proc/diskstats`), or bare snapshots without any time. The fields are those of the kernel's
Documentation/admin-guide/iostats.rst; counters run since boot, so rows are differences of two samples of one device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import parse_time_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, TruncatedInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.sources.devices.rows import Spans, Values, device_rows, parse_lines
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
from ioweather.sources.textfiles import LineBlock, line_blocks, plain_head
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


# 11 counters until Linux 4.17, 15 with discards, 17 with flushes, maybe more to come; 4 for partitions before 2.6.25,
# which are left out.
_WIDTHS = (11, 15, *range(17, 32))
_OLD_PARTITION_WIDTH = 4
_SNAPSHOT_LINE = re.compile(r"\s*\d{1,4}\s+\d+\s+[A-Za-z]\S*(?:\s+\d+){4,31}\s*")
_STAMPED_LINE = re.compile(r"(\d{9,19}(?:\.\d{1,9})?)\s+(?=\d{1,4}\s+\d+\s+[A-Za-z])")
_END_NS = 1 << 63  # what the tables hold
_EPOCH = re.compile(r"\d{9,19}(?:\.\d{1,9})?")


@dataclass(frozen=True)
class Diskstats:
    name: str = "diskstats"
    title: str = "logs of /proc/diskstats"
    tables: tuple[str, ...] = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        lines = [line for line in plain_head(head).split("\n")[:4] if line.strip()][:2]
        if lines and _is_time(lines[0].strip()):
            lines = lines[1:]
        return 0.9 if lines and _SNAPSHOT_LINE.fullmatch(_STAMPED_LINE.sub("", lines[0], count=1)) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        host = context.host or "localhost"
        reader = _Reader(path, context)
        differences = Differences()
        empty, rows = True, 0
        for block in line_blocks(path):
            if block.torn:
                break
            samples = reader.read(block)
            empty = empty and not samples.devices
            for devices, spans, values, quality in differences.add(
                samples.devices, samples.times_ns, samples.counters(path)
            ):
                frame = device_rows(host, devices, spans, values, quality)
                rows += frame.rows
                yield "series", frame
        if empty:
            raise EmptyInput(f"{path} holds no line of /proc/diskstats.")
        if rows == 0:
            raise TruncatedInput(
                f"{path} holds one sample of each device, and an amount is the difference of two.",
                hint="Put at least two snapshots into one file, in the order of time.",
            )


def _is_time(text: str) -> bool:
    return _EPOCH.fullmatch(text) is not None or (text[:2] == "20" and len(text) > 18 and text[4] == "-")


def _epoch_ns(text: str) -> int:
    """Epoch in seconds, with or without fraction, or in ms, us or ns by the number of digits."""
    whole, point, _ = text.partition(".")
    if point or len(whole) <= 11:
        value = parse_time_ns("@" + text)
    else:
        value = int(whole) * (10**6 if len(whole) <= 14 else 10**3 if len(whole) <= 17 else 1)
    return value


@dataclass
class _Samples:
    devices: list[str] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    rests: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def counters(self, path: Path) -> NDArray[np.uint64]:
        """All counters, sample x field."""
        if not self.rests:
            return np.zeros((0, _WIDTHS[0]), np.uint64)
        counters = parse_lines(self.rests, np.uint64)
        if counters is not None and counters.shape[1] in _WIDTHS:
            return counters
        width = len(self.rests[0].split())
        for rest, line in zip(self.rests, self.lines, strict=True):
            words = rest.split()
            if len(words) not in _WIDTHS or len(words) != width or not all(word.isdigit() for word in words):
                raise CorruptInput(
                    f"{path}, line {line}: expected 11, 15, 17 or more counters behind the device's name, like in "
                    f"the lines before, found {rest[:60]!r}."
                )
        raise CorruptInput(f"{path}, line {self.lines[0]}: its counters cannot be read.")


class _Reader:
    """Lines to samples; keeps the time, and how many snapshots there were, from block to block."""

    def __init__(self, path: Path, context: ReadContext) -> None:
        self._path = path
        self._context = context
        self._time_ns: int | None = None
        self._snapshot = 0
        self._in_snapshot: set[str] = set()

    def read(self, block: LineBlock) -> _Samples:
        samples = _Samples()
        for number, line in enumerate(block.lines, block.first):
            stamped = _STAMPED_LINE.match(line)
            words = line[stamped.end() if stamped else 0 :].split(None, 3)
            if len(words) == 4:
                if words[3].count(" ") + 1 == _OLD_PARTITION_WIDTH:
                    continue
                samples.devices.append(words[2])
                samples.times_ns.append(self._read_time(stamped[1], number) if stamped else self._bare_time(words[2]))
                samples.rests.append(words[3])
                samples.lines.append(number)
            elif words:
                self._time_ns = self._read_time(line.strip(), number)
        return samples

    def _read_time(self, text: str, number: int) -> int:
        try:
            moment = _epoch_ns(text) if _EPOCH.fullmatch(text) else parse_time_ns(text, self._context.zone)
            if not 0 <= moment < _END_NS:
                raise ValueError(text)
            return moment
        except UndatedInput as error:
            raise UndatedInput(f"{self._path}, line {number}: {error.message}", hint=error.hint) from None
        except (ValueError, OverflowError):
            raise CorruptInput(
                f"{self._path}, line {number}: {text[:60]!r} is neither a line of /proc/diskstats nor a time.",
                hint="Times are epoch seconds or nanoseconds, or ISO 8601 with offset.",
            ) from None

    def _bare_time(self, device: str) -> int:
        """The time of a line without one: that of the line before its snapshot, else by counting snapshots."""
        if self._time_ns is not None:
            return self._time_ns
        if self._context.start_ns is None or self._context.interval_ns is None:
            raise UndatedInput(
                f"{self._path} has no time stamps.",
                hint="Give --start and --interval: when the first snapshot was taken, and how far apart they are.",
            )
        if device in self._in_snapshot:
            self._snapshot += 1
            self._in_snapshot.clear()
        self._in_snapshot.add(device)
        return self._context.start_ns + self._snapshot * self._context.interval_ns


SOURCE = Diskstats()
