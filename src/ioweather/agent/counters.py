"""Counters of this machine every few seconds, as amounts in `series`: block devices, NFS mounts, GPFS, and Lustre with
its jobs in `job_operations`.

`root` may be a copy of a machine's /proc and /sys.
"""

from __future__ import annotations

import operator
import os
import re
import shutil
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ioweather.agent.sensor import Clocks, LiveSource, Ready, Reporter, event_row, report_growth, run_tool, series_row
from ioweather.core.counters.client_counters import mount_growth, parse_mmpmon, parse_mountstats
from ioweather.core.counters.diskstats import RESET, amounts_between, parse_diskstats
from ioweather.core.counters.growth import Differ, Sample, Target
from ioweather.core.counters.lustre_snapshot import Snapshot, is_tree, job_stats_files, read_tree
from ioweather.core.counters.lustre_text import TargetJobs, job_rows
from ioweather.core.errors import SourceError
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS

_NOT_STORAGE = re.compile(r"(?:loop|ram|zram|sr|fd)\d+(?:p\d+)?")
MOUNTSTATS = Path("proc/self/mountstats")
# Where GPFS installs its commands; it is rarely on the PATH.
_GPFS_COMMANDS = "/usr/lpp/mmfs/bin"

# Clocks that NTP slews differ by 500 ppm at most; what differs more was set, or the machine slept.
_TOLERANCE_NS = 20_000_000
_MAX_STRETCHES = 100


class ForwardTime:
    """Turns times of readings by both clocks into intervals that neither overlap nor run backwards.

    After each `step`, `gap` is the time that is in no interval because the wall clock was set or the machine slept:
    start, end and label; else None.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        # Reported intervals: all before the first reading, since an earlier agent may have reported them, and one more
        # after each jump ahead. So a clock that was ahead for a while, and is right again, goes on at once.
        self._covered: list[tuple[int, int]] = []
        self.gap: tuple[int, int, str] | None = None

    def step(self, wall_ns: int, monotonic_ns: int) -> tuple[int, int] | None:
        """Return start and end of the interval since the last reading, in UTC ns; None for the first, and for one that
        was reported before."""
        last, self._last, self.gap = self._last, (wall_ns, monotonic_ns), None
        if last is None:
            self._covered = [(0, wall_ns)]
            return None
        length = monotonic_ns - last[1]
        jumped = wall_ns - last[0] - length
        start = wall_ns - length
        if abs(jumped) <= max(_TOLERANCE_NS, length // 10):
            start = last[0]
        elif jumped > 0:
            self.gap = (last[0], start, f"clock jumped forward by {jumped / 1e9:.3f} s (clock set, or host suspended)")
        else:
            reported_until = max([wall_ns, *(end for first, end in self._covered if first < wall_ns)])
            self.gap = (wall_ns, reported_until, f"clock jumped back by {-jumped / 1e9:.3f} s")
        if wall_ns <= start or any(start < end and first < wall_ns for first, end in self._covered):
            # The interval was reported before: drop these amounts rather than count them in the same minutes again.
            return None
        first, until = self._covered[-1]
        if until == start:
            self._covered[-1] = (first, wall_ns)
        else:
            self._covered = [*self._covered[-_MAX_STRETCHES:], (start, wall_ns)]
        return start, wall_ns


@dataclass
class _FileSource(LiveSource):
    """Base of sources that read one file of /proc below `root`: counters by name."""

    period_ns: int = 10 * NS
    root: Path = Path("/")
    host: str = field(default_factory=socket.gethostname)
    clocks: Clocks = field(default_factory=Clocks)
    file = Path()
    nothing = ""  # the message if the file names nothing

    def __post_init__(self) -> None:
        self._time = ForwardTime()
        self._last: Mapping[str, Any] = {}
        self._last_wall_ns = 0

    def prepare(self, reporter: Reporter) -> Ready:
        """Name what the file counts."""
        return Ready(self.host, message=", ".join(sorted(self._read())) or self.nothing)

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        """Report the growth since the last reading, if the interval has a place in time; a clock that was set is a
        gap."""
        wall_ns, monotonic_ns = self.clocks.wall_ns(), self.clocks.monotonic_ns()
        found, interval = self._read(), self._time.step(wall_ns, monotonic_ns)
        if self._time.gap is not None:
            start_ns, end_ns, label = self._time.gap
            key = f"gap:{self.host}:{self.name}:{start_ns}"
            reporter.row("events", event_row(key, "gap", label, start_ns, end_ns, host=self.host))
        if interval is not None:
            for name in found:
                if name in self._last:
                    self._report(name, self._last[name], found[name], interval, reporter)
        self._note_gone(found, wall_ns, reporter)
        self._last, self._last_wall_ns = found, wall_ns

    def _read(self) -> Mapping[str, Any]:
        """Return the counters in the file by name. Raises SourceError if it cannot be read."""
        path = self.root / self.file
        try:
            return self._parse(path.read_text(encoding="utf-8", errors="replace"), str(path))
        except OSError as error:
            raise SourceError(f"Cannot read {path}: {error.strerror}.") from None

    def _parse(self, text: str, where: str) -> Mapping[str, Any]:
        """Return the counters in the file by the name of the device or mount."""
        raise NotImplementedError

    def _report(self, name: str, before: Any, after: Any, interval: tuple[int, int], reporter: Reporter) -> None:
        """Report the growth of one device or mount in an interval (start and end in UTC ns)."""
        raise NotImplementedError

    def _note_gone(self, found: Mapping[str, Any], wall_ns: int, reporter: Reporter) -> None:
        """Report devices that disappeared, if that is an event."""


@dataclass
class BlockDevices(_FileSource):
    """/proc/diskstats, each byte once: devices on top of others (md, dm, multipath, bcache) are left out in favour of
    the ones below, and so are partitions. Devices made of files or memory (loop, ram, zram) are left out. A device that
    was pulled out leaves a gap until it is back."""

    name = "block"
    file = Path("proc/diskstats")
    nothing = "no storage device found"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._away: dict[str, dict[str, object]] = {}

    def _report(self, name: str, before: Any, after: Any, interval: tuple[int, int], reporter: Reporter) -> None:
        """Report the growth of a device as rows of `series`."""
        start_ns, length_ns = interval[0], interval[1] - interval[0]
        amounts, restarted = amounts_between(before, after, length_ns / NS) or ({}, False)
        target = Target(f"{self.host}:{name}", "device", name)
        for metric, value in amounts.items():
            reporter.row("series", series_row(target, start_ns, length_ns, metric, value, RESET if restarted else 0))

    def _note_gone(self, found: Mapping[str, Any], wall_ns: int, reporter: Reporter) -> None:
        """Report devices that disappeared as gaps, and the end of a gap when a device is back."""
        for device in self._last.keys() - found.keys():
            key = f"gap:{self.host}:{device}:{self._last_wall_ns}"
            named: Any = {"host": self.host, "system": f"{self.host}:{device}", "component": device}
            self._away[device] = event_row(key, "gap", "device disappeared", self._last_wall_ns, **named)
            reporter.row("events", self._away[device])
        for device in self._away.keys() & found.keys():
            reporter.row("events", {**self._away.pop(device), "end_ns": wall_ns})

    def _parse(self, text: str, where: str) -> Mapping[str, Any]:
        """Return the whole devices to be counted; sysfs shows which device is on which."""
        blocks, found = self.root / "sys/block", {}
        for name, numbers in parse_diskstats(text).items():
            # As sysfs writes cciss/c0d0. The folder of a partition is inside that of its device.
            folder = blocks / name.replace("/", "!")
            is_whole = not blocks.is_dir() or (folder.is_dir() and not any((folder / "slaves").glob("*")))
            if is_whole and not _NOT_STORAGE.fullmatch(name):
                found[name] = numbers
        return found


def has_nfs(root: Path) -> bool:
    """Return whether anything is mounted by NFS; the list of mounts is read without contacting a server."""
    try:
        return " with fstype nfs" in (root / MOUNTSTATS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


@dataclass
class NfsClient(_FileSource):
    """/proc/self/mountstats of NFS mounts."""

    name = "nfs"
    file = MOUNTSTATS
    nothing = "no NFS mount"

    def _parse(self, text: str, where: str) -> Mapping[str, Any]:
        return {mount.path: mount for mount in parse_mountstats(text.splitlines(), where)}

    def _report(self, name: str, before: Any, after: Any, interval: tuple[int, int], reporter: Reporter) -> None:
        report_growth(reporter, mount_growth(Target(f"mount:{name}", "host", self.host), before, after, *interval))


def mmpmon() -> str | None:
    """Return the path of GPFS's mmpmon, if it is installed."""
    return shutil.which("mmpmon", path=f"{os.environ.get('PATH', os.defpath)}:{_GPFS_COMMANDS}")


class _ForwardReport:
    """Reports the growth of counters that carry the clock of a server. After that clock was set back, the same minutes
    are not reported twice: they are a gap."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._differ = Differ()
        self._covered_until_ns: dict[tuple[Target, str], int] = {}
        self._set_back: set[tuple[Target, str]] = set()

    def report(self, samples: Iterable[Sample], reporter: Reporter) -> None:
        """Report the growth since the last samples of the same sources."""
        for grown in self._differ.update(samples):
            place, target = (grown.target, grown.source), grown.target
            until_ns = self._covered_until_ns.get(place, 0)
            if grown.start_ns >= until_ns:
                self._set_back.discard(place)
                self._covered_until_ns[place] = grown.end_ns
                report_growth(reporter, grown)
            elif place not in self._set_back:
                self._set_back.add(place)
                key, label = f"gap:{self._host}:{target.name}:{grown.start_ns}", "server clock set back"
                named: Any = {"host": self._host, "system": target.system, "component": target.name}
                reporter.row("events", event_row(key, "gap", label, grown.start_ns, until_ns, **named))


@dataclass
class GpfsNode(LiveSource):
    """I/O of GPFS file systems as counted by this node."""

    period_ns: int = 10 * NS
    timeout_seconds: float = 30.0
    host: str = field(default_factory=socket.gethostname)
    name = "gpfs"

    def __post_init__(self) -> None:
        self._growth = _ForwardReport(self.host)

    def prepare(self, reporter: Reporter) -> Ready:
        """Name the file systems."""
        found = sorted({sample.target.system for sample in self._query()[0]})
        return Ready(self.host, message=", ".join(found) or "no GPFS file system is mounted here")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        """Report the growth since the last cycle. Raises SourceError, at the end, if answers were left out."""
        samples, refused = self._query()
        self._growth.report(samples, reporter)
        if refused:
            raise SourceError(f"Skipped {len(refused)} mmpmon response(s): {refused[0]}.")

    def _query(self) -> tuple[list[Sample], list[str]]:
        """Return the samples of mmpmon, and why other answers were left out."""
        command = mmpmon()
        if command is None:
            raise SourceError("mmpmon is not installed here.", hint="Run this as root on a GPFS node.")
        text = run_tool([command, "-p", "-i", "/dev/stdin"], self.timeout_seconds, stdin="fs_io_s\n")
        answers = list(parse_mmpmon(text.splitlines()))
        refused = [answer for answer in answers if isinstance(answer, str)]
        found = [answer for answer in answers if not isinstance(answer, str)]
        return [sample._replace(target=sample.target._replace(name=self.host)) for sample in found], refused


# The server of a target, as `series` calls it.
_SERVERS: Final = {"ost": "oss", "mdt": "mds"}
# user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice already.
_COUNTED: Final = 8
_IDLE: Final = slice(3, 5)


@dataclass
class ServerLoad:
    """Load of the processors of a machine that serves targets of Lustre.

    `cpu_ratio` of each oss or mds that it is, once per file system: waiting for I/O counts as idle; time that other
    guests of a virtual machine took (steal) does not, as in sar. An interval in which a counter ran backwards is left
    out: those of idle time may do so (proc(5)).
    """

    root: Path
    host: str
    clocks: Clocks
    _last: tuple[int, ...] = ()
    _time: ForwardTime = field(default_factory=ForwardTime)

    def cycle(self, targets: Iterable[Target], reporter: Reporter) -> None:
        """Report the load since the last cycle."""
        servers = {(target.system, _SERVERS[target.kind]) for target in targets if target.kind in _SERVERS}
        interval = self._time.step(self.clocks.wall_ns(), self.clocks.monotonic_ns())
        last, self._last = self._last, self._read_ticks()
        ticks = tuple(map(operator.sub, self._last, last)) if len(last) == len(self._last) else ()
        if interval is None or len(ticks) < 4 or min(ticks) < 0 or sum(ticks) == 0:
            return
        busy = 1.0 - sum(ticks[_IDLE]) / sum(ticks)
        for system, kind in sorted(servers):
            server = Target(system, kind, self.host)
            reporter.row("series", series_row(server, interval[0], interval[1] - interval[0], "cpu_ratio", busy, 0))

    def _read_ticks(self) -> tuple[int, ...]:
        """Return the ticks of all processors since boot, by use; empty where they cannot be read."""
        with suppress(OSError):
            text = (self.root / "proc/stat").read_text(encoding="ascii", errors="replace")
            name, _, ticks = text.partition("\n")[0].partition(" ")
            if name == "cpu" and all(map(str.isdecimal, ticks.split())):
                return tuple(map(int, ticks.split()))[:_COUNTED]
        return ()


@dataclass
class LustreServer(LiveSource):
    """Counters of a Lustre server or client, and of its jobs."""

    period_ns: int = 10 * NS
    root: Path = Path("/")
    host: str = field(default_factory=socket.gethostname)
    cluster: str | None = None
    clocks: Clocks = field(default_factory=Clocks)
    name = "lustre"

    def __post_init__(self) -> None:
        self._growth = _ForwardReport(self.host)
        self._hours: dict[tuple[Target, str], int] = {}
        self._days: dict[Target, int] = {}
        self._jobs: dict[Target, TargetJobs] = {}
        self._load = ServerLoad(self.root, self.host, self.clocks)

    def prepare(self, reporter: Reporter) -> Ready:
        """Name the targets."""
        if not is_tree(self.root):
            raise SourceError(
                f"No Lustre server or client in {self.root}.", hint="Run this on a Lustre host, or set [collect] root."
            )
        samples = read_tree(self.root, self.host, with_jobs=False).samples
        targets = sorted({target.name for target, _ in samples})
        return Ready(self.host, message=", ".join(targets) or "no target is mounted here, or only root can see it")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        """Report counters, states, servers, load and jobs; at the end raise SourceError for what was left out."""
        snapshot = read_tree(self.root, self.host, with_jobs=False)
        self._growth.report(snapshot.placed(), reporter)
        self._report_states(snapshot, reporter)
        self._report_servers(snapshot, reporter)
        self._load.cycle(snapshot.targets, reporter)
        for target, path in job_stats_files(self.root):
            known = self._jobs.setdefault(target, TargetJobs(target))
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                hint = "Run as root: parts of debugfs require it."
                raise SourceError(f"Cannot read {path}: {error.strerror}.", hint=hint) from None
            for grown in known.update(text, self.clocks.wall_ns(), str(path)):
                for row in job_rows(grown, RESET if grown.restarted else 0, self.cluster):
                    reporter.row("job_operations", row)
        if snapshot.damaged:
            raise SourceError(f"Skipped {len(snapshot.damaged)} damaged parameter(s): {snapshot.damaged[0]}")

    def _report_states(self, snapshot: Snapshot, reporter: Reporter) -> None:
        """Report capacity and use of the targets, once an hour."""
        for target, gauges in snapshot.gauges.items():
            moment = snapshot.time_ns(target)
            if moment is None:
                continue
            for metric, value in sorted(gauges.items()):
                if self._hours.get((target, metric)) != moment // HOUR_NS:
                    self._hours[target, metric] = moment // HOUR_NS
                    minute = moment // MINUTE_NS * MINUTE_NS
                    reporter.row("series", series_row(target, minute, MINUTE_NS, metric, float(value), 0))

    def _report_servers(self, snapshot: Snapshot, reporter: Reporter) -> None:
        """Report once a day which targets this server has."""
        day_ns = self.clocks.wall_ns() // DAY_NS * DAY_NS
        for target, server in snapshot.servers().items():
            if self._days.get(target) != day_ns:
                self._days[target] = day_ns
                named = {"system": target.system, "kind": target.kind, "component": target.name}
                row = {**named, "valid_from_ns": day_ns, "valid_to_ns": None, "server": server}
                reporter.row("components", {**row, "limit_bytes_per_s": None})
