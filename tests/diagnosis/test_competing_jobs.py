"""What a run waited for: against sums by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ioweather.core.frames import Frame
from ioweather.diagnosis.blame import Party
from ioweather.diagnosis.blame_query import MOST_DEGRADED, CompetingJobs, find_competing_jobs
from ioweather.diagnosis.job_loads import AMOUNTS, Capacity, share_inside
from ioweather.diagnosis.job_records import Records
from job_loads import S, ints, loads


def test_share_of_loads_inside_windows() -> None:
    rng = np.random.default_rng(1)
    first = rng.integers(0, 1000, 200)
    made = loads(*zip(rng.integers(0, 9, 200), first, first + rng.integers(0, 300, 200), rng.integers(0, 4, 200),
                      rng.uniform(0, 9, 200), strict=True))  # fmt: skip
    edges = np.sort(rng.choice(1300, 60, replace=False)) * S
    windows = edges[::2].astype(np.int64), edges[1::2].astype(np.int64)
    expected = []
    for begin, end in zip(made.first_ns, np.maximum(made.last_ns, made.first_ns + 1), strict=True):
        inside = np.maximum(np.minimum(end, windows[1]) - np.maximum(begin, windows[0]), 0).sum()
        expected.append(inside / (end - begin))
    np.testing.assert_allclose(share_inside(made, windows), expected, atol=1e-9)


def competing(own: Any, others: Any, seconds: float) -> CompetingJobs:
    """Two targets, both in use, and metadata."""
    found, of_others = np.append(own, 0.0), np.array([[*each, 0.0] for each in others])
    used = np.array([True, True, False])
    records: Any = SimpleNamespace()
    return CompetingJobs(
        records, (ints(0), ints(1)), seconds, np.arange(len(others)), {}, of_others, found, used, (0.0, 0.0)
    )


def without_each(run: CompetingJobs) -> list[float]:
    data, _ = run.saved_seconds(run.others.sum(axis=0) - run.others)
    return cast(list[float], data.tolist())


def test_without_a_job_the_next_target_may_hold_the_run_up() -> None:
    assert without_each(competing([2.0, 2.0], [[5.0, 0.0], [0.0, 3.0]], 20.0)) == [2.0, 0.0]


def test_a_target_does_no_more_than_a_second_of_work_in_a_second() -> None:
    full = competing([5.0, 1.0], [[10.0, 0.0], [5.0, 15.0]], 10.0)
    # Half of it fits, on all targets alike: without the first job the second target holds it up, with 16 of 20.
    np.testing.assert_allclose(without_each(full), [2.0, 2.5])


def test_a_run_that_always_waits() -> None:
    run, none = competing([2.0, 2.0], [[3.0, 0.0]], 10.0), np.zeros(3)
    assert run.saved_seconds(none)[0] == 3.0
    # It waited 10 s for a target that did 5 s of work: each second of work took two.
    assert run.saved_seconds(none, always_waits=True)[0] == 6.0
    idle = competing([2.0, 2.0], [[3.0, 0.0]], 1e6)
    assert idle.saved_seconds(none, always_waits=True)[0] == 3.0 * MOST_DEGRADED


def test_work_of_others_counts_during_the_io_of_the_run() -> None:
    """Run 0 does I/O in half of its 100 s; job 1 writes 60 bytes in 120 s, of which 100 s are beside it."""
    by_run = loads((0, 0, 100, 0, 20.0), (0, 0, 100, 1, 0.0), (1, 0, 120, 0, 60.0), (1, 0, 120, 1, 0.0))
    capacity = Capacity({name: np.array([1.0, 0.0]) for name in AMOUNTS})
    runs = Frame({"io_seconds": np.array([50.0, 60.0]), "job_id": ints(7, 8)})
    parties = (Party("7", 7), Party("8", 8))
    records = Records("scratch", ("OST0000",), capacity, parties, ("log", "log"), by_run, capacity.work(by_run), runs,
                      ints(0, 1), by_run, False)  # fmt: skip
    found = find_competing_jobs(records, 0, 25.0)
    assert found.others[found.jobs == 1, 0] == pytest.approx(60.0 * 100 / 120 / 2)
    assert found.own[0] == pytest.approx(20.0)
    assert found.met[0] == pytest.approx(60.0 * 100 / 120 / 4)
