"""The probe of every storage target in turn (kun19's outlook): one small file on each, one target at a tick.

A sick target is so seen from a client, within minutes, without access to any server; the load stays the same however
many targets there are. Rows name the target as their component.
"""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ioweather.core.errors import SourceError
from ioweather.core.private_directory import PrivateDirectory
from ioweather.core.probe_sizes import TARGET_PROBE_BYTES
from ioweather.core.units import KIB, NS
from ioweather.sources.live.claim import Claim, folder_below, leaving
from ioweather.sources.live.contract import Operation, Ready, Reporter
from ioweather.sources.live.datafile import DataFile, check_space
from ioweather.sources.live.placement import Placed, place_on_all
from ioweather.sources.live.rows import Origin, response_row
from ioweather.sources.live.timing import Timing, timed
from ioweather.sources.mounts import is_inside, mount_point, system_of

REQUEST_BYTES: Final = TARGET_PROBE_BYTES
_FILL_BYTES_PER_S: Final = 64 * 1024 * KIB


@dataclass
class TargetProbe:
    target: str
    period_ns: int = NS
    run_id: str = ""
    directory: str = ""
    system: str | None = None
    host: str = field(default_factory=socket.gethostname)
    required_mount: str | None = None
    keep_files: bool = False
    name: str = "targets"
    is_periodic: bool = True
    operations: tuple[Operation, ...] = ()  # a tick that is missed is no particular target's

    def __post_init__(self) -> None:
        self.folder = folder_below(self.target, f"targets-{self.directory or self.host}")
        self._claim = Claim(self.host, self.run_id)
        self._checked: PrivateDirectory | None = None  # and closed, as the probe's
        self.origin = Origin(self.host, self.target, self.system or system_of(self.target), self.run_id)
        self.placed: list[Placed] = []
        self._files: dict[str, DataFile] = {}
        self._next = 0

    @property
    def label(self) -> str:
        return self.target

    def prepare(self, reporter: Reporter) -> Ready:
        reporter.begin("prepare", 0, None)
        if not Path(self.target).is_dir():
            raise SourceError(
                f"{self.target} is not a directory.", hint="Name a directory on the file system to probe."
            )
        mount = mount_point(os.path.realpath(self.target))
        if self.required_mount is not None and not is_inside(mount, os.path.realpath(self.required_mount)):
            raise SourceError(f"{self.required_mount} is not mounted: {self.target} lies on {mount} now.")
        with PrivateDirectory.at(self.folder) as folder:
            self._claim.take(folder)
            self._checked = folder
            progress = self._claim.signing(folder, reporter.progress)
            check_space(folder, REQUEST_BYTES, 1)

            def make(name: str) -> None:
                file = DataFile(name, REQUEST_BYTES, REQUEST_BYTES)
                file.fill(folder, progress, _FILL_BYTES_PER_S)
                self._files[name] = file

            self.placed = place_on_all(folder, make)
            self._files = {each.name: self._files[each.name] for each in self.placed}
            for file in self._files.values():
                file.find_access(folder)
        if not self.placed:
            raise SourceError(f"no storage target of {self.target} was found.")
        if self.system is None:
            self.origin = replace(self.origin, system=system_of(os.path.realpath(self.target)))
        access = next(iter(self._files.values())).access
        return Ready(self.origin.system, access, f"{len(self.placed)} targets, one at a time")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        placed = self.placed[self._next % len(self.placed)]
        self._next += 1
        file = self._files[placed.name]
        read, write = (Operation(op, REQUEST_BYTES, "nocache") for op in ("read", "write_sync"))
        reporter.begin(read.op, REQUEST_BYTES, scheduled_ns)
        opened: list[int] = []
        failed = timed(lambda: opened.append(self._open(file)))
        if not opened:
            for kind in (read, write):
                self._report(kind, failed, scheduled_ns, None, placed, reporter)
            return
        fd = opened[0]
        try:
            cached = file.make_uncached(fd, 0, REQUEST_BYTES)
            self._report(read, timed(file.read, fd, 0, REQUEST_BYTES), scheduled_ns, cached, placed, reporter)
            reporter.begin(write.op, REQUEST_BYTES, scheduled_ns)
            file.renew()
            timing = timed(_write_sync, file, fd)
            reached = None if file.reaches_storage is None else not file.reaches_storage
            self._report(write, timing, scheduled_ns, reached, placed, reporter)
        finally:
            os.close(fd)

    def _open(self, file: DataFile) -> int:
        if self._checked is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        folder = self._checked.again()
        try:
            if self._claim.is_lost(folder):
                raise OSError(errno.EBUSY, "another probe has taken the folder")
            return file.open(folder)
        finally:
            os.close(folder)

    def _report(
        self,
        kind: Operation,
        timing: Timing,
        scheduled_ns: int,
        cached: bool | None,
        placed: Placed,
        reporter: Reporter,
    ) -> None:
        row = response_row(self.origin, kind, timing, scheduled_ns, cached, placed.component)
        reporter.row("responses", row)

    def finish(self, reporter: Reporter) -> None:
        if self._checked is None:
            return
        reporter.begin("clean up", 0, None)
        with leaving(self._checked, self._claim, keep=self.keep_files) as folder:
            if folder is not None:
                for placed in self.placed:
                    folder.discard(placed.name)


def _write_sync(file: DataFile, fd: int) -> None:
    file.write(fd, 0, REQUEST_BYTES)
    os.fdatasync(fd)
