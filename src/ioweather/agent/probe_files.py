"""Files of the probes below the measured directory: the claimed folder, large data files, and the base of all probes.

The file `lock` in the folder names its owner; its modification time is the heartbeat. The claim is not a kernel lock,
because that needs an open file, which would keep the file system from being unmounted between two cycles; and agents of
0.2.0 know only this file. The kernel's lock is held only while `lock` is read and written, so that two probes that
start at once do not both claim the folder.

How a request reaches storage is measured, not assumed: tmpfs accepts O_DIRECT and ignores it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import random
import socket
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ioweather.agent.sensor import (
    LiveSource,
    Operation,
    Origin,
    Progress,
    Ready,
    Reporter,
    ShortTransfer,
    Timing,
    response_row,
)
from ioweather.core.errors import SourceError
from ioweather.core.safe_files import PrivateDirectory, is_inside, mount_point, system_of
from ioweather.core.units import MIB, NS, boot_id, format_bytes

_LOCK: Final = "lock"
_LOCK_BYTES: Final = 4096
_HEARTBEAT_NS: Final = 10 * NS
_SILENT_NS: Final = 60 * NS  # for an owner on another host or in another container
_NO_LOCKS: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


class ProbeFolder:
    """The folder `.ioweather-NAME` below `target`, claimed by one probe.

    It is checked and claimed once and then closed, so that the file system can be unmounted between two cycles.
    """

    def __init__(self, target: str, name: str, host: str, run_id: str, required_mount: str | None = None) -> None:
        if "/" in name or name in ("", ".", ".."):
            raise SourceError(f"{name!r} is not a valid folder name.", hint="Use letters, digits and . - _ only.")
        self.path = Path(target, f".ioweather-{name}")
        self._target, self._required_mount = target, required_mount
        self._host, self._run_id = host, run_id
        self._mount: str | None = None
        self._checked: PrivateDirectory | None = None
        self._claim_text = b""
        self._next_heartbeat_ns = 0

    @contextmanager
    def claimed(self, progress: Progress) -> Iterator[tuple[PrivateDirectory, Progress]]:
        """Make and claim the folder. The progress function it yields also renews the heartbeat.

        Raises SourceError if another probe has the folder, or if the target is on another mount than required or than
        before.
        """
        target, required = self._target, self._required_mount
        if required is not None and is_inside(mount_point(os.path.realpath(target)), os.path.realpath(required)):
            with suppress(OSError):  # the next check says so
                Path(target).mkdir(exist_ok=True)
        if not Path(target).is_dir():
            raise SourceError(f"{target} is not a directory.", hint="Use a directory on the file system to measure.")
        mount = mount_point(os.path.realpath(target))
        if required is not None and not is_inside(mount, os.path.realpath(required)):
            raise SourceError(
                f"{required} is not mounted: {target} is on {mount} now.",
                hint="Mount it. Nothing was written to the disk below the mount point.",
            )
        if self._mount not in (None, mount):  # else the files of /scratch would fill the disk that it is mounted over
            raise SourceError(f"{target} is on {mount} now: {self._mount} is not mounted.")
        self._mount = mount
        with PrivateDirectory.at(self.path) as folder:
            self._claim(folder)
            self._checked = folder

            def progress_with_heartbeat(done: int, total: int | None, what: str) -> None:
                self._is_lost(folder.fd)
                progress(done, total, what)

            yield folder, progress_with_heartbeat

    def _claim(self, folder: PrivateDirectory) -> None:
        """Write this process into the file `lock`. Raises SourceError if the owner that it names is alive."""
        pid = os.getpid()
        mine: dict[str, Any] = {
            "host": self._host,
            "run_id": self._run_id,
            "pid": pid,
            "boot_id": boot_id(),
            "pid_namespace": Path("/proc/self/ns/pid").stat().st_ino,
            "started": _start_ticks(pid),
        }
        with _locked(folder) as lock:
            try:
                other = json.loads(os.pread(lock, _LOCK_BYTES, 0))
            except ValueError:
                other = None
            if isinstance(other, dict) and other and _is_alive(other, mine, folder, os.fstat(lock).st_mtime_ns):
                raise SourceError(
                    f"{folder.path} is in use by the probe with pid {other.get('pid')} on {other.get('host')} "
                    f"(run {other.get('run_id')}).",
                    hint="Stop that probe, or use another folder with --name.",
                )
            self._claim_text = json.dumps(mine).encode()
            os.ftruncate(lock, 0)
            os.pwrite(lock, self._claim_text, 0)
        self._next_heartbeat_ns = time.monotonic_ns() + _HEARTBEAT_NS

    def _is_lost(self, folder: int) -> bool:
        """Return whether another probe has taken the claim, as after a minute without a heartbeat. Checks this, and
        renews the heartbeat, every 10 s."""
        if time.monotonic_ns() < self._next_heartbeat_ns:
            return False
        with suppress(OSError):  # the operations will show it
            lock = os.open(_LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(lock, "rb") as file:
                if file.read(_LOCK_BYTES) != self._claim_text:
                    return True
            os.utime(_LOCK, dir_fd=folder, follow_symlinks=False)
        self._next_heartbeat_ns = time.monotonic_ns() + _HEARTBEAT_NS
        return False

    def open_folder(self) -> int:
        """Return a descriptor of the folder that was checked. Raises EBUSY if another probe has claimed it."""
        if self._checked is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        folder = self._checked.again()
        if self._is_lost(folder):
            os.close(folder)
            raise OSError(errno.EBUSY, "another probe uses the folder")
        return folder

    def open_file(self, opener: Callable[[int], int]) -> int:
        """Return the descriptor that `opener` opens, given one of the folder."""
        folder = self.open_folder()
        try:
            return opener(folder)
        finally:
            os.close(folder)

    @property
    def is_claimed(self) -> bool:
        return self._checked is not None

    @contextmanager
    def released(self, *, keep: bool) -> Iterator[PrivateDirectory | None]:
        """Release the claim. Yields the folder to be emptied, or None if its files stay or the claim was lost; an
        empty folder is removed afterwards."""
        try:
            if self._checked is None:
                raise FileNotFoundError
            folder = self._checked.reopened()
        except OSError:  # gone, or another folder has its name now
            yield None
            return
        with folder:
            is_mine = self._is_mine(folder)
            yield folder if is_mine and not keep else None
            with _locked(folder):
                if self._is_mine(folder):
                    folder.unlink(_LOCK)
            if is_mine and not keep:
                with suppress(OSError):  # other files in it are not ours to remove
                    folder.path.rmdir()

    def _is_mine(self, folder: PrivateDirectory) -> bool:
        """Return whether the file `lock` still has the claim of this process."""
        with suppress(OSError):
            return folder.read(_LOCK) == self._claim_text
        return False


@contextmanager
def _locked(folder: PrivateDirectory) -> Iterator[int]:
    """The file `lock`, made if missing, under the kernel's lock if the file system has locks."""
    while True:
        lock = folder.open(_LOCK)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            if os.fstat(lock).st_nlink == 0:  # released since it was opened
                continue
            yield lock
            return
        finally:
            os.close(lock)


def _start_ticks(pid: int) -> int | None:
    """Start time in ticks since boot (proc_pid_stat(5), field 22), which shows whether a pid is reused.

    None if the process is dead, even if not reaped yet (field 3)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _is_alive(other: dict[str, Any], mine: dict[str, Any], folder: PrivateDirectory, heartbeat_ns: int) -> bool:
    """Return whether the other owner runs: by its process if that is visible from here, else by its heartbeat."""
    if all(other.get(key) == mine[key] for key in ("host", "boot_id", "pid_namespace")):
        pid = other.get("pid")
        return isinstance(pid, int) and pid != mine["pid"] and _start_ticks(pid) == other.get("started") is not None
    name = f".time.{os.getpid()}"  # its time stamp is now by the file system's clock, which stamped the heartbeat
    folder.unlink(name)
    fd = folder.create(name)
    try:
        return os.fstat(fd).st_mtime_ns - heartbeat_ns < _SILENT_NS
    finally:
        os.close(fd)
        folder.unlink(name)


_PAGE: Final = mmap.PAGESIZE
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def resident_pages(fd: int, offset: int, length: int) -> int | None:
    """Return how many pages of [offset, offset + length) are cached; None if that cannot be found out. `offset` is a
    multiple of the page size, and the range is inside the file. mincore(2) looks without touching."""
    try:
        # A private writable mapping: ctypes takes the address of writable buffers only, and FUSE files opened for
        # direct I/O refuse shared mappings.
        with mmap.mmap(fd, length, access=mmap.ACCESS_COPY, offset=offset) as mapping:
            first = ctypes.c_char.from_buffer(mapping)
            vector = (ctypes.c_ubyte * (-(-length // _PAGE)))()
            failed = _LIBC.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(length), vector)
            del first  # the mapping cannot be closed while an address in it is exported
    except (OSError, ValueError):
        return None
    return None if failed else sum(byte & 1 for byte in bytes(vector))


def drop_pages(fd: int, offset: int, length: int) -> None:
    """Ask the kernel to drop clean pages from the cache; it may decline."""
    with suppress(OSError):
        os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)


# Linux moves at most IOV_MAX buffers, and a little under 2 GiB, per call.
_MAX_BUFFERS: Final = 1024
# The file was checked when it was prepared, and the directory is checked before each use.
_REOPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class DataFile:
    """A file of incompressible data for reads and writes at any place.

    It has two aligned buffers of `piece_bytes`; a larger request repeats the same buffer. `folder` is the directory of
    the file; `open` takes any descriptor of that directory.
    """

    def __init__(self, name: str, file_bytes: int, piece_bytes: int, *, prefer_direct: bool = True) -> None:
        self.name = name
        self.file_bytes = file_bytes
        self._prefer_direct = prefer_direct
        # mmap is aligned for O_DIRECT. Two buffers, since writing what was read would make blocks equal.
        self._read_piece = mmap.mmap(-1, piece_bytes)
        self._write_piece = mmap.mmap(-1, piece_bytes)
        self._write_piece.write(random.randbytes(piece_bytes))
        self._stamps = memoryview(self._write_piece).cast("Q")[:: _PAGE // 8]
        self._stamp = time.time_ns()
        self.direct = False
        self.reaches_storage: bool | None = None

    @property
    def access(self) -> str:
        """How requests reach storage, as in status.json."""
        if self.direct:
            return "direct"
        return "cached" if self.reaches_storage is False else "dropped"

    def missing_bytes(self, folder: PrivateDirectory) -> int:
        """Return how many bytes `fill` will write."""
        try:
            return max(0, self.file_bytes - folder.check(self.name).st_size)
        except FileNotFoundError:
            return self.file_bytes

    def fill(self, folder: PrivateDirectory, progress: Progress, bytes_per_s: float) -> None:
        """Write what is missing at no more than the given rate; resumes where an earlier run was interrupted."""
        missing = self.missing_bytes(folder)
        if missing == 0:
            return
        fd = folder.open(self.name)
        try:
            offset = (self.file_bytes - missing) // MIB * MIB
            first, started = offset, time.monotonic_ns()
            while offset < self.file_bytes:
                # New random bytes each time, so that storage which compresses or deduplicates has to store all of them.
                offset += os.pwrite(fd, random.randbytes(min(MIB, self.file_bytes - offset)), offset)
                progress(offset, self.file_bytes, f"filling {self.name}")
                ahead_seconds = (offset - first) / bytes_per_s - (time.monotonic_ns() - started) / NS
                if ahead_seconds > 0:
                    time.sleep(ahead_seconds)
            os.fdatasync(fd)
            drop_pages(fd, 0, self.file_bytes)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                folder.unlink(self.name)  # do not leave the file system full
            raise
        finally:
            os.close(fd)

    def find_access(self, folder: PrivateDirectory) -> None:
        """Try O_DIRECT and check whether the pages stayed out of the cache; else whether the cache can be emptied."""
        length = min(len(self._read_piece), self.file_bytes)
        with os.fdopen(folder.reopen(self.name, os.O_RDWR), "rb", buffering=0) as file:
            plain = file.fileno()
            os.fdatasync(plain)
            os.preadv(plain, [self._read_piece], 0)
            drop_pages(plain, 0, length)
            dropped = resident_pages(plain, 0, length)
            self.direct, pages = False, dropped
            if self._prefer_direct or dropped != 0:
                self.direct = self._reads_directly(folder)
                pages = resident_pages(plain, 0, length)
                if self.direct and pages:  # O_DIRECT was accepted and ignored
                    self.direct, pages = False, dropped
            self.reaches_storage = None if pages is None else pages == 0

    def _reads_directly(self, folder: PrivateDirectory) -> bool:
        """Return whether the file system accepts O_DIRECT."""
        try:
            with os.fdopen(folder.reopen(self.name, os.O_RDWR | os.O_DIRECT), "rb", buffering=0) as file:
                os.preadv(file.fileno(), [self._read_piece], 0)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return False
            raise
        return True

    def open(self, folder: int, *, cached: bool = False) -> int:
        """Open the file for requests that shall reach storage, or for requests through the page cache."""
        return os.open(self.name, _REOPEN | (os.O_DIRECT if self.direct and not cached else 0), dir_fd=folder)

    def make_uncached(self, fd: int, offset: int, length: int) -> bool | None:
        """Drop the range from the cache; return whether the cache alone could still answer (None: unknown)."""
        if self.direct:
            return False if self.reaches_storage else None
        drop_pages(fd, offset, length)
        return self.is_cached(fd, offset, length)

    def is_cached(self, fd: int, offset: int, length: int) -> bool | None:
        """Return whether all pages of the range are cached (None: unknown); one missing page makes a request wait."""
        pages = resident_pages(fd, offset, length)
        return None if pages is None else pages >= -(-length // _PAGE)

    def read(self, fd: int, offset: int, length: int) -> None:
        """Read the range into the read buffer, over and over."""
        moved = 0
        while moved < length:
            got = os.preadv(fd, _buffers(self._read_piece, length - moved), offset + moved)
            if got == 0:
                raise ShortTransfer(None, f"{self.name} is too short")
            moved += got

    def renew(self) -> None:
        """Make every page of the next write unique: storage with deduplication does not store equal blocks."""
        self._stamp += len(self._stamps)
        self._stamps[:] = memoryview(array("Q", range(self._stamp, self._stamp + len(self._stamps))))

    def write(self, fd: int, offset: int, length: int) -> None:
        """Write the range from the write buffer."""
        moved = 0
        while moved < length:
            moved += os.pwritev(fd, _buffers(self._write_piece, length - moved), offset + moved)

    def write_sync(self, fd: int, offset: int, length: int, sync: Callable[[int], None] = os.fsync) -> None:
        """Write the range, until fsync(2) or fdatasync(2) returns."""
        self.write(fd, offset, length)
        sync(fd)


def _buffers(piece: mmap.mmap, length: int) -> list[memoryview | mmap.mmap]:
    """Return the buffer as often as `length` bytes need it, up to the limit of one call."""
    whole, rest = divmod(length, len(piece))
    buffers: list[memoryview | mmap.mmap] = [piece] * min(whole, _MAX_BUFFERS)
    if rest and whole < _MAX_BUFFERS:
        buffers.append(memoryview(piece)[:rest])
    return buffers


def check_space(folder: PrivateDirectory, needed_bytes: int, needed_files: int) -> None:
    """Raise SourceError, before anything is written, if the file system would run full; 5% stay free for others."""
    room = os.statvfs(folder.fd)
    free = room.f_bavail * room.f_frsize
    spare = room.f_blocks * room.f_frsize // 20
    if needed_bytes and needed_bytes > free - spare:
        raise SourceError(
            f"{folder.path} has only {format_bytes(free)} free. The probe needs {format_bytes(needed_bytes)} and "
            "must leave 5% of the file system free.",
            hint="Use a smaller file or another directory.",
        )
    if room.f_files and needed_files > room.f_favail:
        raise SourceError(
            f"{folder.path} has room for only {room.f_favail:,} more files, but the probe needs {needed_files:,}.",
            hint="Use a smaller pool or another directory.",
        )


@dataclass
class FileProbe(LiveSource):
    """A live source that measures with files of its own in a folder below `target`; one folder per host unless
    `directory` names it. Files are made only while `required_mount` is mounted."""

    target: str
    settings: Any  # of the probe; they have `keep_files`, and `check` raises SourceError
    run_id: str = ""
    directory: str = ""
    system: str | None = None
    host: str = field(default_factory=socket.gethostname)
    required_mount: str | None = None
    folder_prefix = ""

    def __post_init__(self) -> None:
        self.settings.check()
        self.period_ns = self.settings.period_ns
        name = self.folder_prefix + (self.directory or self.host)
        self._own = ProbeFolder(self.target, name, self.host, self.run_id, self.required_mount)
        self.folder = self._own.path
        self.origin = Origin(self.host, self.target, self.system or system_of(self.target), self.run_id)

    @property
    def label(self) -> str:
        return self.target

    def report(
        self,
        operation: Operation,
        timing: Timing,
        scheduled_ns: int,
        reporter: Reporter,
        cached: bool | None = None,
        component: str | None = None,
    ) -> None:
        """Report a row of `responses`; `component` is the storage target, if it is known."""
        row = response_row(self.origin, operation, timing, scheduled_ns, cached, component)
        reporter.row("responses", row)

    def generator(self, purpose: str = "") -> random.Random:
        """Return a generator that repeats with the run; each purpose has its own sequence."""
        return random.Random(f"{self.run_id}{purpose}")

    def prepare(self, reporter: Reporter) -> Ready:
        """Make the files, and find out which file system they are on."""
        reporter.begin("prepare", 0, None)
        access, message = self.make_files(reporter)
        if self.system is None:
            self.origin = self.origin._replace(system=system_of(os.path.realpath(self.target)))
        return Ready(self.origin.system, access, message)

    def make_files(self, reporter: Reporter) -> tuple[str, str]:
        """Make all files; return how requests reach storage, and a remark on it."""
        raise NotImplementedError

    def remove_files(self, folder: PrivateDirectory, reporter: Reporter) -> None:
        """Remove the files from the folder that was checked."""
        raise NotImplementedError

    def finish(self, reporter: Reporter) -> None:
        """Remove the files, unless they shall stay, and give up the claim."""
        if not self._own.is_claimed:
            return
        reporter.begin("clean up", 0, None)
        with self._own.released(keep=self.settings.keep_files) as folder:
            if folder is not None:
                self.remove_files(folder, reporter)
