"""Reading Darshan logs beside PyDarshan, with the same result on both sides.

    python benchmarks/darshan_read.py [--logs FOLDER] [--records 100000] [--repeat 3]

`arrays`: every record of every module as arrays, and all file names. `frames`: a data frame of every module, with
names, and the heat maps. Logs are the different files under --logs (default: the sample data next to the project, else
those in PyDarshan's wheel) that both read; then one log of many records. Each reading is a child process: processor
seconds and peak memory are the child's, less what its imports took, and the least of --repeat children.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from ioweather.readers.darshan.darshan_reader import DarshanJob
from ioweather.readers.darshan.writer import new_records, write_log

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "darshan"
OURS = """
import pandas
from ioweather.readers.darshan.darshan_reader import read_log
def read(path):
    log = read_log(path)
    return log, dict(log.names), [log.to_pandas(name) for name in log.modules] if FRAMES else None
"""
PYDARSHAN = """
import darshan, pandas
def read(path):
    report = darshan.DarshanReport(path, read_all=True)
    if not FRAMES:
        return report
    frames = [records.to_df() for records in report.records.values()]
    return report, frames, [heatmap.to_df(ops=["read", "write"]) for heatmap in report.heatmaps.values()]
"""
# Without collection: PyDarshan's destructor may run inside its own lock.
CHILD = """
import contextlib, gc, json, os, re, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
FRAMES = {frames}
{reader}
def peak_mib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
paths = json.loads(sys.stdin.read())
for path in paths[:3] if len(paths) > 1 else []:
    with contextlib.suppress(Exception):
        read(path)
gc.disable()
before, used, done = peak_mib(), 0.0, []
for path in paths:
    begun = time.process_time()
    try:
        result = read(path)
    except Exception:
        continue
    used += time.process_time() - begun
    done.append(path)
    del result
    gc.collect()
print(json.dumps([used, peak_mib() - before, done]))
sys.stdout.flush()
os._exit(0)
"""


def measure(reader: str, frames: bool, paths: list[str], repeat: int) -> tuple[float, float, list[str]]:
    """Processor seconds, MiB above the imports, and the logs that were read."""
    program = CHILD.format(reader=reader, frames=frames)
    runs = []
    for _ in range(repeat):
        child = subprocess.run(
            [sys.executable, "-c", program], input=json.dumps(paths), capture_output=True, text=True, check=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, timeout=600,
        )  # fmt: skip
        runs.append(json.loads(child.stdout.strip().splitlines()[-1]))
    return min(run[0] for run in runs), min(run[1] for run in runs), runs[0][2]


def distinct_logs(folder: Path | None) -> list[str]:
    """Logs with different contents that both readers read."""
    spec = importlib.util.find_spec("darshan")
    if spec is None or spec.origin is None:
        sys.exit("PyDarshan is not installed: there is nothing to compare with")
    place = folder or (SAMPLES if SAMPLES.is_dir() else Path(spec.origin).parent)
    by_digest = {hashlib.sha256(path.read_bytes()).digest(): str(path) for path in sorted(place.rglob("*.darshan"))}
    paths = sorted(by_digest.values())
    read = [set(measure(reader, True, paths, 1)[2]) for reader in (OURS, PYDARSHAN)]
    return sorted(read[0] & read[1])


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


def compare(paths: list[str], repeat: int) -> dict[str, tuple[tuple[float, float], tuple[float, float]]]:
    """By kind of result: (processor seconds, MiB) of ours and of PyDarshan's."""
    found = {}
    for name, frames in (("arrays", False), ("frames", True)):
        ours, theirs = (measure(reader, frames, paths, repeat) for reader in (OURS, PYDARSHAN))
        found[name] = (ours[0], ours[1]), (theirs[0], theirs[1])
    return found


def peer() -> str:
    return f"PyDarshan {importlib.metadata.version('darshan')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--logs", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.darshan"
        write_large_log(large, options.records)
        small = distinct_logs(options.logs)
        for title, paths in ((f"{len(small)} different logs", small), (f"{options.records:,} records", [str(large)])):
            for kind, (ours, theirs) in compare(paths, options.repeat).items():
                ratio, memory = theirs[0] / ours[0], ours[1] / theirs[1]
                print(f"{title}, {kind}: {ours[0]:.3f} s, {ours[1]:.0f} MiB")
                print(f"  {peer()}: {theirs[0]:.3f} s, {theirs[1]:.0f} MiB: {ratio:.1f}x, {memory:.2f} of the memory")


if __name__ == "__main__":
    main()
