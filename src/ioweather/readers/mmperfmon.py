"""Tables of `mmperfmon query` to rows of `series`: a legend that names the columns, then rows, in as many blocks as the
screen is wide.

A row is the mean, over a bucket, of what the sensor reported each time. Of a ratio that is all there is to know; of a
counter it is the amount in one period of the sensor, which the table does not say: --interval does.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from ioweather.core.clock import local_to_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.counters.growth import Target
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.words import pairs_of
from ioweather.readers.counter_rows import SeriesRows
from ioweather.readers.text_files import plain_head, whole_lines

_LEGEND = re.compile(r"([0-9]{1,6}):\s+(\S+)")
_ROW = re.compile(r"\s*[0-9]{1,9} ([0-9]{4})-([0-9]{2})-([0-9]{2})-([0-9]{2}):([0-9]{2}):([0-9]{2})\s(.*)")
_NUMBER = re.compile(r"-?[0-9]{1,19}(?:\.[0-9]{1,9})?")
_SILENT = frozenset({"null", "none", "nan", "-", "n/a"})
_UNITS = {"%": 1.0, "B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_MOVED = pairs_of("bytes_read=read_bytes bytes_written=write_bytes read_ops=read_ops write_ops=write_ops")
_CALLED = pairs_of("""
    bytes_read=read_bytes bytes_written=write_bytes read_calls=read_ops write_calls=write_ops open_calls=open_ops
    close_calls=close_ops readdir_calls=other_ops inode_updates=setattr_ops
""")
_COUNTED = {
    f"gpfs_{part}_{name}": metric
    for part, names in (("nsdds", _MOVED), ("fs", _MOVED), ("fis", _CALLED))
    for name, metric in names.items()
}
_BUSY = ("cpu_user", "cpu_sys")


@dataclass
class _Column:
    """host|sensor|what of the host it is about|metric."""

    host: str
    about: tuple[str, ...]
    metric: str
    values: dict[int, float] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        if self.metric.startswith("gpfs_nsdds_") and self.about:
            return Target(f"{self.host}:{self.about[-1]}", "device", self.about[-1])
        return Target(self.about[-1] if self.about else self.host, "host", self.host)


class MmperfmonSource:
    name = "mmperfmon"
    title = "GPFS performance tables (mmperfmon query)"
    tables = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        text = plain_head(head)
        return 0.95 if text.lstrip().startswith("Legend:") and "|" in text else 0.0

    def read(self, path: Path, context: ReadContext) -> Generator[tuple[str, Frame], None, str | None]:
        columns = _columns(path, context)
        times = sorted({moment for column in columns for moment in column.values})
        steps = Counter(later - earlier for earlier, later in pairwise(times))
        if not steps:
            raise EmptyInput(f"{path} holds less than two rows, and a row's length is the time to the next.")
        bucket_ns = min(steps)
        rows, left = SeriesRows(), Counter[str]()
        _ratios(columns, bucket_ns, rows)
        for column in columns:
            if column.metric not in _COUNTED:
                left["of other metrics"] += column.metric not in (*_BUSY, "mem_total", "mem_free")
            elif context.interval_ns is None:
                left["of counters (give --interval, the period of their sensor)"] += 1
            else:
                for moment, value in sorted(column.values.items()):
                    amount = value * bucket_ns / context.interval_ns
                    rows.value(column.target, moment, bucket_ns, _COUNTED[column.metric], amount)
        yield from rows.rest()
        said = "; ".join(f"{count} column(s) {what}" for what, count in left.items() if count)
        if not rows.made:
            raise SourceError(f"{path}: nothing could be taken: {said or 'no values'}.")
        return f"{path}: left out: {said}." if said else None


def _columns(path: Path, context: ReadContext) -> list[_Column]:
    """The columns of all blocks; those of a block follow the ones of the block before, in the order of the legend."""
    legend: list[_Column] = []
    first = shown = 0
    last_ns: int | None = None
    for number, line in whole_lines(path):
        if match := _LEGEND.fullmatch(line.strip()):
            host, *about, metric = match[2].split("|") if "|" in match[2] else ("", match[2])
            legend.append(_Column(host, tuple(about[1:]), metric))
        elif line.startswith("Row "):
            names = line.split()[2:]
            first, shown, last_ns = first + shown, len(names), None
            if [column.metric for column in legend[first : first + shown]] != names:
                raise CorruptInput(f"{path}, line {number}: the columns are not those of the legend.")
        elif match := _ROW.fullmatch(line):
            last_ns = _moment_ns(match, context, last_ns, f"{path}, line {number}")
            values = _values(match[7])
            if len(values) != shown:
                raise CorruptInput(f"{path}, line {number}: {len(values)} values in {shown} columns.")
            for column, value in zip(legend[first : first + shown], values, strict=True):
                if value is not None:
                    column.values[last_ns] = value
    return legend


def _moment_ns(match: re.Match[str], context: ReadContext, after_ns: int | None, where: str) -> int:
    if context.zone is None:
        raise UndatedInput(f"{where}: times have no zone.", hint="Give --zone, or set `zone` in facility.toml.")
    try:
        naive = dt.datetime(*(int(match[part]) for part in range(1, 7)))  # type: ignore[arg-type]
    except ValueError:
        raise CorruptInput(f"{where}: {match[0].strip()[:60]!r} has no date that can be.") from None
    return local_to_ns(naive, context.zone, after_ns=after_ns)


def _values(text: str) -> list[float | None]:
    """Numbers, each perhaps with a unit behind it; `null` where the sensor was silent. A number of a unit that is not
    known is none."""
    found: list[float | None] = []
    for word in text.split():
        if _NUMBER.fullmatch(word):
            found.append(float(word))
        elif word.lower() in _SILENT or not found:
            found.append(None)
        elif found[-1] is not None:
            scale = _UNITS.get(word)
            found[-1] = None if scale is None else found[-1] * scale
    return found


def _ratios(columns: list[_Column], bucket_ns: int, rows: SeriesRows) -> None:
    """CPU time that is not idle, and memory that is not free, of each host that has both halves."""
    by_host: dict[str, dict[str, _Column]] = {}
    for column in columns:
        by_host.setdefault(column.host, {})[column.metric] = column
    for host, found in by_host.items():
        target = Target(host, "host", host)
        if all(name in found for name in _BUSY):
            user, system = (found[name].values for name in _BUSY)
            for moment in sorted(user.keys() & system.keys()):
                rows.value(target, moment, bucket_ns, "cpu_ratio", (user[moment] + system[moment]) / 100)
        if "mem_total" in found and "mem_free" in found:
            total, free = found["mem_total"].values, found["mem_free"].values
            for moment in sorted(total.keys() & free.keys()):
                if total[moment] > 0:
                    rows.value(target, moment, bucket_ns, "memory_ratio", 1 - free[moment] / total[moment])


SOURCE = MmperfmonSource()
