"""A lake of planted runs whose I/O doubles with the system's load, and one run of each kind of verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from planted_jobs import GIB, planted
from store_lakes import series_frame

from ioweather.core.frames import Frame
from ioweather.core.tables import FILES, RESPONSES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.diagnosis.health_incidents import Incident
from ioweather.diagnosis.incident_events import to_events
from ioweather.facts.job_metrics import job_io
from ioweather.lake.lake import Lake, open_lake
from planted_association import START_NS, system_load

# Job ids of the runs to ask about: what was planted in them.
ASKED = {"normal": 901, "system": 902, "you": 903, "both": 904, "gap": 905, "stranger": 906, "stuck": 907}
MINUTES = 6 * 1440


def planted_runs(load):
    """40 runs whose I/O doubles with load, and one of each kind."""
    rng = np.random.default_rng(3)
    quiet = int(np.argmin(np.convolve(load, np.ones(60), "valid")[200:-3000])) + 200
    busy = int(np.argmax(np.convolve(load, np.ones(60), "valid")[200:-3000])) + 200
    jobs = []
    for number, start in enumerate(np.sort(rng.integers(60, MINUTES - 2200, 40))):
        jobs.append(job(number + 1, int(start), 600 * (1 + 0.8 * load[start : start + 20].mean())))
    high = load[busy : busy + 20].mean()
    # The same change in other runs says what it costs.
    for number, start in enumerate(np.linspace(400, MINUTES - 3000, 4).astype(int)):
        usual = 600 * (1 + 0.8 * load[start : start + 60].mean())
        jobs.append(job(800 + number, int(start), 4.5 * usual, read_count=9_000_000))
    jobs += [
        job(ASKED["normal"], quiet, 600 * (1 + 0.8 * load[quiet : quiet + 20].mean())),
        job(ASKED["system"], busy, 600 * (1 + 0.8 * high)),
        job(ASKED["you"], quiet, 3000, read_count=9_000_000),
        job(ASKED["both"], busy, 9000, read_count=9_000_000),
        job(ASKED["gap"], MINUTES - 1000, 1500),
        job(ASKED["stranger"], quiet, 700, uid=99, exe="/bin/other"),
    ]
    return jobs


def job(job_id, start, seconds, **more):
    began = START_NS + start * MINUTE_NS + 5 * NS
    return {
        "job_id": job_id, "exe": "/bin/strong x", "uid": 3, "nprocs": 64, "start_ns": began, "read": 900 * GIB,
        "files": 4, "unique_file_count": 4, "io": float(seconds), "run_seconds": float(seconds) + 60,
        "read_count": 900_000, "io_rank_count": 64, "main_mount": "/scratch",
    } | more  # fmt: skip


def make_why_lake(
    root: Path, *, with_samples: bool = True, with_stuck_target: bool = False, with_late_probe: bool = False
) -> Lake:
    """`with_stuck_target`: OST0000 is slow for its probes while an unchanged run at a quiet time takes thrice
    as long; no measure of load or slowness shows it. `with_late_probe`: the mount stands still then, so that the
    probe's operations start late and take their usual time."""
    made = open_lake(root, create=True)
    load = system_load(np.random.default_rng(11), MINUTES, 0.985)
    jobs = planted_runs(load)
    if with_stuck_target or with_late_probe:
        quiet = next(each for each in jobs if each["job_id"] == ASKED["normal"])
        stuck = {"io": 3.0 * quiet["io"], "run_seconds": 3.0 * quiet["io"] + 60}
        jobs.append(quiet | stuck | {"job_id": ASKED["stuck"], "start_ns": quiet["start_ns"] + NS})
        start = quiet["start_ns"] - 60 * MINUTE_NS
        if with_late_probe:
            made.append("responses", late_probes(start + 60 * MINUTE_NS), source="probe")
            return fill(made, jobs, with_samples=with_samples)
        incident = Incident("OST0000", "slow", start, start + 240 * MINUTE_NS, 0.85, 1 / 0.22, ("probe",))
        made.append("events", to_events([incident], "scratch"), source="health")
    return fill(made, jobs, with_samples=with_samples)


def late_probes(late_ns: int) -> Frame:
    """A read every minute, 2 ms after its tick; from `late_ns` on, for an hour, 40 ms after it."""
    tick = START_NS + np.arange(MINUTES, dtype=np.int64) * MINUTE_NS
    delay = np.where((tick >= late_ns) & (tick < late_ns + 60 * MINUTE_NS), 40_000_000, 2_000_000)
    return RESPONSES.frame(
        start_ns=tick + delay, scheduled_ns=tick, duration_ns=np.full(MINUTES, 5_000_000), host="c1",
        target="/scratch/weather", op="read", request_bytes=2**20, mode="nocache", system="scratch", status="ok",
        cached=False, run_id="a", rows=MINUTES,
    )  # fmt: skip


def fill(made: Lake, jobs: list[dict[str, Any]], *, with_samples: bool) -> Lake:
    """Store the logs of the jobs and the samples of the servers."""
    frames = planted(jobs)
    digests = frames["applications"].text("log_digest").tolist()
    rows = [
        {"log_digest": digest, "start_ns": one["start_ns"], "record_id": n, "rank": n, "module": "POSIX",
         "standard_stream": False, "mount": "/scratch", "read_bytes": 225 * GIB, "read_seconds": one["io"],
         "meta_seconds": 0.0, "write_seconds": 0.0, "read_count": one["read_count"] // 4, "open_count": 1,
         "first_read_ns": one["start_ns"], "last_read_ns": one["start_ns"] + int(one["io"] * NS)}
        for digest, one in zip(digests, jobs, strict=True)
        for n in range(4)
    ]  # fmt: skip
    columns = {s.name: [row.get(s.name, None if s.nullable else 0) for row in rows] for s in FILES.columns}
    frames["files"] = FILES.frame(columns, rows=len(rows))
    frames["job_io"] = job_io(frames["applications"], frames["files"])
    for table, frame in frames.items():
        made.append(table, frame, source="darshan")
    if with_samples:
        add_samples(made)
    return made


def add_samples(made: Lake) -> None:
    load = system_load(np.random.default_rng(11), MINUTES, 0.985)
    for metric, scale in (("read_bytes", 5e12), ("write_bytes", 1e12)):
        values = np.stack([scale * load / 2] * 2, axis=1)
        values[MINUTES - 1000 :] = np.nan
        made.append("series", series_frame(values, start_ns=START_NS, metric=metric), source="lmt")
