"""The probe of every storage target in turn (kun19's outlook): one small file on each, one target per tick.

It sees a slow target from a client within minutes, without access to any server, and its load does not grow with the
number of targets. Rows name the target as their component. Each metadata target of Lustre has a folder, in which an
empty file is made and removed.

Lustre places a file on a named target (`lfs setstripe -i`), and a directory on a metadata target (`lfs mkdir -i`).
MooseFS chooses itself and reports where a file is (`mfsfileinfo`): files are made until each server has one, up to a
limit. Where files are is noted in the folder, because it may not be possible to find out while a server hangs.

A target that hangs when the probe starts takes no new file; a file from an earlier run is used. Missing and new
targets, and files that are gone, are looked for again after some minutes, later once an hour.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from ioweather.agent.probe import ProbeSettings
from ioweather.agent.probe_files import DataFile, FileProbe, check_space
from ioweather.agent.sensor import Operation, Reporter, Timing, response_row, run_tool, timed, timed_open
from ioweather.core.errors import IoweatherError, SourceError, UnsafePlace
from ioweather.core.safe_files import PrivateDirectory, file_system_of
from ioweather.core.units import HOUR_NS, KIB, MINUTE_NS, TARGET_PROBE_BYTES

_ACTIVE: Final = re.compile(r"^ *([0-9]+): +(\S+) +ACTIVE", re.MULTILINE)
_COPY: Final = re.compile(r"copy \d+: (\S+?:\d+)")
# MooseFS: files in a row without a new server that end the search, and the limit of files.
_TRIES, _MAX_FILES = 12, 1000
_TOOL_SECONDS: Final = 30.0
NOTE: Final = "placed.json"


def place_on_ost(folder: PrivateDirectory, name: str, ost: int) -> None:
    """Make an empty file whose only stripe is on this OST."""
    if shutil.which("lfs") is None:
        raise SourceError("files are placed on OSTs by `lfs`, which is not here.", hint="Leave --osts out.")
    _run_in(folder, ["lfs", "setstripe", "-c", "1", "-i", str(ost), name])


def osts_of(folder: PrivateDirectory, kinds: Literal["osts", "mdts"] = "osts") -> list[tuple[int, str]]:
    """Return numbers and names of the active OSTs, or MDTs; none if this is not Lustre."""
    kind = file_system_of(os.path.realpath(folder.path))[1]
    if kind != "lustre" or shutil.which("lfs") is None:
        return []
    text = _run_in(folder, ["lfs", kinds, "."])
    return [(int(number), name.removesuffix("_UUID")) for number, name in _ACTIVE.findall(text)]


def _run_in(folder: PrivateDirectory, command: list[str]) -> str:
    """Run a program of the file system in the directory that was checked, whatever has its name now."""
    what = f"{' '.join(command)} in {folder.path}"
    return run_tool(command, _TOOL_SECONDS, what=what, cwd=f"/proc/self/fd/{folder.fd}")


# Components by the name of the file, or folder, that is on them.
Placed = dict[str, str]


def _place_on_lustre(folder: PrivateDirectory, make: Callable[[str], None]) -> tuple[Placed, Placed, dict[str, str]]:
    """Return files on OSTs, folders on MDTs, and the targets that take none now, as they hang or are full, with the
    reason."""
    files: Placed = {}
    folders: Placed = {}
    without: dict[str, str] = {}
    existing = set(folder.names())
    for number, component in osts_of(folder):
        name = f"target-{number:04x}"
        try:
            if name not in existing:
                place_on_ost(folder, name, number)
            make(name)
            files[name] = component
        except (SourceError, OSError) as error:
            without[component] = str(error)
    mdts = osts_of(folder, "mdts")
    for number, component in mdts:
        name = f"metadata-{number:04x}"
        try:
            if name not in existing and len(mdts) > 1:  # choosing one needs a right that not every user has
                _run_in(folder, ["lfs", "mkdir", "-i", str(number), name])
            folder.inside(name).close()
            folders[name] = component
        except (SourceError, UnsafePlace, OSError) as error:
            without[component] = str(error)
    return files, folders, without


def _place_on_chunk_servers(folder: PrivateDirectory, make: Callable[[str], None]) -> Placed:
    """Return one file on each server of MooseFS. New chunks go to the servers in turn, by free space: make files until
    each has one, and remove the rest."""
    noted: Placed = {}
    with suppress(OSError, ValueError, AttributeError):  # no note, or not ours
        noted = {str(name): str(server) for name, server in json.loads(folder.read(NOTE)).items()}
    chosen: dict[str, str] = {}
    in_vain = 0
    for number in range(_MAX_FILES):
        name = f"target-{number:04x}"
        make(name)
        servers = _COPY.findall(_run_in(folder, ["mfsfileinfo", name])) or [noted[name]] * (name in noted)
        # A file with copies on several servers measures none of them.
        if len(servers) == 1 and servers[0] not in chosen:
            chosen[servers[0]] = name
            in_vain = 0
        else:
            in_vain += 1
        if in_vain >= max(_TRIES, 3 * len(chosen)):
            break
    for spare in range(number + 1):
        if f"target-{spare:04x}" not in chosen.values():
            folder.discard(f"target-{spare:04x}")
    placed = {name: server for server, name in sorted(chosen.items())}
    folder.replace(NOTE, json.dumps(placed).encode())
    return placed


REQUEST_BYTES: Final = TARGET_PROBE_BYTES
_FILL_BYTES_PER_S: Final = 64 * 1024 * KIB
_FIRST_PAUSE_NS, _LONGEST_PAUSE_NS = 5 * MINUTE_NS, HOUR_NS
_READ, _WRITE = (Operation(op, REQUEST_BYTES, "nocache") for op in ("read", "write_sync"))
# Without data, so that no storage target is involved; and no cache answers.
_CREATE, _DELETE = (Operation(op, 0, "nocache") for op in ("create", "delete"))
_EMPTY_FILE: Final = "file"


@dataclass
class TargetProbe(FileProbe):
    """The probe of the storage targets of one file system. It takes the period and `keep_files` of the settings. A
    missed tick has no rows, because it belongs to no particular target."""

    settings: ProbeSettings = field(default_factory=ProbeSettings)
    name = "targets"
    folder_prefix = "targets-"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.placed: Placed = {}
        self._files: dict[str, DataFile] = {}
        self._folders: dict[str, PrivateDirectory] = {}  # of metadata targets; checked and closed
        self._next = 0
        self._placed_ns, self._pause_ns = 0, _FIRST_PAUSE_NS

    @property
    def period_ns(self) -> int:  # type: ignore[override]
        return self.settings.period_ns

    def make_files(self, reporter: Reporter) -> tuple[str, str]:
        without = self._place(reporter)
        if not self._files:
            why = "".join(f" {name}: {reason}" for name, reason in without.items())
            raise SourceError(f"no storage target of {self.target} was found.{why}")
        message = f"{len(self.placed)} targets, one at a time"
        if without:
            message += f"; not yet probed, for they took no file: {', '.join(without)}"
        return next(iter(self._files.values())).access, message

    def _place(self, reporter: Reporter) -> dict[str, str]:
        """Make a file or folder on every target that takes one; return the others, with the reason."""
        with self._own.claimed(reporter.progress) as (folder, progress):
            check_space(folder, REQUEST_BYTES, 1)
            made: dict[str, DataFile] = {}

            def make(name: str) -> None:
                made[name] = DataFile(name, REQUEST_BYTES, REQUEST_BYTES)
                made[name].fill(folder, progress, _FILL_BYTES_PER_S)

            kind = file_system_of(os.path.realpath(folder.path))[1] or ""
            folders: Placed = {}
            without: dict[str, str] = {}
            if kind == "lustre" and shutil.which("lfs"):
                files, folders, without = _place_on_lustre(folder, make)
            elif kind.startswith("fuse") and shutil.which("mfsfileinfo"):  # fails by itself on other FUSE file systems
                files = _place_on_chunk_servers(folder, make)
            else:
                raise SourceError(
                    f"{folder.path} lies on {kind or 'a file system'} that does not say where files lie.",
                    hint="Targets are probed one by one on Lustre (with `lfs`) and MooseFS (with `mfsfileinfo`).",
                )
            self._files = {name: made[name] for name in files}
            # Requests reach storage in the same way on all targets: test one, and do not wait for the others.
            for place, file in enumerate(self._files.values()):
                if place == 0:
                    first = file
                    file.find_access(folder)
                file.direct, file.reaches_storage = first.direct, first.reaches_storage
            self._folders = {}
            for name in folders:
                with folder.inside(name) as inner:
                    self._folders[name] = inner
            self.placed = {**files, **folders}
        self._placed_ns = time.monotonic_ns()
        return without

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        if time.monotonic_ns() - self._placed_ns > self._pause_ns:
            reporter.begin("prepare", 0, None)
            self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)
            self._placed_ns = time.monotonic_ns()
            with suppress(OSError, IoweatherError):  # the probe goes on with the targets that have files
                self._place(reporter)
        name = list(self.placed)[self._next % len(self.placed)]
        self._next += 1
        folder = self._folders.get(name)
        kinds = (_READ, _WRITE) if folder is None else (_CREATE, _DELETE)

        def report(kind: Operation, timing: Timing, cached: bool | None) -> None:
            row = response_row(self.origin, kind, timing, scheduled_ns, cached, self.placed[name])
            reporter.row("responses", row)

        reporter.begin(kinds[0].op, kinds[0].request_bytes, scheduled_ns)
        opener = self._files[name].open if folder is None else folder.again
        entered, fd = timed_open(self._own.open, opener)
        if entered.failed:
            for kind in kinds:
                report(kind, entered, None)
            return
        try:
            if folder is None:
                file = self._files[name]
                cached = file.make_uncached(fd, 0, REQUEST_BYTES)
                report(_READ, timed(file.read, fd, 0, REQUEST_BYTES), cached)
                reporter.begin(_WRITE.op, REQUEST_BYTES, scheduled_ns)
                file.renew()
                written = timed(file.write_sync, fd, 0, REQUEST_BYTES, os.fdatasync)
                report(_WRITE, written, None if file.reaches_storage is None else not file.reaches_storage)
            else:
                with suppress(OSError):  # left by a run that was killed between the two
                    os.unlink(_EMPTY_FILE, dir_fd=fd)
                # mknod(2) makes no objects on storage targets, unlike open(2) with O_CREAT.
                report(_CREATE, timed(lambda: os.mknod(_EMPTY_FILE, stat.S_IFREG | 0o600, dir_fd=fd)), False)
                reporter.begin(_DELETE.op, 0, scheduled_ns)
                report(_DELETE, timed(lambda: os.unlink(_EMPTY_FILE, dir_fd=fd)), False)
        finally:
            os.close(fd)

    def remove_files(self, folder: PrivateDirectory, reporter: Reporter) -> None:
        for name in (*self._files, NOTE):
            folder.discard(name)
        for name, checked in self._folders.items():
            with suppress(OSError):
                with checked.reopened(folder.fd) as inner:
                    inner.discard(_EMPTY_FILE)
                os.rmdir(name, dir_fd=folder.fd)
