"""Roll-ups against a plain loop; longer ones from shorter ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.tables.responses import RESPONSES
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.stats.rollups import _LABELS, _frame, groups_of, reduce_rollups, roll_up

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


def coarsen(rollups, interval_ns: int):
    """Roll-ups of one interval into longer ones."""
    group, first = groups_of(rollups, _LABELS, interval_ns)
    return _frame(rollups, first, interval_ns, reduce_rollups(rollups, group, len(first)))


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
    direct = roll_up(frame(rows), HOUR_NS)
    coarse = coarsen(roll_up(frame(rows), MINUTE_NS), HOUR_NS)
    assert list(direct) == list(coarse)
    key = lambda r: (r["start_ns"], r["op"], r["host"])  # noqa: E731
    for one, other in zip(sorted(direct.records(), key=key), sorted(coarse.records(), key=key), strict=True):
        for name in ("sum_seconds", "omitted_sum_seconds"):
            assert one.pop(name) == pytest.approx(other.pop(name))
        assert one == other


def test_nothing_gives_nothing():
    assert roll_up(frame([]), MINUTE_NS).rows == 0
    assert np.asarray(coarsen(roll_up(frame([]), MINUTE_NS), HOUR_NS).array("count")).size == 0
