"""Printed samples of devices and hosts as frames of `series`, and the time stamps of sysstat and collectl.

Columns are found by name, never by position: they moved in sysstat 9, 10 and 12. Unknown names are ignored; `tps`
alone is neither reads nor writes and makes no row.

Time stamps are in the writer's locale, in ISO 8601, or in epoch seconds. `%x %X` of the C locale is month/day/year.
Other locales with slashes put the day first; the file itself tells, by a field above 12 or by the first change of
date, which is one day in the right reading and a month in the wrong one.

A log of /proc/diskstats (source `diskstats`) has one of two shapes: every line begins with its time
(`1794726355242525983 254 0 vda ...`), or each snapshot follows a line with its time. Fields are those of the kernel's
Documentation/admin-guide/iostats.rst; counters run since boot, so rows are differences of two samples of one device.

collectl -P (source `collectl`) prints one line per sample, with columns named [DSK:sda]Reads, [DSK]ReadTot, [CPU]Idle%.
It prints differences from the start, so its first line is a sample; the second line gives its length. Rates are per
second unless collectl ran with -on, which the preamble of its files says.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.diskstats import DISCARD_MS, FLUSHES, RESET, SECTOR_BYTES, amounts_between
from ioweather.core.counters.growth import Target
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Bools, Floats, Frame, Ints, Text
from ioweather.core.tables import TABLES, encode_text
from ioweather.core.units import KIB, MIB, NS, names_of, parse_time_ns
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.server_counters import SeriesRows
from ioweather.readers.text_files import LocalClock, batches, plain_head, text_blocks, whole_lines

_LOCAL = re.compile(
    r"(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})[ T]+"
    r"(\d{1,2})[:.](\d{2})[:.](\d{2})(?:[.,](\d{1,9}))?(?:\s*([AaPp][Mm]))?(?:\s+[A-Z]{1,5})?"
)
_ABSOLUTE = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?\s*(?:Z|UTC|[+-]\d{2}:?\d{2})")
_SLASHED_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{2}|\d{4})(?!\d)")
_SLASHED_STAMP = re.compile(r'(?:\n {0,40}|"timestamp"\s*:\s*")(\d{1,2}/\d{1,2}/\d{2,4}) ')
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE_LINE = re.compile(
    rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ({'|'.join(_MONTHS)}) {{1,2}}(\d{{1,2}}) (\d\d:\d\d:\d\d)(?: ([AP]M))?"
    r" ([A-Z]{2,5}|[+-]\d{2,4}) (\d{4})",
    re.ASCII,
)
# The last moment of int64 nanoseconds is in the year 2262.
_END_OF_TIME_NS = 1 << 63


def is_stamp(text: str) -> bool:
    """Whether the text is a time stamp of sysstat."""
    return _LOCAL.fullmatch(text) is not None or _ABSOLUTE.fullmatch(text) is not None


def date_stamp(text: str) -> str | None:
    """Output of `date` in the C locale, 'Fri Apr 10 12:38:33 EDT 2020', as 2020-04-10 12:38:33; None for other text.
    Of zones only UTC is used: other short names of zones have several meanings."""
    if (match := _DATE_LINE.fullmatch(text)) is None:
        return None
    month, day, time, half, zone, year = match.groups()
    utc = " UTC" if zone in ("UTC", "GMT") else ""
    return f"{year}-{_MONTHS.index(month) + 1:02d}-{int(day):02d} {time}{' ' + half if half else ''}{utc}"


def find_day_first(path: Path) -> bool:
    """Whether slashed dates in iostat's text or JSON have the day first; a file without any is not read further."""
    blocks = text_blocks(path)
    first = next(blocks, "")
    if not _SLASHED_STAMP.search("\n" + first):
        return False
    # A block ends behind a line end; the one put before it lets the pattern match at its start.
    return is_day_first(date for text in chain([first], blocks) for date in _SLASHED_STAMP.findall("\n" + text))


def is_day_first(dates: Iterable[str]) -> bool:
    """Whether slashed dates, in the order of the file, are day/month/year. Undecided is the C locale: no."""
    first: tuple[int, int, int] | None = None
    for text in dates:
        match = _SLASHED_DATE.match(text)
        if match is None:
            continue
        date = (int(match[1]), int(match[2]), _full_year(match[3]))
        if 0 in date:
            continue
        if date[0] > 12 or date[1] > 12:
            return date[0] > 12
        if first is None:
            first = date
        elif date != first:
            a_month, b_month = (dt.date(year, month, day) for month, day, year in (first, date))
            a_day, b_day = (dt.date(year, month, day) for day, month, year in (first, date))
            return abs(b_day - a_day) < abs(b_month - a_month)
    return False


def _date(a: str, separator: str, b: str, c: str, *, day_first: bool) -> dt.date:
    """The date of three printed numbers: year first if it has four digits, else last."""
    if len(a) == 4:
        return dt.date(int(a), int(b), int(c))
    if separator == "/" and not day_first:
        return dt.date(_full_year(c), int(a), int(b))
    return dt.date(_full_year(c), int(b), int(a))


def _full_year(digits: str) -> int:
    if len(digits) > 2:
        return int(digits)
    return int(digits) + (1900 if int(digits) >= 70 else 2000)  # as strptime's %y


class StampReader:
    """Reads the time stamps of one file in their order."""

    def __init__(self, where: str, zone: ZoneInfo | None, *, day_first: bool = False) -> None:
        self._where, self._clock, self._day_first = where, LocalClock(zone), day_first
        self._known: tuple[str, int] | None = None  # the last stamp: samples of one time follow each other

    def restart(self) -> None:
        """Forget the order: the next stamp may be earlier."""
        self._clock.restart()
        self._known = None

    def read(self, text: str, line: int) -> int:
        """A stamp as UTC nanoseconds. Raises SourceError with its line."""
        if self._known is None or self._known[0] != text:
            where = f"{self._where}, line {line}"
            try:
                value = self._parse(text, where)
            except (ValueError, OverflowError):
                raise CorruptInput(
                    f"{where}: {text!r} is not a timestamp.",
                    hint="Record logs with S_TIME_FORMAT=ISO.",
                ) from None
            if not 0 <= value < _END_OF_TIME_NS:
                raise CorruptInput(f"{where}: {text!r} is not a plausible time.")
            self._known = text, value
        return self._known[1]

    def _parse(self, text: str, where: str) -> int:
        """A stamp in epoch seconds, with an offset, or in local time. Raises ValueError for other texts."""
        if text.replace(".", "", 1).isdigit():
            return parse_time_ns("@" + text)
        if _ABSOLUTE.fullmatch(text):
            return parse_time_ns(text)
        match = _LOCAL.fullmatch(text.rstrip())
        if match is None:
            raise ValueError(text)
        *date_parts, hour, minute, second, fraction, half = match.groups()
        if half is not None:
            if not 1 <= int(hour) <= 12:
                raise ValueError(hour)
            hour = int(hour) % 12 + (12 if half.lower() == "pm" else 0)
        time = dt.time(int(hour), int(minute), int(second))
        naive = dt.datetime.combine(_date(*date_parts, day_first=self._day_first), time)
        return self._clock.to_ns(naive, where) + int((fraction or "").ljust(9, "0"))


# Values by metric, and where they are present (None: everywhere). A value can be present and null: an await without
# any request.
Values = Mapping[str, tuple[Floats, "Bools | None"]]

# Samples per frame: some hundred thousand rows, so that a day of a large server is never in memory at once.
_BATCH_SAMPLES = 50_000
# Where a counter wrapped or restarted, sysstat may print 18446744073709551.61 or a large negative number: not a sample.
# A small negative number is rounding.
_MOST_PRINTED = 1e12
# Loop, RAM and compressed RAM devices: not storage, and there are many of them.
_NOT_STORAGE = re.compile(r"(?:loop|ram|zram)\d+(?:p\d+)?")


@dataclass(frozen=True)
class _Reading:
    """How one printed number becomes a value: times `factor`, and times the interval where it is a rate."""

    metric: str
    factor: float = 1.0
    is_rate: bool = False
    zero_is_unknown: bool = False


_UNITS: Mapping[str, float] = {"KiB": KIB, "MiB": MIB, "sectors": SECTOR_BYTES, "ms": 1e-3, "%": 1e-2, "-": 1.0}


def _readings(text: str) -> dict[str, _Reading]:
    """Readings by the name of the column, from lines of `device_columns.toml`."""
    found: dict[str, _Reading] = {}
    for kind, metric, unit, *columns in (line.split() for line in text.strip().splitlines()):
        reading = _Reading(metric, _UNITS[unit.rstrip("?")], kind == "rate", unit.endswith("?"))
        found |= dict.fromkeys(columns, reading)
    return found


_COLUMNS: Final = tomllib.loads(
    resources.files(__package__).joinpath("device_columns.toml").read_text(encoding="utf-8")
)
IOSTAT_READINGS = _readings(_COLUMNS["iostat"])
SAR_READINGS = _readings(_COLUMNS["sar"])

# Columns whose sum is the number of requests behind a mean response time.
_REQUESTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "await_seconds": (("tps",), ("r/s", "w/s"), ("r", "w")),
    "read_await_seconds": (("r/s",), ("r",)),
    "write_await_seconds": (("w/s",), ("w",)),
}
_IDLE = ("%idle", "idle", "Idle%")
_IOWAIT = ("%iowait", "iowait", "Wait%")


def find_metrics(
    columns: Sequence[str], readings: Mapping[str, _Reading], printed: Floats, seconds: Floats
) -> dict[str, tuple[Floats, Bools | None]]:
    """Values of every metric in a table of `printed` numbers (sample x column).

    Of two columns with one metric, an amount is better than a rate; else the first is read.
    """
    chosen: dict[str, tuple[int, _Reading]] = {}
    for index, name in enumerate(columns):
        reading = readings.get(name)
        if reading is not None and (
            reading.metric not in chosen or (chosen[reading.metric][1].is_rate and not reading.is_rate)
        ):
            chosen[reading.metric] = (index, reading)
    printed = np.where((printed > -1) & (printed <= _MOST_PRINTED), np.maximum(printed, 0), np.nan)
    by_name = {name: printed[:, index] for index, name in reversed(list(enumerate(columns)))}
    result: dict[str, tuple[Floats, Bools | None]] = {}
    for metric, (index, reading) in chosen.items():
        raw = printed[:, index]
        values = raw * (reading.factor * seconds) if reading.is_rate else raw * reading.factor
        if metric.endswith("_ratio"):
            values = np.clip(values, 0.0, 1.0)  # rounding of jiffies prints up to 100.4 %
        for names in _REQUESTS.get(metric, ()):
            if all(name in by_name for name in names):  # no request, no response time; unknown requests: keep the 0
                requests = np.asarray(sum(by_name[name] for name in names))
                values = np.where((raw == 0) & (requests == 0), np.nan, values)
                break
        if reading.zero_is_unknown:
            values = np.where(raw == 0, np.nan, values)
        result[metric] = (values, np.isfinite(raw))
    if "await_seconds" not in result and "r_await" in by_name and "w_await" in by_name:
        # sysstat 12 prints the response time of reads, writes and discards; `await_seconds` is the mean over requests.
        requests, waited = np.zeros(len(printed)), np.zeros(len(printed))
        for kind in "rwd":
            count = by_name.get(f"{kind}/s", by_name.get(kind))
            if count is not None and f"{kind}_await" in by_name:
                requests += count
                waited += count * by_name[f"{kind}_await"]
        with np.errstate(invalid="ignore", divide="ignore"):
            result["await_seconds"] = (waited / requests * 1e-3, np.isfinite(requests))
    return result


def cpu_ratio(columns: Sequence[str], printed: Floats) -> Floats | None:
    """Share of CPU time not idle, from a table of percentages. Waiting for I/O is idling: nothing is computed."""
    idle = next((columns.index(name) for name in _IDLE if name in columns), None)
    if idle is None:
        return None
    iowait = next((columns.index(name) for name in _IOWAIT if name in columns), None)
    unused = printed[:, idle] + (0.0 if iowait is None else printed[:, iowait])
    return np.clip(1.0 - unused * 1e-2, 0.0, 1.0)


def is_number(text: str) -> bool:
    """Whether `float` reads the text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_numbers(words: Sequence[str], columns: Sequence[str], where: str) -> list[float]:
    """The printed numbers of a line, one for each column; the writer's locale may have a decimal comma."""
    if len(words) != len(columns):
        shown = " ".join(words)[:60]
        raise CorruptInput(f"{where}: expected {len(columns)} numbers, found {len(words)} in {shown!r}.")
    try:
        return [float(word.replace(",", ".")) for word in words]
    except ValueError:
        wrong = next(word for word in words if not is_number(word.replace(",", ".")))
        hint = "Run iostat without -h (--human): numbers with units are not supported."
        raise CorruptInput(f"{where}: {wrong!r} is not a number.", hint=hint) from None


class DeviceSample(NamedTuple):
    """Printed numbers of one device, of a host or of its CPUs (`kind`: device, host, cpu) in an interval."""

    kind: str
    columns: tuple[str, ...]
    host: str
    device: str
    start_ns: int
    interval_ns: int
    numbers: list[float]


def sample_frames(
    samples: Iterator[DeviceSample], readings: Mapping[str, _Reading], empty: SourceError
) -> Iterator[tuple[str, Frame]]:
    """Frames of `series` from samples, a batch at a time; raises `empty` if they have no row."""
    rows = 0
    for batch in batches(samples, _BATCH_SAMPLES):
        tables: dict[tuple[str, tuple[str, ...]], list[DeviceSample]] = {}
        for sample in batch:
            tables.setdefault((sample.kind, sample.columns), []).append(sample)
        for (kind, columns), found in tables.items():
            _, _, hosts, devices, starts, intervals, numbers = zip(*found, strict=True)
            printed = np.array(numbers, np.float64).reshape(len(found), len(columns))
            start_ns, interval_ns = np.array(starts, np.int64), np.array(intervals, np.int64)
            if kind == "cpu":
                ratio = cpu_ratio(columns, printed)
                values: Values = {} if ratio is None else {"cpu_ratio": (ratio, np.isfinite(ratio))}
            else:
                values = find_metrics(columns, readings, printed, interval_ns / NS)
            if values:
                shown_kind = "device" if kind == "device" else "host"
                frame = series_rows(shown_kind, hosts, devices, start_ns, interval_ns, values)
                rows += frame.rows
                yield "series", frame
    if not rows:
        raise empty


def series_rows(
    kind: str,
    hosts: Sequence[str],
    devices: Sequence[str],
    start_ns: Ints,
    interval_ns: Ints,
    values: Values,
) -> Frame:
    """Rows metric by metric, each in the order of the samples.

    The system of a device is 'host:device' and its component the device; both are the host where `kind` is 'host'.
    """
    system = component = encode_text(hosts)
    is_used = np.ones(len(hosts), np.bool_)
    if kind == "device":
        component = encode_text(devices)
        system = encode_text([f"{host}:{device}" for host, device in zip(hosts, devices, strict=True)])
        is_storage = [_NOT_STORAGE.fullmatch(device) is None for device in component.categories]
        is_used = np.array(is_storage, np.bool_)[component.codes]
    picks = [np.flatnonzero(is_used if present is None else is_used & present) for _, present in values.values()]
    order = np.concatenate(picks)
    numbers = [column[pick] for (column, _), pick in zip(values.values(), picks, strict=True)]
    return TABLES["series"].frame(
        start_ns=start_ns[order],
        interval_ns=interval_ns[order],
        system=system[order],
        component_kind=kind,
        component=component[order],
        metric=Text(np.repeat(np.arange(len(picks), dtype=np.int32), [len(pick) for pick in picks]), tuple(values)),
        value=np.concatenate(numbers),
        quality=0,
        rows=len(order),
    )


# Metrics in the order of their rows, with the number of counters that they need.
_METRICS = {
    **dict.fromkeys(
        names_of("""
            read_ops write_ops read_bytes write_bytes read_busy_seconds write_busy_seconds read_await_seconds
            write_await_seconds queue_length busy_ratio await_seconds
        """),
        0,
    ),
    **dict.fromkeys(("discard_ops", "discard_bytes"), DISCARD_MS + 1),
    "flush_ops": FLUSHES + 1,
}
_Sample: TypeAlias = tuple[str, int, tuple[int, ...]]  # device, time and counters


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
    """0.9 if the first line, or the one after a time, is one of /proc/diskstats."""
    lines = [line for line in plain_head(head).split("\n")[:4] if line.strip()][:2]
    if lines and _is_time(lines[0].strip()):
        lines = lines[1:]
    return 0.9 if lines and _SNAPSHOT_LINE.fullmatch(_STAMPED_LINE.sub("", lines[0], count=1)) else 0.0


def _read_diskstats(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """What each device did between its samples."""
    last: dict[str, tuple[int, tuple[int, ...]]] = {}
    rows, host = SeriesRows(), context.host or "localhost"
    for device, time_ns, after in _diskstats_samples(path, context):
        before_ns, before = last.get(device, (time_ns, after))
        # A clock that was set back leaves an interval of unknown length; another width is another kernel.
        grown = amounts_between(before, after, (time_ns - before_ns) / NS)
        if grown is not None and not _NOT_STORAGE.fullmatch(device):
            target, flag = Target(f"{host}:{device}", "device", device), RESET * grown[1]
            for metric, least in _METRICS.items():
                if len(after) >= least:
                    value = grown[0].get(metric, np.nan)
                    rows.add_value(target, before_ns, time_ns - before_ns, metric, value, flag)
            yield from rows.full_frames()
        if device not in last or before_ns != time_ns:  # else the sample is there twice
            last[device] = (time_ns, after)
    yield from rows.rest()
    if not last:
        raise SourceError(f"{path} has no line of /proc/diskstats.", kind="EmptyInput")
    if not rows.made:
        raise SourceError(
            f"{path} has only one sample per device, but amounts need two.",
            hint="Write at least two snapshots to one file, in time order.",
            kind="TruncatedInput",
        )


DISKSTATS = FileReader("diskstats", "logs of /proc/diskstats", ("series",), _detect_diskstats, _read_diskstats)


def _is_time(text: str) -> bool:
    return _EPOCH.fullmatch(text) is not None or (text[:2] == "20" and len(text) > 18 and text[4] == "-")


def _diskstats_samples(path: Path, context: ReadContext) -> Iterator[_Sample]:
    """Each line of a snapshot, with its own time, or that of the time line before the snapshot."""
    stated_ns: int | None = None
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
            expected = "expected 11, 15, 17 or more counters after the device name"
            raise CorruptInput(f"{where}: {expected}, found {words[3][:60]!r}.")
        values = tuple(map(int, counters))
        if max(values) >= 1 << 64:
            raise CorruptInput(f"{where}: a counter is larger than 64 bits.")
        if stamped:
            yield device, _moment_ns(stamped[1], where, context), values
        elif stated_ns is not None:
            yield device, stated_ns, values
        else:
            raise SourceError(f"{path} has no timestamps.", hint=_DISKSTATS_HINT, kind="UndatedInput")


_DISKSTATS_HINT = "Write a line with the time before each snapshot: date +%s.%N; cat /proc/diskstats"


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
    except SourceError as error:
        raise error.reworded(f"{where}: {error.message}") from None
    except (ValueError, OverflowError):
        raise CorruptInput(
            f"{where}: {text[:60]!r} is neither a /proc/diskstats line nor a time.",
            hint="Use epoch seconds or nanoseconds, or ISO 8601 with offset.",
        ) from None


_COLUMN = re.compile(r"\[(?P<subsystem>[A-Z]+)(?::(?P<name>[^\]]+))?\](?P<column>.+)")
_HOST = re.compile(r"# Host:\s+(\S+)")
_OPTIONS = re.compile(r"# SubSys:.* Options: (\S*) Interval:")
_DATE = re.compile(r"^(\d{4})(\d{2})(\d{2})$")
_RATES = _readings(_COLUMNS["collectl"])
# What a column prints under collectl -on.
_AMOUNT = " (amount)"
_READINGS = _RATES | {name + _AMOUNT: replace(reading, is_rate=False) for name, reading in _RATES.items()}


def _detect_collectl(head: bytes, path: Path) -> float:
    lines = plain_head(head).split("\n")[:60]
    header = next((line for line in lines if line.startswith(("#Date", "#UTC"))), "")
    return 0.9 if "[DSK" in header or "[CPU]" in header else 0.0


def _read_collectl(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    empty = f"{path} has fewer than two samples of disks or CPUs."
    hint = "Record them with: collectl -scdD -P -f DIR"
    return sample_frames(_collectl_samples(path, context), _READINGS, SourceError(empty, hint=hint, kind="EmptyInput"))


COLLECTL = FileReader("collectl", "collectl -P: disks and CPUs", ("series",), _detect_collectl, _read_collectl)


def _collectl_samples(path: Path, context: ReadContext) -> Iterator[DeviceSample]:
    """Samples of collectl -P, each from the time stamp of the line before to its own."""
    host, separator, titles = context.host, " ", list[str]()
    parts: dict[tuple[str, str], dict[str, int]] = {}
    stamps = StampReader(str(path), context.zone)
    gives_amounts = False
    previous_ns: int | None = None
    first: tuple[list[str], str] | None = None  # waits for the second sample, which gives its length
    for number, line in whole_lines(path):
        where = f"{path}, line {number}"
        if line.startswith("#"):
            # Column names begin a new run: its first sample has no predecessor.
            previous_ns = first = None
            if line.startswith(("#Date", "#UTC")):
                separator = re.sub(r"^#(?:Date|UTC)", "", line)[:1] or " "
                titles = line[1:].split(separator)
                parts = _collectl_columns(titles, gives_amounts)
            elif found := _HOST.match(line):
                host = context.host or found[1]
            elif found := _OPTIONS.match(line):
                gives_amounts = "n" in found[1]
            continue
        if not line or not titles or line.startswith("waiting for"):  # 1 second sample...
            continue
        row = line.split(separator)
        if len(row) != len(titles):
            raise CorruptInput(f"{where}: expected {len(titles)} fields, found {len(row)}.")
        date = _DATE.sub(r"\1-\2-\3", row[0])
        end_ns = stamps.read(row[0] if titles[0] == "UTC" else f"{date} {row[1]}", number)
        if previous_ns is not None and end_ns > previous_ns:
            if host is None:
                raise SourceError(f"{path} contains no host name.", hint="Use --host.")
            length_ns = end_ns - previous_ns
            spans = [(previous_ns - length_ns, *first)] if first is not None else []
            for start_ns, words, place_of in (*spans, (previous_ns, row, where)):
                for (kind, device), places in parts.items():
                    numbers = parse_numbers([words[place] for place in places.values()], list(places), place_of)
                    yield DeviceSample(kind, tuple(places), host, device, start_ns, length_ns, numbers)
        first = (row, where) if previous_ns is None else None
        previous_ns = end_ns


def _collectl_columns(titles: Sequence[str], gives_amounts: bool) -> dict[tuple[str, str], dict[str, int]]:
    """By kind of sample and device the places of its columns."""
    parts: dict[tuple[str, str], dict[str, int]] = {}
    for place, title in enumerate(titles):
        match = _COLUMN.fullmatch(title)
        if match is None or match["column"] == "Name":
            continue
        subsystem, device, column = match["subsystem"], match["name"] or "", match["column"]
        if subsystem == "CPU" and not device:
            parts.setdefault(("cpu", ""), {})[column] = place
        elif subsystem == "DSK":
            kind = "device" if device else "host"
            parts.setdefault((kind, device), {})[column + (_AMOUNT if gives_amounts else "")] = place
    return parts
