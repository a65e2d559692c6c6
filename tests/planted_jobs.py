"""Jobs with known answers: rows of `job_io`, `applications` and `jobs`, for tests of what is made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ioweather.core.facility import Facility, parse_facility
from ioweather.core.frames import Frame
from ioweather.core.results import Estimate, Exhibit, to_jsonable
from ioweather.core.tables import APPLICATIONS, JOB_IO, JOBS, STRATEGIES
from ioweather.topics.catalogue import STUDIES
from planted_source import PlantedSource, run_study

NS = 1_000_000_000
T = 1_700_000_000 * NS
MIB = 1 << 20
GIB = 1 << 30

_ALIASES = {"read": "read_bytes", "written": "write_bytes", "files": "file_count", "io": "io_seconds"}

# Null only where text of a log was read that does not tell them.
_COUNTS = (
    "file_count", "read_only_file_count", "write_only_file_count", "read_write_file_count",
    *(f"{name}_file_count" for name in STRATEGIES), "create_count", "seek_count", "stat_count", "collective_count",
    "independent_count", "sequential_count", "consecutive_count", "alignment_tested_count", "not_aligned_count",
)  # fmt: skip
_BYTES = (*(f"{name}_{verb}_bytes" for name in STRATEGIES for verb in ("read", "write")), "rank0_bytes")


def planted(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Frame]:
    """`job_io` and `applications` of jobs given as dictionaries; what is not given is zero, empty or null.

    Rates follow from bytes and times unless they are given. A job takes 100 s from T + 1000 s times its place.
    """
    metrics, applications = [], []
    for i, given in enumerate(jobs):
        job = {_ALIASES.get(name, name): value for name, value in given.items()}
        start = job.pop("start_ns", T + 1000 * i * NS)
        about = {
            "log_digest": f"{i:08x}log", "job_id": job.pop("job_id", i + 1), "uid": job.pop("uid", 7),
            "exe": job.pop("exe", "/bin/app"), "nprocs": job.pop("nprocs", 1024), "start_ns": start,
            "end_ns": start + round(job.get("run_seconds", 100.0) * NS), "log_version": "3.41", "partial_modules": "",
            "longer_records": None,
            "mounts": None, "modules": "POSIX", "hosts": job.pop("hosts", None),
        }  # fmt: skip
        applications.append(about)
        metrics.append(_metrics(about, job))
    return {
        "job_io": JOB_IO.frame({s.name: [m[s.name] for m in metrics] for s in JOB_IO.columns}, rows=len(metrics)),
        "applications": APPLICATIONS.frame(
            {s.name: [a.get(s.name) for a in applications] for s in APPLICATIONS.columns}, rows=len(applications)
        ),
    }


def _metrics(about: Mapping[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {spec.name: None if spec.nullable else 0 for spec in JOB_IO.columns}
    row |= dict.fromkeys((*_COUNTS, *_BYTES), 0)
    row |= {name: about[name] for name in ("log_digest", "start_ns", "end_ns", "nprocs")}
    row |= {"run_seconds": 100.0, "partial": False, "interfaces": "POSIX", "meta_seconds": 0.0, "read_seconds": 0.0,
            "write_seconds": 0.0, "io_rank_count": about["nprocs"]}  # fmt: skip
    row |= job
    moved = row["read_bytes"] + row["write_bytes"]
    if row["io_seconds"] and "bytes_per_s" not in job:
        row["bytes_per_s"] = moved / row["io_seconds"]
    row["bytes_per_process"] = moved / row["nprocs"]
    if "files_per_process" not in job:
        row["files_per_process"] = row["file_count"] / row["nprocs"]
    spent = row["meta_seconds"] + row["read_seconds"] + row["write_seconds"]
    if spent and "metadata_ratio" not in job:
        row["metadata_ratio"] = row["meta_seconds"] / spent
    return row


def accounting(rows: Iterable[Mapping[str, Any]]) -> Frame:
    """Allocations that hold the planted jobs: job id, nodes, account."""
    full = [{"raw_job_id": 1, "node_count": 1, "account": None, "uid": 7} | dict(row) for row in rows]
    n = len(full)
    return JOBS.frame(
        {name: [row[name] for row in full] for name in ("raw_job_id", "node_count", "account", "uid")},
        cluster=["c"] * n, step=[""] * n, restart=[0] * n, job_id=[str(row["raw_job_id"]) for row in full],
        state=["COMPLETED"] * n, submit_ns=[T - NS] * n, start_ns=[T - NS] * n, end_ns=[T + 10**7 * NS] * n, rows=n,
    )  # fmt: skip


def facility(**changes: Any) -> Facility:
    """Projects by executable: /bin/earth is Earth, and so on."""
    names = ("Earth", "Nuclear", "Climate", "Combustion", "Chemistry")
    data = {"name": "planted", "project": [{"exe": f"/bin/{name.lower()}*", "name": name} for name in names]}
    return parse_facility(data | changes)


PARAMS: dict[str, Any] = {
    "processes_per_node": 4, "sizes": "1,1024,4096,16384", "min_processes": 1, "min_bytes": 1, "project": None,
    "logs": None,
}  # fmt: skip


def exhibits(
    study: str, frames: Mapping[str, Frame], site: Facility | None = None, **params: Any
) -> dict[str, Exhibit]:
    """The study's exhibits by id; each must be plain JSON data."""
    made = {e.id: e for e in run_study(STUDIES[study], PlantedSource(frames), site or facility(), PARAMS | params)}
    for exhibit in made.values():
        to_jsonable(exhibit)
    return made


def estimate(exhibit: Exhibit, name: str) -> Estimate:
    return next(e for e in exhibit.estimates if e.name == name)


def cells(exhibit: Exhibit, table: str = "", **where: Any) -> list[dict[str, Any]]:
    """Rows of a table of the exhibit as dictionaries."""
    found = next(t for t in exhibit.tables if not table or t.name == table)
    rows = [dict(zip((c.name for c in found.columns), row, strict=True)) for row in found.rows]
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def words(exhibit: Exhibit) -> str:
    return " ".join(finding.text for finding in exhibit.findings)
