"""Logs of block devices: /proc/diskstats (source `diskstats`) and collectl -P (source `collectl`).

A log of /proc/diskstats has one of three shapes: every line begins with its time (`1794726355242525983 254 0 vda ...`),
each snapshot follows a line with its time (`date +%s.%N; cat /proc/diskstats`), or bare snapshots without any time.
Fields are those of the kernel's Documentation/admin-guide/iostats.rst; counters run since boot, so rows are differences
of two samples of one device.

collectl -P prints one line per sample, with columns named [DSK:sda]Reads, [DSK]ReadTot, [CPU]Idle%. It prints
differences from the start, so its first line is a sample; the second line gives its length. Rates are per second unless
collectl ran with -on, which the preamble of its files says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import parse_time_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.counters.diskstats import (
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
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, TruncatedInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.tables import Quality
from ioweather.core.units import KIB
from ioweather.readers.device_rows import (
    BATCH_SAMPLES,
    Reading,
    SampleTables,
    Spans,
    StampReader,
    Values,
    check_rows,
    parse_lines,
    series_rows,
)
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import LineBlock, line_blocks, plain_head, whole_lines

Counters: TypeAlias = NDArray[np.uint64]


class Differences:
    """Takes samples block by block and remembers the last of each device."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, Counters]] = {}

    def add(
        self, devices: Sequence[str], times_ns: Sequence[int], counters: Counters
    ) -> Iterator[tuple[list[str], Spans, Values, Ints]]:
        """Devices, intervals, values and quality of each pair of samples."""
        pairs: list[tuple[str, int, int, Counters, Counters]] = []
        for device, time_ns, after in zip(devices, times_ns, counters, strict=True):
            before_ns, before = self._last.get(device, (time_ns, after))
            # A clock that was set back leaves an interval of unknown length; another width is another kernel.
            if before_ns < time_ns and len(before) == len(after):
                pairs.append((device, before_ns, time_ns, before, after))
            if device not in self._last or before_ns != time_ns:  # else the sample is there twice
                self._last[device] = (time_ns, after)
        if pairs:
            names, starts, ends, before, after = zip(*pairs, strict=True)
            start_ns = np.array(starts, np.int64)
            spans = Spans(start_ns, np.array(ends, np.int64) - start_ns)
            amounts, restarted = _amounts(np.array(before), np.array(after), spans.seconds)
            quality = np.where(restarted, int(Quality.RESET), int(Quality.OK)).astype(np.int64)
            yield list(names), spans, _values(amounts, spans.seconds), quality


def _amounts(before: Counters, after: Counters, seconds: Floats) -> tuple[Floats, Bools]:
    """Growth of each counter, and where the counters restarted: there the new count, a lower bound. NaN where a
    fall means nothing."""
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
    requests = amounts[:, READS] + amounts[:, WRITES]
    waited_ms = amounts[:, READ_MS] + amounts[:, WRITE_MS]
    values = {
        "read_ops": amounts[:, READS],
        "write_ops": amounts[:, WRITES],
        "read_bytes": amounts[:, READ_SECTORS] * SECTOR_BYTES,
        "write_bytes": amounts[:, WRITE_SECTORS] * SECTOR_BYTES,
        "read_busy_seconds": amounts[:, READ_MS] / 1e3,
        "write_busy_seconds": amounts[:, WRITE_MS] / 1e3,
        "read_await_seconds": _mean_seconds(amounts[:, READ_MS], amounts[:, READS]),
        "write_await_seconds": _mean_seconds(amounts[:, WRITE_MS], amounts[:, WRITES]),
        "queue_length": amounts[:, QUEUE_MS] / 1e3 / seconds,
        "busy_ratio": np.clip(amounts[:, BUSY_MS] / 1e3 / seconds, 0.0, 1.0),
    }
    if amounts.shape[1] > DISCARD_MS:
        values["discard_ops"] = amounts[:, DISCARDS]
        values["discard_bytes"] = amounts[:, DISCARD_SECTORS] * SECTOR_BYTES
        requests = requests + amounts[:, DISCARDS]
        waited_ms = waited_ms + amounts[:, DISCARD_MS]
    if amounts.shape[1] > FLUSHES:
        values["flush_ops"] = amounts[:, FLUSHES]
    values["await_seconds"] = _mean_seconds(waited_ms, requests)
    return {metric: (numbers, None) for metric, numbers in values.items()}


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
_END_NS = 1 << 63  # beyond the int64 of the tables
_EPOCH = re.compile(r"\d{9,19}(?:\.\d{1,9})?")


def _detect_diskstats(head: bytes, path: Path) -> float:
    lines = [line for line in plain_head(head).split("\n")[:4] if line.strip()][:2]
    if lines and _is_time(lines[0].strip()):
        lines = lines[1:]
    return 0.9 if lines and _SNAPSHOT_LINE.fullmatch(_STAMPED_LINE.sub("", lines[0], count=1)) else 0.0


def _read_diskstats(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    host = context.host or "localhost"
    reader = _Reader(path, context)
    differences = Differences()
    empty, rows = True, 0
    for block in line_blocks(path):
        if block.torn:
            break
        devices, times_ns, counters = reader.read(block)
        empty = empty and not devices
        for names, spans, values, quality in differences.add(devices, times_ns, counters):
            frame = series_rows("device", [host] * len(names), names, spans, values, quality)
            rows += frame.rows
            yield "series", frame
    if empty:
        raise EmptyInput(f"{path} holds no line of /proc/diskstats.")
    if rows == 0:
        raise TruncatedInput(
            f"{path} holds one sample of each device, and an amount is the difference of two.",
            hint="Put at least two snapshots into one file, in the order of time.",
        )


DISKSTATS = FileReader(
    "diskstats",
    "logs of /proc/diskstats",
    ("series",),
    _detect_diskstats,
    _read_diskstats,
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


def _parse_counters(path: Path, rests: list[str], lines: list[int]) -> Counters:
    """Sample x field."""
    if not rests:
        return np.zeros((0, _WIDTHS[0]), np.uint64)
    counters = parse_lines(rests, np.uint64)
    if counters is not None and counters.shape[1] in _WIDTHS:
        return counters
    width = len(rests[0].split())
    for rest, line in zip(rests, lines, strict=True):
        words = rest.split()
        if len(words) not in _WIDTHS or len(words) != width or not all(word.isdigit() for word in words):
            raise CorruptInput(
                f"{path}, line {line}: expected 11, 15, 17 or more counters behind the device's name, like in "
                f"the lines before, found {rest[:60]!r}."
            )
    raise CorruptInput(f"{path}, line {lines[0]}: its counters cannot be read.")


class _Reader:
    """Lines to samples; remembers the time, and the number of snapshots, from block to block."""

    def __init__(self, path: Path, context: ReadContext) -> None:
        self._path = path
        self._context = context
        self._time_ns: int | None = None
        self._snapshot = 0
        self._in_snapshot: set[str] = set()

    def read(self, block: LineBlock) -> tuple[list[str], list[int], Counters]:
        """Device, time and counters of each sample."""
        devices, times_ns, rests, lines = list[str](), list[int](), list[str](), list[int]()
        for number, line in enumerate(block.lines, block.first):
            stamped = _STAMPED_LINE.match(line)
            words = line[stamped.end() if stamped else 0 :].split(None, 3)
            if len(words) == 4:
                if words[3].count(" ") + 1 == _OLD_PARTITION_WIDTH:
                    continue
                devices.append(words[2])
                times_ns.append(self._read_time(stamped[1], number) if stamped else self._bare_time(words[2]))
                rests.append(words[3])
                lines.append(number)
            elif words:
                self._time_ns = self._read_time(line.strip(), number)
        return devices, times_ns, _parse_counters(self._path, rests, lines)

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


_COLUMN = re.compile(r"\[(?P<subsystem>[A-Z]+)(?::(?P<name>[^\]]+))?\](?P<column>.+)")
_HOST = re.compile(r"# Host:\s+(\S+)")
_OPTIONS = re.compile(r"# SubSys:.* Options: (\S*) Interval:")
_DATE = re.compile(r"^(\d{4})(\d{2})(\d{2})$")
# Per device ([DSK:sda]Reads) and all together ([DSK]ReadTot). QueLen is the mean while the device was busy, not over
# the interval, and therefore another quantity than `queue_length`. Waits are whole milliseconds: a 0 is no request, or
# any time below one.
_RATES = {
    "Reads": Reading("read_ops", is_rate=True),
    "ReadTot": Reading("read_ops", is_rate=True),
    "Writes": Reading("write_ops", is_rate=True),
    "WriteTot": Reading("write_ops", is_rate=True),
    "RKBytes": Reading("read_bytes", KIB, is_rate=True),
    "ReadKBTot": Reading("read_bytes", KIB, is_rate=True),
    "WKBytes": Reading("write_bytes", KIB, is_rate=True),
    "WriteKBTot": Reading("write_bytes", KIB, is_rate=True),
    "Wait": Reading("await_seconds", 1e-3, zero_is_unknown=True),
    "WaitR": Reading("read_await_seconds", 1e-3, zero_is_unknown=True),
    "WaitW": Reading("write_await_seconds", 1e-3, zero_is_unknown=True),
    "Util": Reading("busy_ratio", 1e-2),
}
_AMOUNTS = {name: replace(reading, is_rate=False) for name, reading in _RATES.items()}


def _detect_collectl(head: bytes, path: Path) -> float:
    lines = plain_head(head).split("\n")[:60]
    header = next((line for line in lines if line.startswith(("#Date", "#UTC"))), "")
    return 0.9 if "[DSK" in header or "[CPU]" in header else 0.0


def _read_collectl(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    empty = f"{path} holds no two samples of disks or CPUs yet."
    return check_rows(
        _read_collectl(path, context), EmptyInput(empty, hint="Record them with: collectl -scdD -P -f DIR")
    )


COLLECTL = FileReader(
    "collectl",
    "collectl -P: disks and CPUs",
    ("series",),
    _detect_collectl,
    _read_collectl,
    tried="collectl of Debian 12",
    made_by="collectl -scdD -P -oU -i 60 -f DIR",
    lost="response times below a millisecond; raw files are refused with the command that converts them",
    used_by="now, why, lake series",
)


def _collectl_frames(path: Path, context: ReadContext) -> Iterator[Frame]:
    host, separator, titles = context.host, " ", list[str]()
    parts: dict[tuple[str, str], dict[str, int]] = {}
    tables = SampleTables(path, _RATES)
    stamps = StampReader(str(path), context.zone)
    previous_ns: int | None = None
    first: tuple[list[str], int] | None = None  # waits for the second sample, which gives its length
    for number, line in whole_lines(path):
        if line.startswith("#"):
            # Column names begin a new run: its first sample has no predecessor.
            yield from tables.frames()
            previous_ns = first = None
            if line.startswith(("#Date", "#UTC")):
                separator = re.sub(r"^#(?:Date|UTC)", "", line)[:1] or " "
                titles = line[1:].split(separator)
                parts = _find_parts(titles)
            elif found := _HOST.match(line):
                host = context.host or found[1]
            elif found := _OPTIONS.match(line):
                tables = SampleTables(path, _AMOUNTS if "n" in found[1] else _RATES)
            continue
        if not line or not titles or line.startswith("waiting for"):  # 1 second sample...
            continue
        row = line.split(separator)
        if len(row) != len(titles):
            raise CorruptInput(f"{path}, line {number}: expected {len(titles)} fields, found {len(row)}.")
        date = _DATE.sub(r"\1-\2-\3", row[0])
        end_ns = stamps.read(row[0] if titles[0] == "UTC" else f"{date} {row[1]}", number)
        if previous_ns is not None and end_ns > previous_ns:
            if host is None:
                raise SourceError(f"{path} does not name its host.", hint="Give --host.")
            length_ns = end_ns - previous_ns
            for start_ns, sample in ((previous_ns - length_ns, first), (previous_ns, (row, number))):
                if sample is None:
                    continue
                numbers = _parse_row(path, titles, *sample)
                for (kind, name), places in parts.items():
                    values = [numbers[place] for place in places.values()]
                    tables.add(kind, tuple(places), host, name, (start_ns, length_ns), values, sample[1])
        first = (row, number) if previous_ns is None else None
        previous_ns = end_ns
        yield from tables.frames(least=BATCH_SAMPLES)
    yield from tables.frames()


def _find_parts(titles: list[str]) -> dict[tuple[str, str], dict[str, int]]:
    """(kind, device) to its columns and their positions."""
    parts: dict[tuple[str, str], dict[str, int]] = {}
    for place, title in enumerate(titles):
        match = _COLUMN.fullmatch(title)
        if match is None or match["column"] == "Name":
            continue
        subsystem, name = match["subsystem"], match["name"] or ""
        if subsystem == "DSK":
            parts.setdefault(("device" if name else "host", name), {})[match["column"]] = place
        elif subsystem == "CPU" and not name:
            parts.setdefault(("cpu", name), {})[match["column"]] = place
    return parts


def _parse_row(path: Path, titles: list[str], row: list[str], number: int) -> dict[int, float]:
    """Numbers by position; dates, times and names are left out."""
    numbers: dict[int, float] = {}
    for place, (title, text) in enumerate(zip(titles, row, strict=True)):
        if title.startswith("[") and not title.endswith("]Name"):
            try:
                numbers[place] = float(text)
            except ValueError:
                raise CorruptInput(f"{path}, line {number}: {text!r} in {title} is not a number.") from None
    return numbers
