"""The sampler of don15 (section 2): response times of reads and writes by request size, cached and uncached.

nocache: the cache of the file is emptied before a read; a write ends with fsync(2), so its operation is `write_sync`.
cache: the same range was read just before, and a write ends when the call returns. There is one file per size on each
of some OSTs (those named, else four on Lustre), so that a slow OST is not mistaken for a slow size. After each
measurement the sampler rests, so that it is busy for at most the given share of the time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ioweather.agent.probe_files import DataFile, FileProbe, check_space
from ioweather.agent.sensor import Operation, Reporter, response_row, timed, timed_open
from ioweather.agent.target_probe import osts_of, place_on_ost
from ioweather.core.errors import SourceError
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import KIB, MIB, format_bytes

PAPER_SIZES = tuple(512 * KIB << power for power in range(12))  # 512 KiB .. 1 GiB (don15 section 2)
_PIECE_BYTES = MIB
_OSTS = 4


@dataclass(frozen=True)
class SamplerSettings:
    """`rounds`: times through all sizes, None for no end. `busy_ratio`: largest share of the time that it measures."""

    sizes: tuple[int, ...] = PAPER_SIZES
    modes: tuple[str, ...] = ("cache", "nocache")
    rounds: int | None = None
    busy_ratio: float = 0.1
    osts: tuple[int, ...] = ()
    fill_bytes_per_s: float = 200 * MIB
    keep_files: bool = False

    def check(self) -> None:
        """Raise SourceError for values that cannot be measured with."""
        for size in self.sizes:
            if size < 4096 or size % 4096 or size > 1 << 30:
                raise SourceError(f"a request of {size} bytes is not a multiple of 4096 between 4 KiB and 1 GiB.")
        if not self.sizes or not self.modes or not 0 < self.busy_ratio <= 1:
            raise SourceError("the sampler needs a size, a mode and a busy share above 0 and up to 1.")


@dataclass
class Sampler(FileProbe):
    """The sampler of one target."""

    settings: SamplerSettings = field(default_factory=SamplerSettings)
    name = "sample"
    folder_prefix = "sample-"
    period_ns = 50_000_000
    is_periodic = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._files = self._files_on(self.settings.osts)
        self._random = self.generator()
        self._steps: list[tuple[DataFile, str | None, str, str]] = []  # file, OST, mode, operation
        self._rounds = 0
        self._resume_ns = 0

    def make_files(self, reporter: Reporter) -> tuple[str, str]:
        with self._own.claimed(reporter.progress) as (folder, progress):
            if not self.settings.osts:
                osts = [number for number, _ in osts_of(folder)]
                # Some of the targets, spread evenly: each of them takes a file of each size.
                self._files = self._files_on(osts[:: -(-len(osts) // _OSTS)] if osts else osts)
            check_space(folder, sum(file.missing_bytes(folder) for file, _ in self._files), len(self._files))
            for file, ost in self._files:
                if ost is not None and file.name not in folder.names():
                    place_on_ost(folder, file.name, ost)
                file.fill(folder, progress, self.settings.fill_bytes_per_s)
                file.find_access(folder)
        kinds = {file.access for file, _ in self._files}
        access = kinds.pop() if len(kinds) == 1 else "mixed"
        return access, "" if access != "cached" else "this file system keeps files in memory: nothing reaches storage"

    def _files_on(self, osts: Sequence[int]) -> list[tuple[DataFile, int | None]]:
        """A file of each size on each OST."""
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
        timing, fd = timed_open(self._own.open, partial(file.open, cached=mode == "cache"))
        cached: bool | None = None
        if fd >= 0:
            try:
                file.renew()
                cached = _arrange(file, mode, op, fd)
                timing = timed(
                    file.read if op == "read" else file.write_sync if op == "write_sync" else file.write, fd, 0, length
                )
            except OSError as error:
                timing = timing._replace(failed=True, errno=error.errno)
            finally:
                os.close(fd)
        row = response_row(self.origin, Operation(op, length, mode), timing, scheduled_ns, cached, component)
        reporter.row("responses", row)
        busy = time.monotonic_ns() - started
        self._resume_ns = started + round(busy / self.settings.busy_ratio)

    def remove_files(self, folder: PrivateDirectory, reporter: Reporter) -> None:
        for file, _ in self._files:
            folder.discard(file.name)


def _arrange(file: DataFile, mode: str, op: str, fd: int) -> bool | None:
    """Bring the cache into the state that the mode names, untimed; return whether the request is cached."""
    if mode == "cache":
        file.read(fd, 0, file.file_bytes)
        return file.is_cached(fd, 0, file.file_bytes) if op == "read" else True
    os.fsync(fd)  # dirty pages cannot be dropped
    found = file.make_uncached(fd, 0, file.file_bytes)
    if op == "read":
        return found
    return None if file.reaches_storage is None else not file.reaches_storage
