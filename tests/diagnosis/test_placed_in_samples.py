"""Logs' work in time: planted bursts are found by what the targets did; nothing is lost or made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.arrays import Floats
from ioweather.diagnosis.job_loads import AMOUNTS, Capacity, JobLoads, Samples, place_in_samples

S = 10**9
MINUTES = 30


def logs(*stretches: tuple[int, int, int, tuple[float, ...]]) -> JobLoads:
    """(job, first minute, last minute, bytes by target)."""
    entries = [
        (at, target, size) for at, (*_, sizes) in enumerate(stretches) for target, size in enumerate(sizes) if size
    ]
    stretch, target, size = (np.array(column) for column in zip(*entries, strict=True))
    job, first, last = (np.array([each[i] for each in stretches], np.int64) for i in range(3))
    amounts = {name: size.astype(np.float64) if name == "read_bytes" else np.zeros(len(size)) for name in AMOUNTS}
    return JobLoads(job, first * 60 * S, last * 60 * S, stretch.astype(np.int64), target.astype(np.int64), amounts)


def samples(work: Floats) -> Samples:
    start = np.arange(len(work), dtype=np.int64) * 60 * S
    return Samples(start, start + 60 * S, work)


def capacity(targets: int) -> Capacity:
    return Capacity({name: np.append(np.ones(targets), 0.0) for name in AMOUNTS})


def by_minute(found: JobLoads, job: int) -> Floats:
    """Bytes of a job in each minute."""
    minute = found.first_ns[found.stretch] // (60 * S)
    mine = found.job[found.stretch] == job
    weights = found.amounts["read_bytes"][mine]
    return np.bincount(minute[mine], weights=weights, minlength=MINUTES).astype(np.float64)


def placed(made: JobLoads, work: Floats, io_seconds: list[float]) -> JobLoads:
    near = np.arange(len(made.job))
    return place_in_samples(made, near, samples(work), capacity(work.shape[1]), np.array(io_seconds))


def test_two_jobs_that_share_a_target_are_told_apart_by_their_others() -> None:
    made = logs((0, 0, MINUTES, (50.0, 50.0, 0.0)), (1, 0, MINUTES, (0.0, 40.0, 40.0)))
    did = np.full((MINUTES, 3), 0.5)
    did[4] += (50.0, 50.0, 0.0)  # all of job 0
    did[20] += (0.0, 40.0, 40.0)  # all of job 1
    found = placed(made, did, [60.0, 60.0])
    assert by_minute(found, 0)[4] > 0.9 * 100.0
    assert by_minute(found, 1)[20] > 0.9 * 80.0
    assert by_minute(found, 0).sum() == pytest.approx(100.0)


def test_a_log_does_not_do_its_work_faster_than_its_own_io_time_lets_it() -> None:
    made = logs((0, 0, MINUTES, (60.0,)))
    did = np.zeros((MINUTES, 1))
    did[4] = 60.0
    # 600 s of I/O do not fit into one minute: at most twice the average pace, a fifth of all, is there.
    assert by_minute(placed(made, did, [600.0]), 0)[4] <= 60.0 / 5 + 1.0


def test_a_target_that_did_not_do_what_logs_say_does_not_tell_when() -> None:
    made = logs((0, 0, MINUTES, (50.0, 50.0)))  # half of its files were moved from target 1 to target 2 since
    did = np.full((MINUTES, 3), 0.01)
    did[7] += (50.0, 0.0, 50.0)
    assert by_minute(placed(made, did, [60.0]), 0)[7] > 0.8 * 100.0


def test_logs_that_were_hardly_sampled_stay_as_they_are_and_gaps_say_nothing() -> None:
    made = logs((0, 0, MINUTES, (60.0,)), (1, 100, 120, (10.0,)))
    did = np.ones((MINUTES, 1))
    did[5:9] = np.nan
    found = placed(made, did, [60.0, 60.0])
    assert by_minute(found, 0).sum() == pytest.approx(60.0)
    nothing = samples(np.zeros((0, 1)))
    for each in (found, place_in_samples(made, np.arange(2), nothing, capacity(1), np.ones(2))):
        (at,) = np.flatnonzero(each.job == 1).tolist()
        assert (each.first_ns[at], each.last_ns[at]) == (6000 * S, 7200 * S)
        assert each.amounts["read_bytes"][each.stretch == at].tolist() == [10.0]


def test_samples_that_reach_into_one_of_several_times() -> None:
    every = samples(np.arange(10.0)[:, None])
    first, last = (np.array(edges, np.int64) * S for edges in ((30, 10, 400), (90, 500, 401)))
    assert every.touching(first, last).work[:, 0].tolist() == list(range(9))
    assert every.touching(first[:1], last[:1]).work[:, 0].tolist() == [0.0, 1.0]
    assert not len(every.touching(first[:0], last[:0]).start_ns)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_nothing_is_lost_whatever_was_sampled(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(1, 5))
    first = rng.integers(0, MINUTES - 1, jobs)
    last = np.minimum(first + 1 + rng.integers(0, MINUTES, jobs), MINUTES)
    sizes = rng.exponential(30.0, (jobs, 3)) * (rng.random((jobs, 3)) < 0.7) + 0.001
    made = logs(*((j, int(first[j]), int(last[j]), tuple(sizes[j])) for j in range(jobs)))
    did = rng.exponential(10.0, (MINUTES, 3)) * (rng.random((MINUTES, 3)) < 0.5)
    did[rng.random((MINUTES, 3)) < 0.1] = np.nan
    found = placed(made, did, rng.exponential(300.0, jobs).tolist())
    assert np.all(np.diff(found.stretch) >= 0)
    for job in range(jobs):
        assert by_minute(found, job).sum() == pytest.approx(sizes[job].sum())
        minutes = np.flatnonzero(by_minute(found, job))
        assert minutes.min() >= first[job]
        assert minutes.max() < last[job]
