"""What a run waited for, piece by piece of its time: against sums by hand, and against every second alone."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.diagnosis.competing_jobs import (
    MOST_DEGRADED,
    MOST_PIECES,
    Waiting,
    cut_windows,
    divide_loads,
    overlapping_stretches,
    spread_io_time,
)
from job_loads import S, ints, loads


def test_windows_are_cut_where_jobs_begin_and_end() -> None:
    made = loads((0, 5, 25, 0, 1.0), (1, 12, 40, 0, 1.0), (2, 50, 60, 0, 1.0))
    windows = ints(20, 0) * S, ints(30, 10) * S
    found = cut_windows(windows, made, overlapping_stretches(made, windows))
    assert (found.first_ns // S).tolist() == [0, 5, 20, 25]
    assert (found.last_ns // S).tolist() == [5, 10, 25, 30]
    assert found.seconds.tolist() == [5.0, 5.0, 5.0, 5.0]


@pytest.mark.parametrize("windows", [1, 30, 300])
def test_sums_over_the_pieces_are_those_over_the_time(windows: int) -> None:
    rng = np.random.default_rng(1)
    first = rng.integers(0, 1000, 200)
    made = loads(*zip(rng.integers(0, 9, 200), first, first + rng.integers(0, 300, 200), rng.integers(0, 4, 200),
                      rng.uniform(0, 9, 200), strict=True))  # fmt: skip
    edges = np.sort(rng.choice(1300, 2 * windows, replace=False)) * S
    asked = edges[::2].astype(np.int64), edges[1::2].astype(np.int64)
    near = overlapping_stretches(made, asked)
    pieces = cut_windows(asked, made, near)
    found = divide_loads(made, near, pieces)
    assert len(pieces.seconds) <= MOST_PIECES
    assert pieces.seconds.sum() == pytest.approx((asked[1] - asked[0]).sum() / S)
    written = made.amounts["write_bytes"]
    whole = np.zeros((9, 4))
    of = made.stretch
    for job, begin, end, target, value in zip(made.job[of], made.first_ns[of], made.last_ns[of], made.target, written,
                                              strict=True):  # fmt: skip
        end = max(end, begin + 1)
        inside = np.maximum(np.minimum(end, asked[1]) - np.maximum(begin, asked[0]), 0).sum()
        whole[job, target] += value * inside / (end - begin)
    np.testing.assert_allclose(found.sums(written, 4), whole[found.jobs], atol=1e-9)
    np.testing.assert_allclose(found.by_piece(written, ints(1, 3), 4).sum(axis=0), whole[found.jobs][:, [1, 3]],
                               atol=1e-9)  # fmt: skip


def test_nothing_beside_it() -> None:
    made = loads((0, 500, 600, 0, 1.0))
    windows = ints(0) * S, ints(10) * S
    near = overlapping_stretches(made, windows)
    found = divide_loads(made, near, cut_windows(windows, made, near))
    assert found.jobs.tolist() == []
    assert found.by_piece(made.amounts["write_bytes"], ints(0), 2).shape == (1, 0, 1)


def test_a_run_waits_for_the_target_that_is_busiest_at_each_moment() -> None:
    """Two jobs, each on a target of its own and at a time of its own: over all, neither target is the busier one."""
    own, rest = np.full((2, 2), 2.0), np.zeros((2, 2))
    others = np.zeros((2, 2, 2))
    others[0, 0, 0] = others[1, 1, 1] = 5.0
    seconds, used = np.array([10.0, 10.0]), np.ones((2, 2), np.bool_)
    assert Waiting(own, others, rest, seconds, used).without_each().tolist() == [5.0, 5.0, 0.0]
    # In one piece it would wait for the other target as long without either.
    one = Waiting(own.sum(axis=0)[None], others.sum(axis=0)[None], rest[:1], np.array([20.0]), used[:1])
    assert one.without_each().tolist() == [0.0, 0.0, 0.0]


def test_a_target_does_no_more_than_a_second_of_work_in_a_second() -> None:
    own, others, used = np.array([[5.0, 1.0]]), np.array([[[10.0, 0.0], [5.0, 15.0]]]), np.ones((1, 2), np.bool_)
    full = Waiting(own, others, np.zeros((1, 2)), np.array([10.0]), used)
    # Half of it fits, on all targets alike: without the first job the second target holds it up, with 16 of 20.
    np.testing.assert_allclose(full.without_each(), [2.0, 2.5, 0.0])
    # Work in nobody's record counts as that of one more.
    rest = Waiting(own, others[:, :1], others[:, 1], np.array([10.0]), used)
    np.testing.assert_allclose(rest.without_each(), [2.0, 2.5])
    nowhere = Waiting(own, others, np.zeros((1, 2)), np.array([10.0]), ~used)
    assert nowhere.without_each().tolist() == [0.0, 0.0, 0.0]


def test_something_else_instead_of_a_job() -> None:
    own, others, used = np.array([[2.0, 2.0]]), np.array([[[3.0, 0.0]]]), np.ones((1, 2), np.bool_)
    run = Waiting(own, others, np.zeros((1, 2)), np.array([10.0]), used)
    none = np.zeros(1)
    assert run.saved_seconds(np.full(1, 0.5), always_waits=False) == 1.5
    assert run.saved_seconds(none, always_waits=False) == run.without_each()[0] == 3.0
    assert run.saved_seconds(np.ones(1), always_waits=False) == 0.0
    # It waited 10 s for a target that did 5 s of work: each second of work took two.
    assert run.saved_seconds(none, always_waits=True) == 6.0
    idle = Waiting(own, others, np.zeros((1, 2)), np.array([1e6]), used)
    assert idle.saved_seconds(none, always_waits=True) == 3.0 * MOST_DEGRADED


def test_time_lost_lies_where_the_run_met_others() -> None:
    seconds = np.array([60.0, 60.0, 60.0])
    own = np.array([1.0, 1.0, 0.0])
    found = spread_io_time(own, np.array([0.0, 30.0, 60.0]), seconds, 50.0, 20.0)
    np.testing.assert_allclose(found, [10.0, 40.0, 0.0])
    assert spread_io_time(own, np.zeros(3), seconds, 50.0, 20.0).tolist() == [25.0, 25.0, 0.0]
    # No longer than a piece lasts; without a record of its own work as time goes.
    full = spread_io_time(own, np.array([0.0, 30.0, 0.0]), seconds, 110.0, 20.0)
    assert full[1] == 60.0
    assert full.sum() == pytest.approx(110.0)
    np.testing.assert_allclose(spread_io_time(np.zeros(3), np.zeros(3), seconds, 90.0, np.inf), 30.0)
    assert spread_io_time(own, np.zeros(3), seconds, 500.0, 20.0).sum() == pytest.approx(180.0)
