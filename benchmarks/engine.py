"""The same ingest by 1, 2 and 4 workers, as local processes and on a Dask cluster of this machine.

    python benchmarks/engine.py [LOGS]

The peer is one process. A machine of two cores shows a speed-up up to two, and with four workers what is lost by having
more workers than cores; it cannot show more. What holds on any machine is the processor time: that of the workers can
be spread, that of the parent (digests, and the rows into the lake) cannot, so total / parent is the most that any
number of workers can gain.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ioweather.engine import Serial, in_order, local_executor, opened
from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP, for_days
from ioweather.sources.darshan.log import read_log
from ioweather.sources.darshan.writer import write_log
from ioweather.store.lake import open_lake
from ioweather.workflows.ingest import ingest

COUNTS = (1, 2, 4)
EMPTY_TASKS = 400
LEGEND = """\
wall, parent, workers: seconds, by the clock and of processors; gain: against one process
at most: all processor time over the parent's; ms/task: of a task that does nothing; MiB peak: of the largest worker"""


def usage() -> tuple[int, float, float]:
    """Process, its processor seconds, its peak memory in MiB. Slow enough for every worker to get one."""
    time.sleep(0.2)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return os.getpid(), spent.ru_utime + spent.ru_stime, peak_mib()


def peak_mib() -> float:
    """Of this program: ru_maxrss would be that of the process that started it, if that was larger."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def of_workers(executor: Executor, count: int) -> dict[int, tuple[float, float]]:
    found = in_order(executor, usage, [()] * (4 * count), in_flight=4 * count)
    return {process: (cpu, peak) for process, cpu, peak in found}


def plant(folder: Path, count: int) -> None:
    """Logs of a simulated week, again and again under other job numbers."""
    made = generate(for_days(LAPTOP, 2), folder / "facility")
    logs = [read_log(path) for path in sorted(made.data.rglob("*.darshan"))]
    logs = [log for log in logs if sum(len(m.records) for m in log.modules.values()) <= 64]
    (folder / "logs").mkdir()
    for n in range(count):
        log = logs[n % len(logs)]
        job = type(log.job)(**{**vars(log.job), "job_id": n + 1})
        write_log(folder / "logs" / f"{n:06}.darshan", job, log.modules, dict(log.names))


def overhead(executor: Executor) -> float:
    """Seconds per task that does nothing."""
    list(in_order(executor, abs, [(1,)] * 20))
    began = time.perf_counter()
    list(in_order(executor, abs, [(1,)] * EMPTY_TASKS))
    return (time.perf_counter() - began) / EMPTY_TASKS


def run(name: str, executor: Executor, count: int, folder: Path, logs: int, alone: float | None) -> float:
    per_task = overhead(executor)
    before = {} if isinstance(executor, Serial) else of_workers(executor, count)
    lake = open_lake(folder / f"lake-{name}-{count}".replace(" ", "-"), create=True)
    began, cpu = time.perf_counter(), time.process_time()
    report = ingest(lake, [folder / "logs"], executor=executor)
    wall, parent = time.perf_counter() - began, time.process_time() - cpu
    assert len(report.good) == logs
    after = {} if isinstance(executor, Serial) else of_workers(executor, count)
    theirs = sum(after[process][0] - before.get(process, (0.0, 0.0))[0] for process in after)
    peak = max((memory for _, memory in after.values()), default=peak_mib())
    gain = "" if alone is None else f"{alone / wall:5.2f} x"
    most = "" if not theirs else f"{(parent + theirs) / parent:5.1f} x"
    print(f"{name:16s} {count:2d} {wall:7.1f} {logs / wall:8,.0f} {gain:>8s} {parent:8.1f} {theirs:8.1f} {most:>8s} "
          f"{per_task * 1e3:8.2f} {peak:8.0f}", flush=True)  # fmt: skip
    return wall


def dask(stack: ExitStack, count: int) -> Executor:
    from distributed import LocalCluster

    options: dict[str, Any] = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    cluster = stack.enter_context(LocalCluster(n_workers=count, processes=True, silence_logs=50, **options))
    return stack.enter_context(opened(dask=cluster.scheduler_address))


def main() -> None:
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        plant(folder, logs)
        size = sum(path.stat().st_size for path in (folder / "logs").iterdir())
        print(
            f"{logs:,} logs, {size / logs / 1024:.1f} KiB each; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        )
        print("                  n    wall   logs/s     gain  parent  workers  at most  ms/task  MiB peak")
        alone = run("one process", Serial(), 1, folder, logs, None)
        for count in COUNTS[1:]:
            with local_executor(count) as executor:
                run("processes", executor, count, folder, logs, alone)
        for count in COUNTS:
            with ExitStack() as stack:
                try:
                    executor = dask(stack, count)
                except ImportError:
                    print("Dask is not installed: pip install 'ioweather[dask]'")
                    return
                run("Dask workers", executor, count, folder, logs, alone)
        print(LEGEND)


if __name__ == "__main__":
    main()
