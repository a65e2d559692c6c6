"""Reading Darshan logs beside PyDarshan, in one run: many small logs to memory, and one log of 100,000 records.

    python benchmarks/darshan_read.py [--small 1000] [--records 100000] [--logs FOLDER]

Small logs are the .darshan files under --logs, else those in PyDarshan's wheel, repeated up to the number. Each reading
is a child process of its own: CPU time and peak memory are that child's, less what its imports took. Every figure is
the best of --repeat children, because other work on the machine only ever adds to it.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np

from ioweather.readers.darshan.darshan_reader import DarshanJob
from ioweather.readers.darshan.writer import new_records, write_log

SMALL_LOG_BYTES = 10_000
COUNTERS = ["POSIX", "MPI-IO", "STDIO", "H5F", "H5D", "PNETCDF_FILE", "PNETCDF_VAR", "LUSTRE"]
OURS = """
    from ioweather.readers.darshan.darshan_reader import read_log
    def read(path):
        return read_log(path, modules={modules})
"""
FRAMES = """
    import pandas
    from ioweather.readers.darshan.darshan_reader import read_log
    def read(path):
        log = read_log(path)
        return log, [module.to_pandas() for name, module in log.modules.items() if name in {modules}]
"""
PYDARSHAN = """
    import darshan, pandas
    def read(path):
        report = darshan.DarshanReport(path, read_all=True)
        tables = [report.records[name].to_df() for name in report.modules if name in {modules}]
        heatmaps = report.heatmaps.values() if {heatmaps} else ()
        return report, tables, [heatmap.to_df(ops=["read", "write"]) for heatmap in heatmaps]
"""
# Name, program, and the row it is compared with: that which reads the same.
READERS = {
    "ioweather, all": (OURS.format(modules=None), "ioweather, all"),
    "PyDarshan, all": (PYDARSHAN.format(modules=COUNTERS, heatmaps=True), "ioweather, all"),
    "ioweather, to_pandas": (FRAMES.format(modules=COUNTERS), "PyDarshan, all"),
    "ioweather, counters": (OURS.format(modules=COUNTERS), "ioweather, counters"),
    "PyDarshan, counters": (PYDARSHAN.format(modules=COUNTERS, heatmaps=False), "ioweather, counters"),
    # A dictionary with two arrays for each record, and no table: PyDarshan's fastest way.
    "PyDarshan, no tables": (PYDARSHAN.format(modules=[], heatmaps=False), "ioweather, all"),
}
CHILD = """
import gc, json, re, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
{reader}
def peak_mib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
paths = json.loads(sys.stdin.read())
for path in paths[:3] if len(paths) > 3 else []:
    read(path)
before, cpu, wall = peak_mib(), time.process_time(), time.perf_counter()
for path in paths:
    kept = read(path)
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall, peak_mib() - before]))
sys.stdout.flush()
import os
os._exit(0)
"""


def measure(reader: str, paths: list[str], repeat: int) -> tuple[float, float, float]:
    """CPU seconds, wall seconds, and MiB above the imports; the least of each over the children."""
    program = CHILD.format(reader=textwrap.dedent(READERS[reader][0]))
    runs = []
    for _ in range(repeat):
        child = subprocess.run(
            [sys.executable, "-c", program], input=json.dumps(paths), capture_output=True, text=True, check=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, timeout=300,
        )  # fmt: skip
        runs.append(json.loads(child.stdout.strip().splitlines()[-1]))
    return tuple(min(values) for values in zip(*runs, strict=True))  # type: ignore[return-value]


def small_logs(folder: Path, count: int) -> list[str]:
    # APMPI modules and the oldest big-endian logs trip PyDarshan; all readers get the same rest.
    found = [p for p in sorted(folder.rglob("*.darshan")) if p.stat().st_size < SMALL_LOG_BYTES]
    usable = [str(p) for p in found if not any(word in p.name for word in ("apmpi", "ppc64", "3.3.0", "3.4"))]
    return list(itertools.islice(itertools.cycle(usable), count))


def write_large_log(path: Path, records: int) -> None:
    """A job of one file per process: timestamps and times differ, most counters are 0, as in real ones."""
    rng = np.random.default_rng(1)
    posix = new_records("POSIX", records)
    posix["id"] = rng.integers(0, 2**64, records, dtype=np.uint64)
    posix["rank"] = np.arange(records)
    for name in posix.dtype.names or ():
        if name.endswith(("_TIMESTAMP", "_TIME")):
            posix[name] = rng.random(records)
    for name in ("POSIX_OPENS", "POSIX_WRITES", "POSIX_READS", "POSIX_BYTES_WRITTEN", "POSIX_BYTES_READ"):
        posix[name] = rng.integers(1, 1 << 20, records)
    job = DarshanJob(0, 1, records, 10**18, 10**18 + 10**11, 100.0, {}, "./app", (("/", "ext4"),))
    names = {int(i): f"/scratch/project/run/output.{n:08d}" for n, i in enumerate(posix["id"])}
    write_log(path, job, {"POSIX": posix}, names)


def table(title: str, rows: dict[str, tuple[float, float, float]], unit: float, per: str) -> None:
    print(f"\n{title}")
    print(f"{'':22}{'CPU s':>9}{'wall s':>9}{per:>14}{'CPU ratio':>11}{'MiB':>8}{'MiB ratio':>11}")
    for name, (cpu, wall, mib) in rows.items():
        cpu_of_ours, _, mib_of_ours = rows[READERS[name][1]]
        ratios = f"{cpu / cpu_of_ours:>10.1f}x{mib:>8.0f}{mib / max(mib_of_ours, 1):>10.1f}x"
        print(f"{name:22}{cpu:>9.3f}{wall:>9.3f}{unit / cpu:>14,.0f}{ratios}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--small", type=int, default=1000)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--logs", type=Path)
    arguments = parser.parse_args()
    spec = importlib.util.find_spec("darshan")
    if spec is None or spec.origin is None:
        sys.exit("PyDarshan is not installed: there is nothing to compare with")
    paths = small_logs(arguments.logs or Path(spec.origin).parent, arguments.small)
    rows = {name: measure(name, paths, arguments.repeat) for name in READERS}
    table(f"{len(paths):,} small logs to memory", rows, len(paths), "logs/CPU s")
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.darshan"
        write_large_log(large, arguments.records)
        rows = {name: measure(name, [str(large)], 1) for name in READERS}
        size = large.stat().st_size / 2**20
    table(f"One log of {arguments.records:,} records ({size:.1f} MiB)", rows, arguments.records, "records/CPU s")


if __name__ == "__main__":
    main()
