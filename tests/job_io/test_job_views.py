"""Which job is meant: a log where it lies, or an id in the lake; nothing is written anywhere."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from asking import compare_jobs, describe_job, job_view
from ioweather.core.errors import CorruptInput, DataUnavailable, EmptyInput, TruncatedInput, UsageError
from ioweather.core.results import to_jsonable
from ioweather.core.tables import TABLES
from ioweather.ingestion.ingest import ingest
from ioweather.job_io.heat_map import Resolution, job_heat_maps
from ioweather.lake.lake import open_lake
from ioweather.readers.darshan.darshan_reader import read_log
from ioweather.readers.darshan.format import DXT_DTYPE
from ioweather.readers.darshan.log import DarshanLog, Module
from ioweather.readers.darshan.writer import new_records, write_log
from planted_logs import JOB, MIB, NS, START, climate_modules, write_climate, write_empty, write_many

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
    assert sorted(Path(path).name for path in view.log_paths) == ["1.darshan", "2.darshan"]


def test_the_lake_and_the_log_say_the_same(lake):
    stored = job_view("4712", inside(lake)).row()
    read = job_view(str(lake / "logs" / "4.darshan"), inside(lake)).row()
    for name in stored:
        if name != "wait_seconds":
            assert stored[name] == read[name] or (stored[name] != stored[name]), name


def test_several_jobs_of_one_id_are_a_question(lake):
    with pytest.raises(UsageError) as refused:
        job_view("4711", inside(lake))
    text = str(refused.value)
    assert "matches 2 jobs" in text
    assert "2023-11-14 22:13:20Z  uid 1000  climate, 2 logs" in text
    assert "uid 2000  other, 1 log" in text
    assert "--uid" in text
    assert job_view("4711", inside(lake), period_ns=(START + HOUR, 2**62)).logs == 1


def test_accounting_gives_the_nodes(lake):
    row = job_view("4712", inside(lake)).row()
    assert (row["node_count"], row["node_source"], row["user"], row["account"]) == (2, "accounting", "ann", "m42")
    assert row["mib_per_s_per_node"] == pytest.approx((14 * MIB + 300) / MIB / 9.75 / 2)
    log = str(lake / "logs" / "4.darshan")
    assert job_view(log, inside(lake)).row()["node_count"] == 2
    assert job_view(log).row()["node_count"] is None, "without a lake nodes stay unknown"


def test_an_id_as_users_see_it(lake):
    assert job_view("22_1", inside(lake)).row()["job_id"] == 4712
    with pytest.raises(DataUnavailable, match="no job 22_9"):
        job_view("22_9", inside(lake))


def test_jobs_that_are_not_there(lake, tmp_path):
    with pytest.raises(DataUnavailable, match="no Darshan log of job 99"):
        job_view("99", inside(lake))
    with pytest.raises(UsageError, match="not a job id"):
        job_view("nothing.darshan", inside(lake))
    with pytest.raises(UsageError, match="directory"):
        job_view(str(tmp_path))


def test_a_file_named_like_an_id_is_a_file(tmp_path, monkeypatch):
    write_climate(tmp_path / "4711")
    monkeypatch.chdir(tmp_path)
    assert job_view("4711").log is not None


@pytest.mark.parametrize("policy", ["hash", "drop"])
def test_paths_of_the_lake_can_be_hidden(lake, policy):
    answer = describe_job("4712", inside(lake), paths=policy, detail=True)
    text = repr(to_jsonable(answer))
    for word in ("/scratch/run", "state.nc", "--grid", "4.darshan"):
        assert word not in text
    assert "climate" in answer.headline
    largest = next(e for e in answer.exhibits if e.id == "job.files").tables[0]
    assert len(set(largest.column("file"))) == (1 if policy == "drop" else 6)


def test_hashes_are_the_same_from_the_lake_and_from_the_log(lake):
    def files(target):
        answer = describe_job(target, inside(lake), paths="hash", detail=True)
        return next(e for e in answer.exhibits if e.id == "job.files").tables[0].column("file")

    assert files("4712") == files(str(lake / "logs" / "4.darshan"))


def test_bad_logs_say_what_is_wrong(tmp_path):
    whole = write_climate(tmp_path / "a.darshan").read_bytes()
    for name, data, kind in (
        ("empty", b"", EmptyInput),
        ("cut", whole[: len(whole) - 100], TruncatedInput),
        ("garbage", b"not a log at all" * 100, CorruptInput),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(Exception) as refused:
            job_view(str(path))
        assert isinstance(refused.value, (kind, EmptyInput.__mro__[1]))
        assert name in str(refused.value)
    secret = tmp_path / "secret.darshan"
    secret.write_bytes(whole)
    secret.chmod(0)
    if not os.access(secret, os.R_OK):  # root reads everything
        with pytest.raises(UsageError, match="Permission denied"):
            job_view(str(secret))


def test_a_hundred_thousand_files(tmp_path):
    path = write_many(tmp_path / "many.darshan", 100_000)
    answer = describe_job(str(path), detail=True)
    assert "391 MiB written" in answer.headline
    files = next(e for e in answer.exhibits if e.id == "job.files")
    assert files.caveats == ("99,980 more files are not listed.",)


def test_detail_adds_the_page(tmp_path):
    path = str(write_climate(tmp_path / "a.darshan"))
    short, full = describe_job(path), describe_job(path, detail=True)
    assert [e.id for e in short.exhibits] == ["job.activity", "advice"]
    assert {"job.about", "job.posix", "job.mounts", "job.files", "advice"} <= {e.id for e in full.exhibits}
    assert short.facts == full.facts


def test_runs_are_compared_by_log_and_by_id(lake):
    log = str(lake / "logs" / "4.darshan")
    answer = compare_jobs(["4712", log], inside(lake))
    assert answer.headline.startswith("B 4 is as fast as A job 4712")
    with pytest.raises(UsageError, match="at least two"):
        compare_jobs([log], inside(lake))


def traced(log: DarshanLog) -> DarshanLog:
    """The log with a trace of POSIX instead of its heat map: rank r writes r + 1 MiB during second r."""
    records = np.zeros(4, DXT_DTYPE)
    records["rank"], records["writes"] = np.arange(4), 1
    fields = [("record", "i8"), ("write", "?"), ("length", "i8"), ("start_seconds", "f8"), ("end_seconds", "f8")]
    segments = np.array([(r, True, (r + 1) * MIB, float(r), r + 1.0) for r in range(4)], fields)
    modules = {name: module for name, module in log.modules.items() if name != "HEATMAP"}
    modules["DXT_POSIX"] = Module("DXT_POSIX", 1, False, records, segments=segments)
    return dataclasses.replace(log, modules=modules)


def test_without_a_heat_map_the_trace_gives_one(tmp_path):
    log = read_log(write_climate(tmp_path / "a.darshan"))
    (recorded,) = job_heat_maps([log], Resolution(8, 10))
    assert (recorded.module, recorded.origin) == ("POSIX", "heat map")
    (heat,) = job_heat_maps([traced(log)], Resolution(8, 10))
    assert (heat.module, heat.origin, heat.column_seconds) == ("POSIX", "trace", 10.0)
    assert heat.write_bytes[:, 0].tolist() == pytest.approx([MIB, 2 * MIB, 3 * MIB, 4 * MIB])
    assert not list(job_heat_maps([read_log(write_empty(tmp_path / "e.darshan"))], Resolution(8, 10)))


def test_a_damaged_slowest_rank_is_nobody(tmp_path):
    """Only bytes of a shared file moved by one rank alone name that rank; a rank that cannot be names none."""
    modules, names = climate_modules()
    modules["MPI-IO"]["MPIIO_SLOWEST_RANK"], modules["MPI-IO"]["MPIIO_SLOWEST_RANK_BYTES"] = 1 << 62, 8 * MIB
    write_log(tmp_path / "a.darshan", JOB, modules, names)
    assert job_view(str(tmp_path / "a.darshan")).row()["io_rank_count"] == 4


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
