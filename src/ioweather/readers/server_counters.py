"""Counters of Lustre, GPFS and NFS as rows: the sources `lustre`, `mmpmon`, `mmperfmon` and `mountstats`.

A look at counters shows what grew since the server started or the mount was made: alone it says nothing about activity.
Two of them give amounts, in the exact interval between them; the lake splits those over its grid by overlap.

Lustre gives `series` of what happened between snapshots and how full targets are, `job_operations` of what each job
did, `components` of which server has which target. States (capacity, free space, clients) are stored once an hour, for
the minute in which they were read. Unusable parts of a dump are counted, and reported at the end.

The text of mountstats has no time. A line before each sample gives it (`date +%s`, or ISO with an offset).

`mmperfmon query` prints a legend that names the columns, then rows, in as many blocks as the screen is wide. A row is
the mean over a bucket of what the sensor reported each time. A ratio needs no conversion; a counter is the amount in
one period of the sensor, which the table does not say: --interval does.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeAlias

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.client_counters import ALL, Mount, is_mmpmon, mount_growth, parse_mmpmon, parse_mountstats
from ioweather.core.counters.growth import Differ, Growth, Target, in_base_unit
from ioweather.core.counters.lustre_snapshot import Snapshot, is_tree, parse_device_list, read_tree, snapshots
from ioweather.core.counters.lustre_text import TargetJobs, get_param_blocks, job_rows
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.core.tables import COMPONENTS, JOB_OPERATIONS, SERIES, Quality
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS, pairs_of
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import (
    LocalClock,
    all_of_a_kind,
    beginning,
    hosts_before,
    lines_of_host,
    numbered_lines,
    plain_head,
    shown_counts,
    time_of_line,
    whole_lines,
)

_FRAME_ROWS = 50_000
_SERIES_COLUMNS = ("start_ns", "interval_ns", "system", "component_kind", "component", "metric", "value", "quality")


def series_frame(rows: Iterable[tuple[Any, ...]]) -> Frame:
    """A frame of `series` from rows of start, interval, system, kind, component, metric, value and quality."""
    columns = zip(*rows, strict=True)
    return SERIES.frame({name: list(column) for name, column in zip(_SERIES_COLUMNS, columns, strict=True)})


class SeriesRows:
    """Collects rows of `series` until a frame is worth making; `made` counts those of the frames."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, str, str, str, str, float, int]] = []
        self.made = 0

    def add_growth(self, grown: Growth) -> None:
        """Add a row for each counter, in base units; RESET after a restart."""
        flag = int(Quality.RESET) if grown.restarted else 0
        length = grown.end_ns - grown.start_ns
        for metric, amount in sorted(grown.amounts.items()):
            self._rows.append((grown.start_ns, length, *grown.target, metric, in_base_unit(metric, amount), flag))

    def add_value(
        self, target: Target, start_ns: int, interval_ns: int, metric: str, value: float, flag: int = 0
    ) -> None:
        self._rows.append((start_ns, interval_ns, *target, metric, value, flag))

    def full_frames(self) -> Iterator[tuple[str, Frame]]:
        """A frame of the rows so far, if they are enough."""
        if len(self._rows) >= _FRAME_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[str, Frame]]:
        """A frame of the rows so far, if there are any."""
        if self._rows:
            yield "series", series_frame(self._rows)
        self.made += len(self._rows)
        self._rows = []


_PARAMETER = re.compile(
    r"^(?:obdfilter|mdt|mds|ost|mdd|llite|osc|mdc|ldlm|osd-\w+)\.[^\s=]+=|^(?:memused|lnet_memused|jobid_var)=[^\s=]*\s*$",
    re.MULTILINE,
)
# As pdsh prints it: the name of its host before every line.
_OF_HOSTS = re.compile(r"^([A-Za-z0-9][\w.-]{0,252}): (?:obdfilter|mdt|mds|ost|osd-\w{1,20})\.[^\s=]+=", re.MULTILINE)
_DEVICE_LIST = re.compile(
    r"^[ \t]{0,9}\d{1,9} UP (?:mgc|osc|mdc|lov|lmv) \S{1,255} \S{1,255} \d{1,9} \S{0,255}@", re.MULTILINE
)
# A recording without a host inside is often named after its server: scratch-oss01.txt.
_SERVER_FILE = re.compile(r"([A-Za-z][\w-]*?)?(oss|mds)[-_]?\d{1,5}[A-Za-z]?")
_LONE_FILE = re.compile(r"\s*(?:snapshot_time:?\s+\d+|job_stats:\s*$)", re.MULTILINE)
_SECONDS = re.compile(r"snapshot_time:?[ \t]{1,40}([0-9]{1,18})")
_LUSTRE_HINT = (
    "Run `lctl get_param obdfilter.*.stats mdt.*.md_stats '*.*.job_stats' >> FILE` once a minute, and ingest FILE."
)
Pieces: TypeAlias = Generator[tuple[str, Frame], None, str | None]


def _detect_lustre(head: bytes, path: Path) -> float:
    """Output of `lctl get_param` (also through pdsh), a list of devices, a /proc tree, or a folder of trees."""
    if path.is_dir():
        return 0.9 if _trees(path) else 0.0
    text = plain_head(head)
    if _PARAMETER.search(text):
        return 0.95
    if _OF_HOSTS.search(text):
        return 0.94
    if _DEVICE_LIST.search(text):
        return 0.93
    return 0.4 if _LONE_FILE.match(text) else 0.0


LUSTRE = FileReader(
    "lustre",
    "Lustre server, client and job counters (lctl get_param output, copied /proc and /sys trees)",
    ("series", "job_operations", "components"),
    _detect_lustre,
    lambda path, context: _LustreRows(path, context).read(),
)


def _snapshots(path: Path, host: str | None) -> Iterator[Snapshot]:
    """Snapshots of a dump, a /proc tree, or a folder of trees, in the order of their times."""
    if not path.is_dir():
        if _DEVICE_LIST.search(beginning(path)):
            return iter([parse_device_list(_lustre_lines(path))])
        return (
            snapshot
            for name in (() if _PARAMETER.search(beginning(path)) else hosts_before(path, _OF_HOSTS)) or ("",)
            for snapshot in snapshots(get_param_blocks(_lustre_lines(path, name)), str(path), name or host)
        )

    def latest_ns(found: Snapshot) -> int:
        seconds = (int(second) for text in found.jobs.values() for second in _SECONDS.findall(text))
        return found.latest_ns() or NS * max(seconds, default=0)

    return iter(sorted((read_tree(tree, host) for tree in _trees(path)), key=latest_ns))


def _trees(path: Path) -> list[Path]:
    """The folder itself, or all the folders in it: one per snapshot."""
    return [path] if is_tree(path) else all_of_a_kind(path, lambda entry: entry.is_dir() and is_tree(Path(entry.path)))


def _host_in_name(path: Path) -> str | None:
    """The server in the name of a recording, such as scratch-oss01.txt."""
    match = _SERVER_FILE.fullmatch(path.name.partition(".")[0])
    return match[0] if match is not None else None


def _lustre_lines(path: Path, host: str = "") -> Iterator[str | None]:
    """All whole lines, or those of one host; None where the last one is torn: the file was cut, or is being written."""
    if _LONE_FILE.match(beginning(path)):
        raise SourceError(
            f"{path} is a single snapshot of an unnamed target, but amounts need two snapshots.",
            hint=_LUSTRE_HINT,
        )
    for _, line, torn in lines_of_host(path, host):
        yield None if torn else line.replace("\0", "")


class _LustreRows:
    """Makes frames of the snapshots of one recording. `kept_hours`: states are stored once an hour."""

    def __init__(self, path: Path, context: ReadContext) -> None:
        self.path, self.context = path, context
        self.differ, self.rows = Differ(), SeriesRows()
        self.jobs: dict[Target, TargetJobs] = {}
        self.job_rows: list[dict[str, Any]] = []
        self.servers: dict[Target, tuple[int, str]] = {}
        self.kept_hours: set[tuple[Target, str, int]] = set()
        self.last_ns: int | None = context.start_ns
        self.undated = 0

    def read(self) -> Pieces:
        """Yield (table, frame) of `series`, `job_operations` and `components`; return a sentence on skipped parts.

        Raises CorruptInput after the last frame for damaged parameters, and SourceError if there are no rows.
        """
        looks = unnamed = made = 0
        damaged: list[str] = []
        for snapshot in _snapshots(self.path, self.context.host or _host_in_name(self.path)):
            looks += 1
            unnamed += self._add(snapshot)
            damaged += snapshot.damaged
            yield from self.rows.full_frames()
            if len(self.job_rows) >= _FRAME_ROWS:
                made += len(self.job_rows)
                yield "job_operations", JOB_OPERATIONS.frame_of(self.job_rows)
                self.job_rows = []
        once = [jobs for jobs in self.jobs.values() if jobs.lists == 1]  # count from the start of each job instead
        for jobs in once:
            self._add_jobs(jobs.whole_lives(), Quality.WHOLE_LIFE)
        yield from self.rows.rest()
        servers = self._server_rows()
        for table, rows in ((JOB_OPERATIONS, self.job_rows), (COMPONENTS, servers)):
            if rows:
                yield table.name, table.frame_of(rows)
        made += self.rows.made + len(self.job_rows) + len(servers)
        if damaged:
            raise CorruptInput(f"Skipped {len(damaged)} damaged parameter(s): {damaged[0]}")
        counts = {
            "counter parameter(s) with only one sample": self.differ.shown_once,
            "job(s) with only one sample and no start_time": sum(jobs.count_without_begin() for jobs in once),
            "job(s) with an unknown start": sum(jobs.unplaced for jobs in self.jobs.values()),
            "state(s) without a time (use --start)": self.undated if made else 0,
            "service statistics without a server name (use --host)": unnamed,
        }
        left = shown_counts(counts)
        if made:
            return f"{self.path}: skipped: {left}." if left else None
        if self.undated:
            hint = "Use --start, or record stats as well."
            raise SourceError(f"{self.path} has states but no snapshot_time.", hint=hint, kind="UndatedInput")
        raise SourceError(
            f"{self.path} has {looks} snapshot(s) of Lustre counters but no differences{f' ({left})' if left else ''}.",
            hint=_LUSTRE_HINT,
            kind="EmptyInput",
        )

    def _server_rows(self) -> list[dict[str, Any]]:
        """Rows of `components`: the server of each target, since the day of the last snapshot that names it."""
        return [
            {
                "system": target.system,
                "kind": target.kind,
                "component": target.name,
                "valid_from_ns": moment // DAY_NS * DAY_NS,  # the same in all recordings of a day
                "server": server,
            }
            for target, (moment, server) in sorted(self.servers.items())
        ]

    def _add(self, snapshot: Snapshot) -> int:
        """Add the rows of a snapshot; returns how many of its statistics have no server."""
        placed = snapshot.placed()
        for grown in self.differ.update(placed):
            self.rows.add_growth(grown)
        looked = snapshot.latest_ns()
        self.last_ns = looked or self.last_ns
        for target, server in snapshot.servers().items():
            self.servers[target] = (looked or self.last_ns or self.path.stat().st_mtime_ns, server)
        for target, text in snapshot.jobs.items():
            known = self.jobs.setdefault(target, TargetJobs(target))
            try:
                self._add_jobs(known.update(text, looked, f"{self.path}, {target.name}"), Quality.OK)
            except CorruptInput as error:
                snapshot.damaged.append(error.message)
        for target, gauges in snapshot.gauges.items():
            moment = snapshot.time_ns(target) or self.last_ns
            if moment is None:
                self.undated += len(gauges)
                continue
            for metric, value in sorted(gauges.items()):
                hour = (target, metric, moment // HOUR_NS)
                if hour not in self.kept_hours:
                    self.kept_hours.add(hour)
                    self.rows.add_value(target, moment // MINUTE_NS * MINUTE_NS, MINUTE_NS, metric, float(value))
        return len(snapshot.samples) + len(snapshot.services) - len(placed)

    def _add_jobs(self, found: Iterable[Growth], flag: Quality) -> None:
        """Add rows of `job_operations`."""
        for grown in found:
            flags = flag | (Quality.RESET if grown.restarted else Quality.OK)
            self.job_rows += job_rows(grown, int(flags), self.context.cluster)


_MMPMON_HINT = "Record with: `echo fs_io_s | mmpmon -p -i /dev/stdin -r 0 -d 60000 >> FILE`."


def _read_mmpmon(path: Path, context: ReadContext) -> Generator[tuple[str, Frame], None, str | None]:
    """The growth between answers; returns a sentence on answers that are errors."""
    rows, differ, refused = SeriesRows(), Differ(), Counter[str]()
    answers = 0
    found = parse_mmpmon(line for _, line in whole_lines(path))
    while batch := list(islice(found, 1000)):
        for item in batch:
            answers += 1
            if isinstance(item, str):
                refused[item] += 1
                continue
            # The sums of a node include the lines of its file systems: the lake reads one of them.
            if item.target.system == ALL and context.system is not None:
                item = item._replace(target=item.target._replace(system=context.system))
            for grown in differ.update([item]):
                rows.add_growth(grown)
        yield from rows.full_frames()
    yield from rows.rest()
    left = shown_counts({f"response(s): {what}": count for what, count in refused.items()})
    if not rows.made:
        raise SourceError(
            f"{path} has {answers} mmpmon response(s) but no differences{f' ({left})' if left else ''}: "
            "amounts need two responses per counter.",
            hint=_MMPMON_HINT,
            kind="EmptyInput",
        )
    return f"{path}: skipped: {left}." if left else None


MMPMON = FileReader(
    "mmpmon",
    "GPFS counters of nodes (mmpmon -p: fs_io_s, io_s)",
    ("series",),
    lambda head, path: 0.95 if is_mmpmon(plain_head(head)) else 0.0,
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
    """A column of the legend: host|sensor|about|metric. `values` by UTC nanoseconds; `about`: disk or file system."""

    host: str
    about: tuple[str, ...]
    metric: str
    values: dict[int, float] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """The disk, or the host's mount of a file system, that the column measures."""
        if self.metric.startswith("gpfs_nsdds_") and self.about:
            return Target(f"{self.host}:{self.about[-1]}", "device", self.about[-1])
        return Target(self.about[-1] if self.about else self.host, "host", self.host)


def _detect_mmperfmon(head: bytes, path: Path) -> float:
    text = plain_head(head)
    return 0.95 if text.lstrip().startswith("Legend:") and "|" in text else 0.0


def _read_mmperfmon(path: Path, context: ReadContext) -> Generator[tuple[str, Frame], None, str | None]:
    """CPU and memory ratios, and the amounts of counters; returns a sentence on columns that were left out."""
    columns = _read_columns(path, context)
    times = sorted({moment for column in columns for moment in column.values})
    steps = Counter(later - earlier for earlier, later in pairwise(times))
    if not steps:
        raise SourceError(f"{path} has fewer than two rows, but intervals need two.", kind="EmptyInput")
    bucket_ns = min(steps)
    rows, left = SeriesRows(), Counter[str]()
    _add_ratios(columns, bucket_ns, rows)
    for column in columns:
        if column.metric not in _COUNTED:
            left["of other metrics"] += column.metric not in (*_BUSY, "mem_total", "mem_free")
        elif context.interval_ns is None:
            left["of counters (use --interval, the period of their sensor)"] += 1
        else:
            for moment, value in sorted(column.values.items()):
                amount = value * bucket_ns / context.interval_ns
                rows.add_value(column.target, moment, bucket_ns, _COUNTED[column.metric], amount)
    yield from rows.rest()
    said = shown_counts({f"column(s) {what}": count for what, count in left.items()})
    if not rows.made:
        raise SourceError(f"{path}: no usable data: {said or 'no values'}.")
    return f"{path}: skipped: {said}." if said else None


MMPERFMON = FileReader(
    "mmperfmon", "GPFS performance tables (mmperfmon query)", ("series",), _detect_mmperfmon, _read_mmperfmon
)


def _read_columns(path: Path, context: ReadContext) -> list[_Column]:
    """The columns of all blocks with their values; those of a block follow the ones of the block before, in the order
    of the legend."""
    legend: list[_Column] = []
    first = shown = 0
    clock = LocalClock(context.zone)
    for number, line in whole_lines(path):
        if match := _LEGEND.fullmatch(line.strip()):
            host, *about, metric = match[2].split("|") if "|" in match[2] else ("", match[2])
            legend.append(_Column(host, tuple(about[1:]), metric))
        elif line.startswith("Row "):
            names = line.split()[2:]
            first, shown = first + shown, len(names)
            clock.restart()
            if [column.metric for column in legend[first : first + shown]] != names:
                raise CorruptInput(f"{path}, line {number}: the columns do not match the legend.")
        elif match := _ROW.fullmatch(line):
            try:
                naive = dt.datetime(*map(int, match.groups()[:6]))  # type: ignore[arg-type]
            except ValueError:
                raise CorruptInput(f"{path}, line {number}: {line.strip()[:60]!r} has an invalid date.") from None
            moment_ns = clock.to_ns(naive, f"{path}, line {number}")
            # Numbers, each perhaps with a unit behind it; `null` where the sensor was silent. A number of a unit that
            # is not known is none.
            text = match[7]
            values: list[float | None] = []
            for word in text.split():
                if _NUMBER.fullmatch(word):
                    values.append(float(word))
                elif word.lower() in _SILENT or not values:
                    values.append(None)
                elif values[-1] is not None:
                    scale = _UNITS.get(word)
                    values[-1] = None if scale is None else values[-1] * scale
            if len(values) != shown:
                raise CorruptInput(f"{path}, line {number}: found {len(values)} values for {shown} columns.")
            for column, value in zip(legend[first : first + shown], values, strict=True):
                if value is not None:
                    column.values[moment_ns] = value
    return legend


def _add_ratios(columns: list[_Column], bucket_ns: int, rows: SeriesRows) -> None:
    """Add rows of busy CPU time and used memory, as ratios, of each host that has both columns."""
    by_host: dict[str, dict[str, dict[int, float]]] = {}
    for column in columns:
        by_host.setdefault(column.host, {})[column.metric] = column.values
    for host, found in by_host.items():
        target = Target(host, "host", host)
        user, system, total, free = (found.get(name, {}) for name in (*_BUSY, "mem_total", "mem_free"))
        for moment in sorted(user.keys() & system.keys()):
            rows.add_value(target, moment, bucket_ns, "cpu_ratio", (user[moment] + system[moment]) / 100)
        for moment in sorted(total.keys() & free.keys()):
            if total[moment] > 0:
                rows.add_value(target, moment, bucket_ns, "memory_ratio", 1 - free[moment] / total[moment])


_MARK = re.compile(r"^device \S+ mounted on \S+ with fstype \S+", re.MULTILINE)
_MOUNTSTATS_HINT = "Record with: `while sleep 60; do date +%s; cat /proc/self/mountstats; done >> FILE`."


def _read_mountstats(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """The growth of the counters of each mount between samples of /proc/self/mountstats."""
    rows, looks = SeriesRows(), 0
    last: dict[str, tuple[int, Mount]] = {}
    for moment, lines in _split_samples(path, context):
        # Where one mount covers another at the same path, the later is the one in use.
        mounts = {mount.path: mount for mount in parse_mountstats(lines, str(path))}
        looks += bool(mounts)
        if moment is None:
            if looks > 1:
                raise SourceError(f"{path} has samples without times.", hint=_MOUNTSTATS_HINT, kind="UndatedInput")
            continue
        for name, mount in mounts.items():
            if name in last and last[name][0] < moment:
                if context.host is None:
                    raise SourceError(f"{path} contains no host name of the client.", hint="Use --host.")
                target = Target(f"mount:{name}", "host", context.host)
                rows.add_growth(mount_growth(target, last[name][1], mount, last[name][0], moment))
            last[name] = (moment, mount)
        yield from rows.full_frames()
    yield from rows.rest()
    if not rows.made:
        content = f"{looks} sample(s) of NFS mounts but no differences" if looks else "no NFS mount with statistics"
        raise SourceError(f"{path} has {content}: amounts need two samples.", hint=_MOUNTSTATS_HINT, kind="EmptyInput")


MOUNTSTATS = FileReader(
    "mountstats",
    "NFS client counters (recordings of /proc/self/mountstats)",
    ("series",),
    lambda head, path: 0.9 if _MARK.search(plain_head(head)) else 0.0,
    _read_mountstats,
)


def _split_samples(path: Path, context: ReadContext) -> Iterator[tuple[int | None, list[str]]]:
    """Time and lines of each sample of the file. A line with a time begins one; without such lines, an NFS mount that
    this sample already has does. A sample that is cut off is left out."""
    moment_ns: int | None = None
    lines, seen = list[str](), set[str]()
    for _, line, torn in numbered_lines(path):
        if torn:
            return
        time_ns = time_of_line(line, context.zone)
        if time_ns is not None or (moment_ns is None and " with fstype nfs" in line and line in seen):
            if lines:
                yield moment_ns, lines
            moment_ns, lines, seen = time_ns, [], set()
        if line.startswith("device "):
            seen.add(line)
        if time_ns is None:
            lines.append(line)
    if lines:
        yield moment_ns, lines
