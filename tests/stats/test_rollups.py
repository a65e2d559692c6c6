"""Roll-ups against the operations themselves, and a planted hang."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.tables import RESPONSES, concat
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.facts.slowdown import (
    COUNTINGS,
    STATISTICS,
    omitted_waits,
    operation_series,
    roll_up,
)

T = 1_790_000_000 // 3600 * 3600 * NS

row = st.fixed_dictionaries(
    {
        "start_ns": st.integers(T, T + 3 * HOUR_NS),
        "op": st.sampled_from(["read", "write"]),
        "host": st.sampled_from(["a", "b"]),
        "duration_ns": st.one_of(st.none(), st.integers(1_000, 10**11)),
        "cached": st.sampled_from([None, True, False]),
        "status": st.sampled_from(["ok", "ok", "error", "missed", "pending"]),
    }
)


def frame(rows):
    return RESPONSES.frame(
        {name: [r[name] for r in rows] for name in ("start_ns", "op", "host", "duration_ns", "cached", "status")},
        target="/scratch/p", request_bytes=1 << 20, mode="nocache", system="mount:/scratch", rows=len(rows),
    )  # fmt: skip


@given(st.lists(row, min_size=1, max_size=60))
def test_equal_to_a_plain_loop(rows):
    made = {(r["start_ns"], r["op"], r["host"]): r for r in roll_up(frame(rows), MINUTE_NS).records()}
    expected: dict = {}
    for r in rows:
        expected.setdefault((r["start_ns"] // MINUTE_NS * MINUTE_NS, r["op"], r["host"]), []).append(r)
    assert made.keys() == expected.keys()
    for key, members in expected.items():
        good = [r["duration_ns"] / NS for r in members if r["status"] == "ok" and not r["cached"] and r["duration_ns"]]
        assert made[key]["count"] == len(good)
        assert made[key]["cached_count"] == sum(r["status"] == "ok" and bool(r["cached"]) for r in members)
        assert made[key]["error_count"] == sum(r["status"] == "error" for r in members)
        assert made[key]["missed_count"] == sum(r["status"] == "missed" for r in members)
        assert made[key]["sum_seconds"] == pytest.approx(sum(good))
        assert made[key]["max_seconds"] == (max(good) if good else None)
        assert made[key]["min_seconds"] == (min(good) if good else None)


@given(st.lists(row, min_size=1, max_size=60))
def test_hours_from_minutes_equal_hours_from_responses(rows):
    made = [operation_series(roll_up(frame(rows), length), {}, HOUR_NS) for length in (HOUR_NS, MINUTE_NS)]
    for direct, coarse in zip(*made, strict=True):
        np.testing.assert_array_equal(direct.start_ns, coarse.start_ns)
        for counting in COUNTINGS:
            for name in STATISTICS:
                np.testing.assert_allclose(direct.counted(counting)[name], coarse.counted(counting)[name], rtol=1e-12)
        np.testing.assert_array_equal(direct.count, coarse.count)
        for name in ("error_count", "missed_count"):
            np.testing.assert_array_equal(direct.reduced[name], coarse.reduced[name])


def rows(ticks, durations, status, *, op="read", host="h"):
    """One row per tick, in seconds from T; a duration of None is unknown."""
    return RESPONSES.frame(
        start_ns=[T + round(t * NS) for t in ticks], host=host, target="/work/p", op=op, request_bytes=1 << 20,
        mode="nocache", duration_ns=[None if d is None else round(d * NS) for d in durations],
        system="mount:/work", status=list(status), rows=len(ticks),
    )  # fmt: skip


def hang(begin: int, length: int, ticks: int = 600, op: str = "read"):
    """A tick a second; the operation of tick `begin` takes `length` seconds, so those after it are missed."""
    missed = range(begin + 1, begin + length)
    return rows(
        range(ticks), [None if t in missed else length if t == begin else 0.01 for t in range(ticks)],
        ["missed" if t in missed else "ok" for t in range(ticks)], op=op,
    )  # fmt: skip


def test_each_missed_tick_waits_until_the_hang_ends():
    """As HdrHistogram corrects a value of 20 s at an expected interval of 1 s: 19 s, 18 s, .. 1 s beside it."""
    index, waits = omitted_waits(hang(100, 20))
    assert index.tolist() == list(range(101, 120))
    assert (waits / NS).tolist() == list(range(19, 0, -1))


def test_other_operations_of_the_target_waited_too_and_other_hosts_did_not():
    calm = rows(range(600), [0.001] * 600, ["ok"] * 600, host="other")
    stat = rows([100.5, 101, 102], [0.001, None, None], ["ok", "missed", "missed"], op="stat")
    index, waits = omitted_waits(concat([stat, calm, hang(100, 20)]))
    assert index[:2].tolist() == [1, 2]
    assert (waits[:2] / NS).tolist() == [19, 18]


def test_without_an_end_the_next_operation_or_the_last_row_is_the_end():
    frame = rows([0, 1, 2, 3, 9], [0.01, None, None, None, 0.01], ["ok", "pending", "missed", "missed", "ok"])
    assert (omitted_waits(frame)[1] / NS).tolist() == [8, 7, 6]
    endless = frame.take(np.arange(4))
    index, waits = omitted_waits(endless)
    assert index.tolist() == [1, 2], "of the last tick nothing is known"
    assert (waits / NS).tolist() == [2, 1]


def test_raw_and_corrected_statistics_of_a_planted_hang():
    """600 s with a hang of 60 s: 541 operations end, 59 ticks are hidden. By hand: sum of waits 1..59 = 1770 s."""
    frame = hang(100, 60)
    (series,) = operation_series(roll_up(frame, MINUTE_NS), {}, HOUR_NS)
    raw, corrected = series.counted("raw"), series.counted("omission_corrected")
    error = 0.01
    assert series.count.tolist() == [541]
    assert raw["q99"][0] == pytest.approx(0.01, rel=error)
    assert raw["mean"][0] == pytest.approx((540 * 0.01 + 60) / 541)
    assert corrected["q90"][0] == pytest.approx(0.01, rel=error)
    assert corrected["q95"][0] == pytest.approx(30, rel=error), "rank 570 of 600: 540 quick, then 1, 2, .. 60 s"
    assert corrected["q99"][0] == pytest.approx(54, rel=error)
    assert corrected["max"][0] == raw["max"][0] == 60
    assert corrected["mean"][0] == pytest.approx((540 * 0.01 + 1830) / 600)


def test_roll_ups_of_an_older_version_are_taken_as_without_omission():
    frame = roll_up(hang(100, 60), MINUTE_NS)
    older = frame.with_columns(
        omitted_sum_seconds=np.full(frame.rows, np.nan), omitted_max_seconds=np.full(frame.rows, np.nan),
        omitted_histogram=type(frame.text("histogram"))(np.full(frame.rows, -1, np.int32), ()),
    )  # fmt: skip
    (series,) = operation_series(older, {}, HOUR_NS)
    np.testing.assert_array_equal(series.counted("raw")["q99"], series.counted("omission_corrected")["q99"])
