"""Counters in Parquet, as PyDarshan and our own frames have them, against the logs they were made of."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import duckdb
import pytest

from darshan_logs import LogParts
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, TruncatedInput, UndatedInput
from ioweather.core.tables import concat
from ioweather.facts.job_metrics import job_io
from ioweather.ingestion.reading import Reading, read_batch
from ioweather.readers.darshan import parquet_export as export
from ioweather.readers.darshan.darshan_reader import read_log, rows_of_logs
from ioweather.readers.darshan.parquet_export import DARSHAN_EXPORT
from ioweather.readers.darshan.writer import new_records

polars = pytest.importorskip("polars")


def made(number: int = 0) -> bytes:
    posix, stdio = new_records("POSIX", 3), new_records("STDIO", 1)
    posix["id"], posix["rank"] = (11, 12, 12), (-1, 1, 3)
    posix["POSIX_WRITES"], posix["POSIX_BYTES_WRITTEN"] = (8, 1, 2), (8 << 20, 100, 200 + number)
    posix["POSIX_F_WRITE_TIME"], posix["POSIX_F_SLOWEST_RANK_TIME"] = (4.0, 0.25, 0.5), (1.5, 0.0, 0.0)
    posix["POSIX_F_WRITE_START_TIMESTAMP"], posix["POSIX_F_WRITE_END_TIMESTAMP"] = 1.0, (3.0, 4.0, 5.0)
    posix["POSIX_MMAPS"] = -1
    stdio["id"], stdio["STDIO_WRITES"], stdio["STDIO_BYTES_WRITTEN"] = 12, 1, 7
    start = 1_600_000_000 + 100 * number
    return LogParts(
        modules=[("POSIX", 4, [posix.tobytes()]), ("STDIO", 2, [stdio.tobytes()])],
        job_id=4711 + number, start=(start, 123), end=(start + 60, 456),
    ).build()  # fmt: skip


def frame_of(log, module="POSIX"):
    """Our own frame, with the columns of the job."""
    job = log.job
    start, end = divmod(job.start_ns, 10**9), divmod(job.end_ns, 10**9)
    about = {"jobid": job.job_id, "uid": job.uid, "nprocs": job.nprocs, "start_time_sec": start[0],
             "start_time_nsec": start[1], "end_time_sec": end[0], "end_time_nsec": end[1], "exe": job.exe}  # fmt: skip
    return log.to_polars(module).with_columns(**{name: polars.lit(value) for name, value in about.items()})


def read(path: Path):
    assert DARSHAN_EXPORT.detect(path.read_bytes()[:65536], path) == 0.9
    found: dict[str, list] = {}
    for table, frame in DARSHAN_EXPORT.read(path, ReadContext()):
        found.setdefault(table, []).append(frame)
    return {table: concat(frames) for table, frames in found.items()}


def comparable(frame, *, without=()):
    """Rows in order, without digests and mounts, which an export does not have."""
    left_out = {"log_digest", "mount", "main_mount", *without}
    rows = [{k: v for k, v in row.items() if k not in left_out} for row in frame.records()]
    return sorted(rows, key=str)


@pytest.mark.parametrize("chunk", [2, 100_000])
def test_records_of_many_runs(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(export, "_CHUNK_RECORDS", chunk)
    logs = [read_log(made(number)) for number in range(5)]
    frames = [frame_of(log, module) for log in logs for module in ("POSIX", "STDIO")]
    path = tmp_path / "counters.parquet"
    polars.concat(frames[::-1], how="diagonal_relaxed").sample(fraction=1.0, shuffle=True, seed=1).write_parquet(path)
    tables = read(path)
    applications, files = rows_of_logs(logs)
    assert comparable(tables["files"]) == comparable(files)
    kept = ("job_id", "uid", "nprocs", "start_ns", "end_ns", "exe")
    mine, theirs = (
        [[row[name] for name in kept] for row in f.records()] for f in (tables["applications"], applications)
    )
    assert sorted(mine) == theirs
    assert set(tables["applications"].text("form").tolist()) == {"export"}
    whole = job_io(applications, files)
    assert comparable(job_io(tables["applications"], tables["files"])) == comparable(whole)


@pytest.mark.parametrize("prefix", ["", "total_"])
def test_whole_runs(tmp_path, prefix):
    log = read_log(made())
    frame = frame_of(log)
    sums = frame.select(polars.col("^POSIX_.*$").sum().name.prefix(prefix))
    about = frame.select("jobid", "uid", "nprocs", "start_time_sec", "end_time_sec", "exe").head(1)
    path = tmp_path / "totals.parquet"
    polars.concat([about, sums], how="horizontal").write_parquet(path)
    tables = read(path)
    (row,) = job_io(tables["applications"], tables["files"]).records()
    (whole,) = job_io(*rows_of_logs([log])).records()
    assert row["fs_write_bytes"] == whole["fs_write_bytes"]
    assert row["write_count"] == whole["fs_write_count"]
    assert (row["file_count"], row["io_seconds"], row["partial"]) == (None, None, True)
    assert tables["applications"].text("form").tolist() == ["totals"]


@pytest.mark.skipif(importlib.util.find_spec("darshan") is None, reason="PyDarshan is not installed")
def test_frames_of_pydarshan(tmp_path):
    darshan = pytest.importorskip("darshan")
    log_path = next(Path(darshan.__file__).parent.rglob("sample.darshan"))
    with darshan.DarshanReport(str(log_path), read_all=True) as report:
        parts = report.records["POSIX"].to_df()
        joined = parts["counters"].merge(parts["fcounters"], on=["id", "rank"])
        joined["path"] = [report.name_records[i] for i in joined["id"]]
        about = report.metadata["job"]
        for name in ("jobid", "uid", "nprocs", "start_time_sec", "end_time_sec", "log_ver"):
            joined[name] = about[name]
        joined["exe"] = report.metadata["exe"]
    path = tmp_path / "posix.parquet"
    with duckdb.connect() as con:
        con.register("joined", joined)
        con.execute(f"COPY joined TO '{path}' (FORMAT parquet)")
    tables = read(path)
    _, files = rows_of_logs([read_log(log_path)])
    posix = files.take(files.text("module").equals("POSIX"))
    # Stripes are of another module; variances do not become columns.
    mine, theirs = (comparable(f, without=("osts", "stripe_count", "stripe_bytes")) for f in (tables["files"], posix))
    assert mine == theirs
    assert tables["applications"].text("log_version").tolist() == ["3.10"]


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        (lambda f: f.drop("jobid"), CorruptInput, "the run of its counters"),
        (lambda f: f.drop("rank"), CorruptInput, "one of id and rank"),
        (lambda f: f.drop("id", "rank", "path"), CorruptInput, "without id and rank"),
        (lambda f: f.drop("POSIX_BYTES_READ"), TruncatedInput, "merge"),
        (lambda f: f.head(0), EmptyInput, "no rows"),
        (lambda f: f.with_columns(nprocs=polars.lit(2)), CorruptInput, "rank"),
        (lambda f: f.with_columns(id=polars.lit(None, polars.Int64)), CorruptInput, "a record without its id"),
        (lambda f: f.with_columns(rank=polars.lit(None, polars.Int64)), CorruptInput, "a record without its rank"),
        (lambda f: f.with_columns(nprocs=polars.lit("many")), CorruptInput, "not numbers"),
        (
            lambda f: f.with_columns(start_time_sec=polars.lit("2020-09-13 12:26:40")),
            UndatedInput,
            "without a time zone",
        ),
        (
            lambda f: f.with_columns(start_time_sec=polars.from_epoch("start_time_sec")),
            UndatedInput,
            "without a time zone",
        ),
        (lambda f: f.with_columns(POSIX_OPENS=polars.lit("x")), CorruptInput, "Parquet"),
    ],
)
def test_what_is_refused(tmp_path, change, error, reason):
    path = tmp_path / "x.parquet"
    change(frame_of(read_log(made()))).write_parquet(path)
    with pytest.raises(error, match=reason):
        list(DARSHAN_EXPORT.read(path, ReadContext()))


def test_an_access_slot_that_was_not_used_has_no_size(tmp_path):
    """Darshan 3.2.0 leaves any number in it: its count is what tells."""
    posix = new_records("POSIX", 1)
    posix["id"], posix["rank"], posix["POSIX_WRITES"], posix["POSIX_BYTES_WRITTEN"] = 11, -1, 3, 300
    posix["POSIX_ACCESS1_ACCESS"], posix["POSIX_ACCESS1_COUNT"] = 100, 3
    posix["POSIX_ACCESS2_ACCESS"], posix["POSIX_ACCESS2_COUNT"] = 4576144030181621760, 0
    path = tmp_path / "release.darshan"
    path.write_bytes(
        LogParts(modules=[("POSIX", 4, [posix.tobytes()])], start=(1_600_000_000, 0), end=(1_600_000_060, 0)).build()
    )
    (outcome,), frames = read_batch([(str(path), path.stat().st_size)], Reading(ReadContext()))
    assert (outcome.status, outcome.message) == ("ok", None)
    ((files,),) = (pieces for (_, table), pieces in frames.items() if table == "files")
    (row,) = files.records()
    assert (row["access1_bytes"], row["access2_bytes"], row["access2_count"]) == (100, 0, 0)
