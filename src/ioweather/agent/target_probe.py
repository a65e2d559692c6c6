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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from ioweather.agent.data_file import DataFile, check_space
from ioweather.agent.placement import NOTE, Placed, place_on_all
from ioweather.agent.probe_claim import ProbeFolder
from ioweather.agent.sensor import Operation, Origin, Ready, Reporter, Timing, response_row, timed, timed_open
from ioweather.core.errors import IoweatherError, SourceError
from ioweather.core.safe_files import PrivateDirectory, system_of
from ioweather.core.units import HOUR_NS, KIB, MINUTE_NS, NS, TARGET_PROBE_BYTES

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
        name = f"targets-{self.directory or self.host}"
        self._own = ProbeFolder(self.target, name, self.host, self.run_id, self.required_mount)
        self.folder = self._own.path
        self.origin = Origin(self.host, self.target, self.system or system_of(self.target), self.run_id)
        self.placed: list[Placed] = []
        self._files: dict[str, DataFile] = {}
        self._folders: dict[str, PrivateDirectory] = {}  # of metadata targets; checked and closed
        self._without: dict[str, str] = {}
        self._next = 0
        self._look_ns, self._pause_ns = 0, _LOOK_AGAIN_NS

    @property
    def label(self) -> str:
        return self.target

    def prepare(self, reporter: Reporter) -> Ready:
        reporter.begin("prepare", 0, None)
        self._place(reporter)
        if not self._files:
            why = "".join(f" {name}: {reason}" for name, reason in self._without.items())
            raise SourceError(f"no storage target of {self.target} was found.{why}")
        if self.system is None:
            self.origin = replace(self.origin, system=system_of(os.path.realpath(self.target)))
        message = f"{len(self.placed)} targets, one at a time"
        if self._without:
            message += f"; not yet probed, for they took no file: {', '.join(self._without)}"
        return Ready(self.origin.system, next(iter(self._files.values())).access, message)

    def _place(self, reporter: Reporter) -> None:
        """Make a file or folder on every target that takes one."""
        with self._own.taken(reporter.progress) as (folder, progress):
            check_space(folder, REQUEST_BYTES, 1)
            made: dict[str, DataFile] = {}

            def make(name: str) -> None:
                made[name] = DataFile(name, REQUEST_BYTES, REQUEST_BYTES)
                made[name].fill(folder, progress, _FILL_BYTES_PER_S)

            found = place_on_all(folder, make)
            self._files = {each.name: made[each.name] for each in found.files}
            # Requests reach storage in the same way on all targets: look at one, and do not wait for the others.
            files = list(self._files.values())
            for file in files:
                if file is files[0]:
                    file.find_access(folder)
                else:
                    file.reach_as(files[0])
            self._folders = {}
            for each in found.folders:
                with folder.inside(each.name) as inner:
                    self._folders[each.name] = inner
            self.placed, self._without = [*found.files, *found.folders], found.without
        self._look_ns = time.monotonic_ns()

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        if time.monotonic_ns() - self._look_ns > self._pause_ns:
            reporter.begin("prepare", 0, None)
            self._pause_ns = min(2 * self._pause_ns, _LEAST_OFTEN_NS)
            self._look_ns = time.monotonic_ns()
            with suppress(OSError, IoweatherError):  # the targets that have files are probed on
                self._place(reporter)
        placed = self.placed[self._next % len(self.placed)]
        self._next += 1
        checked, file = self._folders.get(placed.name), self._files.get(placed.name)
        kinds = (_READ, _WRITE) if checked is None else (_CREATE, _DELETE)

        def report(kind: Operation, timing: Timing, cached: bool | None) -> None:
            row = response_row(self.origin, kind, timing, scheduled_ns, cached, placed.component)
            reporter.row("responses", row)

        reporter.begin(kinds[0].op, kinds[0].request_bytes, scheduled_ns)
        opener = checked.again if checked is not None else file.open if file is not None else None
        assert opener is not None
        entered, fd = timed_open(self._own.open, opener)
        if entered.failed:
            for kind in kinds:
                report(kind, entered, None)
            return
        try:
            if file is not None and checked is None:
                cached = file.make_uncached(fd, 0, REQUEST_BYTES)
                report(_READ, timed(file.read, fd, 0, REQUEST_BYTES), cached)
                reporter.begin(_WRITE.op, REQUEST_BYTES, scheduled_ns)
                file.renew()
                written = timed(_write_sync, file, fd)
                report(_WRITE, written, None if file.reaches_storage is None else not file.reaches_storage)
            else:
                with suppress(OSError):  # of a run that was killed between the two
                    os.unlink(_MADE, dir_fd=fd)
                report(_CREATE, timed(_make_empty, fd), False)
                reporter.begin(_DELETE.op, 0, scheduled_ns)
                report(_DELETE, timed(_remove, fd), False)
        finally:
            os.close(fd)

    def finish(self, reporter: Reporter) -> None:
        if not self._own.is_taken:
            return
        reporter.begin("clean up", 0, None)
        with self._own.leaving(keep=self.keep_files) as folder:
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
