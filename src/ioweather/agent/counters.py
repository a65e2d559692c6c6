"""Counters of this machine every few seconds, as amounts in `series`: block devices, NFS mounts, GPFS; and jobs of
Slurm's accounting, as the source `sacct` reads them."""

from __future__ import annotations

import os
import re
import shutil
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioweather.agent.sensor import Reading, Ready, Reporter, event_row, report_growth, run_tool, series_row
from ioweather.core.counters.client_counters import Mount, growth_of, parse_mountstats, samples
from ioweather.core.counters.diskstats import RESET, amounts_between, parse_diskstats
from ioweather.core.counters.growth import Clocks, Differ, ForwardTime, Origin, Sample, Step, Target
from ioweather.core.errors import SourceError
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS

_NOT_STORAGE = re.compile(r"(?:loop|ram|zram|sr|fd)\d+(?:p\d+)?")
MOUNTSTATS = Path("proc/self/mountstats")
# Where GPFS installs its commands; few put that on their PATH.
_GPFS_COMMANDS = "/usr/lpp/mmfs/bin"
SACCT_FIELDS = "JobID,JobIDRaw,Cluster,UID,User,Account,JobName,State,Submit,Start,End,NNodes,NCPUS,NodeList"
# Accounting arrives late: each poll looks back further than the last one, and the lake takes no row twice.
_SACCT_OVERLAP_NS = HOUR_NS


@dataclass
class _FileReading(Reading):
    """Reads one file of /proc below `root`, which may be a copy."""

    period_ns: int = 10 * NS
    root: Path = Path("/")
    host: str = field(default_factory=socket.gethostname)
    clocks: Clocks = field(default_factory=Clocks)

    def __post_init__(self) -> None:
        self._time = ForwardTime()
        self._last: dict[str, Any] = {}

    def _read_text(self, path: Path) -> tuple[str, int, int]:
        """The text, and the wall and monotonic time at which it was read."""
        wall, monotonic = self.clocks.wall_ns(), self.clocks.monotonic_ns()
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace"), wall, monotonic
        except OSError as error:
            raise SourceError(f"{self.root / path} cannot be read: {error.strerror}.") from None

    def _step(self, wall_ns: int, monotonic_ns: int, reporter: Reporter) -> Step | None:
        """The interval since the last reading, if it has a place in time; a clock that was set is reported as a gap."""
        step = self._time.step(wall_ns, monotonic_ns)
        if step is not None and step.gap is not None:
            gap, key = step.gap, f"gap:{self.host}:{self.name}:{step.gap.start_ns}"
            reporter.row("events", event_row(key, "gap", gap.label, gap.start_ns, gap.end_ns, host=self.host))
        return step if step is not None and step.is_placed else None


@dataclass
class BlockDevices(_FileReading):
    """/proc/diskstats, each byte once: devices on top of others (md, dm, multipath, bcache) are left out in favour of
    the ones below, and so are partitions. `stacked` takes the top ones instead. Files and memory as devices (loop, ram,
    zram) are neither."""

    stacked: bool = False
    name = "block"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._last_wall_ns = 0
        self._away: dict[str, dict[str, object]] = {}

    def prepare(self, reporter: Reporter) -> Ready:
        return Ready(self.host, message=", ".join(sorted(self._read()[0])) or "no device that stores anything")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        devices, wall_ns, monotonic_ns = self._read()
        if step := self._step(wall_ns, monotonic_ns, reporter):
            for device in [name for name in devices if name in self._last]:
                amounts = amounts_between(self._last[device], devices[device], step.interval_ns / NS)
                if amounts is not None:
                    target, flag = Target(f"{self.host}:{device}", "device", device), RESET if amounts.restarted else 0
                    for metric, value in amounts.values.items():
                        row = series_row(target, step.start_ns, step.interval_ns, metric, value, flag)
                        reporter.row("series", row)
        # A device that was pulled out leaves a gap until it is back: nothing is known of the time between.
        for device in self._last.keys() - devices.keys():
            key = f"gap:{self.host}:{device}:{self._last_wall_ns}"
            self._away[device] = event_row(
                key, "gap", "device is gone", self._last_wall_ns, host=self.host, system=f"{self.host}:{device}",
                component=device,
            )  # fmt: skip
            reporter.row("events", self._away[device])
        for device in self._away.keys() & devices.keys():
            reporter.row("events", {**self._away.pop(device), "end_ns": wall_ns})
        self._last, self._last_wall_ns = devices, wall_ns

    def _read(self) -> tuple[dict[str, tuple[int, ...]], int, int]:
        text, wall, monotonic = self._read_text(Path("proc/diskstats"))
        return {name: found for name, found in parse_diskstats(text).items() if self._counts(name)}, wall, monotonic

    def _counts(self, name: str) -> bool:
        """Whether it is a whole device to be counted: sysfs shows which device is on which."""
        if _NOT_STORAGE.fullmatch(name):
            return False
        blocks = self.root / "sys/block"
        if not blocks.is_dir():
            return True
        folder = blocks / name.replace("/", "!")  # as sysfs writes cciss/c0d0
        if not folder.is_dir():  # a partition has its folder inside its device's
            return False
        if not self.stacked:
            return not _has_entries(folder / "slaves")
        # The holder may use the device or any partition of it.
        return not any(_has_entries(place) for place in (folder / "holders", *folder.glob("*/holders")))


def _has_entries(folder: Path) -> bool:
    try:
        return any(True for _ in folder.iterdir())
    except OSError:
        return False


def has_nfs(root: Path) -> bool:
    """Whether anything is mounted by NFS; reading the list of mounts asks no server."""
    try:
        return " with fstype nfs" in (root / MOUNTSTATS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


@dataclass
class NfsClient(_FileReading):
    name = "nfs"

    def prepare(self, reporter: Reporter) -> Ready:
        return Ready(self.host, message=", ".join(sorted(self._read()[0])) or "nothing is mounted by NFS")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        mounts, wall_ns, monotonic_ns = self._read()
        if step := self._step(wall_ns, monotonic_ns, reporter):
            for path, mount in mounts.items():
                if path in self._last:
                    grown = growth_of(self._last[path], mount, step.start_ns, step.start_ns + step.interval_ns)
                    report_growth(reporter, Target(f"mount:{path}", "host", self.host), grown)
        self._last = mounts

    def _read(self) -> tuple[dict[str, Mount], int, int]:
        text, wall, monotonic = self._read_text(MOUNTSTATS)
        mounts = parse_mountstats(text.splitlines(), str(self.root / MOUNTSTATS))
        return {mount.path: mount for mount in mounts}, wall, monotonic


def mmpmon() -> str | None:
    return shutil.which("mmpmon", path=f"{os.environ.get('PATH', os.defpath)}:{_GPFS_COMMANDS}")


@dataclass
class GpfsNode(Reading):
    """GPFS as this node counts it."""

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
        found: list[tuple[Origin, Sample]] = []
        refused: list[str] = []
        for item in samples(text.splitlines()):
            if isinstance(item, str):
                refused.append(item)
            else:
                origin, sample = item
                found.append((origin._replace(target=origin.target._replace(name=self.host)), sample))
        return found, refused


def has_sacct() -> bool:
    return shutil.which("sacct") is not None


@dataclass
class SlurmAccounting(Reading):
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
    """The jobs of all users in the last seconds, as the source `sacct` reads them."""
    command = ["sacct", "--allusers", "--parsable2", "--delimiter=\x1f"]
    command += [f"--starttime=now-{back_seconds}seconds", f"--format={SACCT_FIELDS}"]
    # Epochs: no zone to guess.
    return run_tool(command, timeout_seconds, environment={"SLURM_TIME_FORMAT": "%s"})
