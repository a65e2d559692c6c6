"""GPFS and NFS counters as rows of `series`: the sources `mmpmon`, `mmperfmon` and `mountstats`.

Recordings of `mmpmon -p` and of /proc/self/mountstats contain counters: two samples give the amount between them. The
text of mountstats has no time. A line before each sample gives it (`date +%s`, or ISO with an offset); or --start gives
that of the first, and the ages of the mounts the distance of the others.

`mmperfmon query` prints a legend that names the columns, then rows, in as many blocks as the screen is wide. A row is
the mean over a bucket of what the sensor reported each time. A ratio needs no conversion; a counter is the amount in
one period of the sensor, which the table does not say: --interval does.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path

from ioweather.core.clock import local_to_ns, parse_time_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.counters.client_counters import ALL, Mount, counter_growth, is_mmpmon, parse_mountstats, samples
from ioweather.core.counters.growth import Differ, Target
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.units import NS
from ioweather.core.words import pairs_of
from ioweather.readers.frame_rows import SeriesRows
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import line_blocks, plain_head, whole_lines

_MMPMON_HINT = "Record again and again: `echo fs_io_s | mmpmon -p -i /dev/stdin -r 0 -d 60000 >> FILE`."


def _detect_mmpmon(head: bytes, path: Path) -> float:
    return 0.95 if is_mmpmon(plain_head(head)) else 0.0


def _read_mmpmon(path: Path, context: ReadContext) -> Generator[tuple[str, Frame], None, str | None]:
    rows, differ, refused = SeriesRows(), Differ(), Counter[str]()
    answers = 0
    found = samples(line for _, line in whole_lines(path))
    while batch := list(islice(found, 1000)):
        for item in batch:
            answers += 1
            if isinstance(item, str):
                refused[item] += 1
                continue
            for origin, grown in differ.update([item]):
                # The sums of a node include the lines of its file systems: the lake reads one of them.
                target = origin.target
                if target.system == ALL and context.system is not None:
                    target = target._replace(system=context.system)
                rows.amounts(target, grown)
        yield from rows.full()
    yield from rows.rest()
    left = "; ".join(f"{count} answer(s): {what}" for what, count in refused.items())
    if not rows.made:
        raise EmptyInput(
            f"{path} holds {answers} answer(s) of mmpmon and nothing to compare{f' ({left})' if left else ''}: "
            "counters run since mounting, and two answers give amounts.",
            hint=_MMPMON_HINT,
        )
    return f"{path}: left out: {left}." if left else None


MMPMON = FileReader(
    "mmpmon",
    "GPFS counters of nodes (mmpmon -p: fs_io_s, io_s, rhist s)",
    ("series",),
    _detect_mmpmon,
    _read_mmpmon,
)


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


def _detect_mmperfmon(head: bytes, path: Path) -> float:
    text = plain_head(head)
    return 0.95 if text.lstrip().startswith("Legend:") and "|" in text else 0.0


def _read_mmperfmon(path: Path, context: ReadContext) -> Generator[tuple[str, Frame], None, str | None]:
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


MMPERFMON = FileReader(
    "mmperfmon",
    "GPFS performance tables (mmperfmon query)",
    ("series",),
    _detect_mmperfmon,
    _read_mmperfmon,
)


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
            values = _row_values(match[7])
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


def _row_values(text: str) -> list[float | None]:
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


_MARK = re.compile(r"^device \S+ mounted on \S+ with fstype \S+", re.MULTILINE)
_TIME = re.compile(
    r"@?[0-9]{9,10}(?:\.[0-9]{1,9})?|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{5,18} ?(?:Z|[+-][0-9:]{4,6})?"
)
_MOUNTSTATS_HINT = "Record again and again: `while sleep 60; do date +%s; cat /proc/self/mountstats; done >> FILE`."


@dataclass
class _Look:
    time_ns: int | None
    lines: list[str] = field(default_factory=list)


def _detect_mountstats(head: bytes, path: Path) -> float:
    return 0.9 if _MARK.search(plain_head(head)) else 0.0


def _read_mountstats(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    rows, last, looks = SeriesRows(), _Last(context), 0
    for look in _looks(path, context):
        # Where one mount covers another at the same path, the later is the one in use.
        mounts = [*{mount.path: mount for mount in parse_mountstats(look.lines, str(path))}.values()]
        looks += bool(mounts)
        moment = last.moment_of(look, mounts)
        if moment is None and looks > 1:
            raise UndatedInput(
                f"{path} says no time of its looks.", hint=f"Give --start, of the first. {_MOUNTSTATS_HINT}"
            )
        for mount in mounts:
            before = last.mounts.get(mount.path)
            if moment is not None and before is not None and before[0] < moment:
                if context.host is None:
                    raise SourceError(f"{path} does not say which client it is of.", hint="Give --host.")
                target = Target(f"mount:{mount.path}", "host", context.host)
                rows.amounts(target, counter_growth(before[1], mount, before[0], moment))
            if moment is not None:
                last.mounts[mount.path] = (moment, mount)
        yield from rows.full()
    yield from rows.rest()
    if not rows.made:
        content = f"{looks} look(s) at NFS mounts and nothing to compare" if looks else "no NFS mount with statistics"
        raise EmptyInput(
            f"{path} holds {content}: counters run since mounting, and two looks give amounts.", hint=_MOUNTSTATS_HINT
        )


MOUNTSTATS = FileReader(
    "mountstats",
    "NFS client counters (recordings of /proc/self/mountstats)",
    ("series",),
    _detect_mountstats,
    _read_mountstats,
)


class _Last:
    """The mounts as they were at the look before, and how old they were at the first."""

    def __init__(self, context: ReadContext) -> None:
        self.mounts: dict[str, tuple[int, Mount]] = {}
        self._start_ns = context.start_ns
        self._first_ages: dict[str, int] = {}

    def moment_of(self, look: _Look, mounts: list[Mount]) -> int | None:
        ages = {mount.path: mount.age_seconds for mount in mounts if mount.age_seconds is not None}
        self._first_ages = self._first_ages or ages
        if look.time_ns is not None:
            return look.time_ns
        # A mount that was mounted again is younger: the greatest difference is the right one.
        elapsed = max(
            (age - self._first_ages[name] for name, age in ages.items() if name in self._first_ages), default=None
        )
        return None if self._start_ns is None or elapsed is None else self._start_ns + elapsed * NS


def _looks(path: Path, context: ReadContext) -> Iterator[_Look]:
    """A line with a time begins a look; where there are none, so does an NFS mount that was in this look already. A
    look that is cut off is left out."""
    look, seen = _Look(None), set[str]()
    for block in line_blocks(path):
        if block.torn:
            return
        for line in block.lines:
            time_ns = _time_ns(line, context)
            if time_ns is not None or (look.time_ns is None and " with fstype nfs" in line and line in seen):
                if look.lines:
                    yield look
                look, seen = _Look(time_ns), set()
            if line.startswith("device "):
                seen.add(line)
            if time_ns is None:
                look.lines.append(line)
    if look.lines:
        yield look


def _time_ns(line: str, context: ReadContext) -> int | None:
    """Of a line that is a time and nothing else."""
    text = line.strip()
    if not _TIME.fullmatch(text):
        return None
    try:
        return parse_time_ns(f"@{text}" if text.replace(".", "").isdigit() else text, context.zone)
    except ValueError:
        return None
