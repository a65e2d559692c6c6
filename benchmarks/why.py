"""How long `ioweather why` takes on a lake of a year: all of it, and the part that reads the servers' samples.

    python benchmarks/why.py                  # 365 days of 24 OSTs and of probes by the minute, 10,000 runs
    python benchmarks/why.py --days 60 --runs 2000
    python benchmarks/why.py --lake DIR       # keep the lake there, or use the one that is

The peer reads the whole year's samples instead of the windows of the runs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from ioweather.core.choices import TRAFFIC
from ioweather.core.frames import Text
from ioweather.core.tables import APPLICATIONS, FILES, TABLES
from ioweather.core.units import DAY_NS, GIB, MINUTE_NS, NS
from ioweather.facts.job_metrics import job_io
from ioweather.lake import grid
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact
from ioweather.topics.ask import ask

START_NS = 17_532 * DAY_NS  # 2018-01-01
FILES_PER_RUN = 16


def samples(lake: Lake, days: int, targets: int, rng: np.random.Generator) -> None:
    names = tuple(f"OST{i:04x}" for i in range(targets))
    block = 30
    for first in range(0, days, block):
        minutes = 1440 * min(block, days - first)
        for metric in TRAFFIC:
            frame = TABLES["series"].frame(
                rows=minutes * targets,
                start_ns=START_NS + first * DAY_NS + np.repeat(np.arange(minutes), targets) * MINUTE_NS,
                interval_ns=MINUTE_NS, system="scratch", component_kind="ost",
                component=Text(np.tile(np.arange(targets, dtype=np.int32), minutes), names), metric=metric,
                value=rng.lognormal(20, 1, minutes * targets), quality=0,
            )  # fmt: skip
            lake.append("series", frame, source="lmt")


def runs(lake: Lake, days: int, targets: int, count: int, rng: np.random.Generator) -> None:
    start = START_NS + np.sort(rng.integers(0, (days * 1440 - 120) * MINUTE_NS, count))
    seconds = rng.uniform(1200, 3000, count)
    program = rng.integers(0, 6, count)
    digests = [f"{i:032x}" for i in range(count)]
    applications = APPLICATIONS.frame(
        log_digest=digests, job_id=np.arange(count), uid=1, exe=[f"/bin/app{p}" for p in program], nprocs=64,
        start_ns=start, end_ns=start + (seconds * NS).astype(np.int64), log_version="3.41", partial_modules="",
        modules="POSIX", rows=count,
    )  # fmt: skip
    owner = np.repeat(np.arange(count), FILES_PER_RUN)
    columns = {spec.name: None if spec.nullable else 0 for spec in FILES.columns}
    columns |= {
        "log_digest": applications.text("log_digest")[owner], "start_ns": start[owner],
        "record_id": np.tile(np.arange(FILES_PER_RUN), count), "rank": np.tile(np.arange(FILES_PER_RUN), count),
        "module": "POSIX", "standard_stream": False, "mount": "/scratch", "open_count": 1, "read_count": 100,
        "read_bytes": np.full(len(owner), GIB), "read_seconds": 0.5 * seconds[owner], "meta_seconds": 1.0,
        "write_seconds": 0.0, "first_read_ns": start[owner], "last_read_ns": start[owner] + 600 * NS,
        "osts": Text(rng.integers(0, targets, len(owner)).astype(np.int32), tuple(str(i) for i in range(targets))),
    }  # fmt: skip
    files = FILES.frame(columns, rows=len(owner))
    for table, frame in (("applications", applications), ("files", files), ("job_io", job_io(applications, files))):
        lake.append(table, frame, source="darshan")


def probes(lake: Lake, days: int, rng: np.random.Generator) -> None:
    """One probe a minute, six operations each."""
    operations = ("create", "delete", "file_read", "read", "stat", "write")
    block = 30
    for first in range(0, days, block):
        minutes = 1440 * min(block, days - first)
        place = np.arange(minutes * len(operations))
        frame = TABLES["responses"].frame(
            rows=len(place), start_ns=START_NS + first * DAY_NS + place * (MINUTE_NS // len(operations)),
            host="login1", target="/scratch/.ioweather", system="scratch", request_bytes=1_000_000, mode="nocache",
            op=Text((place % len(operations)).astype(np.int32), operations), status="ok",
            duration_ns=(8e6 * rng.lognormal(0, 0.3, len(place))).astype(np.int64),
        )  # fmt: skip
        lake.append("responses", frame, source="spool")


def make(lake: Lake, days: int, targets: int, count: int) -> None:
    rng = np.random.default_rng(2)
    began = time.perf_counter()
    samples(lake, days, targets, rng)
    probes(lake, days, rng)
    runs(lake, days, targets, count, rng)
    compact(lake)
    print(f"{days} days of {targets} OSTs, {count} runs: made in {time.perf_counter() - began:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--targets", type=int, default=24)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--lake", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = given.lake or Path(folder) / "lake"
        fresh = not root.exists()
        lake = open_lake(root, create=True)
        if fresh:
            make(lake, given.days, given.targets, given.runs)
        times, busy = [], []
        for job in (given.runs // 2, given.runs // 3, given.runs // 4):
            began, cpu = time.perf_counter(), time.process_time()
            answer = ask("why", lake, {"job": str(job)})
            times.append(time.perf_counter() - began)
            busy.append(time.process_time() - cpu)
        print(f"why: {', '.join(f'{t:.2f}' for t in times)} s (goal: 2 s); {answer.headline}")
        load = os.getloadavg()[0]
        print(f"processor time of it, all threads: {', '.join(f'{t:.2f}' for t in busy)} s; load {load:.1f}")
        with lake.snapshot() as snapshot:
            began = time.perf_counter()
            chosen = snapshot.selection(filesystem="scratch", component_kind="ost", metrics=TRAFFIC, step_ns=MINUTE_NS)
            grid.rollup(chosen, TRAFFIC)
            whole = time.perf_counter() - began
        print(f"peer, samples of the whole year: {whole:.2f} s, {whole / min(times):.1f} times all of why")


if __name__ == "__main__":
    main()
