"""What limits cost: small Darshan logs read by children that the kernel bounds, against the same in this process.

    python benchmarks/bounded_reading.py             # 4,000 logs
    python benchmarks/bounded_reading.py 20000

The peer reads the same batches in the same run, in turn, in this process and without limits; counted is processor time
of both sides, so the way back to the parent (pickled rows) is in it. Then whole ingests into new lakes, by the clock:
with two readers as it is, and with two worker processes that read without limits. Last, what starting one reader costs:
an ingest of one file pays that, while it opens the lake.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from engine import small_logs
from ioweather.core.contracts import ReadContext
from ioweather.ingestion import ingest as ingesting
from ioweather.ingestion.reading import (
    Batch,
    FileOutcome,
    Frames,
    Reading,
    digests_of,
    read_batch,
    read_bounded,
    readers,
)
from ioweather.lake.lake import open_lake
from ioweather.lake.workers import local_executor

ROUNDS = 5
BATCH_FILES = 256


def processor_seconds() -> float:
    """Of this process, and of its reader, whose own count is asked for."""
    here = resource.getrusage(resource.RUSAGE_SELF)
    return here.ru_utime + here.ru_stime + readers().call(time.process_time)


def batches_of(folder: Path, reading: Reading) -> list[Batch]:
    paths = sorted(folder.glob("*.darshan"))
    digests = digests_of(paths, reading)
    files = [(path, digest, path.stat().st_size) for path, digest in zip(paths, digests, strict=True)]
    return [files[first : first + BATCH_FILES] for first in range(0, len(files), BATCH_FILES)]


def spent(read: Callable[[Batch, Reading], object], batches: list[Batch], reading: Reading) -> float:
    before = processor_seconds()
    for batch in batches:
        read(batch, reading)
    return processor_seconds() - before


def unbounded(batch: Batch, reading: Reading) -> tuple[list[FileOutcome], Frames, Batch]:
    return (*read_batch(batch, reading), [])


def logs_per_second(folder: Path, count: int, *, bounded: bool) -> float:
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack, local_executor(2) as processes:
        lake = open_lake(Path(place, "lake"), create=True)
        if not bounded:
            stack.enter_context(patch.object(ingesting, "read_bounded", unbounded))
            stack.enter_context(patch.object(ingesting, "_suited", lambda *_: processes))
        started = time.perf_counter()
        report = ingesting.ingest(lake, [folder], executor=processes)
        seconds = time.perf_counter() - started
    assert len(report.good) == count
    return count / seconds


def main(count: int) -> None:
    reading = Reading(ReadContext())
    with tempfile.TemporaryDirectory() as folder:
        small_logs(Path(folder), count)
        batches = batches_of(Path(folder, "small"), reading)
        ways = {"bounded": read_bounded, "in this process": read_batch}
        for read in ways.values():
            read(batches[0], reading)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, read in ways.items():
                found[name].append(spent(read, batches, reading))
        rates = [[logs_per_second(Path(folder, "small"), count, bounded=is_bounded) for is_bounded in (True, False)]
                 for _ in range(3)]  # fmt: skip
    ratios = [a / b for a, b in zip(*found.values(), strict=True)]
    for name, seconds in found.items():
        print(f"{name:16} {1e3 * statistics.median(seconds) / count:.3f} ms of processors a log")
    print(f"{'ratio':16} {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    ours, peer = (statistics.median(rate[i] for rate in rates) for i in (0, 1))
    print(f"{'whole ingest':16} {ours:,.0f} logs a second, {peer:,.0f} without limits: {ours / peer:.2f} times")
    starts = []
    for _ in range(ROUNDS):
        readers().stop()
        starts.append(readers().call(time.process_time))
    print(f"{'start of a reader':16} {statistics.median(starts):.2f} s of a processor")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
