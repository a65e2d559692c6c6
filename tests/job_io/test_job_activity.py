"""The heat map of a job in the lake: read from its log, where that is still in its place."""

from __future__ import annotations

import os

import numpy as np

from asking import describe_job
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.readers.darshan.writer import new_records, write_log
from planted_logs import HEAT, JOB, NS, START, heat

WIDTH, BINS = 5.0, 8


def write_one(path):
    """A run of 38 s of two processes; process r of it writes in bin r + 1, reads in the last."""
    read, written = np.zeros((2, BINS), np.int64), np.zeros((2, BINS), np.int64)
    for rank in range(2):
        written[rank, rank + 1] = 1000 + rank
        read[rank, BINS - 1] = 7
    posix = new_records("POSIX", 1)
    posix["id"], posix["rank"], posix["POSIX_OPENS"], posix["POSIX_WRITES"], posix["POSIX_READS"] = 11, -1, 1, 1, 1
    posix["POSIX_BYTES_WRITTEN"], posix["POSIX_BYTES_READ"] = written.sum(), read.sum()
    job = JOB._replace(nprocs=2, start_ns=START, end_ns=START + 38 * NS, run_seconds=38.0)
    activity = heat({HEAT: {rank: (read[rank], written[rank]) for rank in range(2)}}, WIDTH)
    write_log(path, job, {"POSIX": posix, "HEATMAP": activity}, {11: "/scratch/a", HEAT: "heatmap:POSIX"})
    return path


def has_map(lake, **options):
    return "job.activity" in [exhibit.id for exhibit in describe_job("4711", lake, **options).exhibits]


def test_a_job_of_the_lake_has_the_map_of_its_log_while_that_is_there(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    path = write_one(tmp_path / "a.darshan")
    ingest(lake, [path])
    assert has_map(lake, detail=True)
    data = path.read_bytes()
    path.write_bytes(data[:-1])  # another file in its place
    assert not has_map(lake, detail=True)
    path.unlink()
    os.mkfifo(path)  # opening it would wait for ever
    assert not has_map(lake, detail=True)
