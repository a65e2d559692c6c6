"""The folder of a probe below the measured directory, and the claim that makes it the only probe there.

The file `lock` in the folder names the owner; its modification time is a heartbeat. A lock of the kernel would need an
open file, which keeps a file system from being unmounted, and agents of 0.2.0 know this file alone. The kernel's lock
is held only while `lock` is read and written, so that of two probes that start at once one is first.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from ioweather.agent.sensor import Progress
from ioweather.core.clock import boot_id
from ioweather.core.errors import SourceError
from ioweather.core.safe_files import PrivateDirectory, is_inside, mount_point
from ioweather.core.units import NS

_NAME: Final = "lock"
_MOST_BYTES: Final = 4096
_BEAT_NS: Final = 10 * NS
_SILENT_NS: Final = 60 * NS  # for an owner on another host or in another container
_NO_LOCKS: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


class ProbeFolder:
    """`.ioweather-NAME` below `target`. It is checked and claimed once and then closed: between two cycles nothing
    keeps the file system from being unmounted."""

    def __init__(self, target: str, name: str, host: str, run_id: str, required_mount: str | None = None) -> None:
        if "/" in name or name in ("", ".", ".."):
            raise SourceError(f"{name!r} cannot name a folder.", hint="Take letters, digits, dot, dash and underscore.")
        self.path = Path(target, f".ioweather-{name}")
        self._target, self._required_mount = target, required_mount
        self._host, self._run_id = host, run_id
        self._mount: str | None = None
        self._checked: PrivateDirectory | None = None
        self._text = b""
        self._next_beat_ns = 0

    @contextmanager
    def taken(self, progress: Progress) -> Iterator[tuple[PrivateDirectory, Progress]]:
        """Make and claim the folder; the progress function also gives the heartbeat. Raises SourceError if another
        probe has it, or the directory is on another mount than required or than before."""
        target, required = self._target, self._required_mount
        if not Path(target).is_dir():
            raise SourceError(f"{target} is not a directory.", hint="Name a directory on the file system to measure.")
        mount = mount_point(os.path.realpath(target))
        if required is not None and not is_inside(mount, os.path.realpath(required)):
            raise SourceError(
                f"{required} is not mounted: {target} lies on {mount} now.",
                hint="Mount it; nothing is written to the disk below it.",
            )
        if self._mount not in (None, mount):  # else the files of /scratch would fill the disk that it is mounted over
            raise SourceError(f"{target} lies on {mount} now: {self._mount} is not mounted.")
        self._mount = mount
        with PrivateDirectory.at(self.path) as folder:
            self._claim(folder)
            self._checked = folder

            def beat(done: int, total: int | None, what: str) -> None:
                self._is_lost(folder.fd)
                progress(done, total, what)

            yield folder, beat

    def _claim(self, folder: PrivateDirectory) -> None:
        pid = os.getpid()
        mine = {"host": self._host, "run_id": self._run_id, "pid": pid, "started": _started(pid),
                "boot_id": boot_id(), "pid_namespace": _pid_namespace()}  # fmt: skip
        with _locked(folder) as lock:
            try:
                other = json.loads(os.pread(lock, _MOST_BYTES, 0))
            except ValueError:
                other = None
            if isinstance(other, dict) and other and _lives(other, mine, folder, os.fstat(lock).st_mtime_ns):
                raise SourceError(
                    f"{folder.path} is in use by the probe with pid {other.get('pid')} on {other.get('host')} "
                    f"(run {other.get('run_id')}).",
                    hint="Stop that one, or give this one a folder of its own with --name.",
                )
            self._text = json.dumps(mine).encode()
            os.ftruncate(lock, 0)
            os.pwrite(lock, self._text, 0)
        self._next_beat_ns = time.monotonic_ns() + _BEAT_NS

    def _is_lost(self, folder: int) -> bool:
        """Whether another probe has taken the claim, as after a minute without a heartbeat. Every 10 s it looks, and
        gives the heartbeat."""
        if time.monotonic_ns() < self._next_beat_ns:
            return False
        with suppress(OSError):  # the operations will show it
            lock = os.open(_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                if os.pread(lock, _MOST_BYTES, 0) != self._text:
                    return True
            finally:
                os.close(lock)
            os.utime(_NAME, dir_fd=folder, follow_symlinks=False)
        self._next_beat_ns = time.monotonic_ns() + _BEAT_NS
        return False

    def enter(self) -> int:
        """A descriptor of the folder that was checked, while it is still ours."""
        if self._checked is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        folder = self._checked.again()
        if self._is_lost(folder):
            os.close(folder)
            raise OSError(errno.EBUSY, "another probe has taken the folder")
        return folder

    def open(self, opener: Callable[[int], int]) -> int:
        """The descriptor that `opener` opens in the folder."""
        folder = self.enter()
        try:
            return opener(folder)
        finally:
            os.close(folder)

    @property
    def is_taken(self) -> bool:
        return self._checked is not None

    @contextmanager
    def leaving(self, *, keep: bool) -> Iterator[PrivateDirectory | None]:
        """The folder, to be emptied, if it is still ours and its files are not kept; removed afterwards."""
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
                    folder.unlink(_NAME)
            if is_mine and not keep:
                with suppress(OSError):  # other files in it are not ours to remove
                    folder.path.rmdir()

    def _is_mine(self, folder: PrivateDirectory) -> bool:
        with suppress(OSError):
            return folder.read(_NAME) == self._text
        return False


@contextmanager
def _locked(folder: PrivateDirectory) -> Iterator[int]:
    """The file `lock`, new or old, with the kernel's lock where there is one."""
    while True:
        lock = folder.open(_NAME)
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


def _lives(other: dict[str, Any], mine: dict[str, Any], folder: PrivateDirectory, beat_ns: int) -> bool:
    """Whether the other owner runs: by its process if that can be seen from here, else by its heartbeat."""
    if all(other.get(key) == mine[key] for key in ("host", "boot_id", "pid_namespace")):
        pid = other.get("pid")
        return isinstance(pid, int) and pid != mine["pid"] and _started(pid) == other.get("started") is not None
    name = f".time.{os.getpid()}"  # the time now, by the clock that stamps files there
    folder.unlink(name)
    fd = folder.create(name)
    try:
        return os.fstat(fd).st_mtime_ns - beat_ns < _SILENT_NS
    finally:
        os.close(fd)
        folder.unlink(name)


def _started(pid: int) -> int | None:
    """Start time in ticks since boot (proc_pid_stat(5), field 22), which differs when a pid is used again. None if the
    process is dead, also if it was not reaped yet (field 3)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _pid_namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
