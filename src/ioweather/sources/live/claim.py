"""Which of several probes has a directory: the file `lock` in it says who, and its time of change that they still live.

No lock of the kernel is held meanwhile: it would take an open file, and what is held open cannot be unmounted. One is
taken only while `lock` is read and written, so that of two who come at once one is first.
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

from ioweather.core.clock import boot_id
from ioweather.core.errors import SourceError
from ioweather.core.private_directory import PrivateDirectory
from ioweather.core.units import NS
from ioweather.sources.live.contract import Progress
from ioweather.sources.mounts import is_inside, mount_point

_NAME: Final = "lock"
_MOST_BYTES: Final = 4096
_BEAT_NS: Final = 10 * NS
_SILENT_NS: Final = 60 * NS  # of a probe whose process cannot be looked at from here
_NO_LOCKS: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


class Claim:
    """Of one probe on its directory."""

    def __init__(self, host: str, run_id: str) -> None:
        self._host, self._run_id = host, run_id
        self._text = b""
        self._next_beat_ns = 0

    def take(self, folder: PrivateDirectory) -> None:
        """Or say who has it."""
        mine = {"host": self._host, "run_id": self._run_id, **_this_process()}
        with _alone(folder) as lock:
            other = _parsed(os.pread(lock, _MOST_BYTES, 0))
            if other and _lives(other, mine, folder, os.fstat(lock).st_mtime_ns):
                raise SourceError(
                    f"{folder.path} is in use by the probe with pid {other.get('pid')} on {other.get('host')} "
                    f"(run {other.get('run_id')}).",
                    hint="Stop that one, or give this one a folder of its own with --name.",
                )
            self._text = json.dumps(mine).encode()
            os.ftruncate(lock, 0)
            os.pwrite(lock, self._text, 0)
        self._next_beat_ns = time.monotonic_ns() + _BEAT_NS

    def is_lost(self, folder: int) -> bool:
        """Whether another one has taken it, as after a minute without a sign of us; looked at every 10 s, and a sign
        given."""
        if time.monotonic_ns() < self._next_beat_ns:
            return False
        with suppress(OSError):  # of which the operations will tell
            lock = os.open(_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                if os.pread(lock, _MOST_BYTES, 0) != self._text:
                    return True
            finally:
                os.close(lock)
            os.utime(_NAME, dir_fd=folder, follow_symlinks=False)
        self._next_beat_ns = time.monotonic_ns() + _BEAT_NS
        return False

    def entered(self, checked: PrivateDirectory | None, enter: Callable[[int], int]) -> int:
        """What `enter` opens in the folder that was checked, while that is ours."""
        if checked is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        folder = checked.again()
        try:
            if self.is_lost(folder):
                raise OSError(errno.EBUSY, "another one has taken the folder")
            return enter(folder)
        finally:
            os.close(folder)

    def signing(self, folder: PrivateDirectory, progress: Progress) -> Progress:
        """Of work that takes long: what tells of it gives the sign too."""

        def told(done: int, total: int | None, what: str) -> None:
            self.is_lost(folder.fd)
            progress(done, total, what)

        return told

    def is_mine(self, folder: PrivateDirectory) -> bool:
        with suppress(OSError):
            return folder.read(_NAME) == self._text
        return False

    def release(self, folder: PrivateDirectory) -> None:
        """If it is still ours."""
        with _alone(folder):
            if self.is_mine(folder):
                folder.unlink(_NAME)


def mount_below(target: str, required: str | None = None) -> str:
    """The mount that the directory lies on, which may have to be a certain one."""
    if not Path(target).is_dir():
        raise SourceError(f"{target} is not a directory.", hint="Name a directory on the file system to measure.")
    mount = mount_point(os.path.realpath(target))
    if required is not None and not is_inside(mount, os.path.realpath(required)):
        raise SourceError(
            f"{required} is not mounted: {target} lies on {mount} now.",
            hint="Mount it; nothing is written to the disk below it.",
        )
    return mount


def folder_below(target: str, name: str) -> Path:
    """Where a probe keeps its files: one folder per name."""
    if "/" in name or name in ("", ".", ".."):
        raise SourceError(f"{name!r} cannot name a folder.", hint="Take letters, digits, dot, dash and underscore.")
    return Path(target, f".ioweather-{name}")


@contextmanager
def leaving(checked: PrivateDirectory, claim: Claim, *, keep: bool) -> Iterator[PrivateDirectory | None]:
    """The folder, to be emptied, if it is there, still ours, and its files are not kept; removed afterwards."""
    try:
        folder = checked.reopened()
    except OSError:  # gone, or another one under this name: of that, nothing is ours
        yield None
        return
    with folder:
        is_mine = claim.is_mine(folder)
        yield folder if is_mine and not keep else None
        claim.release(folder)
        if is_mine and not keep:
            with suppress(OSError):  # what else lies in it is not ours to remove
                folder.path.rmdir()


@contextmanager
def _alone(folder: PrivateDirectory) -> Iterator[int]:
    """The file, new or old, for one at a time."""
    while True:
        lock = folder.open(_NAME)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            if os.fstat(lock).st_nlink == 0:  # released meanwhile
                continue
            yield lock
            return
        finally:
            os.close(lock)


def _parsed(text: bytes) -> dict[str, Any]:
    """Empty where it cannot be used: then nobody has it."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lives(other: dict[str, Any], mine: dict[str, Any], folder: PrivateDirectory, sign_ns: int) -> bool:
    if all(other.get(key) == mine[key] for key in ("host", "boot_id", "pid_namespace")):
        pid = other.get("pid")
        return isinstance(pid, int) and pid != mine["pid"] and _started(pid) == other.get("started") is not None
    return _time_there(folder) - sign_ns < _SILENT_NS


def _time_there(folder: PrivateDirectory) -> int:
    """By the clock that stamps the files there."""
    name = f".time.{os.getpid()}"
    folder.unlink(name)
    fd = folder.create(name)
    try:
        return os.fstat(fd).st_mtime_ns
    finally:
        os.close(fd)
        folder.unlink(name)


def _this_process() -> dict[str, Any]:
    pid = os.getpid()
    return {"pid": pid, "started": _started(pid), "boot_id": boot_id(), "pid_namespace": _pid_namespace()}


def _started(pid: int) -> int | None:
    """When, in ticks since the machine began (proc_pid_stat(5), field 22): tells apart two of the same number. None of
    one that is dead, also where nobody has asked for its end yet (field 3)."""
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
