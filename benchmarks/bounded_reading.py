"""What limits cost: small Darshan logs read by children that the kernel bounds, against the same in this process.

    python benchmarks/bounded_reading.py             # 4,000 logs
    python benchmarks/bounded_reading.py 20000

The peer reads the same batches in the same run, in turn, in this process and without limits; counted is processor time
of both sides, so the way back to the parent (pickled rows) is in it. Last, what starting one reader costs: an ingest of
one file pays that, while it opens the lake.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engine import small_logs
from ioweather.core.contracts import ReadContext
from ioweather.workflows.ingest.bounded_reading import read_bounded, readers
from ioweather.workflows.ingest.reading import Batch, Reading, digests_of, read_batch

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
    ratios = [a / b for a, b in zip(*found.values(), strict=True)]
    for name, seconds in found.items():
        print(f"{name:16} {1e3 * statistics.median(seconds) / count:.3f} ms of processors a log")
    print(f"{'ratio':16} {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    starts = []
    for _ in range(ROUNDS):
        readers().stop()
        starts.append(readers().call(time.process_time))
    print(f"{'start of a reader':16} {statistics.median(starts):.2f} s of a processor")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
