"""The same work by 1, 2 and 4 workers, as local processes and on a Dask cluster of this machine.

    python benchmarks/engine.py                  # small logs, large logs, a season of pat19, replicates of don15
    python benchmarks/engine.py logs=20000       # one of them, with its size

The peer is one process. A machine of two cores shows a speed-up up to two, and with four workers what is lost by having
more workers than cores; it cannot show more. What holds on any machine is the processor time: that of the workers can
be spread, that of the parent (digests, rows into the lake, what is made of the parts of a study) cannot, so
total / parent is the most that any number of workers can gain.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from climate_year import PlantedSource, build_lake, run_study
from ioweather.core.facility import Facility
from ioweather.core.tables import TABLES
from ioweather.core.units import NS
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.lake.workers import Processes, in_order, open_executor
from ioweather.readers.darshan.darshan_reader import read_log
from ioweather.readers.darshan.log import DarshanLog
from ioweather.readers.darshan.writer import write_log
from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP, for_days
from ioweather.topics.analyse import make_exhibits
from ioweather.topics.catalogue import STUDIES
from reader_processes import usage

COUNTS = (1, 2, 4)
EMPTY_TASKS = 400
FITS = 6
LEGEND = """\
wall, parent, workers: seconds, by the clock and of processors; gain: against one process
at most: all processor time over the parent's; ms/task: of a task that does nothing; MiB peak: of the largest worker"""


def spent_by_workers(executor: Executor | None, count: int) -> dict[int, tuple[float, float]]:
    """Processor seconds and peak memory of each worker of a cluster; else of this process, whose workers end here."""
    if executor is None or isinstance(executor, Processes):
        if executor is not None:
            executor.shutdown()
        return {os.getpid(): usage()[1:]}
    found = in_order(executor, usage, [()] * (4 * count))
    return {process: (cpu, peak) for process, cpu, peak in found}


@dataclass(frozen=True)
class Work:
    """`size` units of work, and what does them on an executor (None: in this process), in a folder of its own."""

    title: str
    unit: str
    size: int
    do: Callable[[Executor | None, Path], None]


def small_logs(folder: Path, count: int) -> Work:
    """Logs of a simulated week, again and again under other job numbers."""
    made = generate(for_days(LAPTOP, 2), folder / "facility")
    logs = [read_log(path) for path in sorted(made.data.rglob("*.darshan"))]
    logs = [log for log in logs if records_of(log) <= 64]
    return _ingest_of(folder / "small", logs, count)


def large_logs(folder: Path, count: int) -> Work:
    """The same, of the runs with the most records: a file for each of thousands of processes."""
    made = generate(for_days(LAPTOP, 2), folder / "facility-of-large")
    logs = [read_log(path) for path in sorted(made.data.rglob("*.darshan"))]
    return _ingest_of(folder / "large", sorted(logs, key=records_of)[-4:], count)


def records_of(log: DarshanLog) -> int:
    return sum(len(module.records) for module in log.modules.values())


def _ingest_of(folder: Path, logs: list[DarshanLog], count: int) -> Work:
    folder.mkdir()
    for n in range(count):
        log = logs[n % len(logs)]
        job = log.job._replace(job_id=n + 1)
        write_log(folder / f"{n:06}.darshan", job, log.modules, dict(log.names))
    size = sum(path.stat().st_size for path in folder.iterdir())
    records = sum(map(records_of, logs)) / len(logs)

    def do(executor: Executor | None, place: Path) -> None:
        report = ingest(open_lake(place, create=True), [folder], executor=executor or Processes(1))
        assert len(report.good) == count

    return Work(f"{count:,} logs, {size / count / 1024:.1f} KiB and {records:,.0f} records each", "logs", count, do)


def season(folder: Path, days: int) -> Work:
    """All exhibits of pat19 from a sealed lake of 248 targets and servers."""
    # By another process, whose memory does not count.
    builder = multiprocessing.get_context("spawn").Process(target=build_lake, args=(folder / "climate", days))
    builder.start()
    builder.join()

    def do(executor: Executor | None, place: Path) -> None:
        made = make_exhibits(
            open_lake(folder / "climate"), STUDIES["climate"].exhibits, use_cache=False, executor=executor
        )
        assert len(made) == len(STUDIES["climate"].exhibits)

    return Work(f"pat19 of {days} days of 248 targets", "days", days, do)


def replicates(folder: Path, count: int) -> Work:
    """Bootstrap replicates of the fits of response times, the slowest thing that is not about the size of the lake."""
    rng = np.random.default_rng(15)
    times = np.concatenate([rng.normal(0.01, 0.001, (FITS, 4500)), 0.0125 * (1 + rng.pareto(2, (FITS, 500)))], axis=1)
    frame = TABLES["responses"].frame(
        rows=times.size, start_ns=np.arange(times.size, dtype=np.int64) * NS, host="node", target="/scratch/file",
        op="read", request_bytes=np.repeat(2 ** np.arange(16, 16 + FITS), times.shape[1]), mode="nocache",
        duration_ns=np.round(rng.permuted(times, axis=1).ravel() * NS).astype(np.int64), system="scratch",
        component="OST0000", status="ok", run_id="run",
    )  # fmt: skip

    def do(executor: Executor | None, place: Path) -> None:
        spread = starmap if executor is None else partial(in_order, executor)
        data = PlantedSource({"responses": frame}, spread=spread)
        params = {param.name: param.default for param in STUDIES["response_tails"].params}
        made = list(run_study(STUDIES["response_tails"], data, Facility(), {**params, "replicates": count}))
        assert made

    return Work(f"{count} replicates of {FITS} fits of {times.shape[1]:,} times", "replicates", FITS * count, do)


def overhead(executor: Executor) -> float:
    """Seconds per task that does nothing."""
    list(in_order(executor, abs, [(1,)] * 20))
    began = time.perf_counter()
    list(in_order(executor, abs, [(1,)] * EMPTY_TASKS))
    return (time.perf_counter() - began) / EMPTY_TASKS


def run(name: str, executor: Executor | None, count: int, work: Work, alone: float | None) -> float:
    per_task = overhead(executor) if executor else 0.0
    before = spent_by_workers(executor, count)
    with tempfile.TemporaryDirectory() as place:
        began, cpu = time.perf_counter(), time.process_time()
        work.do(executor, Path(place) / "lake")
        wall, parent = time.perf_counter() - began, time.process_time() - cpu
    after = spent_by_workers(executor, count)
    theirs = sum(after[process][0] - before.get(process, (0.0, 0.0))[0] for process in after)
    theirs -= parent if os.getpid() in after else 0.0
    peak = max(memory for _, memory in after.values())
    gain = "" if alone is None else f"{alone / wall:5.2f} x"
    most = "" if not theirs else f"{(parent + theirs) / parent:5.1f} x"
    rate = f"{work.size / wall:,.0f}"
    print(f"{name:16s} {count:2d} {wall:7.1f} {rate:>8s} {gain:>8s} {parent:8.1f} {theirs:8.1f} {most:>8s} "
          f"{per_task * 1e3:8.2f} {peak:8.0f}", flush=True)  # fmt: skip
    return wall


def dask(stack: ExitStack, count: int) -> Executor:
    from distributed import LocalCluster

    options: dict[str, Any] = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    cluster = stack.enter_context(LocalCluster(n_workers=count, processes=True, silence_logs=50, **options))
    return stack.enter_context(open_executor(dask=cluster.scheduler_address))


def compare(work: Work) -> None:
    print(f"\n{work.title}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"                  n    wall {work.unit[:6]:>6s}/s     gain  parent  workers  at most  ms/task  MiB peak")
    alone = run("one process", None, 1, work, None)
    for count in COUNTS[1:]:
        with Processes(count) as executor:
            run("processes", executor, count, work, alone)
    for count in COUNTS:
        with ExitStack() as stack:
            try:
                executor = dask(stack, count)
            except ImportError:
                print("Dask is not installed: pip install 'ioweather[dask]'")
                return
            run("Dask workers", executor, count, work, alone)


WORKS: dict[str, tuple[Callable[[Path, int], Work], int]] = {
    "logs": (small_logs, 4000),
    "large": (large_logs, 400),
    "season": (season, 90),
    "replicates": (replicates, 400),
}


def main() -> None:
    asked = dict(word.partition("=")[::2] for word in sys.argv[1:]) or dict.fromkeys(WORKS, "")
    for name, size in asked.items():
        make, usual = WORKS[name]
        with tempfile.TemporaryDirectory() as folder:
            compare(make(Path(folder), int(size or usual)))
    print(LEGEND)


if __name__ == "__main__":
    main()
