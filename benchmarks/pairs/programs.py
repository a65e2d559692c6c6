"""The programs of the pairs: the same work before a change and after it.

    python benchmarks/pairs/programs.py NAME before|after RANK PROCESSES FOLDER

Every program does its I/O by system calls of its own process, so that a recorder sees it. Files that are to be read lie
there before (`prepare`), and are not in the page cache where it matters: they are read past it (O_DIRECT).

Programs with `mpi` run under `mpiexec` (MPICH and mpi4py from PyPI) and move their data by MPI-IO. Each times its own
MPI-IO calls; the recorder sees the calls that ROMIO makes below them.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

KIB, MIB = 1 << 10, 1 << 20
DIRECT = os.O_DIRECT


@dataclass(frozen=True)
class Program:
    """`rule` is the advice that the change follows. `run(after, rank, processes, folder)` does the work."""

    name: str
    rule: str
    run: Callable[[bool, int, int, Path], None]
    processes: int = 1
    # Bytes of `input` in the folder.
    input_bytes: int = 0
    mpi: bool = False


def block(size: int) -> mmap.mmap:
    """Aligned memory, as O_DIRECT wants it."""
    return mmap.mmap(-1, max(size, mmap.PAGESIZE))


def writes(path: Path, offsets: list[int], size: int, flags: int = 0, sync_each: bool = False) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    data = memoryview(block(size))[:size]
    for offset in offsets:
        os.pwrite(fd, data, offset)
        if sync_each:
            os.fsync(fd)
    os.fsync(fd)
    os.close(fd)


def reads(path: Path, offsets: list[int], size: int, flags: int = 0) -> None:
    fd = os.open(path, os.O_RDONLY | flags)
    data = [memoryview(block(size))[:size]]
    for offset in offsets:
        os.preadv(fd, data, offset)
    os.close(fd)


def steps(total: int, size: int, first: int = 0, stride: int | None = None) -> list[int]:
    return [first + i * (stride or size) for i in range(total // size)]


def small_writes(size: int, flags: int, total: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, _processes: int, folder: Path) -> None:
        piece = 4 * MIB if after else size
        writes(folder / f"out.{rank}", steps(total, piece), piece, flags)

    return run


def small_reads(size: int, total: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        piece, part = (4 * MIB if after else size), total // processes
        reads(folder / "input", steps(part, piece, rank * part), piece, DIRECT)

    return run


def synced(size: int, number: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, _processes: int, folder: Path) -> None:
        writes(folder / f"out.{rank}", steps(number * size, size), size, sync_each=not after)

    return run


def shuffled(size: int, number: int, total: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, _processes: int, folder: Path) -> None:
        offsets = Random(rank).sample(steps(total, size), number)
        reads(folder / "input", sorted(offsets) if after else offsets, size, DIRECT)

    return run


def read_again(times: int, total: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, _rank: int, _processes: int, folder: Path) -> None:
        reads(folder / "input", steps(total, MIB) * (1 if after else times), MIB, DIRECT)

    return run


def write_again(times: int, total: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, _processes: int, folder: Path) -> None:
        writes(folder / f"out.{rank}", steps(total, MIB) * (1 if after else times), MIB, DIRECT)

    return run


def reopened(number: int, size: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, _processes: int, folder: Path) -> None:
        path, data = folder / f"log.{rank}", bytes(size)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        if after:
            fd = os.open(path, flags, 0o644)
            for _ in range(number):
                os.write(fd, data)
            os.close(fd)
            return
        for _ in range(number):
            fd = os.open(path, flags, 0o644)
            os.write(fd, data)
            os.close(fd)

    return run


def small_files_made(number: int, size: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, _processes: int, folder: Path) -> None:
        data = bytes(size)
        if after:
            fd = os.open(folder / f"shard.{rank}", os.O_WRONLY | os.O_CREAT, 0o644)
            for _ in range(number):
                os.write(fd, data)
            os.close(fd)
            return
        for i in range(number):
            fd = os.open(folder / f"sample.{rank}.{i}", os.O_WRONLY | os.O_CREAT, 0o644)
            os.write(fd, data)
            os.close(fd)

    return run


def shared_instead(number: int, size: int) -> Callable[[bool, int, int, Path], None]:
    """Files of each process against one that all share: each writes the same pieces at places of its own."""

    def run(after: bool, rank: int, _processes: int, folder: Path) -> None:
        data = bytes(size)
        if after:
            fd = os.open(folder / "all", os.O_WRONLY | os.O_CREAT, 0o644)
            for i in range(number):
                os.pwrite(fd, data, (rank * number + i) * size)
            os.close(fd)
            return
        for i in range(number):
            fd = os.open(folder / f"part.{rank}.{i}", os.O_WRONLY | os.O_CREAT, 0o644)
            os.write(fd, data)
            os.close(fd)

    return run


def sought(number: int, size: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, _rank: int, _processes: int, folder: Path) -> None:
        fd = os.open(folder / "input", os.O_RDONLY)
        for i in range(number):
            offset = i * size % (16 * MIB)
            if after:
                os.pread(fd, size, offset)
            else:
                os.lseek(fd, offset, os.SEEK_SET)
                os.read(fd, size)
        os.close(fd)

    return run


def asked_again(number: int, times: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, _processes: int, folder: Path) -> None:
        for i in range(number):
            path = folder / f"state.{rank}.{i}"
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
            for _ in range(1 if after else times):
                path.stat()

    return run


def one_writer(total: int, size: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        if after:
            writes(folder / f"out.{rank}", steps(total // processes, size), size, DIRECT)
        elif rank == 0:
            writes(folder / "out", steps(total, size), size, DIRECT)

    return run


def some_write(total: int, size: int) -> Callable[[bool, int, int, Path], None]:
    """Every second process writes for itself and the next one, against each for itself."""

    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        part = total // processes
        if after:
            writes(folder / f"out.{rank}", steps(part, size), size, DIRECT)
        elif rank % 2 == 0:
            writes(folder / f"out.{rank}", steps(2 * part, size), size, DIRECT)

    return run


def uneven(total: int, size: int, shared: bool = False) -> Callable[[bool, int, int, Path], None]:
    """The first process has 70% of the bytes, against as many as the others; in one file, or in one for each."""

    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        most, least = (1 / processes, 1 / processes) if after else (0.7, 0.3 / (processes - 1))
        mine = steps(int(total * (most if rank == 0 else least)), size)
        first = (int(total * most) + (rank - 1) * int(total * least)) // size * size if rank else 0
        if shared:
            # A file that is there: the local file system lets only one process at a time make it longer.
            writes(folder / "input", [first + offset for offset in mine], size, DIRECT)
        else:
            writes(folder / f"out.{rank}", mine, size, DIRECT)

    return run


def interleaved(total: int, size: int, reading: bool) -> Callable[[bool, int, int, Path], None]:
    """Pieces of all processes in turns, against one stretch for each, as aggregators would move it."""

    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        part = total // processes
        piece = MIB if after else size
        offsets = steps(part, piece, rank * part) if after else steps(part, size, rank * size, processes * size)
        if reading:
            reads(folder / "input", offsets, piece, DIRECT)
        else:
            writes(folder / "all", offsets, piece, DIRECT)

    return run


def changed_in_place(total: int, size: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, _rank: int, _processes: int, folder: Path) -> None:
        fd = os.open(folder / "input", os.O_RDWR | DIRECT)
        piece = 4 * MIB if after else size
        data = memoryview(block(piece))[:piece]
        for offset in steps(total, piece):
            os.preadv(fd, [data], offset)
            os.pwrite(fd, data, offset)
        os.close(fd)

    return run


def off_the_blocks(total: int, size: int) -> Callable[[bool, int, int, Path], None]:
    """Whole blocks, begun in the middle of one: what is not in memory must be read to be changed."""

    def run(after: bool, _rank: int, _processes: int, folder: Path) -> None:
        fd = os.open(folder / "input", os.O_RDWR)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        data = bytes(size)
        for offset in steps(total - size, 2 * size, 0 if after else size // 2):
            os.pwrite(fd, data, offset)
        os.fsync(fd)
        os.close(fd)

    return run


class TimedFile:
    """A file opened by all processes by MPI-IO, whose calls are timed: `calls` has (path, kind, bytes, start, end)."""

    calls: ClassVar[list[tuple[str, str, int, float, float]]] = []

    def __init__(self, path: Path, **hints: str) -> None:
        from mpi4py import MPI

        self.mpi, self.path = MPI, str(path)
        info = MPI.Info.Create()
        for name, value in hints.items():
            info.Set(name, value)
        self.rank, self.processes = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
        mode = MPI.MODE_RDWR | MPI.MODE_CREATE
        self.file = self._timed("open", 0, MPI.File.Open, MPI.COMM_WORLD, self.path, mode, info)

    def _timed(self, kind: str, size: int, call: Callable[..., Any], *arguments: Any) -> Any:
        start = time.monotonic()
        result = call(*arguments)
        self.calls.append((self.path, kind, size, start, time.monotonic()))
        return result

    def move(self, name: str, data: mmap.mmap, *offset: int) -> None:
        """Call a method of the file, such as Write_at_all, on these data."""
        verb = "read" if name.startswith("Read") else "write"
        kind = f"collective {verb}" if name.endswith("_all") else verb
        self._timed(kind, len(data), getattr(self.file, name), *offset, [data, self.mpi.BYTE])

    def view_every_nth(self, size: int) -> None:
        """See only the pieces of this process, which take turns with those of the others."""
        piece = self.mpi.BYTE.Create_contiguous(size)
        pieces = piece.Create_resized(0, self.processes * size).Commit()
        self.file.Set_view(self.rank * size, self.mpi.BYTE, pieces)

    def close(self, sync: bool = True) -> None:
        if sync:
            self._timed("sync", 0, self.file.Sync)
        self._timed("close", 0, self.file.Close)


CB_ON = {"romio_cb_write": "enable", "romio_cb_read": "enable", "cb_buffer_size": str(16 * MIB)}


def mpi_interleaved(
    total: int, size: int, verb: str, method: str, **hints: str
) -> Callable[[bool, int, int, Path], None]:
    """Pieces of all processes in turns by this method: one at a time (`_at`), or in 16 MiB through a view. After: a
    view, and collective calls with aggregation."""

    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        number, path = total // processes // size, folder / ("input" if verb == "Read" else "all")
        file = TimedFile(path, **(CB_ON if after else hints))
        if method.startswith("_at") and not after:
            data = block(size)
            for i in range(number):
                file.move(verb + method, data, (i * processes + rank) * size)
        else:
            file.view_every_nth(size)
            at_once = max(1, 16 * MIB // size)
            data = mmap.mmap(-1, at_once * size)
            for _ in range(number // at_once):
                file.move(f"{verb}_all" if after else verb + method, data)
        file.close(sync=verb == "Write")

    return run


def mpi_own_part(total: int, size: int, sync_each: bool = False) -> Callable[[bool, int, int, Path], None]:
    """Each process writes its own part of a shared file: in small pieces, or synced after each, against 4 MiB."""

    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        part, piece = total // processes, 4 * MIB if after and not sync_each else size
        file, data = TimedFile(folder / "all"), block(piece)
        for i in range(part // piece):
            file.move("Write_at", data, rank * part + i * piece)
            if sync_each and not after:
                file._timed("sync", 0, file.file.Sync)
        file.close()

    return run


def mpi_shuffled(total: int, size: int, number: int) -> Callable[[bool, int, int, Path], None]:
    """Pieces of a shared file in random order, against a collective read of the same pieces by a view."""

    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        places = Random(1).sample(range(total // size), number * processes)[rank::processes]
        file = TimedFile(folder / "input", **(CB_ON if after else {}))
        if after:
            from mpi4py import MPI

            pieces = MPI.BYTE.Create_hindexed_block(size, [i * size for i in sorted(places)]).Commit()
            file.file.Set_view(0, MPI.BYTE, pieces)
            file.move("Read_all", mmap.mmap(-1, number * size))
        else:
            data = block(size)
            for i in places:
                file.move("Read_at", data, i * size)
        file.close(sync=False)

    return run


def mpi_one_writer(total: int, size: int) -> Callable[[bool, int, int, Path], None]:
    """Process 0 writes all, against each its own part."""

    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        file, data = TimedFile(folder / "all"), block(size)
        part = total // processes if after else total
        for offset in steps(part, size, rank * part) if after or rank == 0 else ():
            file.move("Write_at", data, offset)
        file.close()

    return run


# Sized to last about a second before the change on a quiet disk: what is below the advisor's floor tests nothing.
PROGRAMS: tuple[Program, ...] = (
    *(Program(f"small-writes-direct-{s // KIB}k", "small_requests", small_writes(s, DIRECT, n * MIB))
      for s, n in ((4 * KIB, 48), (16 * KIB, 144), (64 * KIB, 384), (256 * KIB, 768))),
    *(Program(f"small-writes-{s}", "small_requests", small_writes(s, 0, n * MIB)) for s, n in ((128, 96), (1024, 256))),
    *(Program(f"small-reads-{s // KIB}k", "small_requests", small_reads(s, n * MIB), input_bytes=n * MIB)
      for s, n in ((4 * KIB, 48), (16 * KIB, 144), (64 * KIB, 384))),
    Program("small-reads-of-four", "small_requests", small_reads(16 * KIB, 320 * MIB), 4, 320 * MIB),
    *(Program(f"synced-{s // KIB}k", "fsync_storm", synced(s, n)) for s, n in ((1 * KIB, 700), (16 * KIB, 500),
                                                                             (256 * KIB, 500))),
    Program("synced-by-four", "fsync_storm", synced(4 * KIB, 500), 4),
    *(Program(f"shuffled-{s // KIB}k", "random_access", shuffled(s, n, 256 * MIB), input_bytes=256 * MIB)
      for s, n in ((4 * KIB, 8000), (16 * KIB, 8000), (64 * KIB, 4000))),
    Program("read-4-times", "redundant_reads", read_again(4, 288 * MIB), input_bytes=288 * MIB),
    Program("read-10-times", "redundant_reads", read_again(10, 160 * MIB), input_bytes=160 * MIB),
    Program("written-4-times", "redundant_writes", write_again(4, 288 * MIB)),
    Program("written-8-times", "redundant_writes", write_again(8, 160 * MIB)),
    Program("reopened-80000", "reopening", reopened(80_000, 100)),
    Program("reopened-by-four", "reopening", reopened(16_000, 4096), 4),
    Program("small-files-4k", "small_files", small_files_made(1500, 4 * KIB)),
    Program("small-files-100k", "small_files", small_files_made(1500, 100 * KIB)),
    Program("many-files-1k", "many_files", small_files_made(1500, KIB)),
    Program("file-per-process", "file_per_process", shared_instead(400, 4 * KIB), 4),
    Program("file-per-process-64k", "file_per_process", shared_instead(250, 64 * KIB), 4),
    Program("seek-and-read-4k", "seeks", sought(300_000, 4 * KIB), input_bytes=16 * MIB),
    Program("seek-and-read-512", "seeks", sought(600_000, 512), input_bytes=16 * MIB),
    Program("stat-in-loop", "metadata_storm", asked_again(150, 3000)),
    Program("stat-in-loop-by-four", "metadata_storm", asked_again(50, 3000), 4),
    *(Program(f"one-writer-{s // KIB}k", "rank_zero", one_writer(768 * MIB, s), 4) for s in (256 * KIB, MIB, 4 * MIB)),
    *(Program(f"some-write-{s // KIB}k", "subset", some_write(n * MIB, s), 4)
      for s, n in ((64 * KIB, 448), (MIB, 1024))),
    Program("uneven-1m", "uneven_ranks", uneven(960 * MIB, MIB), 4),
    Program("uneven-64k", "uneven_ranks", uneven(400 * MIB, 64 * KIB), 4),
    *(Program(f"uneven-in-one-file-{s // KIB}k", "straggler_bytes", uneven(n * MIB, s, shared=True), 4, n * MIB)
      for s, n in ((64 * KIB, 320), (256 * KIB, 640))),
    Program("interleaved-writes", "no_mpiio", interleaved(128 * MIB, 16 * KIB, False), 4),
    Program("interleaved-reads", "no_mpiio", interleaved(384 * MIB, 16 * KIB, True), 4, 384 * MIB),
    Program("interleaved-47k", "no_mpiio", interleaved(752 * MIB, 47 * 1024 // 512 * 512, True), 4, 768 * MIB),
    Program("strided-reads", "strided", interleaved(384 * MIB, 16 * KIB, True), 4, 384 * MIB),
    *(Program(f"changed-in-place-{s // KIB}k", "read_write_switches", changed_in_place(n * MIB, s), input_bytes=n * MIB)
      for s, n in ((16 * KIB, 128), (64 * KIB, 288))),
    *(Program(f"off-the-blocks-{s // KIB}k", "unaligned_file", off_the_blocks(64 * MIB, s), input_bytes=64 * MIB)
      for s in (4 * KIB, 12 * KIB)),
    *(Program(f"mpi-interleaved-writes-{s}", "no_collectives", mpi_interleaved(n * MIB, s, "Write", "_at"), 4, mpi=True)
      for s, n in ((47008, 384), (8 * KIB, 128), (256 * KIB, 1024))),
    *(Program(f"mpi-interleaved-reads-{s}", "no_collectives", mpi_interleaved(n * MIB, s, "Read", "_at"), 4, n * MIB,
              mpi=True) for s, n in ((47008, 384), (8 * KIB, 128))),
    *(Program(f"mpi-view-writes-{s}", "mpiio_splits", mpi_interleaved(
        n * MIB, s, "Write", "_all", romio_cb_write="disable", romio_ds_write="disable"), 4, mpi=True)
      for s, n in ((4 * KIB, 128), (32 * KIB, 384))),
    *(Program(f"mpi-sieved-writes-{s}", "data_sieving", mpi_interleaved(
        n * MIB, s, "Write", "", romio_ds_write="enable"), 4, mpi=True) for s, n in ((4 * KIB, 128), (64 * KIB, 256))),
    *(Program(f"mpi-piece-by-piece-{s}", "unbuffered", mpi_interleaved(n * MIB, s, "Write", "_at_all"), 4, mpi=True)
      for s, n in ((16 * KIB, 64), (128 * KIB, 384))),
    *(Program(f"mpi-small-writes-{s // KIB}k", "small_requests", mpi_own_part(n * MIB, s), 4, mpi=True)
      for s, n in ((4 * KIB, 128), (32 * KIB, 512))),
    *(Program(f"mpi-synced-{s // KIB}k", "fsync_storm", mpi_own_part(n * MIB, s, True), 4, mpi=True)
      for s, n in ((64 * KIB, 64), (1 * MIB, 512))),
    *(Program(f"mpi-shuffled-reads-{s // KIB}k", "random_access", mpi_shuffled(512 * MIB, s, n), 4, 512 * MIB, mpi=True)
      for s, n in ((4 * KIB, 4000), (64 * KIB, 1500))),
    *(Program(f"mpi-one-writer-{s // KIB}k", "rank_zero", mpi_one_writer(512 * MIB, s), 4, mpi=True)
      for s in (128 * KIB, 4 * MIB)),
)  # fmt: skip


def prepare(program: Program, folder: Path) -> None:
    if not program.input_bytes:
        return
    with (folder / "input").open("wb") as file:
        for _ in range(program.input_bytes // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())
        # MPI-IO reads through the page cache.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    name, phase, rank, processes, folder = sys.argv[1:]
    program = next(p for p in PROGRAMS if p.name == name)
    if not program.mpi:
        program.run(phase == "after", int(rank), int(processes), Path(folder))
        return
    from mpi4py import MPI

    begun, number = time.monotonic(), MPI.COMM_WORLD.rank
    program.run(phase == "after", number, MPI.COMM_WORLD.size, Path(folder))
    # The recorder writes to RECORD_TO when the process ends; MPI-IO calls are written next to it.
    to = os.environ["RECORD_TO"] = f"{os.environ['RECORD_FOLDER']}/{number}"
    with Path(f"{to}.mpi").open("w") as file:
        for path, kind, size, start, end in TimedFile.calls:
            file.write(f"{path}\t{kind}\t{size}\t{start - begun}\t{end - begun}\n")


if __name__ == "__main__":
    main()
