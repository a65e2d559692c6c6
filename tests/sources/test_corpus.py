"""Every real file beside the project, with its oracle: an independent reading, expected rows, or the reason for which
it is refused. Each part of the corpus is a table of files; a file of a folder that no table names fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ioweather.core.clock import parse_time_ns, zone_named
from ioweather.core.contracts import ReadContext
from ioweather.core.units import NS
from ioweather.tables import concat
from ioweather.workflows.ingest.reading import FileOutcome, Reading, read_file

pytestmark = pytest.mark.shared

Tables = dict[str, list[dict[str, Any]]]
NEW_YORK = ReadContext(zone=zone_named("America/New_York"))


class Entry(NamedTuple):
    """A file, the source it must be recognised as, and what must be true of its rows; or the reason of its refusal."""

    path: str
    source: str | None
    oracle: Callable[[Path, Tables], None] | None = None
    refused: str | None = None
    context: ReadContext = ReadContext()


def read(path: Path, context: ReadContext) -> tuple[FileOutcome, Tables]:
    tables: dict[str, list[Any]] = {}
    for item in read_file(path, None, path.stat().st_size, Reading(context)):
        if isinstance(item, FileOutcome):
            return item, {name: concat(frames).records() for name, frames in tables.items()}
        tables.setdefault(item[1], []).append(item[2])
    raise AssertionError("no outcome")


# Schedulers: the rows that Open XDMoD's own readers make of the same files.


@cache
def _expected(path: Path) -> list[dict[str, Any]]:
    rows = json.loads(path.with_suffix(".expected.json").read_text())
    return list(rows.values()) if isinstance(rows, dict) else rows


def _agree(path: Path, tables: Tables, names: dict[str, str], times: tuple[str, str, str]) -> None:
    jobs = tables["jobs"]
    assert len(jobs) == len(_expected(path))
    for job, row in zip(jobs, _expected(path), strict=True):
        for column, name in names.items():
            assert str(job[column] or "") == str(row.get(name) or ""), (column, row)
        for column, name in zip(("submit_ns", "start_ns", "end_ns"), times, strict=True):
            assert job[column] // NS == int(row[name]), column


def pbs(path: Path, tables: Tables) -> None:
    names = {"job_id": "job_id", "user": "user", "name": "jobname", "nodes": "node_list"}
    _agree(path, tables, names, ("ctime", "start", "end"))
    for job, row in zip(tables["jobs"], _expected(path), strict=True):
        assert job["node_count"] == int(row.get("resources_used_nodes") or row["resource_list_nodect"])
        assert job["state"] == ("COMPLETED" if row["exit_status"] == "0" else "FAILED")
        # PBS Pro has a project in the place of Torque's account; XDMoD does not keep it.
        assert job["account"] in (row.get("account"), "[project1]")
        # Of a host listed as '0*0' XDMoD counts 2; ncpus, used and asked for, is 48.
        cpus = 48 if job["job_id"] == "3073070" else row.get("resources_used_cpus")
        assert job["cpu_count"] == cpus


def lsf(path: Path, tables: Tables) -> None:
    names = {"job_id": "job_id", "uid": "user_id", "user": "user_name", "name": "job_name", "account": "project_name",
             "cpu_count": "num_processors", "nodes": "node_list", "node_count": "num_ex_hosts"}  # fmt: skip
    _agree(path, tables, names, ("submit_time", "start_time", "event_time"))


def grid_engine(path: Path, tables: Tables) -> None:
    names = {"job_id": "job_number", "user": "owner", "name": "job_name", "cpu_count": "slots"}
    _agree(path, tables, names, ("submission_time", "start_time", "end_time"))


def xdmod_sacct(path: Path, tables: Tables) -> None:
    rows = [line.split("|") for line in path.read_text().splitlines() if line]
    assert [job["job_id"] for job in tables["jobs"]] == [row[0] for row in rows]
    for job, row in zip(tables["jobs"], rows, strict=True):
        assert (job["cluster"], job["account"], job["user"], str(job["uid"])) == (row[2], row[5], row[8], row[9])
        assert job["submit_ns"] == parse_time_ns(row[10] + "-04:00")
        assert (str(job["node_count"]), str(job["cpu_count"]), job["state"]) == (row[17], row[18], row[16])
        assert job["nodes"].count(",") + 1 == job["node_count"]


def sacct_json(path: Path, tables: Tables) -> None:
    jobs = json.loads(path.read_text())["jobs"]
    found = [job for job in tables["jobs"] if not job["step"]]
    assert [job["raw_job_id"] for job in found] == [job["job_id"] for job in jobs]
    for row, job in zip(found, jobs, strict=True):
        state = job["state"]["current"]
        assert row["state"] == (state[0] if isinstance(state, list) else state)
        assert row["cluster"] == job["cluster"]
        assert ((row["end_ns"] or 0) // NS, row["submit_ns"] // NS) == (job["time"]["end"], job["time"]["submission"])
    assert len(tables["jobs"]) - len(found) == sum(len(job["steps"]) for job in jobs)


CORPUS = [
    Entry("schedulers/pbs.log", "pbs", pbs),
    Entry("schedulers/lsf.log", "lsf", lsf),
    Entry("schedulers/sge.log", "sge", grid_engine),
    Entry("schedulers/uge.log", "sge", grid_engine),
    Entry("schedulers/slurm-xdmod.log", "sacct", xdmod_sacct, context=NEW_YORK),
    Entry("schedulers/slurm-xdmod.log", "sacct", refused="undated_input"),
    Entry("slurm/sacct_21_8_8.json", "sacct", sacct_json),
    Entry("slurm/sacct_23_11_5.json", "sacct", sacct_json),
    Entry("slurm/sacct_jobs_before_meta.json", "sacct", sacct_json),
]


@pytest.mark.parametrize("entry", CORPUS, ids=[f"{entry.path}-{entry.refused or 'read'}" for entry in CORPUS])
def test_file(shared_data, entry):
    path = shared_data / entry.path
    outcome, tables = read(path, entry.context)
    assert outcome.source == entry.source
    assert outcome.reason == entry.refused, outcome.message
    if entry.oracle is not None:
        entry.oracle(path, tables)
