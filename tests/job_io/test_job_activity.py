"""The heat map of a job that wrote many logs: bytes of each, at its place in time, and no byte more or less."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest

from asking import describe_job, job_view
from ioweather.ingestion.ingest import ingest
from ioweather.job_io import view
from ioweather.job_io.heat_map import SCREEN, Resolution, job_heat_maps
from ioweather.job_io.view import with_heat_maps
from ioweather.lake.lake import open_lake
from ioweather.readers.darshan.darshan_reader import read_log
from ioweather.readers.darshan.format import DXT_DTYPE
from ioweather.readers.darshan.log import Module
from ioweather.readers.darshan.writer import new_records, write_log
from ioweather.topics.source import ask
from planted_logs import HEAT, JOB, NS, START, heat

LOGS, WIDTH, BINS = 5, 5.0, 8
LATER = 10  # seconds between two starts


def write_one(path, number, *, nprocs=1, later=LATER):
    """A run of 38 s, whose last bin reaches 2 s beyond it; process r of it writes in bin r + 1, reads in the last."""
    read, written = np.zeros((nprocs, BINS), np.int64), np.zeros((nprocs, BINS), np.int64)
    for rank in range(nprocs):
        written[rank, rank + 1] = 1000 * (number + 1) + rank
        read[rank, BINS - 1] = 7 * (number + 1)
    posix = new_records("POSIX", 1)
    posix["id"], posix["rank"] = 11, -1 if nprocs > 1 else 0
    posix["POSIX_OPENS"], posix["POSIX_WRITES"], posix["POSIX_READS"] = 1, 1, 1
    posix["POSIX_BYTES_WRITTEN"], posix["POSIX_BYTES_READ"] = written.sum(), read.sum()
    start = START + number * later * NS
    job = JOB._replace(nprocs=nprocs, start_ns=start, end_ns=start + 38 * NS, run_seconds=38.0)
    activity = heat({HEAT: {rank: (read[rank], written[rank]) for rank in range(nprocs)}}, WIDTH)
    write_log(path, job, {"POSIX": posix, "HEATMAP": activity}, {11: "/scratch/a", HEAT: "heatmap:POSIX"})
    return read_log(path)


@pytest.fixture
def logs(tmp_path):
    return [write_one(tmp_path / f"{number}.darshan", number) for number in range(LOGS)]


def drawn(lake):
    with lake.snapshot() as snapshot:
        return with_heat_maps(job_view("4711", lake), snapshot, SCREEN)


def truth(logs, columns, width):
    """Bytes by process and column, bin by bin: each bin evenly over its own time, cut at the end of its run."""
    made = {"read": np.zeros((len(logs), columns)), "write": np.zeros((len(logs), columns))}
    for row, log in enumerate(logs):
        later = (log.job.start_ns - START) / NS
        for verb, grid in made.items():
            for place, amount in enumerate(log.modules["HEATMAP"].ragged[f"{verb}_bins"].values.tolist()):
                begin, end = later + place * WIDTH, later + min((place + 1) * WIDTH, 38.0)
                for column in range(columns):
                    shared = min(end, (column + 1) * width) - max(begin, column * width)
                    grid[row, column] += amount * max(shared, 0.0) / (end - begin)
    return made


@pytest.mark.parametrize("columns", [78, 13, 66])
def test_processes_at_the_same_time_have_rows_of_their_own(logs, columns):
    (found,) = job_heat_maps(logs[::-1], Resolution(rows=LOGS, columns=columns))
    assert (found.module, found.origin, found.nprocs, found.rank_step) == ("POSIX", "heat map", LOGS, 1)
    assert found.column_seconds == pytest.approx((LATER * (LOGS - 1) + 38) / columns)
    expected = truth(logs, columns, found.column_seconds)
    np.testing.assert_allclose(found.write_bytes, expected["write"], atol=1e-6)
    np.testing.assert_allclose(found.read_bytes, expected["read"], atol=1e-6)
    assert found.total_bytes == pytest.approx(sum(1007 * (number + 1) for number in range(LOGS)))


def test_a_trace_stands_in_for_a_heat_map(logs):
    segments = np.array([(0, True, 0, 500, 1.0, 3.0)], [("record", "i8"), ("write", "?"), ("offset", "i8"),
                        ("length", "i8"), ("start_seconds", "f8"), ("end_seconds", "f8")])  # fmt: skip
    trace = Module("DXT_POSIX", 1, False, np.zeros(1, DXT_DTYPE), segments=segments)
    traced = dataclasses.replace(logs[1], modules={"DXT_POSIX": trace})
    (found,) = job_heat_maps([logs[0], traced], Resolution(rows=2, columns=48))
    assert found.origin == "trace"
    assert found.write_bytes[1, 11:13].sum() == pytest.approx(500)
    assert segments["start_seconds"].tolist() == [1.0]  # the log's own numbers are left alone


def test_a_job_of_the_lake_has_the_map_of_its_logs(tmp_path, logs):
    lake = open_lake(tmp_path / "lake", create=True)
    paths = [tmp_path / f"{number}.darshan" for number in range(LOGS)]
    ingest(lake, paths)
    view = drawn(lake)
    (mine,), (expected,) = view.heat_maps, job_heat_maps(logs, SCREEN)
    np.testing.assert_array_equal(mine.write_bytes, expected.write_bytes)
    answer = describe_job("4711", lake)
    assert [exhibit.id for exhibit in answer.exhibits] == ["job.activity"]
    assert "of its 5 logs: one row per process" in str(answer.findings)
    assert "job.activity" in [exhibit.id for exhibit in describe_job("4711", lake, detail=True).exhibits]
    # One is gone, and in the place of one lies another.
    paths[0].unlink()
    paths[1].write_bytes(paths[2].read_bytes())
    view = drawn(lake)
    assert view.heat_map_logs == 3
    assert view.heat_maps[0].nprocs == 3
    assert "3 of its 5 logs" in str(describe_job("4711", lake).findings)


def test_only_a_question_that_draws_opens_logs_and_never_for_a_server(tmp_path, logs, monkeypatch):
    lake = open_lake(tmp_path / "lake", create=True)
    paths = [tmp_path / f"{number}.darshan" for number in range(LOGS)]
    ingest(lake, paths)
    paths[0].unlink()
    os.mkfifo(paths[0])  # opening it would wait for ever
    assert "4 of its 5 logs" in str(describe_job("4711", lake).findings)
    monkeypatch.setattr(view, "read_log", lambda *_, **__: pytest.fail("a log was opened"))
    ask("why", lake, {"job": "4711"})
    answer = ask("job", lake, {"job": "4711", "detail": True}, files=False)
    assert "job.activity" not in [exhibit.id for exhibit in answer.exhibits]
