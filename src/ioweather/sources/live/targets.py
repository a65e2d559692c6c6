"""The probe of every storage target in turn (kun19's outlook): one small file on each, one target at a tick.

A sick target is so seen from a client, within minutes, without access to any server; the load stays the same however
many targets there are. Rows name the target as their component. Metadata targets of Lustre have a folder each, in
which a file without data is made and removed.

A target that stands still while the probe begins takes no file; one that it has from before is probed. It is looked for
again, first after minutes, then once an hour; so are targets that were added, and files that are gone.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from ioweather.core.errors import IoweatherError, SourceError
from ioweather.core.private_directory import PrivateDirectory
from ioweather.core.probe_sizes import TARGET_PROBE_BYTES
from ioweather.core.units import HOUR_NS, KIB, MINUTE_NS, NS
from ioweather.sources.live.claim import Claim, folder_below, leaving, mount_below
from ioweather.sources.live.contract import Operation, Ready, Reporter
from ioweather.sources.live.datafile import DataFile, check_space
from ioweather.sources.live.placement import NOTE, Placed, place_on_all
from ioweather.sources.live.rows import Origin, response_row
from ioweather.sources.live.timing import Timing, timed
from ioweather.sources.mounts import mount_point, system_of

REQUEST_BYTES: Final = TARGET_PROBE_BYTES
_FILL_BYTES_PER_S: Final = 64 * 1024 * KIB
_LOOK_AGAIN_NS, _LEAST_OFTEN_NS = 5 * MINUTE_NS, HOUR_NS
_READ, _WRITE = (Operation(op, REQUEST_BYTES, "nocache") for op in ("read", "write_sync"))
# No data, and so no storage target; and no cache answers.
_CREATE, _DELETE = (Operation(op, 0, "nocache") for op in ("create", "delete"))
_MADE: Final = "file"


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
        self._folders: dict[str, PrivateDirectory] = {}  # of metadata targets; closed, too
        self._without: dict[str, str] = {}
        self._next = 0
        self._look_ns, self._pause_ns = 0, _LOOK_AGAIN_NS

    @property
    def label(self) -> str:
        return self.target

    def prepare(self, reporter: Reporter) -> Ready:
        reporter.begin("prepare", 0, None)
        self._place(mount_below(self.target, self.required_mount), reporter)
        if not self._files:
            why = "".join(f" {name}: {reason}" for name, reason in self._without.items())
            raise SourceError(f"no storage target of {self.target} was found.{why}")
        if self.system is None:
            self.origin = replace(self.origin, system=system_of(os.path.realpath(self.target)))
        access = next(iter(self._files.values())).access
        return Ready(self.origin.system, access, self._remark())

    def _remark(self) -> str:
        told = f"{len(self.placed)} targets, one at a time"
        if self._without:
            told += f"; not yet probed, for they took no file: {', '.join(self._without)}"
        return told

    def _place(self, mount: str, reporter: Reporter) -> None:
        """Files and folders for all targets that take one."""
        self._mount = mount
        with PrivateDirectory.at(self.folder) as folder:
            self._claim.take(folder)
            self._checked = folder
            progress = self._claim.signing(folder, reporter.progress)
            check_space(folder, REQUEST_BYTES, 1)
            made: dict[str, DataFile] = {}

            def make(name: str) -> None:
                made[name] = DataFile(name, REQUEST_BYTES, REQUEST_BYTES)
                made[name].fill(folder, progress, _FILL_BYTES_PER_S)

            found = place_on_all(folder, make)
            self._files = {each.name: made[each.name] for each in found.files}
            self._find_access(folder)
            self._folders = {}
            for each in found.folders:
                with folder.inside(each.name) as inner:
                    self._folders[each.name] = inner
            self.placed, self._without = [*found.files, *found.folders], found.without
        self._look_ns = time.monotonic_ns()

    def _find_access(self, folder: PrivateDirectory) -> None:
        """How requests reach storage is the same on all targets: one tells, and the others are not waited for."""
        files = list(self._files.values())
        for file in files[:1]:
            file.find_access(folder)
        for file in files[1:]:
            file.reach_as(files[0])

    def _look_again(self, reporter: Reporter) -> None:
        """Where that fails, those that have files are probed on."""
        reporter.begin("prepare", 0, None)
        self._pause_ns = min(2 * self._pause_ns, _LEAST_OFTEN_NS)
        self._look_ns = time.monotonic_ns()
        with suppress(OSError, IoweatherError):
            mount = mount_point(os.path.realpath(self.target))
            if mount == self._mount:  # else files would fill the disk that it is mounted over
                self._place(mount, reporter)

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        if time.monotonic_ns() - self._look_ns > self._pause_ns:
            self._look_again(reporter)
        placed = self.placed[self._next % len(self.placed)]
        self._next += 1
        if placed.name in self._folders:
            self._metadata_operations(placed, scheduled_ns, reporter)
        else:
            self._data_operations(placed, scheduled_ns, reporter)

    def _data_operations(self, placed: Placed, scheduled_ns: int, reporter: Reporter) -> None:
        file = self._files[placed.name]
        fd = self._entered(file.open, (_READ, _WRITE), placed, scheduled_ns, reporter)
        if fd is None:
            return
        try:
            cached = file.make_uncached(fd, 0, REQUEST_BYTES)
            self._report(_READ, timed(file.read, fd, 0, REQUEST_BYTES), scheduled_ns, cached, placed, reporter)
            reporter.begin(_WRITE.op, REQUEST_BYTES, scheduled_ns)
            file.renew()
            timing = timed(_write_sync, file, fd)
            reached = None if file.reaches_storage is None else not file.reaches_storage
            self._report(_WRITE, timing, scheduled_ns, reached, placed, reporter)
        finally:
            os.close(fd)

    def _metadata_operations(self, placed: Placed, scheduled_ns: int, reporter: Reporter) -> None:
        checked = self._folders[placed.name]
        fd = self._entered(checked.again, (_CREATE, _DELETE), placed, scheduled_ns, reporter)
        if fd is None:
            return
        try:
            with suppress(OSError):  # of a run that was killed between the two
                os.unlink(_MADE, dir_fd=fd)
            self._report(_CREATE, timed(_make_empty, fd), scheduled_ns, False, placed, reporter)
            reporter.begin(_DELETE.op, 0, scheduled_ns)
            self._report(_DELETE, timed(_remove, fd), scheduled_ns, False, placed, reporter)
        finally:
            os.close(fd)

    def _entered(
        self,
        enter: Callable[[int], int],
        kinds: tuple[Operation, Operation],
        placed: Placed,
        scheduled_ns: int,
        reporter: Reporter,
    ) -> int | None:
        """What `enter` opens in the probe's folder; where that fails, both operations did."""
        reporter.begin(kinds[0].op, kinds[0].request_bytes, scheduled_ns)
        opened: list[int] = []
        failed = timed(lambda: opened.append(self._claim.entered(self._checked, enter)))
        if opened:
            return opened[0]
        for kind in kinds:
            self._report(kind, failed, scheduled_ns, None, placed, reporter)
        return None

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
                for name in (*self._files, NOTE):
                    folder.discard(name)
                for name, checked in self._folders.items():
                    with suppress(OSError):
                        with checked.reopened(folder.fd) as inner:
                            inner.discard(_MADE)
                        os.rmdir(name, dir_fd=folder.fd)


def _write_sync(file: DataFile, fd: int) -> None:
    file.write(fd, 0, REQUEST_BYTES)
    os.fdatasync(fd)


def _make_empty(folder: int) -> None:
    """mknod(2) makes no objects on storage targets, as open(2) with O_CREAT does."""
    os.mknod(_MADE, stat.S_IFREG | 0o600, dir_fd=folder)


def _remove(folder: int) -> None:
    os.unlink(_MADE, dir_fd=folder)
