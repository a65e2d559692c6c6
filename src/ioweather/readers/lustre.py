"""Lustre's counters to rows: `series` of what happened between snapshots and how full targets are, `job_operations` of
what each job did, `components` of which server has which target.

A snapshot shows counters since the server started: alone it says nothing about activity. Two of them give amounts,
in the exact interval between them; the lake splits those over its grid by overlap. States (capacity, free space,
clients) are stored once an hour, for the minute in which they were read. Unusable parts of a dump are counted, and
reported at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.growth import Differ, Target
from ioweather.core.counters.lustre_snapshot import Snapshot, is_tree, parse_device_list, read_tree, snapshots
from ioweather.core.counters.lustre_text import JobAmounts, TargetJobs, get_param_blocks, job_rows
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.tables import COMPONENTS, JOB_OPERATIONS, Quality
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from ioweather.readers.frame_rows import SeriesRows
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import all_of_a_kind, beginning, line_blocks, plain_head, text_blocks

_FRAME_ROWS = 50_000
_HEAD_BYTES = 64 << 10
_PARAMETER = re.compile(
    r"^(?:obdfilter|mdt|mds|ost|mdd|llite|osc|mdc|ldlm|osd-\w+)\.[^\s=]+=|^(?:memused|lnet_memused|jobid_var)=[^\s=]*\s*$",
    re.MULTILINE,
)
# As pdsh prints it: every line behind the name of its host, lines of several hosts in any order.
_OF_HOSTS = re.compile(r"^[A-Za-z0-9][\w.-]{0,252}: (?:obdfilter|mdt|mds|ost|osd-\w{1,20})\.[^\s=]+=", re.MULTILINE)
_HOST_LINE = re.compile(r"([A-Za-z0-9][\w.-]{0,252}):(?: (.*))?")
_DEVICE_LIST = re.compile(r"^\s*\d+ UP (?:mgc|osc|mdc|lov|lmv) \S+ \S+ \d+ \S*@", re.MULTILINE)
# A recording without a host inside is often named after its server: scratch-oss01.txt.
_SERVER_FILE = re.compile(r"([A-Za-z][\w-]*?)?(oss|mds)[-_]?\d{1,5}[A-Za-z]?")
_LONE_FILE = re.compile(r"\s*(?:snapshot_time:?\s+\d+|job_stats:\s*$)", re.MULTILINE)
_SECONDS = re.compile(r"snapshot_time:?[ \t]{1,40}([0-9]{1,18})")
_HINT = (
    "Record at least two: `lctl get_param obdfilter.*.stats mdt.*.md_stats '*.*.job_stats' >> FILE` once a minute, and "
    "ingest FILE."
)
Pieces: TypeAlias = Generator[tuple[str, Frame], None, str | None]


def _detect_lustre(head: bytes, path: Path) -> float:
    if path.is_dir():
        return 0.9 if _trees(path) or _dumps(path) else 0.0
    text = plain_head(head)
    if _PARAMETER.search(text):
        return 0.95
    if _OF_HOSTS.search(text):
        return 0.94
    if _DEVICE_LIST.search(text):
        return 0.93
    return 0.4 if _LONE_FILE.match(text) else 0.0


def _read_lustre(path: Path, context: ReadContext) -> Pieces:
    rows = _Rows(path, context)
    for snapshot in _snapshots(path, context.host or _host_in_name(path)):
        yield from rows.add(snapshot)
    return (yield from rows.finish())


LUSTRE = FileReader(
    "lustre",
    "Lustre counters of servers, clients and jobs (lctl get_param output, copied /proc and /sys trees)",
    ("series", "job_operations", "components"),
    _detect_lustre,
    _read_lustre,
)


def _snapshots(path: Path, host: str | None, *, more_follows: bool = False) -> Iterator[Snapshot]:
    if not path.is_dir():
        if _DEVICE_LIST.search(beginning(path)):
            return iter([parse_device_list(_lines(path))])
        if _is_of_hosts(path):
            by_host = _by_host(_lines(path))
            return (
                snapshot
                for name, lines in by_host.items()
                for snapshot in snapshots(get_param_blocks(lines, more_follows=more_follows), f"{path} ({name})", name)
            )
        return snapshots(get_param_blocks(_lines(path), more_follows=more_follows), str(path), host)
    if trees := _trees(path):
        return iter(sorted((read_tree(tree, host) for tree in trees), key=_latest_ns))
    # Ordered without being read: each may list ten thousand jobs.
    dumps = sorted(_dumps(path), key=_last_second)
    return (
        snapshot
        for dump in dumps
        for snapshot in _snapshots(dump, host or _host_in_name(dump), more_follows=dump is not dumps[-1])
    )


def _is_of_hosts(path: Path) -> bool:
    text = beginning(path)
    return _PARAMETER.search(text) is None and _OF_HOSTS.search(text) is not None


def _by_host(lines: Iterator[str | None]) -> dict[str, list[str | None]]:
    """The lines of each host in their order. Where the text was cut, the last parameter of any of them may be."""
    found: dict[str, list[str | None]] = {}
    for line in lines:
        match = _HOST_LINE.fullmatch(line) if line is not None else None
        if match is not None:
            found.setdefault(match[1], []).append(match[2] or "")
        elif line is None:
            for of_host in found.values():
                of_host.append(None)
    return found


def _trees(path: Path) -> list[Path]:
    """The folder itself, or all the folders in it: one per snapshot."""
    return [path] if is_tree(path) else all_of_a_kind(path, lambda entry: entry.is_dir() and is_tree(Path(entry.path)))


def _dumps(path: Path) -> list[Path]:
    """The files of a folder that contains only dumps, each of another moment."""
    found = all_of_a_kind(path, lambda entry: entry.is_file(follow_symlinks=False) and _is_dump(Path(entry.path)))
    return found if len(found) > 1 else []


def _is_dump(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _PARAMETER.search(plain_head(file.read(_HEAD_BYTES))) is not None
    except OSError:
        return False


def _host_in_name(path: Path) -> str | None:
    """The server in the name of a recording, such as scratch-oss01.txt."""
    match = _SERVER_FILE.fullmatch(path.name.partition(".")[0])
    return match[0] if match is not None else None


def _latest_ns(snapshot: Snapshot) -> int:
    ends = (entry.last_ns for entries in snapshot.jobs.values() for entry in entries.values())
    return snapshot.latest_ns() or max(ends, default=0)


def _last_second(path: Path) -> tuple[int, str]:
    """The last moment that a dump names; where several name the same, their names tell."""
    seconds = (max(map(int, _SECONDS.findall(text)), default=0) for text in text_blocks(path))
    return max(seconds, default=0), path.name


def _lines(path: Path) -> Iterator[str | None]:
    """All whole lines; None where the last one is torn: the file was cut, or is being written."""
    if _LONE_FILE.match(beginning(path)):
        raise SourceError(
            f"{path} is one snapshot of one target, and does not name it: counters alone give no amounts.", hint=_HINT
        )
    for block in line_blocks(path):
        if block.torn:
            yield None
        else:
            yield from (line.replace("\0", "") for line in block.lines)


class _Rows:
    """Collects rows until a frame is worth making."""

    def __init__(self, path: Path, context: ReadContext) -> None:
        self.path, self.context = path, context
        self.differ = Differ()
        self.jobs: dict[Target, TargetJobs] = {}
        self.kept_hours: set[tuple[Target, str, int]] = set()
        self.rows = SeriesRows()
        self.job_rows: list[dict[str, object]] = []
        self.made = 0
        self.servers: dict[Target, tuple[int, str]] = {}
        self.last_ns: int | None = context.start_ns
        self.snapshots = self.undated = self.unnamed = 0
        self.damaged: list[str] = []

    def add(self, snapshot: Snapshot) -> Iterator[tuple[str, Frame]]:
        self.snapshots += 1
        self.damaged += snapshot.damaged
        placed = list(snapshot.placed(snapshot.host))
        self.unnamed += len(snapshot.samples) + len(snapshot.services) - len(placed)
        for origin, grown in self.differ.update(placed):
            self.rows.amounts(origin.target, grown)
        looked = snapshot.latest_ns()
        self.last_ns = looked or self.last_ns
        for target, server in snapshot.servers().items():
            self.servers[target] = (looked or self.last_ns or self.path.stat().st_mtime_ns, server)
        for target, entries in snapshot.jobs.items():
            for amounts in self.jobs.setdefault(target, TargetJobs()).update(entries, looked):
                self._job(target, amounts, Quality.OK)
        for target, gauges in snapshot.gauges.items():
            self._states(snapshot, target, gauges)
        yield from self.rows.full()
        if len(self.job_rows) >= _FRAME_ROWS:
            yield self._job_frame()

    def finish(self) -> Pieces:
        for target, known in self.jobs.items():
            if known.looks == 1:
                for amounts in known.whole_lives():
                    self._job(target, amounts, Quality.WHOLE_LIFE)
        yield from self.rows.rest()
        if self.job_rows:
            yield self._job_frame()
        if self.servers:
            yield self._server_frame()
        self.made += self.rows.made
        if self.damaged:
            raise CorruptInput(f"{len(self.damaged)} parameter(s) left out: {self.damaged[0]}")
        left = "; ".join(f"{count} {what}" for what, count in self._left_out().items() if count)
        if self.made:
            return f"{self.path}: left out: {left}." if left else None
        if self.undated:
            raise UndatedInput(
                f"{self.path} holds states and no snapshot_time.", hint="Give --start, or record stats as well."
            )
        raise EmptyInput(
            f"{self.path} holds {self.snapshots} snapshot(s) of Lustre counters and nothing to compare"
            f"{f' ({left})' if left else ''}.",
            hint=_HINT,
        )

    def _left_out(self) -> Counter[str]:
        once = [known for known in self.jobs.values() if known.looks == 1]
        waiting = sum(len(list(known.without_begin())) for known in once)
        return Counter(
            {
                "parameter(s) of counters shown once, where two give amounts": self.differ.shown_once,
                "job(s) shown once, without start_time": waiting,
                "job(s) that began at an unknown time": sum(known.unplaced for known in self.jobs.values()),
                "state(s) without a time (give --start)": self.undated if self.made else 0,
                "statistics of services, whose server is not named (give --host)": self.unnamed,
            }
        )

    def _job(self, target: Target, amounts: JobAmounts, flag: Quality) -> None:
        flag |= Quality.RESET if amounts.restarted else Quality.OK
        self.job_rows += job_rows(target, amounts, int(flag), self.context.cluster)

    def _states(self, snapshot: Snapshot, target: Target, gauges: dict[str, int]) -> None:
        moment = snapshot.time_ns(target) or self.last_ns
        if moment is None:
            self.undated += len(gauges)
            return
        for metric, value in sorted(gauges.items()):
            hour = (target, metric, moment // HOUR_NS)
            if hour not in self.kept_hours:
                self.kept_hours.add(hour)
                minute = moment // MINUTE_NS * MINUTE_NS
                self.rows.value(target, minute, MINUTE_NS, metric, float(value))

    def _server_frame(self) -> tuple[str, Frame]:
        found = sorted(self.servers.items())
        frame = COMPONENTS.frame(
            system=[target.system for target, _ in found],
            kind=[target.kind for target, _ in found],
            component=[target.name for target, _ in found],
            # Since the day of the last look, so that recordings of one day say the same.
            valid_from_ns=np.array([moment // DAY_NS * DAY_NS for _, (moment, _) in found], np.int64),
            server=[server for _, (_, server) in found],
            rows=len(found),
        )
        self.made += frame.rows
        return "components", frame

    def _job_frame(self) -> tuple[str, Frame]:
        names = JOB_OPERATIONS.names
        frame = JOB_OPERATIONS.frame({name: [row[name] for row in self.job_rows] for name in names})
        self.made += frame.rows
        self.job_rows = []
        return "job_operations", frame
