"""The files on the person's disk, what a run does to them, and the competitors beside it.

All of it lies in one private directory below the one that was named, is bounded in bytes and files, and is removed at
the end. Requests go to storage before the call returns (O_DSYNC, and O_DIRECT where there is one).
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

from ioweather.core.private_directory import PrivateDirectory
from ioweather.core.units import KIB, MIB
from ioweather.sources.darshan.recorded_calls import CLOSE, OPEN, WRITE, Call, Recorded
from ioweather.sources.live.datafile import check_space
from ioweather.workflows.prove import competitor
from ioweather.workflows.prove.plan import Cause

LARGE_BYTES: Final = MIB
SMALL_BYTES: Final = 64 * KIB
LEAST_BYTES: Final = 4 * MIB
MOST_BYTES: Final = 128 * MIB
# One run in small requests takes about so long where storage is slow.
_SLOW_RUN_SECONDS: Final = 3.0
_FILE_BYTES: Final = 256 * KIB
_LEAST_FILES: Final = 128
# A run computes between its bursts of I/O, so that it lasts longer than a few samples and moves few bytes.
_BURSTS: Final = 16
_PAUSE_SECONDS: Final = 0.06
# Large requests of several processes fill the device's queue; a bound on what they write each time.
COMPETITORS: Final = 8
COMPETITOR_REQUEST_BYTES: Final = 4 * MIB
COMPETITOR_FILE_BYTES: Final = 16 * MIB
COMPETITOR_MOST_BYTES: Final = 384 * MIB
_TRIALS: Final = 16
_OURS: Final = re.compile(r"data|other\.\d+|part\.\d{4}|\.direct\.\d+")
_PATIENCE_SECONDS: Final = 10.0

T = TypeVar("T")


@dataclass
class Calls:
    """The calls of one run, timed one by one."""

    began: float = field(default_factory=time.monotonic)
    calls: list[Call] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def timed(self, kind: int, work: Callable[[], T], offset: int = 0, size: int = 0) -> T:
        start = time.monotonic() - self.began
        result = work()
        self.calls.append(Call(kind, len(self.paths) - 1, offset, size, start, time.monotonic() - self.began))
        return result

    def recorded(self) -> Recorded:
        return Recorded.of(self.calls, self.paths)


class Ground:
    """`run_bytes` is what each run writes, `written_bytes` what all have written."""

    def __init__(self, folder: PrivateDirectory) -> None:
        self.folder = folder
        direct = _direct(folder)
        self._flags = os.O_WRONLY | os.O_DSYNC | direct
        self._competing = os.O_WRONLY | (direct or os.O_DSYNC)
        self._data = mmap.mmap(-1, LARGE_BYTES)
        self._data.write(os.urandom(LARGE_BYTES))
        self.run_bytes, self.written_bytes = MOST_BYTES, 0

    def prepare(self) -> None:
        """Make the file that runs write to, and find how much of it this storage writes in a few seconds."""
        needed = 2 * MOST_BYTES + COMPETITORS * COMPETITOR_FILE_BYTES
        check_space(self.folder, needed, MOST_BYTES // _FILE_BYTES + _LEAST_FILES)
        trial = Calls()
        self._burst(trial, "data", [(i * SMALL_BYTES, SMALL_BYTES) for i in range(_TRIALS)], create=True)
        each = sum(call.end - call.start for call in trial.calls if call.call == WRITE) / _TRIALS
        fitting = int(_SLOW_RUN_SECONDS / max(each, 1e-6)) * SMALL_BYTES // LARGE_BYTES * LARGE_BYTES
        self.run_bytes = min(max(fitting, LEAST_BYTES), MOST_BYTES)
        self._burst(Calls(), "data", list(_requests(0, self.run_bytes, LARGE_BYTES)))
        self.written_bytes = 0

    def run(self, cause: Cause) -> Calls:
        """One run of the program, as it is when this is planted."""
        calls = Calls()
        if cause is Cause.MANY_FILES:
            self._many_files(calls)
            return calls
        size = SMALL_BYTES if cause is Cause.SMALL_REQUESTS else LARGE_BYTES
        requests = list(_requests(0, self.run_bytes, size))
        with self._opened(calls, "data") as fd:
            for part in _bursts(requests):
                for offset, length in part:
                    self._write(calls, fd, offset, length)
                time.sleep(_PAUSE_SECONDS)
        return calls

    def _many_files(self, calls: Calls) -> None:
        count = max(_LEAST_FILES, self.run_bytes // _FILE_BYTES)
        size = self.run_bytes // count // 4096 * 4096
        for part in _bursts(list(range(count))):
            for number in part:
                with self._opened(calls, f"part.{number:04d}", create=True) as fd:
                    self._write(calls, fd, 0, size)
            time.sleep(_PAUSE_SECONDS)
        for number in range(count):
            self.folder.discard(f"part.{number:04d}")

    def _burst(self, calls: Calls, name: str, requests: list[tuple[int, int]], *, create: bool = False) -> None:
        with self._opened(calls, name, create=create) as fd:
            for offset, length in requests:
                self._write(calls, fd, offset, length)

    @contextlib.contextmanager
    def _opened(self, calls: Calls, name: str, *, create: bool = False) -> Iterator[int]:
        calls.paths.append(str(self.folder.path / name))
        open_it = self.folder.create if create else self.folder.reopen
        fd = calls.timed(OPEN, lambda: open_it(name, self._flags))
        try:
            yield fd
        finally:
            calls.timed(CLOSE, lambda: os.close(fd))

    def _write(self, calls: Calls, fd: int, offset: int, length: int) -> None:
        with memoryview(self._data)[:length] as piece:
            done = calls.timed(WRITE, lambda: os.pwrite(fd, piece, offset), offset, length)
        self.written_bytes += done
        if done < length:
            raise OSError(errno.ENOSPC, "less was written than asked for", str(self.folder.path))

    def competitors(self) -> Competitors:
        files = [f"other.{number}" for number in range(COMPETITORS)]
        return Competitors([self.folder.create(name, self._competing) for name in files])

    def clear(self) -> None:
        """Nothing of ours stays; what somebody else put there is not ours to remove."""
        for name in self.folder.names():
            if _OURS.fullmatch(name):
                self.folder.discard(name)


def _direct(folder: PrivateDirectory) -> int:
    """O_DIRECT, where files of this directory can be opened with it."""
    name = f".direct.{os.getpid()}"
    try:
        os.close(folder.create(name, os.O_WRONLY | os.O_DIRECT))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return 0
    finally:
        folder.discard(name)
    return os.O_DIRECT


def _requests(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    return ((offset, size) for offset in range(start, end, size))


def _bursts(items: list[T]) -> Iterator[list[T]]:
    size = -(-len(items) // _BURSTS)
    return (items[first : first + size] for first in range(0, len(items), size))


class Competitors:
    """Processes that write while they are told to; they end with this one, whatever ends it."""

    def __init__(self, files: list[int]) -> None:
        sizes = (COMPETITOR_REQUEST_BYTES, COMPETITOR_FILE_BYTES, COMPETITOR_MOST_BYTES)
        self._running = [
            subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(competitor.__file__)), str(fd), *map(str, sizes)],
                stdin=subprocess.PIPE,
                pass_fds=(fd,),
                start_new_session=True,
            )
            for fd in files
        ]
        for fd in files:
            os.close(fd)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        self._tell()
        try:
            yield
        finally:
            self._tell()

    def _tell(self) -> None:
        for process in self._running:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()

    def __enter__(self) -> Competitors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for process in self._running:
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:  # in a write that does not come back: left to the kernel
                process.kill()
