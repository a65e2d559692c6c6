"""The programs of the pairs: the same work before a change and after it.

    python benchmarks/pairs/programs.py NAME before|after RANK PROCESSES FOLDER

Every program does its I/O by system calls of its own process, so that a recorder sees it. Files that are to be read lie
there before (`prepare`), and are not in the page cache where it matters: they are read past it (O_DIRECT).
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

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


def uneven(total: int, size: int) -> Callable[[bool, int, int, Path], None]:
    def run(after: bool, rank: int, processes: int, folder: Path) -> None:
        share = 1 / processes if after else (0.7 if rank == 0 else 0.3 / (processes - 1))
        writes(folder / f"out.{rank}", steps(int(total * share), size), size, DIRECT)

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


PROGRAMS: tuple[Program, ...] = (
    *(Program(f"small-writes-direct-{s // KIB}k", "small_requests", small_writes(s, DIRECT, n * MIB))
      for s, n in ((4 * KIB, 16), (16 * KIB, 48), (64 * KIB, 96), (256 * KIB, 128))),
    *(Program(f"small-writes-{s}", "small_requests", small_writes(s, 0, n * MIB)) for s, n in ((128, 8), (1024, 32))),
    *(Program(f"small-reads-{s // KIB}k", "small_requests", small_reads(s, n * MIB), input_bytes=n * MIB)
      for s, n in ((4 * KIB, 16), (16 * KIB, 64), (64 * KIB, 128))),
    Program("small-reads-of-four", "small_requests", small_reads(16 * KIB, 64 * MIB), 4, 64 * MIB),
    *(Program(f"synced-{s // KIB}k", "fsync_storm", synced(s, n)) for s, n in ((1 * KIB, 300), (16 * KIB, 300),
                                                                             (256 * KIB, 200))),
    Program("synced-by-four", "fsync_storm", synced(4 * KIB, 150), 4),
    *(Program(f"shuffled-{s // KIB}k", "random_access", shuffled(s, n, 128 * MIB), input_bytes=128 * MIB)
      for s, n in ((4 * KIB, 2000), (16 * KIB, 2000), (64 * KIB, 1000))),
    Program("read-4-times", "redundant_reads", read_again(4, 96 * MIB), input_bytes=96 * MIB),
    Program("read-10-times", "redundant_reads", read_again(10, 32 * MIB), input_bytes=32 * MIB),
    Program("written-4-times", "redundant_writes", write_again(4, 96 * MIB)),
    Program("written-8-times", "redundant_writes", write_again(8, 32 * MIB)),
    Program("reopened-5000", "reopening", reopened(5000, 100)),
    Program("reopened-by-four", "reopening", reopened(2000, 4096), 4),
    Program("small-files-4k", "small_files", small_files_made(400, 4 * KIB)),
    Program("small-files-100k", "small_files", small_files_made(200, 100 * KIB)),
    Program("many-files-1k", "many_files", small_files_made(400, KIB)),
    Program("file-per-process", "file_per_process", shared_instead(100, 4 * KIB), 4),
    Program("file-per-process-64k", "file_per_process", shared_instead(60, 64 * KIB), 4),
    Program("seek-and-read-4k", "seeks", sought(100_000, 4 * KIB), input_bytes=16 * MIB),
    Program("seek-and-read-512", "seeks", sought(100_000, 512), input_bytes=16 * MIB),
    Program("stat-in-loop", "metadata_storm", asked_again(150, 100)),
    *(Program(f"one-writer-{s // KIB}k", "rank_zero", one_writer(128 * MIB, s), 4) for s in (256 * KIB, MIB, 4 * MIB)),
    Program("uneven-1m", "uneven_ranks", uneven(160 * MIB, MIB), 4),
    Program("uneven-64k", "uneven_ranks", uneven(80 * MIB, 64 * KIB), 4),
    Program("interleaved-writes", "no_mpiio", interleaved(64 * MIB, 16 * KIB, False), 4),
    Program("interleaved-reads", "no_mpiio", interleaved(64 * MIB, 16 * KIB, True), 4, 64 * MIB),
    Program("interleaved-47k", "no_mpiio", interleaved(94 * MIB, 47 * 1024 // 512 * 512, True), 4, 96 * MIB),
    Program("strided-reads", "strided", interleaved(64 * MIB, 16 * KIB, True), 4, 64 * MIB),
    Program("changed-in-place-16k", "read_write_switches", changed_in_place(48 * MIB, 16 * KIB), input_bytes=48 * MIB),
    Program("off-the-blocks", "unaligned_file", off_the_blocks(64 * MIB, 4 * KIB), input_bytes=64 * MIB),
)  # fmt: skip


def prepare(program: Program, folder: Path) -> None:
    if not program.input_bytes:
        return
    with (folder / "input").open("wb") as file:
        for _ in range(program.input_bytes // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    name, phase, rank, processes, folder = sys.argv[1:]
    program = next(p for p in PROGRAMS if p.name == name)
    program.run(phase == "after", int(rank), int(processes), Path(folder))


if __name__ == "__main__":
    main()
