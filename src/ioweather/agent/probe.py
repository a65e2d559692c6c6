"""The probe of kun19 (section 3.1): a few small operations a second, timed one at a time.

One cycle reads one block and writes another at random places of a large file; then it stats, reads and deletes the
oldest small file of a pool and creates a new one. `write` is the time until the call returns, `write_sync` the time of
the same write until fdatasync(2) returns: both start at the same moment, and nothing is written twice.

The files of the pool are numbered; the pool is the range [oldest, newest]. They go through the page cache, as users'
files do. Their names are relative to a descriptor of the pool's directory.
"""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from ioweather.agent.probe_files import DataFile, FileProbe, check_space
from ioweather.agent.sensor import Operation, Progress, Ready, Reporter, Timing, response_row, timed, timed_open
from ioweather.core.errors import IoweatherError, SourceError
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import GIB, MIB, NS, format_bytes

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
                progress(done, len(present), "looking at small files")
        self.newest = max(max(present, default=0), self.count - 1)
        self.oldest = self.newest - self.count + 1
        for number in present:
            if number < self.oldest:
                folder.unlink(self.name_of(number))
        for number in range(self.oldest, self.newest + 1):
            if number not in present:
                self.create(self.name_of(number), folder.fd)
                if number % 100 == 0:
                    progress(number - self.oldest + 1, self.count, "making small files")

    def create(self, name: str, folder: int, flags: int = _NEW) -> None:
        """Create a file and write it."""
        fd = os.open(name, os.O_WRONLY | _FLAGS | flags, 0o600, dir_fd=folder)
        try:
            os.write(fd, self._content)
        finally:
            os.close(fd)

    def read(self, name: str, folder: int) -> None:
        """Open and read a file."""
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
    """The defaults are small enough for a laptop; `paper()` is what JASMIN and Archer ran."""

    period_ns: int = NS
    block_bytes: int = MIB
    file_bytes: int = 64 * MIB
    pool_files: int = 100
    small_file_bytes: int = 3901  # kun19 section 3.1; the size of IO-500's mdtest-hard files
    fill_bytes_per_s: float = 200 * MIB
    keep_files: bool = False

    @classmethod
    def paper(cls) -> ProbeSettings:
        """Return the sizes of kun19."""
        return cls(file_bytes=200 * GIB, pool_files=200_000)

    def check(self) -> None:
        """Raise SourceError for sizes that O_DIRECT, or different places for read and write, do not allow."""
        if self.block_bytes % 4096 or self.block_bytes <= 0:
            raise SourceError(f"a request of {self.block_bytes} bytes is not a multiple of 4096.")
        if self.file_bytes < 2 * self.block_bytes:
            size, block = format_bytes(self.file_bytes), format_bytes(self.block_bytes)
            raise SourceError(f"a file of {size} does not hold two requests of {block}.")
        if self.pool_files < 2 or self.small_file_bytes < 1 or self.period_ns < 10_000_000:
            raise SourceError("the pool needs 2 files, a file 1 byte, a period 10 ms.")

    @property
    def load(self) -> str:
        """The load that the probe puts on storage, as a sentence."""
        per_s = NS / self.period_ns
        return (
            f"{format_bytes(self.block_bytes * per_s)}/s read, {format_bytes(self.block_bytes * per_s)}/s written and "
            f"synced, {4 * per_s:.3g} operations/s on small files, 1 open of the large file per cycle"
        )


@dataclass
class Probe(FileProbe):
    """The probe of one target."""

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

    @property
    def period_ns(self) -> int:  # type: ignore[override]
        return self.settings.period_ns

    def prepare(self, reporter: Reporter) -> Ready:
        ready = super().prepare(reporter)
        self._scratch = os.memfd_create("ioweather")
        # One unreported cycle: the first call of each kind is slower than the later ones.
        self._cycle(0, Reporter())
        return ready

    def make_files(self, reporter: Reporter) -> tuple[str, str]:
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
        if access == "cached":
            return access, "this file system keeps files in memory: reads do not reach storage"
        if access == "dropped":
            return access, "no O_DIRECT here: the page cache is emptied before each read, and takes each write first"
        if not self.data.reaches_storage:
            return access, "O_DIRECT is accepted; whether it reaches storage cannot be seen"
        return access, ""

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        if self._damaged and time.monotonic_ns() - self._prepared_ns > _PREPARE_AGAIN_NS:
            # Files are gone: make them again. While that fails, the operations themselves show why.
            reporter.begin("prepare", 0, None)
            try:
                self.make_files(reporter)
            except (OSError, IoweatherError):
                self._prepared_ns = time.monotonic_ns()
        self._cycle(scheduled_ns, reporter)

    def _cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        record = _Recorder(self, scheduled_ns, reporter)

        def open_for(operations: Sequence[Operation], opener: Callable[..., int], *arguments: object) -> int:
            """Open something; if that fails, the operations were all impossible for the same reason."""
            timing, fd = timed_open(opener, *arguments)
            for operation in operations if timing.failed else ():
                record.put(operation.op, timing)
            return fd

        record.begin("read")
        folder = open_for(self.operations, self._own.enter)
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
        data, length = self.data, self.settings.block_bytes
        read_at, write_at = self._places()
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

    def _places(self) -> tuple[int, int]:
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
        row = response_row(self._probe.origin, self._kinds[op], timing, self._scheduled_ns, cached)
        self._reporter.row("responses", row)
        return timing


@contextmanager
def _closing(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(OSError):
            os.close(fd)
