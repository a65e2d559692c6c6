"""Three groups of runs on a busy system: one that follows its load, one that does a little, one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from planted_jobs import GIB, planted

from ioweather.core.facility import Facility, parse_facility
from ioweather.core.frames import Frame, Text
from ioweather.core.results import Exhibit, to_jsonable
from ioweather.core.tables import FILES
from ioweather.core.units import DAY_NS, MINUTE_NS, NS
from ioweather.facts.job_metrics import SPAN_COLUMNS
from ioweather.topics.catalogue import STUDIES
from planted_source import PlantedSource, run_study

START_NS = 1_264_204_800 * NS  # 2010-01-23
PARAMS: dict[str, Any] = {
    "filesystem": "scratch", "component_kind": "ost", "resolution": MINUTE_NS, "grouping": None, "group": None,
    "job": None, "bandwidth": "scott", "fine": 5 * NS, "error": 0.1,
}  # fmt: skip
# Program: runs, files, seconds at no load, how much the load adds, spread of what nothing explains.
GROUPS = {"strong": (110, 5, 400.0, 1.2, 0.1), "mild": (140, 3, 900.0, 0.12, 0.22), "none": (90, 2, 1600.0, 0.0, 0.02)}


def site(mounts: tuple[str, ...] = ("/scratch",)) -> Facility:
    return parse_facility({"name": "planted", "filesystem": {"scratch": {"mounts": list(mounts)}}})


def system_load(rng: np.random.Generator, minutes: int, memory: float) -> np.ndarray:
    """Log-normal, mean 1; `memory` is the correlation of successive minutes."""
    noise = rng.standard_normal(minutes) * np.sqrt(1 - memory**2)
    noise[0] /= np.sqrt(1 - memory**2)
    for i in range(1, minutes):
        noise[i] += memory * noise[i - 1]
    return np.exp(0.8 * noise - 0.32)


def rollup(values: Mapping[str, np.ndarray]) -> Frame:
    minutes = len(next(iter(values.values())))
    times = START_NS + np.arange(minutes, dtype=np.int64) * MINUTE_NS
    frame = Frame(
        {
            "start_ns": np.repeat(times, len(values)),
            "metric": Text(np.tile(np.arange(len(values), dtype=np.int32), minutes), tuple(values)),
            "value": np.stack(list(values.values()), axis=1).ravel(),
            "coverage": np.ones(minutes * len(values)),
        }
    )
    return frame.take(~np.isnan(frame.array("value")))


def planted_association(
    days: int = 40,
    seed: int = 7,
    gap: tuple[int, int] | None = (3000, 4000),
    *,
    contention: float = 1.0,
    memory: float = 0.985,
) -> PlantedSource:
    """Runs at random times; a run's I/O takes as long as its group says, given the load of its first minutes."""
    rng = np.random.default_rng(seed)
    minutes = days * 1440
    load = system_load(rng, minutes, memory)
    jobs, spans = [], []
    for name, (count, files, seconds, slope, spread) in GROUPS.items():
        for start in np.sort(rng.integers(60, minutes - 200, count)):
            seen = load[start : start + 10].mean()
            length = seconds * (1 + contention * slope * seen) * np.exp(spread * rng.standard_normal())
            began = START_NS + int(start) * MINUTE_NS + int(rng.integers(0, MINUTE_NS))
            jobs.append({
                "exe": f"/bin/{name} x", "uid": 3, "nprocs": 4096, "start_ns": began, "run_seconds": length + 300.0,
                "read": 938 * GIB, "written": 2 * GIB, "files": files, "unique_file_count": files, "io": length,
                "d_u_m_seconds": 0.5 * length, "d_u_rw_seconds": 0.5 * length, "main_mount": "/scratch",
            })  # fmt: skip
            edges = began + 30 * NS + (np.linspace(0, length, files + 1) * NS).astype(np.int64)
            spans.append(list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)))
    frames = planted(jobs)
    digests = frames["applications"].text("log_digest").tolist()
    rows = [
        {"log_digest": digest, "record_id": number, "rank": number, "module": "POSIX", "standard_stream": False,
         "mount": "/scratch" if number % 4 else "/home", "read_bytes": GIB, "first_read_ns": first,
         "last_read_ns": last}
        for digest, own in zip(digests, spans, strict=True)
        for number, (first, last) in enumerate(own)
    ]  # fmt: skip
    columns = {s.name: [row.get(s.name, None if s.nullable else 0) for row in rows] for s in FILES.columns}
    frames["files"] = FILES.frame(columns, rows=len(rows)).select(SPAN_COLUMNS)
    values = {"read_bytes": 5e12 * load, "write_bytes": 1e12 * rng.permutation(load)}
    if gap:
        values = {name: np.where((np.arange(minutes) >= gap[0]) & (np.arange(minutes) < gap[1]), np.nan, v)
                  for name, v in values.items()}  # fmt: skip
    frames["traffic"] = rollup(values)
    frames["operations"] = rollup({"read_ops": 1e6 * load, "write_ops": 1e5 * load})
    return PlantedSource(frames, {}, (START_NS, START_NS + days * DAY_NS), MINUTE_NS)


def made(study: str, data: PlantedSource, facility: Facility | None = None, **params: Any) -> dict[str, Exhibit]:
    exhibits = {e.id: e for e in run_study(STUDIES[study], data, facility or site(), {**PARAMS, **params})}
    for exhibit in exhibits.values():
        to_jsonable(exhibit)
    return exhibits
