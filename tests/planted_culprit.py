"""A lake in which it is known who it was: Ben's heavy job, of which only the servers know, beside one of Anna's many
equal runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from planted_jobs import GIB, planted
from store_lakes import series_frame

from ioweather.core.tables import FILES, JOBS, TABLES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.facts.job_metrics import job_io
from ioweather.lake.lake import Lake, open_lake
from planted_association import START_NS

MINUTES = 2000
SLOWED, HEAVY, LIGHT = 902, 4711, 4712
BEGAN = START_NS + 1000 * MINUTE_NS
PEAK = 1e9  # bytes per second of a target


def runs() -> list[dict[str, Any]]:
    """Equal runs of Anna, one each hour, of about 300 s, and one of 900 s."""
    rng = np.random.default_rng(2)
    found = [(100 + n, START_NS + 60 * n * MINUTE_NS, 300.0 * float(rng.normal(1, 0.02))) for n in range(16)]
    same = {
        "exe": "/bin/strong x", "uid": 3, "nprocs": 64, "read": 200 * GIB, "files": 1, "read_count": 200_000,
        "io_rank_count": 64, "main_mount": "/scratch",
    }  # fmt: skip
    return [
        {**same, "job_id": job, "start_ns": start, "io": seconds, "run_seconds": seconds + 5}
        for job, start, seconds in [*found, (SLOWED, BEGAN, 900.0)]
    ]


def make_culprit_lake(root: Path) -> Lake:
    made = open_lake(root, create=True)
    jobs = runs()
    frames = planted(jobs)
    rows = [
        {"log_digest": digest, "start_ns": one["start_ns"], "record_id": 1, "rank": -1, "module": "POSIX",
         "standard_stream": False, "mount": "/scratch", "read_bytes": 200 * GIB, "read_seconds": one["io"],
         "meta_seconds": 0.0, "write_seconds": 0.0, "read_count": 200_000, "open_count": 1, "osts": "0",
         "first_read_ns": one["start_ns"], "last_read_ns": one["start_ns"] + int(one["io"] * NS)}
        for digest, one in zip(frames["applications"].text("log_digest").tolist(), jobs, strict=True)
    ]  # fmt: skip
    columns = {s.name: [row.get(s.name, None if s.nullable else 0) for row in rows] for s in FILES.columns}
    frames["files"] = FILES.frame(columns, rows=len(rows))
    frames["job_io"] = job_io(frames["applications"], frames["files"])
    for table, frame in frames.items():
        made.append(table, frame, source="darshan")
    for metric, share in (("read_bytes", 1.0), ("write_bytes", 0.001)):
        made.append("series", series_frame(share * _load(), start_ns=START_NS, metric=metric), source="lmt")
    made.append("job_operations", _counted(), source="lustre")
    made.append("jobs", _accounting(), source="slurm")
    return made


def _load() -> Any:
    """What the two targets read each minute: runs on the first, the heavy job at its limit on both."""
    load = np.full((MINUTES, 2), 1e7)
    for one in runs():
        first, count = (one["start_ns"] - START_NS) // MINUTE_NS, round(one["io"] / 60)
        load[first : first + count, 0] += 200 * GIB / count
    load[1000:1015] = 60 * PEAK
    return load


def _counted() -> Any:
    """Ten minutes' worth of the first target by the heavy job, a second's worth by the light one."""
    rows = [(HEAVY, minute, name, 40 * PEAK) for minute in range(15) for name in ("OST0000", "OST0001")]
    rows += [(LIGHT, 2, "OST0000", PEAK)]
    return TABLES["job_operations"].frame({
        "start_ns": [BEGAN + minute * MINUTE_NS for _, minute, _, _ in rows], "interval_ns": [MINUTE_NS] * len(rows),
        "component": [name for _, _, name, _ in rows], "job_key": [str(job) for job, *_ in rows],
        "job_id": [job for job, *_ in rows], "bytes": [int(size) for *_, size in rows],
        "count": [int(size // 2**20) for *_, size in rows],
    }, rows=len(rows), system="scratch", component_kind="ost", operation="read", quality=0)  # fmt: skip


def _accounting() -> Any:
    people = [(SLOWED, 3, "anna"), (HEAVY, 9, "ben"), (LIGHT, 10, "carl")]
    n = len(people)
    return JOBS.frame({
        "raw_job_id": [job for job, _, _ in people], "job_id": [str(job) for job, _, _ in people],
        "uid": [uid for _, uid, _ in people], "user": [user for _, _, user in people],
    }, rows=n, cluster="c", step="", restart=0, state="COMPLETED", account="p1", name="work", submit_ns=BEGAN - NS,
        start_ns=BEGAN, end_ns=BEGAN + 20 * MINUTE_NS)  # fmt: skip
