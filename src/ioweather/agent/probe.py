"""The probe of kun19, the probe of every storage target, and the sampler of don15.

The probe (kun19, section 3.1): a few small operations a second, timed one at a time.

One cycle reads one block and writes another at random places of a large file; then it stats, reads and deletes the
oldest small file of a pool and creates a new one. `write` is the time until the call returns, `write_sync` the time of
the same write until fdatasync(2) returns: both start at the same moment, and nothing is written twice.

The files of the pool are numbered; the pool is the range [oldest, newest]. They go through the page cache, as users'
files do. Their names are relative to a descriptor of the pool's directory.

The target probe (kun19's outlook): every storage target in turn, one small file on each, one target per tick.

It sees a slow target from a client within minutes, without access to any server, and its load does not grow with the
number of targets. Rows name the target as their component. Lustre places a file on a named target (`lfs setstripe -i`).
MooseFS chooses itself and reports where a file is (`mfsfileinfo`).

A target that hangs when the probe starts takes no new file; a file from an earlier run is used. Missing and new
targets, and files that are gone, are looked for again after some minutes, later once an hour.

The sampler (don15, section 2): response times of reads and writes by request size, cached and uncached.

nocache: the cache of the file is emptied before a read; a write ends with fsync(2), so its operation is `write_sync`.
cache: the same range was read just before, and a write ends when the call returns. There is one file per size on each
of four OSTs on Lustre, so that a slow OST is not mistaken for a slow size. After each
measurement the sampler rests, so that it is busy for at most the given share of the time.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

from ioweather.agent.probe_files import DataFile, FileProbe, check_space
from ioweather.agent.sensor import (
    Operation,
    Progress,
    Ready,
    Reporter,
    Timing,
    run_tool,
    timed,
    timed_open,
)
from ioweather.core.errors import IoweatherError, SourceError
from ioweather.core.safe_files import PrivateDirectory, file_system_of
from ioweather.core.units import HOUR_NS, KIB, MIB, MINUTE_NS, NS, TARGET_PROBE_BYTES, format_bytes

_NAME: Final = re.compile(r"[0-9]{12}")
_NEW: Final = os.O_CREAT | os.O_EXCL
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC


class FilePool:
    """Small files named by their number, and the four operations on them."""

    def __init__(self, count: int, file_bytes: int) -> None:
        self.count = count
        self.oldest = 0
        self.newest = -1
        self._content = random.randbytes(file_bytes)

    @staticmethod
    def name_of(number: int) -> str:
        """Return the name of a file of the pool."""
        return f"{number:012d}"

    @property
    def size(self) -> int:
        return self.newest - self.oldest + 1

    def prepare(self, folder: PrivateDirectory, progress: Progress) -> None:
        """Make missing files and remove those outside the range. Existing files are checked first, so that the cycles
        read and delete only files of ours."""
        present = {int(name) for name in folder.names() if _NAME.fullmatch(name)}
        for done, number in enumerate(present, 1):
            folder.check(self.name_of(number))
            if done % 1000 == 0:
                progress(done, len(present), "checking small files")
        self.newest = max(max(present, default=0), self.count - 1)
        self.oldest = self.newest - self.count + 1
        for number in present:
            if number < self.oldest:
                folder.unlink(self.name_of(number))
        for number in range(self.oldest, self.newest + 1):
            if number not in present:
                self.create(self.name_of(number), folder.fd)
                if number % 100 == 0:
                    progress(number - self.oldest + 1, self.count, "creating small files")

    def create(self, name: str, folder: int, flags: int = _NEW) -> None:
        """Create a file and write it."""
        fd = os.open(name, os.O_WRONLY | _FLAGS | flags, 0o600, dir_fd=folder)
        try:
            os.write(fd, self._content)
        finally:
            os.close(fd)

    def read(self, name: str, folder: int) -> None:
        """Open a file and read all of it. One byte more is requested, so that the read reaches the end of the file."""
        fd = os.open(name, os.O_RDONLY | _FLAGS, dir_fd=folder)
        try:
            os.read(fd, len(self._content) + 1)
        finally:
            os.close(fd)

    @staticmethod
    def stat(name: str, folder: int) -> None:
        """Stat a file."""
        os.stat(name, dir_fd=folder, follow_symlinks=False)

    @staticmethod
    def delete(name: str, folder: int) -> None:
        """Delete a file."""
        os.unlink(name, dir_fd=folder)

    def remove(self, folder: PrivateDirectory, progress: Progress) -> None:
        """Remove the files of the range and no others."""
        names = [name for name in folder.names() if _NAME.fullmatch(name) and self.oldest <= int(name) <= self.newest]
        for done, name in enumerate(names, 1):
            folder.discard(name)
            if done % 1000 == 0:
                progress(done, len(names), "removing small files")


_PREPARE_AGAIN_NS = 10 * NS
# Files that are gone, or a file system that was mounted again over them.
_GONE = (errno.ENOENT, errno.ESTALE, errno.ENOTDIR)


@dataclass(frozen=True)
class ProbeSettings:
    """The defaults are small enough for a laptop; JASMIN and Archer ran 200 GiB and 200,000 files."""

    period_ns: int = NS
    block_bytes: int = MIB
    file_bytes: int = 64 * MIB
    pool_files: int = 100
    small_file_bytes: int = 3901  # kun19 section 3.1; the size of IO-500's mdtest-hard files
    fill_bytes_per_s: float = 200 * MIB
    keep_files: bool = False

    def check(self) -> None:
        """Raise SourceError for sizes that O_DIRECT, or different places for read and write, do not allow."""
        if self.block_bytes % 4096 or self.block_bytes <= 0:
            raise SourceError(f"a request size of {self.block_bytes} bytes is not a multiple of 4096.")
        if self.file_bytes < 2 * self.block_bytes:
            size, block = format_bytes(self.file_bytes), format_bytes(self.block_bytes)
            raise SourceError(f"a file of {size} is too small for two requests of {block}.")
        if self.pool_files < 2 or self.small_file_bytes < 1 or self.period_ns < 10_000_000:
            raise SourceError("the minimum is 2 files per pool, 1 byte per file and a period of 10 ms.")

    @property
    def load(self) -> str:
        """The load that the probe puts on storage, as a sentence."""
        per_s = NS / self.period_ns
        return (
            f"{format_bytes(self.block_bytes * per_s)}/s read, {format_bytes(self.block_bytes * per_s)}/s written and "
            f"synced, {4 * per_s:.3g} operations/s on small files, 1 open of the large file per cycle"
        )


_ACCESS_NOTES: Final = {
    "cached": "this file system is in memory: reads do not reach storage",
    "dropped": "no O_DIRECT: the page cache is dropped before each read; writes are buffered",
    "direct": "O_DIRECT is accepted; requests may still be served from a cache",
}


@dataclass
class Probe(FileProbe):
    """The probe of kun19 on one path."""

    settings: ProbeSettings = field(default_factory=ProbeSettings)
    name = "probe"

    def __post_init__(self) -> None:
        super().__post_init__()
        settings = self.settings
        self._pool_folder: PrivateDirectory | None = None  # checked and closed
        self.data = DataFile("data", settings.file_bytes, settings.block_bytes)
        self.pool = FilePool(settings.pool_files, settings.small_file_bytes)
        # Two sequences, so that the place of a write does not follow from that of a read.
        self._read_places, self._write_places = self.generator(" read"), self.generator(" write")
        self._scratch = -1
        self._damaged = False
        self._prepared_ns = 0
        small, block = settings.small_file_bytes, settings.block_bytes
        self.operations = (
            Operation("read", block, "nocache"),
            Operation("write", block, "nocache"),
            Operation("write_sync", block, "nocache"),
            Operation("stat", 0, "cache"),
            Operation("file_read", small, "cache"),
            Operation("delete", 0, "cache"),
            Operation("create", small, "cache"),
        )

    def prepare(self, reporter: Reporter) -> Ready:
        """Make the files, and run one cycle that is not reported."""
        ready = super().prepare(reporter)
        self._scratch = os.memfd_create("ioweather")
        # One unreported cycle: the first call of each kind is slower than the later ones.
        self._cycle(0, Reporter())
        return ready

    def make_files(self, reporter: Reporter) -> tuple[str, str]:
        """Fill the large file, make the pool of small ones, and find out how requests reach storage."""
        with self._own.claimed(reporter.progress) as (folder, progress), folder.inside("pool") as pool:
            self._pool_folder = pool
            block = os.statvfs(folder.fd).f_frsize
            per_file = -(-self.settings.small_file_bytes // block) * block
            small = max(0, self.settings.pool_files - len(pool.names()))
            check_space(folder, self.data.missing_bytes(folder) + small * per_file, small)
            self.data.fill(folder, progress, self.settings.fill_bytes_per_s)
            self.pool.prepare(pool, progress)
            self.data.find_access(folder)
        self._damaged = False
        self._prepared_ns = time.monotonic_ns()
        access = self.data.access
        return access, "" if self.data.direct and self.data.reaches_storage else _ACCESS_NOTES[access]

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        """Time one operation of each kind."""
        if self._damaged and time.monotonic_ns() - self._prepared_ns > _PREPARE_AGAIN_NS:
            # Files are gone: make them again. While that fails, the operations themselves show why.
            reporter.begin("prepare", 0, None)
            try:
                self.make_files(reporter)
            except (OSError, IoweatherError):
                self._prepared_ns = time.monotonic_ns()
        self._cycle(scheduled_ns, reporter)

    def _cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        """Open folder and files, and time the operations; those that cannot be tried fail with the reason."""
        record = _Recorder(self, scheduled_ns, reporter)

        def open_for(operations: Sequence[Operation], opener: Callable[..., int], *arguments: object) -> int:
            """Return a descriptor; if that fails, report the failure for all operations and return -1."""
            timing, fd = timed_open(opener, *arguments)
            for operation in operations if timing.failed else ():
                record.put(operation.op, timing)
            return fd

        record.begin("read")
        folder = open_for(self.operations, self._own.open_folder)
        if folder < 0:
            return
        with _closing(folder):
            data = open_for(self.operations[:3], self.data.open, folder)
            if data >= 0:
                with _closing(data):
                    self._data_operations(record, data)
            record.begin("stat")
            assert self._pool_folder is not None
            pool = open_for(self.operations[3:], self._pool_folder.again, folder)
            if pool >= 0:
                with _closing(pool):
                    self._small_file_operations(record, pool)

    def _data_operations(self, record: _Recorder, fd: int) -> None:
        """Time a read, a write, and the same write until it is synced."""
        data, length = self.data, self.settings.block_bytes
        read_at, write_at = self._choose_offsets()
        cached: bool | None = None
        with suppress(OSError):  # here and below: the operation itself will fail, and be recorded
            cached = data.make_uncached(fd, read_at, length)
        timed(data.read, self._scratch, 0, 1)
        record.put("read", timed(data.read, fd, read_at, length), cached)
        record.begin("write")
        data.renew()
        timed(data.write, self._scratch, 0, 1)
        written = timed(data.write, fd, write_at, length)
        seen = data.reaches_storage is not None
        record.put("write", written, not data.direct if seen else None)
        record.begin("write_sync")
        if not written.failed:
            synced = timed(os.fdatasync, fd)
            written = synced._replace(start_ns=written.start_ns, duration_ns=written.duration_ns + synced.duration_ns)
        record.put("write_sync", written, not data.reaches_storage if seen else None)
        record.begin("close")
        if not data.direct:
            with suppress(OSError):
                data.make_uncached(fd, write_at, length)

    def _choose_offsets(self) -> tuple[int, int]:
        """Draw where to read and, elsewhere, to write in the large file, in bytes."""
        blocks = self.settings.file_bytes // self.settings.block_bytes
        read_at = self._read_places.randrange(blocks)
        write_at = self._write_places.randrange(blocks - 1)
        write_at += write_at >= read_at
        return read_at * self.settings.block_bytes, write_at * self.settings.block_bytes

    def _small_file_operations(self, record: _Recorder, folder: int) -> None:
        """Each operation is preceded by the same call on a file in memory: otherwise it is slower because its code and
        data left the processor's caches during the pause."""
        pool = self.pool
        oldest, new = pool.name_of(pool.oldest), pool.name_of(pool.newest + 1)
        timed(pool.stat, "/proc/self/stat", folder)
        record.put("stat", timed(pool.stat, oldest, folder))
        record.begin("file_read")
        timed(pool.read, "/proc/self/stat", folder)
        record.put("file_read", timed(pool.read, oldest, folder))
        record.begin("delete")
        timed(pool.delete, "/proc/self/none", folder)
        deleted = record.put("delete", timed(pool.delete, oldest, folder))
        if not deleted.failed or deleted.errno == errno.ENOENT:
            pool.oldest += 1
        record.begin("create")
        timed(pool.create, os.devnull, folder, 0)
        created = record.put("create", timed(pool.create, new, folder))
        if not created.failed or created.errno == errno.EEXIST:
            pool.newest += 1
        else:  # perhaps made and not filled: the next create would fail with EEXIST instead of the real error
            with suppress(OSError):
                pool.delete(new, folder)
        if pool.size == pool.count:
            return
        # After failures the pool has too many or too few files: one more untimed operation per cycle until it is right.
        record.begin("balance")
        with suppress(OSError):
            if pool.size > pool.count:
                pool.delete(pool.name_of(pool.oldest), folder)
                pool.oldest += 1
            else:
                pool.create(pool.name_of(pool.newest + 1), folder)
                pool.newest += 1

    def note_failure(self, timing: Timing) -> None:
        """If files are gone, make them again before one of the next cycles."""
        if timing.failed and (timing.errno is None or timing.errno in _GONE):
            self._damaged = True

    def remove_files(self, folder: PrivateDirectory, reporter: Reporter) -> None:
        """Remove the large file and the pool of small ones."""
        folder.discard(self.data.name)
        if self._pool_folder is not None:
            with suppress(FileNotFoundError), self._pool_folder.reopened(folder.fd) as pool:
                self.pool.remove(pool, reporter.progress)
        with suppress(OSError):  # other files in it are not ours to remove
            os.rmdir("pool", dir_fd=folder.fd)


class _Recorder:
    """Reports the operations of one cycle."""

    def __init__(self, probe: Probe, scheduled_ns: int, reporter: Reporter) -> None:
        self._probe, self._scheduled_ns, self._reporter = probe, scheduled_ns, reporter
        self._kinds = {operation.op: operation for operation in probe.operations}

    def begin(self, op: str) -> None:
        """Report a start; also of calls that are not timed, since they may hang too."""
        size = self._kinds[op].request_bytes if op in self._kinds else 0
        self._reporter.begin(op, size, self._scheduled_ns)

    def put(self, op: str, timing: Timing, cached: bool | None = None) -> Timing:
        """Report the row of an operation."""
        self._probe.note_failure(timing)
        self._probe.report(self._kinds[op], timing, self._scheduled_ns, self._reporter, cached)
        return timing


@contextmanager
def _closing(fd: int) -> Iterator[None]:
    """Close the descriptor at the end; an error of close(2) is none of an operation."""
    try:
        yield
    finally:
        with suppress(OSError):
            os.close(fd)


_ACTIVE: Final = re.compile(r"^ *([0-9]+): +(\S+) +ACTIVE", re.MULTILINE)
_COPY: Final = re.compile(r"copy \d+: (\S+?:\d+)")
# MooseFS: files in a row without a new server that end the search, and the limit of files.
_TRIES, _MAX_FILES = 12, 1000
_PLACEMENT_FILE: Final = "placed.json"
_TOOL_SECONDS: Final = 30.0


def place_on_ost(folder: PrivateDirectory, name: str, ost: int) -> None:
    """Make an empty file whose only stripe is on this OST."""
    _run_in(folder, ["lfs", "setstripe", "-c", "1", "-i", str(ost), name])


def osts_of(folder: PrivateDirectory) -> list[tuple[int, str]]:
    """Return numbers and names of the active OSTs; none if this is not Lustre, or `lfs` is missing."""
    kind = file_system_of(os.path.realpath(folder.path))[1]
    if kind != "lustre" or shutil.which("lfs") is None:
        return []
    text = _run_in(folder, ["lfs", "osts", "."])
    return [(int(number), name.removesuffix("_UUID")) for number, name in _ACTIVE.findall(text)]


def _run_in(folder: PrivateDirectory, command: list[str]) -> str:
    """Return the output of a program that runs in the directory that was checked, also if its name is another's now."""
    what = f"{' '.join(command)} in {folder.path}"
    return run_tool(command, _TOOL_SECONDS, what=what, cwd=f"/proc/self/fd/{folder.fd}")


REQUEST_BYTES: Final = TARGET_PROBE_BYTES
_FILL_BYTES_PER_S: Final = 64 * 1024 * KIB
_FIRST_PAUSE_NS, _LONGEST_PAUSE_NS = 5 * MINUTE_NS, HOUR_NS
_READ, _WRITE = (Operation(op, REQUEST_BYTES, "nocache") for op in ("read", "write_sync"))


@dataclass
class TargetProbe(FileProbe):
    """The probe of the storage targets of one file system. It takes the period and `keep_files` of the settings. A
    missed tick has no rows, because it belongs to no particular target."""

    settings: ProbeSettings = field(default_factory=ProbeSettings)
    name = "targets"
    folder_prefix = "targets-"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._files: dict[str, DataFile] = {}  # by the name of the target
        self._next = 0
        self._placed_ns, self._pause_ns = 0, _FIRST_PAUSE_NS

    def make_files(self, reporter: Reporter) -> tuple[str, str]:
        """Make a file on each target; the remark names the targets without one."""
        unavailable = self._place(reporter)
        if not self._files:
            why = "".join(f" {name}: {reason}" for name, reason in unavailable.items())
            raise SourceError(f"No storage target found for {self.target}.{why}")
        message = f"{len(self._files)} targets, one at a time"
        if unavailable:
            message += f"; not probed yet (no file could be created): {', '.join(unavailable)}"
        return next(iter(self._files.values())).access, message

    def _place(self, reporter: Reporter) -> dict[str, str]:
        """Make a file on every target that takes one; return the others, which hang or are full, with the reason."""
        with self._own.claimed(reporter.progress) as (folder, progress):
            check_space(folder, REQUEST_BYTES, 1)
            osts = osts_of(folder)
            files = {} if osts else self._place_on_servers(folder, progress)
            unavailable: dict[str, str] = {}
            existing = set(folder.names())
            for number, component in osts:
                file = DataFile(f"target-{number:04x}", REQUEST_BYTES, REQUEST_BYTES)
                try:
                    if file.name not in existing:
                        place_on_ost(folder, file.name, number)
                    file.fill(folder, progress, _FILL_BYTES_PER_S)
                    files[component] = file
                except (SourceError, OSError) as error:
                    unavailable[component] = str(error)
            # Requests reach storage in the same way on all targets: test one, and do not wait for the others.
            for place, file in enumerate(files.values()):
                if place == 0:
                    first = file
                    file.find_access(folder)
                file.direct, file.reaches_storage = first.direct, first.reaches_storage
            self._files = files
        self._placed_ns = time.monotonic_ns()
        return unavailable

    def _place_on_servers(self, folder: PrivateDirectory, progress: Progress) -> dict[str, DataFile]:
        """Make a file on each MooseFS server. New files go to the servers in turn, by free space: make files until each
        server has one, and remove the rest. A note says where files are, for when a server hangs at the next start."""
        kind = file_system_of(os.path.realpath(folder.path))[1] or "a file system"
        if not kind.startswith("fuse") or not shutil.which("mfsfileinfo"):
            raise SourceError(
                f"{folder.path} is on {kind}, which does not report the targets of a file.",
                hint="Individual targets can be probed on Lustre (with `lfs`) and MooseFS (with `mfsfileinfo`).",
            )
        noted: dict[str, list[str]] = {}
        with suppress(OSError, ValueError):  # no note yet
            noted = json.loads(folder.read(_PLACEMENT_FILE))
        files: dict[str, DataFile] = {}
        tries = 0
        for number in range(_MAX_FILES):
            file = DataFile(f"target-{number:04x}", REQUEST_BYTES, REQUEST_BYTES)
            file.fill(folder, progress, _FILL_BYTES_PER_S)
            servers = _COPY.findall(_run_in(folder, ["mfsfileinfo", file.name])) or noted.get(file.name, [])
            # A file with copies on several servers measures none of them.
            is_new = len(servers) == 1 and servers[0] not in files
            files |= {servers[0]: file} if is_new else {}
            tries = 0 if is_new else tries + 1
            if tries >= max(_TRIES, 3 * len(files)):
                break
        placed = {file.name: [server] for server, file in files.items()}
        for name in {name for name in folder.names() if name.startswith("target-")}.difference(placed):
            folder.discard(name)
        folder.replace(_PLACEMENT_FILE, json.dumps(placed).encode())
        return files

    def _place_after_pause(self, reporter: Reporter) -> None:
        """Retry targets without a file when the pause is over; each pause is twice the last, up to an hour."""
        if time.monotonic_ns() - self._placed_ns > self._pause_ns:
            reporter.begin("prepare", 0, None)
            self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)
            self._placed_ns = time.monotonic_ns()
            with suppress(OSError, IoweatherError):  # the probe goes on with the targets that have files
                self._place(reporter)

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        """Time a read and a write on the next target. If its file does not open, both have failed."""
        self._place_after_pause(reporter)
        component, file = list(self._files.items())[self._next % len(self._files)]
        self._next += 1
        reporter.begin(_READ.op, REQUEST_BYTES, scheduled_ns)
        opened, fd = timed_open(self._own.open_file, file.open)
        if opened.failed:
            for kind in (_READ, _WRITE):
                self.report(kind, opened, scheduled_ns, reporter, None, component)
            return
        try:
            cached = file.make_uncached(fd, 0, REQUEST_BYTES)
            self.report(_READ, timed(file.read, fd, 0, REQUEST_BYTES), scheduled_ns, reporter, cached, component)
            reporter.begin(_WRITE.op, REQUEST_BYTES, scheduled_ns)
            file.renew()
            written = timed(file.write_sync, fd, 0, REQUEST_BYTES, os.fdatasync)
            cached = None if file.reaches_storage is None else not file.reaches_storage
            self.report(_WRITE, written, scheduled_ns, reporter, cached, component)
        finally:
            os.close(fd)

    def remove_files(self, folder: PrivateDirectory, reporter: Reporter) -> None:
        """Remove the files of all targets, and the note on their servers."""
        for name in (*(file.name for file in self._files.values()), _PLACEMENT_FILE):
            folder.discard(name)


PAPER_SIZES = tuple(512 * KIB << power for power in range(12))  # 512 KiB .. 1 GiB (don15 section 2)
_PIECE_BYTES = MIB
_OSTS = 4


@dataclass(frozen=True)
class SamplerSettings:
    """`rounds`: times through all sizes, None for no end. `busy_ratio`: largest share of the time that it measures."""

    period_ns: ClassVar[int] = 50_000_000  # of looking whether the rest is over
    sizes: tuple[int, ...] = PAPER_SIZES
    modes: tuple[str, ...] = ("cache", "nocache")
    rounds: int | None = None
    busy_ratio: float = 0.1
    fill_bytes_per_s: float = 200 * MIB
    keep_files: bool = False

    def check(self) -> None:
        """Raise SourceError for values that cannot be measured with."""
        for size in self.sizes:
            if size < 4096 or size % 4096 or size > 1 << 30:
                raise SourceError(f"a request size of {size} bytes is not a multiple of 4096 between 4 KiB and 1 GiB.")
        if not self.sizes or not self.modes or not 0 < self.busy_ratio <= 1:
            raise SourceError("the sampler needs a size, a mode, and a busy share above 0 and at most 1.")


@dataclass
class Sampler(FileProbe):
    """The sampler of don15 on one path."""

    settings: SamplerSettings = field(default_factory=SamplerSettings)
    name = "sample"
    folder_prefix = "sample-"
    is_periodic = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._files = self._list_files(())
        self._random = self.generator()
        self._steps: list[tuple[DataFile, str | None, str, str]] = []  # file, OST, mode, operation
        self._rounds = 0
        self._resume_ns = 0

    def make_files(self, reporter: Reporter) -> tuple[str, str]:
        """Make the files on their OSTs, and find out how requests reach storage."""
        with self._own.claimed(reporter.progress) as (folder, progress):
            osts = [number for number, _ in osts_of(folder)]
            # Some of the targets, spread evenly: each of them takes a file of each size.
            self._files = self._list_files(osts[:: -(-len(osts) // _OSTS)] if osts else ())
            check_space(folder, sum(file.missing_bytes(folder) for file, _ in self._files), len(self._files))
            for file, ost in self._files:
                if ost is not None and file.name not in folder.names():
                    place_on_ost(folder, file.name, ost)
                file.fill(folder, progress, self.settings.fill_bytes_per_s)
                file.find_access(folder)
        kinds = {file.access for file, _ in self._files}
        access = kinds.pop() if len(kinds) == 1 else "mixed"
        return access, "" if access != "cached" else "this file system is in memory: no request reaches storage"

    def _list_files(self, osts: Sequence[int]) -> list[tuple[DataFile, int | None]]:
        """Return a file of each size on each OST, without making it."""
        found: list[tuple[DataFile, int | None]] = []
        for ost in osts or (None,):
            for size in self.settings.sizes:
                name = format_bytes(size).replace(" ", "") + ("" if ost is None else f"-ost{ost:04x}")
                found.append((DataFile(name, size, min(size, _PIECE_BYTES), prefer_direct=False), ost))
        return found

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        """Measure once, unless the rest after the last measurement is not over."""
        started = time.monotonic_ns()
        if started < self._resume_ns:
            return
        if not self._steps:
            if self.settings.rounds is not None and self._rounds >= self.settings.rounds:
                reporter.done()
                return
            self._rounds += 1
            self._steps = [
                (file, None if ost is None else f"OST{ost:04x}", mode, op)
                for file, ost in self._files
                for mode in self.settings.modes
                for op in ("read", "write" if mode == "cache" else "write_sync")
            ]
            self._random.shuffle(self._steps)
        file, component, mode, op = self._steps.pop()
        length = file.file_bytes
        reporter.begin(op, length, scheduled_ns)
        timing, fd = timed_open(self._own.open_file, partial(file.open, cached=mode == "cache"))
        cached: bool | None = None
        if fd >= 0:
            try:
                file.renew()
                cached = _prepare_cache(file, mode, op, fd)
                timing = timed(
                    file.read if op == "read" else file.write_sync if op == "write_sync" else file.write, fd, 0, length
                )
            except OSError as error:
                timing = timing._replace(failed=True, errno=error.errno)
            finally:
                os.close(fd)
        self.report(Operation(op, length, mode), timing, scheduled_ns, reporter, cached, component)
        busy = time.monotonic_ns() - started
        self._resume_ns = started + round(busy / self.settings.busy_ratio)

    def remove_files(self, folder: PrivateDirectory, reporter: Reporter) -> None:
        for file, _ in self._files:
            folder.discard(file.name)


def _prepare_cache(file: DataFile, mode: str, op: str, fd: int) -> bool | None:
    """Bring the cache into the state that the mode names, untimed; return whether the request is cached."""
    if mode == "cache":
        file.read(fd, 0, file.file_bytes)
        return file.is_cached(fd, 0, file.file_bytes) if op == "read" else True
    os.fsync(fd)  # dirty pages cannot be dropped
    found = file.make_uncached(fd, 0, file.file_bytes)
    if op == "read":
        return found
    return None if file.reaches_storage is None else not file.reaches_storage
