"""Which job is meant: a log where it lies, or an id in the lake; nothing is written anywhere."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest

from asking import compare_jobs, describe_job, job_view
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.results import to_jsonable
from ioweather.core.tables import TABLES
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.readers.darshan.writer import new_records, write_log
from planted_logs import JOB, MIB, NS, START, write_climate

HOUR = 3600 * NS


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Job 4711 in three logs: two runs of uid 1000, one a month later by uid 2000; job 4712 in one; 4713 requeued."""
    root = tmp_path_factory.mktemp("jobs")
    logs = root / "logs"
    logs.mkdir()
    write_climate(logs / "1.darshan")
    later = START + 200 * NS
    write_climate(logs / "2.darshan", start_ns=later, end_ns=later + 100 * NS)
    much_later = START + 30 * 24 * HOUR
    write_climate(logs / "3.darshan", uid=2000, start_ns=much_later, end_ns=much_later + 100 * NS, exe="/bin/other")
    write_climate(logs / "4.darshan", job_id=4712)
    made = open_lake(root / "lake", create=True)
    ingest(made, [logs])
    one = {
        "cluster": "c", "raw_job_id": 4712, "step": "", "restart": 0, "job_id": "22_1", "uid": 1000, "user": "ann",
        "account": "m42", "state": "COMPLETED", "submit_ns": START - NS, "start_ns": START - NS,
        "end_ns": START + HOUR, "node_count": 2,
    }  # fmt: skip
    jobs = TABLES["jobs"]
    made.append("jobs", jobs.frame({name: [one.get(name)] for name in jobs.names}, rows=1), source="sacct")
    return root


def inside(folder: Path) -> Path:
    return folder / "lake"


def test_a_log_needs_no_lake(tmp_path, monkeypatch):
    monkeypatch.setenv("IOWEATHER_LAKE", str(tmp_path / "no-lake"))
    answer = describe_job(str(write_climate(tmp_path / "a.darshan")))
    assert answer.headline.startswith("climate on 4 processes")
    assert len(answer.provenance.input_digest) == 16
    assert not (tmp_path / "no-lake").exists()


def test_nothing_is_written_beside_the_log(tmp_path):
    folder = tmp_path / "readonly"
    folder.mkdir()
    log = write_climate(folder / "a.darshan")
    log.chmod(stat.S_IRUSR)
    before = (folder.stat().st_mtime_ns, log.stat().st_mtime_ns)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert describe_job(str(log), detail=True).exhibits
        assert [path.name for path in folder.iterdir()] == ["a.darshan"]
        assert (folder.stat().st_mtime_ns, log.stat().st_mtime_ns) == before
    finally:
        folder.chmod(stat.S_IRWXU)


def test_an_id_means_the_run_of_that_job_with_the_most_io_time(lake):
    view = job_view("4711", inside(lake), uid=1000)
    assert (view.logs, view.logs_of_job, view.run_words) == (1, 2, "run 1 of 2")
    row = view.row()
    assert (row["read_bytes"], row["write_bytes"]) == (2 * MIB + 300, 12 * MIB)
    assert row["io_seconds"] == pytest.approx(9.75)
    assert row["process_seconds"] == pytest.approx(400)
    assert (view.of_job.io_seconds, view.of_job.write_bytes) == (pytest.approx(19.5), 24 * MIB)


def test_the_lake_and_the_log_say_the_same(lake):
    stored = job_view("4712", inside(lake)).row()
    read = job_view(str(lake / "logs" / "4.darshan"), inside(lake)).row()
    for name in stored:
        assert stored[name] == read[name] or (stored[name] != stored[name]), name


def test_several_jobs_of_one_id_are_a_question(lake):
    with pytest.raises(UsageError) as refused:
        job_view("4711", inside(lake))
    assert "matches 2 jobs" in refused.value.message
    assert "--uid" in refused.value.hint
    assert refused.value.hint.endswith("ioweather jobs --words 4711")
    assert job_view("4711", inside(lake), period_ns=(START + HOUR, 2**62)).logs == 1


def test_jobs_that_are_not_there(lake, tmp_path):
    with pytest.raises(DataUnavailable, match="no Darshan log of job 99"):
        job_view("99", inside(lake))
    with pytest.raises(UsageError, match="neither a file nor a job ID"):
        job_view("nothing.darshan", inside(lake))
    with pytest.raises(UsageError, match="directory"):
        job_view(str(tmp_path))


@pytest.mark.parametrize("policy", ["hash", "drop"])
def test_paths_of_the_lake_can_be_hidden(lake, policy):
    answer = describe_job("4712", inside(lake), paths=policy, detail=True)
    text = repr(to_jsonable(answer))
    for word in ("/scratch/run", "state.nc", "--grid", "4.darshan"):
        assert word not in text
    assert "climate" in answer.headline
    largest = next(e for e in answer.exhibits if e.id == "job.files").tables[0]
    assert len(set(largest.column("file"))) == (1 if policy == "drop" else 6)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_counters_hold_there_is_an_answer(tmp_path, seed):
    rng = np.random.default_rng(seed)
    modules = {}
    for module in ("MPI-IO", "POSIX", "STDIO"):
        made = new_records(module, 3)
        for name in (made.dtype.names or ())[2:]:
            odd = [0, 1e-9, 3.0, 1e300, -1, np.nan, np.inf] if made.dtype[name].kind == "f" else [0, 7, -1, 1 << 62]
            made[name] = rng.choice(odd, 3)
        made["id"], made["rank"] = rng.integers(1, 4, 3), rng.integers(-1, 4, 3)
        modules[module] = made
    path = tmp_path / "odd.darshan"
    write_log(path, JOB, modules, {1: "/scratch/a", 2: "/b"})
    answer = describe_job(str(path), processes_per_node=2, detail=True)
    json.dumps(to_jsonable(answer), allow_nan=False)
    other = str(write_climate(tmp_path / "a.darshan"))
    for order in ([str(path), other], [other, str(path)]):
        json.dumps(to_jsonable(compare_jobs(order)), allow_nan=False)
