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
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ioweather.core.clock import parse_time_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.counters.diskstats import DISCARD_MS, FLUSHES, RESET, Amounts, amounts_between
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, TruncatedInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.units import KIB, NS
from ioweather.core.words import names_of
from ioweather.readers.device_rows import (
    BATCH_SAMPLES,
    Reading,
    SampleTables,
    Spans,
    StampReader,
    Values,
    check_rows,
    series_rows,
)
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import LineBlock, line_blocks, plain_head, whole_lines

# Metrics of 11 counters, and those that 15 and 17 counters add.
_METRICS = names_of("""
    read_ops write_ops read_bytes write_bytes read_busy_seconds write_busy_seconds read_await_seconds
    write_await_seconds queue_length busy_ratio
""")
_DISCARD_METRICS = ("discard_ops", "discard_bytes")


class Differences:
    """Takes samples block by block and remembers the last of each device."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, tuple[int, ...]]] = {}

    def add(self, samples: Iterable[tuple[str, int, tuple[int, ...]]], host: str) -> Iterator[Frame]:
        """Rows of what each device did since its sample before, out of device, time and counters."""
        names, starts, ends, found = list[str](), list[int](), list[int](), list[Amounts]()
        width = 0
        for device, time_ns, after in samples:
            before_ns, before = self._last.get(device, (time_ns, after))
            # A clock that was set back leaves an interval of unknown length; another width is another kernel.
            amounts = amounts_between(before, after, (time_ns - before_ns) / NS)
            if amounts is not None:
                names.append(device)
                starts.append(before_ns)
                ends.append(time_ns)
                found.append(amounts)
                width = len(after)
            if device not in self._last or before_ns != time_ns:  # else the sample is there twice
                self._last[device] = (time_ns, after)
        if not found:
            return
        metrics = (
            *_METRICS,
            *(_DISCARD_METRICS if width > DISCARD_MS else ()),
            *(("flush_ops",) if width > FLUSHES else ()),
            "await_seconds",
        )
        values: Values = {name: (np.array([each.values.get(name, np.nan) for each in found]), None) for name in metrics}
        quality = np.array([RESET * each.restarted for each in found], np.int64)
        start_ns = np.array(starts, np.int64)
        spans = Spans(start_ns, np.array(ends, np.int64) - start_ns)
        yield series_rows("device", [host] * len(names), names, spans, values, quality)


# 11 counters until Linux 4.17, 15 with discards, 17 with flushes, maybe more to come; 4 for partitions before 2.6.25,
# which are left out.
_WIDTHS = (11, 15, *range(17, 32))
_OLD_PARTITION_WIDTH = 4
_COUNTER = re.compile(r"[0-9]{1,20}")
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
    reader, differences = _Reader(path, context), Differences()
    empty, rows = True, 0
    for block in line_blocks(path):
        if block.torn:
            break
        samples = list(reader.read(block))
        empty = empty and not samples
        for frame in differences.add(samples, context.host or "localhost"):
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


class _Reader:
    """Lines to samples; remembers the time, and the number of snapshots, from block to block."""

    def __init__(self, path: Path, context: ReadContext) -> None:
        self._path = path
        self._context = context
        self._time_ns: int | None = None
        self._snapshot = 0
        self._in_snapshot: set[str] = set()

    def read(self, block: LineBlock) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Device, time and counters of each sample."""
        width = 0
        for number, line in enumerate(block.lines, block.first):
            stamped = _STAMPED_LINE.match(line)
            words = line[stamped.end() if stamped else 0 :].split(None, 3)
            if len(words) == 4:
                counters = words[3].split()
                if words[3].count(" ") + 1 == _OLD_PARTITION_WIDTH:
                    continue
                width = width or len(counters)
                if width not in _WIDTHS or len(counters) != width or not all(map(_COUNTER.fullmatch, counters)):
                    raise CorruptInput(
                        f"{self._path}, line {number}: expected 11, 15, 17 or more counters behind the device's name, "
                        f"like in the lines before, found {words[3][:60]!r}."
                    )
                time_ns = self._read_time(stamped[1], number) if stamped else self._bare_time(words[2])
                values = tuple(map(int, counters))
                if max(values) >= 1 << 64:
                    raise CorruptInput(f"{self._path}, line {number}: its counters cannot be read.")
                yield words[2], time_ns, values
            elif words:
                self._time_ns = self._read_time(line.strip(), number)

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
        _collectl_frames(path, context), EmptyInput(empty, hint="Record them with: collectl -scdD -P -f DIR")
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
