"""Job metrics of a folder of Darshan logs: ours (read, rows, job_io) against PyDarshan's job statistics, in one run.

    python benchmarks/job_metrics.py FOLDER [MOST]

PyDarshan is asked for what its own `job_stats` computes: the records of POSIX and MPI-IO and their accumulated metrics.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

from ioweather.facts.job_metrics import job_io
from ioweather.readers.darshan.darshan_reader import MODULES, read_log, rows_of_logs

BATCH = 256


def ours(paths: list[Path]) -> float:
    started = time.process_time()
    for first in range(0, len(paths), BATCH):
        logs = [read_log(path, modules=MODULES) for path in paths[first : first + BATCH]]
        job_io(*rows_of_logs(logs))
    return time.process_time() - started


def pydarshan(paths: list[Path]) -> float:
    import darshan
    from darshan.backend.cffi_backend import accumulate_records

    started = time.process_time()
    for path in paths:
        report = darshan.DarshanReport(str(path), read_all=False)
        for module in ("POSIX", "MPI-IO"):
            if module in report.modules:
                report.mod_read_all_records(module)
                nprocs = report.metadata["job"]["nprocs"]
                accumulate_records(report.records[module].to_df(), module, nprocs)
    return time.process_time() - started


def main() -> None:
    folder, most = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200
    paths = sorted(folder.rglob("*.darshan"))[:most]
    ours(paths[:5])
    mine = ours(paths)
    print(f"ioweather: {len(paths)} logs in {mine:.3f} CPU seconds, {len(paths) / mine:,.0f} logs/s")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = pydarshan(paths)
    except ImportError:
        print("PyDarshan is not installed: no comparison.")
        return
    print(f"PyDarshan: {len(paths)} logs in {theirs:.3f} CPU seconds, {len(paths) / theirs:,.0f} logs/s")
    print(f"ratio: {theirs / mine:.1f}")


if __name__ == "__main__":
    main()
