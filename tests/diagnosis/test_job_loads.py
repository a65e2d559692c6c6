"""Whose work a run waited for: loads in stretches, work in windows, what is left without each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.core.frames import Frame
from ioweather.core.tables import encode_text
from ioweather.diagnosis.job_loads import (
    AMOUNTS,
    Capacity,
    Degraded,
    align_to_logs,
    capacity_of_loads,
    concat_loads,
    intersect_spans,
    loads_of_servers,
    redistribute,
)
from job_loads import S, ints, loads

CAPACITY = Capacity({"read_bytes": np.array([100.0, 100.0, 0.0]), "write_bytes": np.array([50.0, 100.0, 0.0]),
                     "requests": np.array([10.0, 10.0, 20.0])})  # fmt: skip


def test_work_is_bytes_over_what_a_target_can_do_or_requests_where_these_take_longer() -> None:
    amounts = {"read_bytes": np.array([100.0, 0.0, 0.0]), "write_bytes": np.array([100.0, 100.0, 0.0]),
               "requests": np.array([1.0, 50.0, 40.0])}  # fmt: skip
    when = ints(0, 0, 0), ints(10 * S, 10 * S, 10 * S)
    assert CAPACITY.work_of_amounts(ints(0, 1, 2), amounts, *when).tolist() == [3.0, 5.0, 2.0]


def test_while_a_target_was_sick_the_same_bytes_were_more_work() -> None:
    made = loads((0, 0, 10, 0, 100.0), (1, 5, 25, 0, 100.0), (2, 40, 50, 1, 100.0))
    healthy = CAPACITY.work(made)
    sick = replace(CAPACITY, sick=(Degraded(ints(0), 0, 15 * S, 5.0),))
    # Of the second stretch half lies in the incident; the third is on another target.
    assert (sick.work(made) / healthy).tolist() == [5.0, 3.0, 1.0]
    assert (sick.work(made, ints(1)) / healthy[1:2]).tolist() == [3.0]


def test_times_in_spans_of_both() -> None:
    logged = ints(0, 100) * S, ints(50, 200) * S
    counted = ints(10, 20, 40, 120, 300) * S, ints(30, 35, 110, 130, 400) * S  # the first two overlap
    first, last = intersect_spans(logged, counted)
    assert ((first // S).tolist(), (last // S).tolist()) == ([10, 40, 100, 120], [35, 50, 110, 130])
    for empty in ((ints(), ints()), (ints(50), ints(100))):
        assert len(intersect_spans(empty, (ints(0, 200), ints(50, 300)))[0]) == 0


def test_what_servers_counted_is_put_where_the_logs_show_it() -> None:
    counted = loads((0, 0, 60, 0, 1.0), (0, 60, 120, 0, 1.0), (1, 0, 60, 0, 1.0), (2, 0, 60, 1, 1.0))
    logs = loads((0, 20, 30, 0, 0.0), (0, 40, 50, 0, 0.0), (2, 50, 90, 0, 0.0))
    found = align_to_logs(counted, logs, np.zeros(3))
    # Job 0 in its first minute; in its second no log shows it, and none shows job 1; job 2 from its log's start on.
    assert (found.first_ns // S).tolist() == [20, 60, 0, 50]
    assert (found.last_ns // S).tolist() == [50, 120, 60, 60]
    without = align_to_logs(counted, logs.select_jobs(np.zeros(3, np.bool_)), np.zeros(3))
    assert without.first_ns.tolist() == counted.first_ns.tolist()


def test_what_took_less_than_an_interval_was_done_where_the_job_began_or_ended_in_it() -> None:
    # 100 bytes in 10 s of I/O: what was counted took 2 s in the first minute and 6 in the last, give or take a quarter.
    counted = loads((0, 0, 60, 0, 20.0), (0, 60, 120, 0, 20.0), (0, 180, 240, 0, 60.0))
    logs = loads((0, 30, 200, 0, 100.0))
    found = align_to_logs(counted, logs, np.array([10.0]))
    assert (found.first_ns / S).tolist() == [30.0, 60.0, 192.5]
    assert (found.last_ns / S).tolist() == [32.5, 120.0, 200.0]


def test_who_was_busy_until_an_interval_ended_went_on_in_the_next() -> None:
    # Without a log: the second minute was full, so the first ends in it, and the third begins in it.
    counted = loads((0, 0, 60, 0, 10.0), (0, 60, 120, 0, 60.0), (0, 120, 180, 0, 10.0), (1, 180, 240, 0, 10.0))
    found = align_to_logs(counted, counted.select_jobs(np.zeros(2, np.bool_)), np.zeros(2))
    assert (found.first_ns / S).tolist() == [47.5, 60.0, 120.0, 180.0]
    assert (found.last_ns / S).tolist() == [60.0, 120.0, 132.5, 240.0]


def test_work_of_bytes_alone_leaves_metadata_operations() -> None:
    made = loads((0, 0, 10, 0, 100.0), (0, 0, 10, 2, 0.0))
    made = replace(made, amounts={**made.amounts, "requests": np.array([100.0, 40.0])})
    assert CAPACITY.work(made).tolist() == [10.0, 2.0]
    assert CAPACITY.work(made, of_bytes=True).tolist() == [2.0, 2.0]


def test_work_that_a_log_misplaced_goes_where_it_was_measured() -> None:
    others, own = np.array([[4.0, 0.0], [0.0, 1.0]]), np.zeros(2)
    moved, rest = redistribute(others, own, np.array([1.0, 4.0]), np.array([True, True]))
    assert moved == pytest.approx(np.array([[1.0, 3.0], [0.0, 1.0]]))
    assert rest == pytest.approx(np.zeros(2))
    assert moved.sum() == pytest.approx(others.sum())
    # Servers' counts are where they are.
    kept, rest = redistribute(others, own, np.array([1.0, 4.0]), np.array([False, False]))
    assert kept.tolist() == others.tolist()
    assert rest.tolist() == [0.0, 3.0]


def test_rows_of_servers_become_stretches_of_jobs() -> None:
    rows = Frame({
        "start_ns": ints(0, 0, 0, 60), "interval_ns": ints(60, 60, 60, 60),
        "component": encode_text(["b", "a", None, "unknown"]), "read_bytes": np.array([1.0, 2.0, np.nan, 4.0]),
        "write_bytes": np.full(4, np.nan), "requests": np.array([1.0, 1.0, 7.0, 1.0]),
    })  # fmt: skip
    made = loads_of_servers(rows, ("a", "b"), ints(1, 1, 0, 0))
    assert made.job.tolist() == [0, 1]
    assert sorted(zip(made.stretch.tolist(), made.target.tolist(), strict=True)) == [(0, 2), (1, 0), (1, 1)]
    both = concat_loads([made, made])
    assert both.stretch.tolist() == [*made.stretch.tolist(), *(made.stretch + 2).tolist()]
    assert both.select_jobs(np.array([False, True])).amounts["read_bytes"].sum() == 6.0
    assert loads_of_servers(rows.take(slice(0, 0)), ("a",), ints()).job.tolist() == []


def test_without_samples_the_highest_rate_of_any_job_is_what_a_target_can_do() -> None:
    found = capacity_of_loads(loads((0, 0, 10, 0, 100.0), (1, 0, 10, 1, 500.0)), 2)
    assert found.per_second["write_bytes"].tolist() == [50.0, 50.0, 0.0]
    assert set(found.per_second) == set(AMOUNTS)
    assert found.with_metadata(9.0).per_second["requests"].tolist() == [0.0, 0.0, 9.0]
