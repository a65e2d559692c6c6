"""Small tables: thinning keeps extremes and gaps, and stays within its limit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ioweather.stats.summary_tables import (
    MAX_ROWS,
    cdf_table,
    cells,
    cumulative_table,
    thin,
    timeline_table,
)


@given(st.integers(0, 5000), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_thinning_keeps_the_extremes_of_every_stretch(steps: int, buckets: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random(steps)
    values[rng.random(steps) < 0.1] = np.nan
    kept = thin(values, buckets)
    assert len(kept) <= max(2 * buckets, 0) or steps <= 2 * buckets
    assert (np.diff(kept) > 0).all()
    if steps and not np.isnan(values).all():
        assert np.nanmax(values) == np.nanmax(values[kept])
        assert np.nanmin(values) == np.nanmin(values[kept])


def test_a_long_gap_leaves_a_hole_in_the_line() -> None:
    values = np.ones(10_000)
    values[4000:6000] = np.nan
    times = np.arange(10_000, dtype=np.int64)
    made = timeline_table("t", times, {"read": values, "write": values}, "rate", "bytes_per_s")
    assert len(made.rows) <= MAX_ROWS
    assert any(row[2] is None and 4000 <= row[0] < 6000 for row in made.rows)


def test_tables_hold_plain_values() -> None:
    assert cells(np.array([1.0, np.nan, np.inf])) == [1.0, None, None]
    assert cells(np.array([3], np.int64)) == [3]
    amounts = np.ones(5000)
    rising = cumulative_table("c", np.arange(5000), {"read": amounts}, "bytes", "bytes")
    assert rising.rows[-1] == (4999, "read", 5000.0)
    amounts[1000:3000] = np.nan
    gap = cumulative_table("c", np.arange(5000), {"read": amounts}, "bytes", "bytes").rows
    assert {row[2] for row in gap if 1000 <= row[0] < 3000} == {None}, "a gap is no flat line"
    assert gap[-1][2] == 3000.0
    assert len(rising.rows) == 500
    made = cdf_table("d", {"all": np.array([1.0, 2.0, np.nan])}, "x", "bytes")
    assert made.rows == (("all", 1.0, 0.5), ("all", 2.0, 1.0))
