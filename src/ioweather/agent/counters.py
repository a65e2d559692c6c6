"""Counters of this machine every few seconds, as amounts in `series`: block devices, NFS mounts, GPFS, and Lustre with
its jobs in `job_operations`; and jobs of Slurm's accounting, as the source `sacct` reads them.

`root` may be a copy of a machine's /proc and /sys.
"""

from __future__ import annotations

import operator
import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ioweather.agent.sensor import LiveSource, Ready, Reporter, event_row, report_growth, run_tool, series_row
from ioweather.core.counters.client_counters import counter_growth, parse_mountstats, samples
from ioweather.core.counters.diskstats import RESET, amounts_between, parse_diskstats
from ioweather.core.counters.growth import Clocks, Differ, ForwardTime, Growth, Origin, Sample, Step, Target
from ioweather.core.counters.lustre_snapshot import Snapshot, is_tree, job_stats_files, read_tree
from ioweather.core.counters.lustre_text import ENTRY, JobAmounts, TargetJobs, job_rows, parse_entry, unquoted
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS

_NOT_STORAGE = re.compile(r"(?:loop|ram|zram|sr|fd)\d+(?:p\d+)?")
MOUNTSTATS = Path("proc/self/mountstats")
# Where GPFS installs its commands; it is rarely on the PATH.
_GPFS_COMMANDS = "/usr/lpp/mmfs/bin"
SACCT_FIELDS = "JobID,JobIDRaw,Cluster,UID,User,Account,JobName,State,Submit,Start,End,NNodes,NCPUS,NodeList"
# Accounting arrives late: each poll looks back beyond the last one, and the lake ignores rows that it has.
_SACCT_OVERLAP_NS = HOUR_NS


@dataclass
class _FileSource(LiveSource):
    """Base of sources that read one file of /proc below `root`: counters by name."""

    period_ns: int = 10 * NS
    root: Path = Path("/")
    host: str = field(default_factory=socket.gethostname)
    clocks: Clocks = field(default_factory=Clocks)
    file = Path()
    nothing = ""  # said if the file names nothing

    def __post_init__(self) -> None:
        self._time = ForwardTime()
        self._last: Mapping[str, Any] = {}
        self._last_wall_ns = 0

    def prepare(self, reporter: Reporter) -> Ready:
        return Ready(self.host, message=", ".join(sorted(self._parsed())) or self.nothing)

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        """Report the growth since the last reading, if the interval has a place in time; a clock that was set is a
        gap."""
        wall_ns, monotonic_ns = self.clocks.wall_ns(), self.clocks.monotonic_ns()
        found, step = self._parsed(), self._time.step(wall_ns, monotonic_ns)
        if step is not None and step.gap is not None:
            gap, key = step.gap, f"gap:{self.host}:{self.name}:{step.gap.start_ns}"
            reporter.row("events", event_row(key, "gap", gap.label, gap.start_ns, gap.end_ns, host=self.host))
        if step is not None and step.is_placed:
            for name in found:
                if name in self._last:
                    self._report(name, self._last[name], found[name], step, reporter)
        self._note_gone(found, wall_ns, reporter)
        self._last, self._last_wall_ns = found, wall_ns

    def _parsed(self) -> Mapping[str, Any]:
        path = self.root / self.file
        try:
            return self._parse(path.read_text(encoding="utf-8", errors="replace"), str(path))
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}.") from None

    def _parse(self, text: str, where: str) -> Mapping[str, Any]:
        raise NotImplementedError

    def _report(self, name: str, before: Any, after: Any, step: Step, reporter: Reporter) -> None:
        raise NotImplementedError

    def _note_gone(self, found: Mapping[str, Any], wall_ns: int, reporter: Reporter) -> None:
        """Report what is there no more, if that is an event."""


@dataclass
class BlockDevices(_FileSource):
    """/proc/diskstats, each byte once: devices on top of others (md, dm, multipath, bcache) are left out in favour of
    the ones below, and so are partitions. Devices made of files or memory (loop, ram, zram) are left out. A device that
    was pulled out leaves a gap until it is back."""

    name = "block"
    file = Path("proc/diskstats")
    nothing = "no device that stores anything"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._away: dict[str, dict[str, object]] = {}

    def _report(self, name: str, before: Any, after: Any, step: Step, reporter: Reporter) -> None:
        amounts = amounts_between(before, after, step.interval_ns / NS)
        target = Target(f"{self.host}:{name}", "device", name)
        for metric, value in amounts.values.items() if amounts is not None else ():
            flag = RESET if amounts is not None and amounts.restarted else 0
            reporter.row("series", series_row(target, step.start_ns, step.interval_ns, metric, value, flag))

    def _note_gone(self, found: Mapping[str, Any], wall_ns: int, reporter: Reporter) -> None:
        for device in self._last.keys() - found.keys():
            key = f"gap:{self.host}:{device}:{self._last_wall_ns}"
            named: Any = {"host": self.host, "system": f"{self.host}:{device}", "component": device}
            self._away[device] = event_row(key, "gap", "device is gone", self._last_wall_ns, **named)
            reporter.row("events", self._away[device])
        for device in self._away.keys() & found.keys():
            reporter.row("events", {**self._away.pop(device), "end_ns": wall_ns})

    def _parse(self, text: str, where: str) -> Mapping[str, Any]:
        """Return the whole devices to be counted; sysfs shows which device is on which."""
        blocks, found = self.root / "sys/block", {}
        for name, numbers in parse_diskstats(text).items():
            folder = blocks / name.replace(
                "/", "!"
            )  # as sysfs writes cciss/c0d0; that of a partition is in its device's
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
    nothing = "nothing is mounted by NFS"

    def _parse(self, text: str, where: str) -> Mapping[str, Any]:
        return {mount.path: mount for mount in parse_mountstats(text.splitlines(), where)}

    def _report(self, name: str, before: Any, after: Any, step: Step, reporter: Reporter) -> None:
        grown = counter_growth(before, after, step.start_ns, step.start_ns + step.interval_ns)
        report_growth(reporter, Target(f"mount:{name}", "host", self.host), grown)


def mmpmon() -> str | None:
    """Return the path of GPFS's mmpmon, if it is installed."""
    return shutil.which("mmpmon", path=f"{os.environ.get('PATH', os.defpath)}:{_GPFS_COMMANDS}")


@dataclass
class GpfsNode(LiveSource):
    """I/O of GPFS file systems as counted by this node."""

    period_ns: int = 10 * NS
    timeout_seconds: float = 30.0
    host: str = field(default_factory=socket.gethostname)
    name = "gpfs"

    def __post_init__(self) -> None:
        self._differ = Differ()
        self._covered_until_ns: dict[Origin, int] = {}

    def prepare(self, reporter: Reporter) -> Ready:
        found = sorted({origin.target.system for origin, _ in self._ask()[0]})
        return Ready(self.host, message=", ".join(found) or "no GPFS file system is mounted here")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        found, refused = self._ask()
        for origin, grown in self._differ.update(found):
            # After a clock was set back the same seconds are not reported twice.
            if grown.start_ns >= self._covered_until_ns.get(origin, 0):
                self._covered_until_ns[origin] = grown.end_ns
                report_growth(reporter, origin.target, grown)
        if refused:
            raise SourceError(f"{len(refused)} answer(s) of mmpmon left out: {refused[0]}.")

    def _ask(self) -> tuple[list[tuple[Origin, Sample]], list[str]]:
        command = mmpmon()
        if command is None:
            raise SourceError("mmpmon is not installed here.", hint="Run this on a node of GPFS, as root.")
        text = run_tool([command, "-p", "-i", "/dev/stdin"], self.timeout_seconds, stdin="fs_io_s\n")
        answers = list(samples(text.splitlines()))
        refused = [answer for answer in answers if isinstance(answer, str)]
        found = [answer for answer in answers if not isinstance(answer, str)]
        return [(o._replace(target=o.target._replace(name=self.host)), sample) for o, sample in found], refused


def has_sacct() -> bool:
    """Return whether Slurm's accounting can be queried."""
    return shutil.which("sacct") is not None


@dataclass
class SlurmAccounting(LiveSource):
    """Jobs of all users, as documents with the output of `sacct`."""

    period_ns: int = 5 * MINUTE_NS
    timeout_seconds: float = 120.0
    host: str = field(default_factory=socket.gethostname)
    clocks: Clocks = field(default_factory=Clocks)
    name = "slurm"

    def __post_init__(self) -> None:
        self._since_ns: int | None = None
        self._last = ""

    def prepare(self, reporter: Reporter) -> Ready:
        if not has_sacct():
            raise SourceError("sacct is not on the PATH.", hint="Run this where Slurm's commands are.")
        return Ready(self.host)

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        now = self.clocks.wall_ns()
        since = now - 24 * HOUR_NS if self._since_ns is None else self._since_ns - _SACCT_OVERLAP_NS
        text = poll_accounting((now - since) // NS, self.timeout_seconds)
        self._since_ns = now
        if text.count("\n") > 1 and text != self._last:
            reporter.document(f"sacct-{now}.txt", text)
        self._last = text


def poll_accounting(back_seconds: int, timeout_seconds: float = 120.0) -> str:
    """Return the jobs of all users in the last seconds, as the source `sacct` reads them."""
    command = ["sacct", "--allusers", "--parsable2", "--delimiter=\x1f"]
    command += [f"--starttime=now-{back_seconds}seconds", f"--format={SACCT_FIELDS}"]
    # Epochs: no zone to guess.
    return run_tool(command, timeout_seconds, environment={"SLURM_TIME_FORMAT": "%s"})


# The server of a target, as `series` calls it.
_SERVERS: Final = {"ost": "oss", "mdt": "mds"}
# user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice already.
_COUNTED: Final = 8
_IDLE: Final = slice(3, 5)


_STAT: Final = ("proc/stat",)
_LNET_STATS: Final = ("sys/kernel/debug/lnet/stats", "proc/sys/lnet/stats")
# Places of its numbers: errors and messages, then lengths; as lnet_counters has them.
_LNET_METRICS: Final = {"network_drop_ops": 6, "network_send_bytes": 7, "network_receive_bytes": 8}
_LNET_NUMBERS: Final = 11


@dataclass
class ServerLoad:
    """Load of the machine that serves the targets of Lustre: its processors, and Lustre's network.

    `cpu_ratio` of each oss or mds that it is, once per file system: waiting for I/O counts as idle; time that other
    guests of a virtual machine took (steal) does not, as in sar. What the network moved, if the machine serves or
    mounts a single file system: the counters do not say whose messages they count. An interval in which a counter ran
    backwards is left out: those of idle time may do so (proc(5)), and others restart.
    """

    root: Path
    host: str
    clocks: Clocks
    _last: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict)
    _time: ForwardTime = field(default_factory=ForwardTime)

    def cycle(self, targets: Iterable[Target], reporter: Reporter) -> None:
        """Report the load since the last cycle."""
        systems = {(target.system, _SERVERS.get(target.kind, "host")) for target in targets}
        step = self._time.step(self.clocks.wall_ns(), self.clocks.monotonic_ns())
        ticks, network = self._grown(_STAT), self._grown(_LNET_STATS)
        if step is None or not step.is_placed:
            return
        ticks = ticks[1 : 1 + _COUNTED]
        rows: list[tuple[tuple[str, str], str, float]] = []
        if len(ticks) >= 4 and min(ticks) >= 0 and sum(ticks) > 0:
            busy = 1.0 - sum(ticks[_IDLE]) / sum(ticks)
            rows += [(each, "cpu_ratio", busy) for each in sorted(systems) if each[1] != "host"]
        moved = {name: network[place] for name, place in _LNET_METRICS.items() if len(network) == _LNET_NUMBERS}
        if len(systems) == 1 and moved and min(moved.values()) >= 0:
            rows += [(each, name, float(value)) for each in systems for name, value in moved.items()]
        for (system, kind), metric, value in rows:
            server = Target(system, kind, self.host)
            reporter.row("series", series_row(server, step.start_ns, step.interval_ns, metric, value, 0))

    def _grown(self, places: tuple[str, ...]) -> tuple[int, ...]:
        """Return the growth of the numbers in the first line of the first of these files; empty where it is unknown."""
        numbers: tuple[int, ...] = ()
        for place in places:
            with suppress(OSError):
                words = (self.root / place).read_text(encoding="ascii", errors="replace").rstrip("\0").split("\n")[0]
                found = [0 if word == "cpu" else word for word in words.split()]
                numbers = tuple(int(word) for word in found) if all(str(w).isdecimal() for w in found) else ()
                break
        last, self._last[places] = self._last.get(places, ()), numbers
        return tuple(map(operator.sub, numbers, last)) if len(last) == len(numbers) else ()


_MAX_ENTRY_BYTES = 64 << 10
_ENTRY = ENTRY.encode()


@dataclass
class LustreServer(LiveSource):
    """Counters of a Lustre server or client, and of its jobs. A target may list ten thousand jobs: only entries that
    changed are parsed."""

    period_ns: int = 10 * NS
    root: Path = Path("/")
    host: str = field(default_factory=socket.gethostname)
    cluster: str | None = None
    clocks: Clocks = field(default_factory=Clocks)
    name = "lustre"

    def __post_init__(self) -> None:
        self._differ = Differ()
        self._covered_until_ns: dict[Origin, int] = {}
        self._set_back: set[Origin] = set()
        self._hours: dict[tuple[Target, str], int] = {}
        self._days: dict[Target, int] = {}
        self._jobs: dict[Target, _JobList] = {}
        self._load = ServerLoad(self.root, self.host, self.clocks)

    def prepare(self, reporter: Reporter) -> Ready:
        if not is_tree(self.root):
            raise SourceError(
                f"{self.root} shows no Lustre server or client.", hint="Run this where Lustre runs, or give its root."
            )
        found = read_tree(self.root, self.host, with_jobs=False).samples
        targets = sorted({origin.target.name for origin in found})
        return Ready(self.host, message=", ".join(targets) or "no target is mounted here, or only root sees it")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        snapshot = read_tree(self.root, self.host, with_jobs=False)
        for origin, grown in self._differ.update(snapshot.placed(self.host)):
            if self._moves_forward(origin, grown, reporter):
                report_growth(reporter, origin.target, grown)
        self._states(snapshot, reporter)
        self._servers(snapshot, reporter)
        self._load.cycle({*(origin.target for origin in snapshot.samples), *snapshot.gauges}, reporter)
        for target, path in job_stats_files(self.root):
            known = self._jobs.setdefault(target, _JobList())
            for amounts in known.read(path, self.clocks.wall_ns()):
                for row in job_rows(target, amounts, RESET if amounts.restarted else 0, self.cluster):
                    reporter.row("job_operations", row)
        if snapshot.damaged:
            raise SourceError(f"{len(snapshot.damaged)} parameter(s) left out: {snapshot.damaged[0]}")

    def _moves_forward(self, origin: Origin, grown: Growth, reporter: Reporter) -> bool:
        """Snapshots carry the server's clock. After it was set back, the same minutes are not reported twice."""
        until = self._covered_until_ns.get(origin, 0)
        if grown.start_ns < until:
            if origin not in self._set_back:
                self._set_back.add(origin)
                target = origin.target
                key, words = f"gap:{self.host}:{target.name}:{grown.start_ns}", "clock of the server set back"
                named: Any = {"host": self.host, "system": target.system, "component": target.name}
                reporter.row("events", event_row(key, "gap", words, grown.start_ns, until, **named))
            return False
        self._set_back.discard(origin)
        self._covered_until_ns[origin] = grown.end_ns
        return True

    def _states(self, snapshot: Snapshot, reporter: Reporter) -> None:
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

    def _servers(self, snapshot: Snapshot, reporter: Reporter) -> None:
        """Report once a day which targets this server has."""
        day_ns = self.clocks.wall_ns() // DAY_NS * DAY_NS
        for target, server in snapshot.servers().items():
            if self._days.get(target) != day_ns:
                self._days[target] = day_ns
                named = {"system": target.system, "kind": target.kind, "component": target.name}
                row = {**named, "valid_from_ns": day_ns, "valid_to_ns": None, "server": server}
                reporter.row("components", {**row, "limit_bytes_per_s": None})


class _JobList:
    """The jobs of one target; of each entry only a hash is stored, to recognise those that did not change."""

    def __init__(self) -> None:
        self._jobs = TargetJobs()
        self._hashes: dict[str, int] = {}

    def read(self, path: Path, read_ns: int) -> Iterator[JobAmounts]:
        """Yield what the jobs moved since the last time."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}.", hint="Some of debugfs needs root.") from None
        hashes: dict[str, int] = {}
        for text in (b"\n" + data.rstrip(b"\n\0")).split(_ENTRY)[1:]:
            if len(text) > _MAX_ENTRY_BYTES:
                raise CorruptInput("an entry of job_stats is longer than any can be.")
            key = unquoted(text.partition(b"\n")[0].decode(errors="replace"))
            hashes[key] = hash(text)
            if self._hashes.get(key) != hashes[key]:
                amounts = self._jobs.see(*parse_entry(text.decode(errors="replace"), str(path)))
                if amounts is not None:
                    yield amounts
        self._hashes = hashes
        self._jobs.end_look(hashes.__contains__, read_ns)
