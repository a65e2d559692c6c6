"""System volumes of runs against a year of 1-minute samples: time, and the same runs one by one as a peer.

python benchmarks/job_system.py                       # 10,000 runs of 200 files
python benchmarks/job_system.py --runs 1000 --files 50
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from ioweather.core.tables import APPLICATIONS, FILES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.facts.job_metrics import SPAN_COLUMNS, io_spans
from ioweather.facts.runs import LEAST_RUNS
from ioweather.facts.system_activity import job_system
from ioweather.stats.grid import SystemGrid

MINUTES = 525_600
START_NS = 1_500_000_000 * NS


def planted_grid(rng: np.random.Generator) -> SystemGrid:
    names = ("read_bytes", "write_bytes", "read_ops", "write_ops")
    return SystemGrid(START_NS, MINUTE_NS, {name: rng.lognormal(25, 1, MINUTES) for name in names})


def planted_frames(rng: np.random.Generator, runs: int, files: int):  # type: ignore[no-untyped-def]
    start = START_NS + rng.integers(0, (MINUTES - 200) * MINUTE_NS, runs)
    length = rng.integers(MINUTE_NS, 150 * MINUTE_NS, runs)
    digests = [f"{i:08x}" for i in range(runs)]
    applications = APPLICATIONS.frame(
        log_digest=digests, job_id=np.arange(runs), uid=1, exe="a", nprocs=64, start_ns=start, end_ns=start + length,
        log_version="3.41", partial_modules="", modules="POSIX", rows=runs,
    )  # fmt: skip
    owner = np.repeat(np.arange(runs), files)
    total = runs * files
    first = start[owner] + (rng.random(total) * length[owner] * 0.9).astype(np.int64)
    last = first + (rng.random(total) * length[owner] * 0.1).astype(np.int64)
    columns = {spec.name: 0 if not spec.nullable else None for spec in FILES.columns}
    columns |= {
        "log_digest": applications.text("log_digest")[owner], "record_id": np.tile(np.arange(files), runs),
        "rank": np.tile(np.arange(files) % 64, runs), "module": "POSIX", "standard_stream": False, "mount": "/scratch",
        "read_bytes": np.full(total, 1 << 20), "first_read_ns": first, "last_read_ns": last,
    }  # fmt: skip
    return applications, FILES.frame(columns, rows=total).select(SPAN_COLUMNS)


def one_by_one(grid: SystemGrid, start: np.ndarray, end: np.ndarray) -> None:
    """The plain way: every run looks at all samples."""
    stamps = grid.start_ns + np.arange(grid.count) * grid.step_ns
    for low, high in zip(start.tolist(), end.tolist(), strict=True):
        overlap = np.clip(np.minimum(stamps + grid.step_ns, high) - np.maximum(stamps, low), 0, None) / grid.step_ns
        for values in grid.values.values():
            float(values @ overlap)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=200)
    given = parser.parse_args()
    rng = np.random.default_rng(LEAST_RUNS)
    grid = planted_grid(rng)
    applications, files = planted_frames(rng, given.runs, given.files)
    began = time.perf_counter()
    spans = io_spans(applications, files, {"/scratch"})
    middle = time.perf_counter()
    found = job_system(grid, applications.array("start_ns"), applications.array("end_ns"), spans)
    ended = time.perf_counter()
    few = 50
    one_by_one(grid, applications.array("start_ns")[:few], applications.array("end_ns")[:few])
    peer = (time.perf_counter() - ended) / few * given.runs
    ours = ended - began
    print(f"{given.runs:,} runs, {files.rows:,} file records, {grid.count:,} minutes")
    print(f"spans {middle - began:.2f} s, volumes {ended - middle:.2f} s, together {ours:.2f} s (goal: 30 s)")
    print(
        f"peer, Psi alone by scanning the year per run: {peer:.0f} s, {peer / (ended - middle):.0f} times the volumes"
    )
    print(f"complete runs: {(found.text('state').codes == 0).sum():,}")


if __name__ == "__main__":
    main()
