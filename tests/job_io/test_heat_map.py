"""Bytes by rank and time: nothing is lost, everything lies where it should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.job_io.heat_map import (
    Operations,
    make_heat_maps,
    spread_operations,
)
from ioweather.readers.darshan.darshan_reader import read_log
from ioweather.readers.darshan.writer import write_log
from planted_logs import HEAT, JOB, NS, START
from planted_logs import heat as heat_records

SEGMENT = [("write", "?"), ("length", "i8"), ("start_seconds", "f8"), ("end_seconds", "f8")]


@pytest.fixture
def bins(tmp_path):
    """Heat map of a log whose processes read so much in each bin, and wrote ten times that."""

    def made(per_rank, nprocs=None, width=0.5):
        ranks = per_rank if isinstance(per_rank, dict) else dict(enumerate(per_rank))
        values = {rank: (np.array(row, np.int64), 10 * np.array(row, np.int64)) for rank, row in ranks.items()}
        job = JOB._replace(nprocs=nprocs or len(ranks), end_ns=START + 1000 * NS, run_seconds=1000.0)
        path = tmp_path / "heat.darshan"
        write_log(path, job, {"HEATMAP": heat_records({HEAT: values}, width)}, {HEAT: "heatmap:POSIX"})
        return next(iter(make_heat_maps(read_log(path))), None)

    return made


def segments(rows, nprocs=4, run=10.0, wanted=None):
    """rows: (rank, write, length, start, end)."""
    made = np.array([row[1:] for row in rows], SEGMENT)
    operations = Operations(np.array([row[0] for row in rows]), made)
    return spread_operations("POSIX", nprocs, run, operations, "trace", wanted or (8, 10))


def test_bins_that_fit_stay_as_they_are(bins):
    heat = bins([[1, 2, 3], [4, 5, 6]])
    assert heat is not None
    assert heat.read_bytes.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert heat.write_bytes.tolist() == [[10, 20, 30], [40, 50, 60]]
    assert (heat.rank_step, heat.column_seconds) == (1, 0.5)
    assert heat.total_bytes == 21 * 11


def test_records_of_different_length_and_missing_ranks(bins):
    heat = bins({0: [1, 2, 3], 3: [7, 8]}, nprocs=4)
    assert heat is not None
    assert heat.read_bytes.tolist() == [[1, 2, 3], [0, 0, 0], [0, 0, 0], [7, 8, 0]]


def test_an_operation_is_spread_over_the_time_it_took():
    heat = segments([(1, True, 400, 0.5, 4.5), (0, False, 7, 3.0, 3.0), (2, True, 50, 9.9, 10.0)])
    assert heat is not None
    assert heat.column_seconds == 1.0
    assert heat.write_bytes[1].tolist() == pytest.approx([50, 100, 100, 100, 50, 0, 0, 0, 0, 0])
    assert heat.read_bytes[0].tolist() == [0, 0, 0, 7, 0, 0, 0, 0, 0, 0]
    assert heat.write_bytes[2, 9] == pytest.approx(50)
    assert heat.origin == "trace"


OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, 5), st.booleans(), st.integers(0, 1 << 40), st.floats(0, 50, width=32),
        st.floats(0, 20, width=32),
    ),
    min_size=1,
    max_size=30,
)  # fmt: skip


@given(OPERATIONS, st.integers(1, 8), st.integers(1, 20))
@settings(deadline=None, max_examples=40)
def test_no_byte_is_lost_and_each_lies_where_a_slow_count_puts_it(operations, rows, columns):
    """Against a loop over operations and columns."""
    listed = [(rank, write, length, start, start + took) for rank, write, length, start, took in operations]
    heat = segments(listed, nprocs=6, run=60.0, wanted=(rows, columns))
    assert heat is not None
    expected = np.zeros((2, len(heat.read_bytes), columns))
    width = heat.column_seconds
    for rank, write, length, start, end in listed:
        for column in range(columns):
            low, high = column * width, (column + 1) * width
            if start == end:
                inside = float(min(int(start / width), columns - 1) == column)
            else:
                inside = max(0.0, min(end, high) - max(start, low)) / (end - start)
            expected[int(write), rank // heat.rank_step, column] += length * inside
    total = max(sum(length for _, _, length, _, _ in listed), 1)
    assert np.abs(heat.read_bytes - expected[0]).max() <= 1e-6 * total
    assert np.abs(heat.write_bytes - expected[1]).max() <= 1e-6 * total
    assert heat.total_bytes == pytest.approx(sum(length for _, _, length, _, _ in listed), rel=1e-6, abs=1e-3)
