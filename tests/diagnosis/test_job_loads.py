"""Whose work a run waited for: loads in stretches, work in windows, what is left without each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.tables import encode_text
from ioweather.diagnosis.job_loads import (
    AMOUNTS,
    Capacity,
    Degraded,
    JobLoads,
    concat_loads,
    estimate_capacity,
    intersect_spans,
    loads_of_servers,
)
from job_loads import S, ints, loads

CAPACITY = Capacity({"read_bytes": np.array([100.0, 100.0, 0.0]), "write_bytes": np.array([50.0, 100.0, 0.0]),
                     "requests": np.array([10.0, 10.0, 20.0])})  # fmt: skip


def test_work_is_bytes_over_what_a_target_can_do_or_requests_where_these_take_longer() -> None:
    amounts = {"read_bytes": np.array([100.0, 0.0, 0.0]), "write_bytes": np.array([100.0, 100.0, 0.0]),
               "requests": np.array([1.0, 50.0, 40.0])}  # fmt: skip
    when = ints(0, 0, 0), ints(10 * S, 10 * S, 10 * S)
    assert CAPACITY.work(JobLoads(ints(0, 0, 0), *when, ints(0, 1, 2), amounts)).tolist() == [3.0, 5.0, 2.0]


def test_while_a_target_was_sick_the_same_bytes_were_more_work() -> None:
    made = loads((0, 0, 10, 0, 100.0), (1, 5, 25, 0, 100.0), (2, 40, 50, 1, 100.0))
    healthy = CAPACITY.work(made)
    sick = replace(CAPACITY, sick=(Degraded(ints(0), 0, 15 * S, 5.0),))
    # Of the second stretch half lies in the incident; the third is on another target.
    assert (sick.work(made) / healthy).tolist() == [5.0, 3.0, 1.0]


def test_times_in_spans_of_both() -> None:
    logged = ints(0, 100) * S, ints(50, 200) * S
    counted = ints(10, 20, 40, 120, 300) * S, ints(30, 35, 110, 130, 400) * S  # the first two overlap
    first, last = intersect_spans(logged, counted)
    assert ((first // S).tolist(), (last // S).tolist()) == ([10, 40, 100, 120], [35, 50, 110, 130])
    for empty in ((ints(), ints()), (ints(50), ints(100))):
        assert len(intersect_spans(empty, (ints(0, 200), ints(50, 300)))[0]) == 0


def test_rows_of_servers_become_stretches_of_jobs() -> None:
    rows = Frame({
        "start_ns": ints(0, 0, 0, 60), "interval_ns": ints(60, 60, 60, 60),
        "component": encode_text(["b", "a", None, "unknown"]), "read_bytes": np.array([1.0, 2.0, np.nan, 4.0]),
        "write_bytes": np.full(4, np.nan), "requests": np.array([1.0, 1.0, 7.0, 1.0]),
    })  # fmt: skip
    made = loads_of_servers(rows, ("a", "b"), ints(1, 1, 0, 0))
    assert list(zip(made.job.tolist(), made.target.tolist(), strict=True)) == [(1, 1), (1, 0), (0, 2)]
    both = concat_loads([made, made])
    assert both.take(both.job == 1).amounts["read_bytes"].sum() == 6.0
    assert loads_of_servers(rows.take(slice(0, 0)), ("a",), ints()).job.tolist() == []


def test_without_samples_the_highest_rate_of_any_job_is_what_a_target_can_do() -> None:
    found = estimate_capacity(loads((0, 0, 10, 0, 100.0), (1, 0, 10, 1, 500.0)), 2)
    assert found.per_second["write_bytes"].tolist() == [50.0, 50.0, 0.0]
    assert set(found.per_second) == set(AMOUNTS)
