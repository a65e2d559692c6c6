"""What one thing costs (a log, a target's day, a probe's operations, a scanned file, a commit), for the capacity plan.

    python benchmarks/capacity.py

Processor seconds of one process, and bytes of the sealed lake. The peer shows what of it is the thing itself: reading
the same logs without making rows, plain DuckDB writing the same rows to one Parquet file a day, os.walk with lstat, and
a bare append to a Delta table.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
from deltalake import write_deltalake

from engine import large_logs, small_logs
from ioweather.core.frames import Frame
from ioweather.ingestion.derivations import refresh_rollups
from ioweather.lake.database import register_frame
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact
from ioweather.readers.darshan.darshan_reader import read_log
from ioweather.readers.scan.scanner import Scan, ScanState, plan_scan
from lake import day_frame
from scan import make_tree
from weather import a_day

SMALL, LARGE, OSTS, DAYS, ENTRIES, COMMITS = 2000, 100, 64, 10, 50_000, 100


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def stored_bytes(lake: Lake) -> int:
    """Of the sealed files; those that sealing has replaced stay a while for their readers and do not count."""
    compact(lake, everything=True)
    with lake.snapshot() as snapshot:
        return sum(Path(uri.removeprefix("file://")).stat().st_size for t in snapshot.pinned.values() for uri in t.uris)


def line(what: str, count: int, seconds: float, peer: float, size: int | None) -> None:
    stored = "" if size is None else f"{size / count / 1000:,.2f} KB"
    print(f"{what:<34s} {seconds / count * 1e3:10.3f} ms {stored:>14s} {seconds / peer:8.1f} x its peer", flush=True)


def logs(folder: Path) -> None:
    for name, make, count in (("small", small_logs, SMALL), ("large", large_logs, LARGE)):
        work = make(folder, count)
        place = folder / f"lake-{name}"
        seconds = cpu(lambda work=work, place=place: work.do(None, place))
        peer = cpu(lambda name=name: [read_log(path) for path in (folder / name).iterdir()])
        line(f"a log ({work.title.partition(', ')[2]})", count, seconds, peer, stored_bytes(open_lake(place)))


def plain_copy(folder: Path, frames: list[Frame], order: str) -> float:
    """What DuckDB takes to sort and write the same rows, one file for each frame."""
    con = duckdb.connect(config={"threads": 1})

    def write() -> None:
        for n, frame in enumerate(frames):
            rows = register_frame(con, "rows", frame)
            con.execute(f"COPY (SELECT * FROM ({rows}) ORDER BY {order}) TO '{folder}/{n}.parquet' (COMPRESSION zstd)")

    return cpu(write)


def target_days(folder: Path) -> None:
    rng = np.random.default_rng(1)
    days = [[day_frame(day, OSTS, metric, rng) for metric in ("read_bytes", "write_bytes")] for day in range(DAYS)]
    lake = open_lake(folder / "lake-series", create=True)

    def fill() -> None:
        for frames in days:
            for frame in frames:
                lake.append("series", frame, source="tts")
        compact(lake, everything=True)

    seconds = cpu(fill)
    peer = plain_copy(folder, [frame for frames in days for frame in frames], "start_ns, component")
    line("an OST-day (2 metrics, minutes)", OSTS * DAYS, seconds, peer, stored_bytes(lake))


def operations(folder: Path) -> None:
    rng = np.random.default_rng(2)
    days = [a_day(day, rng) for day in range(2)]
    lake = open_lake(folder / "lake-responses", create=True)

    def fill() -> None:
        for frame in days:
            lake.append("responses", frame, source="spool")
            refresh_rollups(lake, frame)
        compact(lake, everything=True)

    seconds = cpu(fill)
    peer = plain_copy(folder, days, "start_ns")
    count = sum(frame.rows for frame in days) // 1000
    line("a thousand operations of a probe", count, seconds, peer, stored_bytes(lake))


def entries(folder: Path) -> None:
    root = folder / "tree"
    make_tree(root, ENTRIES)

    def walk() -> None:
        for place, _, files in os.walk(root):
            for name in files:
                os.lstat(f"{place}/{name}")

    walk()
    peer = cpu(walk)
    seconds = cpu(lambda: Scan(plan_scan(root, start_ns=time.time_ns()), ScanState(), 1).run())
    line("a scanned file", ENTRIES, seconds, peer, None)


def commits(folder: Path) -> None:
    lake = open_lake(folder / "lake-commits", create=True)
    rng = np.random.default_rng(3)
    frames = [day_frame(day, 1, "read_bytes", rng).take(slice(0, 5)) for day in range(COMMITS)]
    began = time.perf_counter()
    seconds = cpu(lambda: [lake.append("series", frame, source="tts") for frame in frames])
    wall = time.perf_counter() - began
    con = duckdb.connect()
    rows = register_frame(con, "rows", frames[0])
    peer = cpu(lambda: [write_deltalake(folder / "bare", con.sql(rows), mode="append") for _ in frames])
    line("a commit", COMMITS, seconds, peer, None)
    print(f"{60 * COMMITS / wall:,.0f} commits a minute by one writer")


def main() -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for work in (logs, target_days, operations, entries, commits):
        with tempfile.TemporaryDirectory() as folder:
            work(Path(folder))


if __name__ == "__main__":
    main()
