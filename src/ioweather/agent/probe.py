"""The probe of kun19 (section 3.1): a few small operations a second, each timed alone, one after another.

One cycle: read one block and write another at random places of a large file; stat, read and delete the oldest small
file of a pool, create a new one. `write` is the time until the call returns, `write_sync` the time of the same write
until fdatasync(2) has it on storage: both begin at the same moment, and nothing is written twice.

The files of the pool are numbered; the pool is the range [oldest, newest]. They go through the page cache, as files of
users do. Their names are relative to a descriptor of the pool's directory, `folder`.
"""

from __future__ import annotations

import errno
import os
import random
import re
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from ioweather.agent.data_file import DataFile, check_space
from ioweather.agent.probe_claim import ProbeFolder
from ioweather.agent.sensor import (
    Operation,
    Origin,
    Progress,
    Ready,
    Reporter,
    Timing,
    response_row,
    timed,
    timed_open,
)
from ioweather.core.errors import IoweatherError, SourceError
from ioweather.core.safe_files import PrivateDirectory, system_of
from ioweather.core.units import GIB, MIB, NS, format_bytes

_NAME: Final = re.compile(r"[0-9]{12}")
_NEW: Final = os.O_CREAT | os.O_EXCL


class FilePool:
    def __init__(self, count: int, file_bytes: int) -> None:
        self.count = count
        self.oldest = 0
        self.newest = -1
        self._content = random.randbytes(file_bytes)

    @staticmethod
    def name_of(number: int) -> str:
        return f"{number:012d}"

    @property
    def size(self) -> int:
        return self.newest - self.oldest + 1

    def prepare(self, folder: PrivateDirectory, progress: Progress) -> None:
        """Make every file that is missing; remove what lies outside the range. Each file that is there is looked at
        first: what the cycles read and delete are files of ours."""
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
        made = 0
        for number in range(self.oldest, self.newest + 1):
            if number not in present:
                self.create(self.name_of(number), folder.fd)
                made += 1
                if made % 100 == 0:
                    progress(number - self.oldest + 1, self.count, "making small files")

    def create(self, name: str, folder: int, flags: int = _NEW) -> None:
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600, dir_fd=folder)
        try:
            os.write(fd, self._content)
        finally:
            os.close(fd)

    def read(self, name: str, folder: int) -> None:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.read(fd, len(self._content) + 1)
        finally:
            os.close(fd)

    def stat(self, name: str, folder: int) -> None:
        os.stat(name, dir_fd=folder, follow_symlinks=False)

    def delete(self, name: str, folder: int) -> None:
        os.unlink(name, dir_fd=folder)

    def remove(self, folder: PrivateDirectory, progress: Progress) -> None:
        """All of the range; what else lies there is not ours to remove."""
        names = [name for name in folder.names() if _NAME.fullmatch(name) and self.oldest <= int(name) <= self.newest]
        for done, name in enumerate(names, 1):
            folder.discard(name)
            if done % 1000 == 0:
                progress(done, len(names), "removing small files")


SMALL_FILE_BYTES = 3901  # kun19 section 3.1; the size of IO-500's mdtest-hard files
_PREPARE_AGAIN_NS = 10 * NS
# Files that are gone, or a file system that was mounted again over them.
_GONE = (errno.ENOENT, errno.ESTALE, errno.ENOTDIR)


@dataclass(frozen=True)
class ProbeSettings:
    """Small by default, so that a laptop bears it. `paper()` is what JASMIN and Archer ran."""

    period_ns: int = NS
    block_bytes: int = MIB
    file_bytes: int = 64 * MIB
    pool_files: int = 100
    small_file_bytes: int = SMALL_FILE_BYTES
    fill_bytes_per_s: float = 200 * MIB
    keep_files: bool = False

    @classmethod
    def paper(cls) -> ProbeSettings:
        return cls(file_bytes=200 * GIB, pool_files=200_000)

    def check(self) -> None:
        """Sizes that O_DIRECT and different places for read and write allow."""
        if self.block_bytes % 4096 or self.block_bytes <= 0:
            raise SourceError(f"a request of {self.block_bytes} bytes is not a multiple of 4096.")
        if self.file_bytes < 2 * self.block_bytes:
            size, block = format_bytes(self.file_bytes), format_bytes(self.block_bytes)
            raise SourceError(f"a file of {size} does not hold two requests of {block}.")
        if self.pool_files < 2 or self.small_file_bytes < 1 or self.period_ns < 10_000_000:
            raise SourceError("the pool needs 2 files, a file 1 byte, a period 10 ms.")

    @property
    def load(self) -> str:
        """What the probe does to storage, in a sentence."""
        per_s = NS / self.period_ns
        return (
            f"{format_bytes(self.block_bytes * per_s)}/s read, {format_bytes(self.block_bytes * per_s)}/s written and "
            f"synced, {4 * per_s:.3g} operations/s on small files, 1 open of the large file per cycle"
        )


@dataclass
class Probe:
    """One target. `directory` is the probe's own folder below it; one per host unless it is named."""

    target: str
    settings: ProbeSettings = field(default_factory=ProbeSettings)
    run_id: str = ""
    directory: str = ""
    system: str | None = None
    seed: int | str | None = None
    host: str = field(default_factory=socket.gethostname)
    required_mount: str | None = None  # files are made only while this is mounted
    name: str = "probe"
    is_periodic: bool = True

    def __post_init__(self) -> None:
        settings = self.settings
        settings.check()
        self._own = ProbeFolder(self.target, self.directory or self.host, self.host, self.run_id, self.required_mount)
        self.folder = self._own.path
        self._pool_folder: PrivateDirectory | None = None  # checked and closed
        self.data = DataFile("data", settings.file_bytes, settings.block_bytes)
        self.pool = FilePool(settings.pool_files, settings.small_file_bytes)
        seed = self.run_id if self.seed is None else self.seed
        # Two sequences: the place of a write never follows from that of a read.
        self._read_places, self._write_places = random.Random(f"{seed} read"), random.Random(f"{seed} write")
        self.origin = Origin(self.host, self.target, self.system or system_of(self.target), self.run_id)
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
    def label(self) -> str:
        return self.target

    @property
    def period_ns(self) -> int:
        return self.settings.period_ns

    def prepare(self, reporter: Reporter) -> Ready:
        reporter.begin("prepare", 0, None)
        self._make_files(reporter)
        if self.system is None:
            self.origin = replace(self.origin, system=system_of(os.path.realpath(self.target)))
        self._scratch = os.memfd_create("ioweather")
        # Once through all of it, unreported: the first call of anything pays for what later ones find in place.
        self._cycle(0, Reporter())
        access, message = self.data.access, ""
        if access == "cached":
            message = "this file system keeps files in memory: reads do not reach storage"
        elif access == "dropped":
            message = "no O_DIRECT here: the page cache is emptied before each read, and takes each write first"
        elif not self.data.reaches_storage:
            message = "O_DIRECT is accepted; whether it reaches storage cannot be seen"
        return Ready(self.origin.system, access, message)

    def _make_files(self, reporter: Reporter) -> None:
        with self._own.taken(reporter.progress) as (folder, progress), folder.inside("pool") as pool:
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

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        if self._damaged and time.monotonic_ns() - self._prepared_ns > _PREPARE_AGAIN_NS:
            # Files are gone: make them again. While that fails, the operations themselves show why.
            reporter.begin("prepare", 0, None)
            try:
                self._make_files(reporter)
            except (OSError, IoweatherError):
                self._prepared_ns = time.monotonic_ns()
        self._cycle(scheduled_ns, reporter)

    def _cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        record = _Recorder(self, scheduled_ns, reporter)
        record.begin("read")
        entered, folder = timed_open(self._own.enter)
        if entered.failed:
            record.put_all(self.operations, entered)
            return
        try:
            self._data_operations(record, folder)
            record.begin("stat")
            assert self._pool_folder is not None
            entered, pool = timed_open(self._pool_folder.again, folder)
            if entered.failed:
                record.put_all(self.operations[3:], entered)
                return
            try:
                self._small_file_operations(record, pool)
            finally:
                os.close(pool)
        finally:
            os.close(folder)

    def _data_operations(self, record: _Recorder, folder: int) -> None:
        data, length = self.data, self.settings.block_bytes
        read_at, write_at = self._places()
        opened, fd = timed_open(data.open, folder)
        if opened.failed:
            record.put_all(self.operations[:3], opened)
            return
        cached: bool | None = None
        try:
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
                written = Timing(
                    written.start_ns, written.duration_ns + synced.duration_ns, synced.failed, synced.errno
                )
            record.put("write_sync", written, not data.reaches_storage if seen else None)
            record.begin("close")
            if not data.direct:
                with suppress(OSError):
                    data.make_uncached(fd, write_at, length)
        finally:
            with suppress(OSError):
                os.close(fd)

    def _places(self) -> tuple[int, int]:
        blocks = self.settings.file_bytes // self.settings.block_bytes
        read_at = self._read_places.randrange(blocks)
        write_at = self._write_places.randrange(blocks - 1)
        write_at += write_at >= read_at
        return read_at * self.settings.block_bytes, write_at * self.settings.block_bytes

    def _small_file_operations(self, record: _Recorder, folder: int) -> None:
        """Right before each operation the same call is made once where it costs storage nothing: else a call pays for
        having been a second out of the processor's caches."""
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
        # After failures the pool has too many or too few: one more untimed operation per cycle until it is right.
        record.begin("balance")
        with suppress(OSError):
            if pool.size > pool.count:
                pool.delete(pool.name_of(pool.oldest), folder)
                pool.oldest += 1
            else:
                pool.create(pool.name_of(pool.newest + 1), folder)
                pool.newest += 1

    def note_gone(self) -> None:
        """Make the files again before one of the next cycles."""
        self._damaged = True

    def finish(self, reporter: Reporter) -> None:
        """Remove what we made, from the directories that were checked and from no other."""
        if not self._own.is_taken:
            return
        reporter.begin("clean up", 0, None)
        with self._own.leaving(keep=self.settings.keep_files) as folder:
            if folder is None:
                return
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
        """Also for calls that are not timed, since they may hang too."""
        size = self._kinds[op].request_bytes if op in self._kinds else 0
        self._reporter.begin(op, size, self._scheduled_ns)

    def put(self, op: str, timing: Timing, cached: bool | None = None) -> Timing:
        if timing.failed and (timing.errno is None or timing.errno in _GONE):
            self._probe.note_gone()
        row = response_row(self._probe.origin, self._kinds[op], timing, self._scheduled_ns, cached)
        self._reporter.row("responses", row)
        return timing

    def put_all(self, operations: Sequence[Operation], failure: Timing) -> None:
        """None of the operations was possible, for the same reason."""
        for operation in operations:
            self.put(operation.op, failure)
