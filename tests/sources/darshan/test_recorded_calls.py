"""Calls that were recorded, counted as Darshan counts them, and the log that is made of them."""

from __future__ import annotations

import numpy as np

from ioweather.sources.darshan import recorded_calls
from ioweather.sources.darshan.log import read_log
from ioweather.sources.darshan.model import DarshanJob
from ioweather.sources.darshan.recorded_calls import (
    CLOSE,
    OPEN,
    READ,
    SEEK,
    STAT,
    SYNC,
    WRITE,
    Call,
    Recorded,
    write_recorded,
)


def events(*calls):
    """(call, offset, bytes), a second apart, half a second each."""
    made = np.zeros(len(calls), recorded_calls.EVENT)
    for number, (call, offset, size) in enumerate(calls):
        made[number] = (call, 0, offset, size, number, number + 0.5)
    return made


def test_counters_are_those_of_darshan():
    read, write, sync = READ, WRITE, SYNC
    row = recorded_calls.counters(events(
        (OPEN, 0, 0), (write, 0, 4096), (write, 4096, 4096), (write, 100_000, 200), (sync, 0, 0),
        (SEEK, 0, 0), (read, 0, 100_000), (read, 0, 50), (CLOSE, 0, 0), (STAT, 0, 0),
    ))  # fmt: skip
    assert (row["OPENS"], row["WRITES"], row["READS"], row["SEEKS"], row["STATS"], row["FSYNCS"]) == (1, 3, 2, 1, 1, 1)
    assert (row["BYTES_WRITTEN"], row["MAX_BYTE_WRITTEN"], row["BYTES_READ"]) == (8392, 100_199, 100_050)
    assert (row["SEQ_WRITES"], row["CONSEC_WRITES"], row["SEQ_READS"]) == (2, 1, 0)
    assert (row["SIZE_WRITE_1K_10K"], row["SIZE_WRITE_100_1K"], row["SIZE_READ_0_100"]) == (2, 1, 1)
    # Darshan counts a sync as writing; open, close, seek and stat are metadata.
    assert (row["F_WRITE_TIME"], row["F_READ_TIME"], row["F_META_TIME"]) == (2.0, 1.0, 2.0)
    assert (row["RW_SWITCHES"], row["FILE_NOT_ALIGNED"]) == (1, 1)
    assert (row["ACCESS1_ACCESS"], row["ACCESS1_COUNT"]) == (4096, 2)


def test_a_file_of_all_processes_is_one_record():
    two = [
        recorded_calls.Recorded(events((OPEN, 0, 0), *[(recorded_calls.WRITE, 0, 10)] * n), ("/d/all",)) for n in (1, 3)
    ]
    ((path, rank, row),) = recorded_calls.rows_of(two)
    assert (path, rank, row["WRITES"], row["BYTES_WRITTEN"]) == ("/d/all", -1, 4, 40)
    assert (row["SLOWEST_RANK"], row["F_SLOWEST_RANK_TIME"], row["F_FASTEST_RANK_TIME"]) == (1, 2.0, 1.0)


def test_a_log_says_who_recorded_it_and_keeps_every_byte(tmp_path):
    calls = [Call(OPEN, 0, 0, 0, 0.0, 0.1), Call(WRITE, 0, 0, 4096, 0.1, 0.3), Call(CLOSE, 0, 0, 0, 0.3, 0.4)]
    job = DarshanJob(5, 7, 1, 10**18, 10**18 + 10**9, 1.0, {}, "program", (("/", "ext4"),))
    made = read_log(write_recorded(tmp_path / "a.darshan", job, "a test", [Recorded.of(calls, ["/d/a"])]))
    assert (made.job.job_id, made.job.uid, made.job.metadata["recorder"]) == (7, 5, "a test")
    (record,) = made.modules["POSIX"].records
    assert (record["POSIX_BYTES_WRITTEN"], record["POSIX_OPENS"], record["POSIX_SIZE_WRITE_1K_10K"]) == (4096, 1, 1)
    assert abs(record["POSIX_F_META_TIME"] - 0.2) < 1e-9


def test_a_run_without_calls_has_no_record(tmp_path):
    job = DarshanJob(5, 7, 1, 10**18, 10**18 + 10**9, 1.0, {}, "program", ())
    made = read_log(write_recorded(tmp_path / "a.darshan", job, "a test", [Recorded.of([], [])]))
    assert not len(made.modules["POSIX"].records) if "POSIX" in made.modules else True
