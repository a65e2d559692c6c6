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
from itertools import islice
from pathlib import Path
from typing import TypeAlias

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
    StampReader,
    Values,
    check_rows,
    series_rows,
)
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import plain_head, whole_lines

# Metrics of 11 counters, and those that 15 and 17 counters add.
_METRICS = names_of("""
    read_ops write_ops read_bytes write_bytes read_busy_seconds write_busy_seconds read_await_seconds
    write_await_seconds queue_length busy_ratio
""")
_DISCARD_METRICS = ("discard_ops", "discard_bytes")


_Counters: TypeAlias = tuple[int, ...]
_Sample: TypeAlias = tuple[str, int, _Counters]  # device, time and counters


def _difference_frame(
    samples: Sequence[_Sample], last: dict[str, tuple[int, tuple[int, ...]]], host: str
) -> Frame | None:
    """Rows of what each device did since its sample before; `last` is the latest sample of each, and is kept up."""
    names, starts, ends, found = list[str](), list[int](), list[int](), list[Amounts]()
    width = 0
    for device, time_ns, after in samples:
        before_ns, before = last.get(device, (time_ns, after))
        # A clock that was set back leaves an interval of unknown length; another width is another kernel.
        amounts = amounts_between(before, after, (time_ns - before_ns) / NS)
        if amounts is not None:
            names.append(device)
            starts.append(before_ns)
            ends.append(time_ns)
            found.append(amounts)
            width = len(after)
        if device not in last or before_ns != time_ns:  # else the sample is there twice
            last[device] = (time_ns, after)
    if not found:
        return None
    metrics = (
        *_METRICS,
        *(_DISCARD_METRICS if width > DISCARD_MS else ()),
        *(("flush_ops",) if width > FLUSHES else ()),
        "await_seconds",
    )
    values: Values = {name: (np.array([each.values.get(name, np.nan) for each in found]), None) for name in metrics}
    quality = np.array([RESET * each.restarted for each in found], np.int64)
    start_ns = np.array(starts, np.int64)
    interval_ns = np.array(ends, np.int64) - start_ns
    return series_rows("device", [host] * len(names), names, start_ns, interval_ns, values, quality)


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
    samples = _diskstats_samples(path, context)
    last: dict[str, tuple[int, _Counters]] = {}
    rows = 0
    while batch := list(islice(samples, BATCH_SAMPLES)):
        frame = _difference_frame(batch, last, context.host or "localhost")
        if frame is not None:
            rows += frame.rows
            yield "series", frame
    if not last:
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


def _diskstats_samples(path: Path, context: ReadContext) -> Iterator[_Sample]:
    """Each line of a snapshot, with its own time, that of the line before its snapshot, or that of its place."""
    stated_ns: int | None = None
    snapshot, in_snapshot = 0, set[str]()
    for number, line in whole_lines(path):
        where = f"{path}, line {number}"
        stamped = _STAMPED_LINE.match(line)
        words = line[stamped.end() if stamped else 0 :].split(None, 3)
        if not words:
            continue
        if len(words) < 4:
            stated_ns = _moment_ns(line.strip(), where, context)
            continue
        device, counters = words[2], words[3].split()
        if len(counters) == _OLD_PARTITION_WIDTH:
            continue
        if len(counters) not in _WIDTHS or not all(map(_COUNTER.fullmatch, counters)):
            expected = "expected 11, 15, 17 or more counters behind the device's name"
            raise CorruptInput(f"{where}: {expected}, found {words[3][:60]!r}.")
        values = tuple(map(int, counters))
        if max(values) >= 1 << 64:
            raise CorruptInput(f"{where}: its counters cannot be read.")
        if stamped:
            yield device, _moment_ns(stamped[1], where, context), values
        elif stated_ns is not None:
            yield device, stated_ns, values
        elif context.start_ns is None or context.interval_ns is None:
            raise UndatedInput(
                f"{path} has no time stamps.",
                hint="Give --start and --interval: when the first snapshot was taken, and how far apart they are.",
            )
        else:
            if device in in_snapshot:
                snapshot += 1
                in_snapshot.clear()
            in_snapshot.add(device)
            yield device, context.start_ns + snapshot * context.interval_ns, values


def _moment_ns(text: str, where: str, context: ReadContext) -> int:
    """A time in ISO 8601, or an epoch in seconds, with or without fraction, or in ms, us or ns by its digits."""
    try:
        if not _EPOCH.fullmatch(text):
            moment = parse_time_ns(text, context.zone)
        elif "." in text or len(text) <= 11:
            moment = parse_time_ns("@" + text)
        else:
            moment = int(text) * (10**6 if len(text) <= 14 else 10**3 if len(text) <= 17 else 1)
        if not 0 <= moment < _END_NS:
            raise ValueError(text)
        return moment
    except UndatedInput as error:
        raise UndatedInput(f"{where}: {error.message}", hint=error.hint) from None
    except (ValueError, OverflowError):
        raise CorruptInput(
            f"{where}: {text[:60]!r} is neither a line of /proc/diskstats nor a time.",
            hint="Times are epoch seconds or nanoseconds, or ISO 8601 with offset.",
        ) from None


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
                parts = {}
                for place, title in enumerate(titles):
                    match = _COLUMN.fullmatch(title)
                    if match is None or match["column"] == "Name":
                        continue
                    subsystem, name = match["subsystem"], match["name"] or ""
                    kind = "cpu" if subsystem == "CPU" else "device" if name else "host"
                    if subsystem == "DSK" or (subsystem == "CPU" and not name):
                        parts.setdefault((kind, name), {})[match["column"]] = place
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
                for (kind, name), places in parts.items():
                    try:
                        values = [float(sample[0][place]) for place in places.values()]
                    except ValueError as error:
                        raise CorruptInput(f"{path}, line {sample[1]}: {error}.") from None
                    tables.add(kind, tuple(places), host, name, (start_ns, length_ns), values, sample[1])
        first = (row, number) if previous_ns is None else None
        previous_ns = end_ns
        yield from tables.frames(least=BATCH_SAMPLES)
    yield from tables.frames()
