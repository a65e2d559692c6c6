"""The volumes of mad17 Eq. 2 to 5 against a slow reading of the equations, and what gaps and edges do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.tables import APPLICATIONS, FILES
from ioweather.facts.job_metrics import SPAN_COLUMNS, IoSpans, io_spans
from ioweather.facts.system_activity import VOLUMES, job_system
from ioweather.facts.system_grid import Steps

ORIGIN = 1_000
STEP = 60


def grid_of(values, missing=(), metrics=("read_bytes", "write_bytes", "read_ops", "write_ops")):
    columns = {}
    for place, metric in enumerate(metrics):
        column = np.asarray(values, float) * (place + 1)
        column[list(missing)] = np.nan
        columns[metric] = column
    return Steps(ORIGIN, STEP, columns, needed=("read_bytes", "write_bytes"))


def spans_of(rows, runs, *, monitored=None, own=(0, 0)):
    """rows: (run, first, last)."""
    run, first, last = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    zeros = np.zeros(runs, np.int64)
    return IoSpans(
        run, first, last, np.ones(len(rows), bool), np.ones(len(rows), np.int64), np.arange(len(rows)),
        None if monitored is None else np.array(monitored, bool),
        zeros + own[0], zeros + own[1], zeros + 1, zeros + own[0] // 2, zeros + own[1] // 2, zeros,
    )  # fmt: skip


def direct_whole(values, start, end):
    """Eq. 2 with stamps as printed: T0 <= Tstart < T1 < ... < T(n-1) < Tend <= Tn; rates times delta."""
    stamps = [ORIGIN + i * STEP for i in range(len(values) + 1)]
    first = max(i for i, t in enumerate(stamps) if t <= start)
    last = min(i for i, t in enumerate(stamps) if t >= end and i > first)
    rates = [v / STEP for v in values[first:last]]
    return STEP * sum(rates) - (start - stamps[first]) * rates[0] - (stamps[last] - end) * rates[-1]


def direct_io(values, spans):
    """Eq. 4 and 5: every interval (T(i-1), T(i)] is looked at."""
    stamps = [ORIGIN + i * STEP for i in range(len(values) + 1)]
    touched = [
        i for i in range(1, len(stamps)) if any(first <= stamps[i] and last > stamps[i - 1] for first, last in spans)
    ]
    begin, end = min(s[0] for s in spans), max(s[1] for s in spans)
    rates = [values[i - 1] / STEP for i in touched]
    volume = STEP * sum(rates) - (begin - stamps[touched[0] - 1]) * rates[0] - (stamps[touched[-1]] - end) * rates[-1]
    return volume, len(touched)


runs = st.lists(
    st.tuples(
        st.integers(ORIGIN + 1, ORIGIN + 20 * STEP - 1),
        st.integers(1, 8 * STEP),
        st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(runs, st.lists(st.integers(0, 10**9), min_size=30, max_size=30))
def test_equals_a_direct_reading_of_the_equations(jobs, values):
    rows, starts, ends, expected = [], [], [], []
    for number, (start, length, parts) in enumerate(jobs):
        end = start + length
        spans = []
        for a, b in parts:
            first, last = sorted((start + round(a * length), start + round(b * length)))
            spans.append((first, last))
            rows.append((number, first, last))
        starts.append(start)
        ends.append(end)
        expected.append((direct_whole(values, start, end), *direct_io(values, spans)))
    grid = grid_of(values)
    found = job_system(grid, np.array(starts), np.array(ends), spans_of(rows, len(jobs)))
    assert set(found.text("state").tolist()) == {"complete"}
    for number, (whole, during, steps) in enumerate(expected):
        for place, metric in enumerate(VOLUMES.values()):
            assert found.array(f"psi_{metric}")[number] == pytest.approx(whole * (place + 1), rel=1e-9, abs=1e-3)
            assert found.array(f"psid_{metric}")[number] == pytest.approx(during * (place + 1), rel=1e-9, abs=1e-3)
        assert found.array("d_d_steps")[number] == steps
        assert found.array("d_d_seconds")[number] == pytest.approx(steps * STEP / 1e9)
        low, high = (found.array(f"others_io_{end}_read_bytes")[number] for end in ("low", "high"))
        assert low <= found.array("others_io_read_bytes")[number] + 1e-3 <= high + 2e-3


@pytest.mark.parametrize(
    ("start", "end", "state", "covered"),
    [
        (ORIGIN - 30, ORIGIN + 30, "outside", 0.5),
        (ORIGIN + 60, ORIGIN + 120, "complete", 1.0),
        (ORIGIN + 60, ORIGIN + 240, "gap", 2 / 3),
        (ORIGIN + 570, ORIGIN + 630, "outside", 0.5),
        (ORIGIN - 500, ORIGIN - 400, "outside", 0.0),
        (ORIGIN + 130, ORIGIN + 130, "complete", 1.0),
        (ORIGIN + 190, ORIGIN + 190, "gap", 0.0),
    ],
)
def test_gaps_and_edges_are_states(start, end, state, covered):
    grid = grid_of([1.0] * 10, missing=[3])
    found = job_system(grid, np.array([start]), np.array([end]), spans_of([], 1))
    assert found.text("state").tolist() == [state]
    assert found.array("coverage_ratio")[0] == pytest.approx(covered)
    assert math.isnan(found.array("psi_read_bytes")[0]) == (state != "complete")
    assert math.isnan(found.array("d_d_seconds")[0])
    assert np.ma.getmaskarray(found.array("d_d_steps")).all()


def test_others_are_signed_and_monitored_files_alone_count_where_known():
    grid = grid_of([100.0] * 10)
    rows = [(0, ORIGIN + 61, ORIGIN + 120), (0, ORIGIN + 361, ORIGIN + 420)]
    times = np.array([ORIGIN]), np.array([ORIGIN + 600])
    plain = job_system(grid, *times, spans_of(rows, 1, own=(1500, 10)))
    assert plain.array("others_read_bytes")[0] == -500.0
    assert np.ma.getmaskarray(plain.array("monitored_file_count")).all()
    assert math.isnan(plain.array("psii_read_bytes")[0])
    known = job_system(grid, *times, spans_of(rows, 1, monitored=[True, False], own=(1500, 10)))
    assert known.array("others_read_bytes")[0] == 250.0
    assert known.array("d_d_steps")[0] == 2
    assert known.array("d_i_steps")[0] == 1


def _files(rows):
    columns = {spec.name: [row.get(spec.name, None if spec.nullable else 0) for row in rows] for spec in FILES.columns}
    return FILES.frame(columns, rows=len(rows)).select(SPAN_COLUMNS)


def test_spans_merge_ranks_and_count_the_called_layer_once():
    applications = APPLICATIONS.frame(
        {s.name: [None if s.nullable else ("a" if s.type == "text" else 4)] for s in APPLICATIONS.columns}, rows=1
    )
    base = {"log_digest": "a", "standard_stream": False, "mount": "/scratch"}
    rows = [
        base | {"record_id": 1, "rank": 0, "module": "POSIX", "read_bytes": 5, "first_read_ns": 10, "last_read_ns": 20},
        base | {"record_id": 1, "rank": 1, "module": "POSIX", "read_bytes": 5, "first_read_ns": 15, "last_read_ns": 40},
        base | {"record_id": 2, "rank": -1, "module": "MPI-IO", "write_bytes": 7, "first_write_ns": 50,
                "last_write_ns": 60},
        base | {"record_id": 2, "rank": -1, "module": "POSIX", "write_bytes": 8, "first_write_ns": 45,
                "last_write_ns": 65, "mount": "/scratch"},
        base | {"record_id": 3, "rank": 2, "module": "POSIX", "read_bytes": 1, "first_read_ns": 1, "last_read_ns": 2,
                "mount": "/home"},
        base | {"record_id": 4, "rank": 2, "module": "STDIO", "write_bytes": 1, "first_write_ns": 1, "last_write_ns": 2,
                "standard_stream": True},
    ]  # fmt: skip
    spans = io_spans(applications, _files(rows), {"/scratch"})
    found = sorted(zip(spans.first_ns.tolist(), spans.last_ns.tolist(), spans.read.tolist(), strict=True))
    assert found == [(1, 2, True), (10, 40, True), (50, 60, False)]
    assert spans.own_read_bytes.tolist() == [11]
    assert spans.own_write_bytes.tolist() == [7]
    assert spans.monitored_read_bytes.tolist() == [10]
    assert (spans.file_count.tolist(), spans.monitored_file_count.tolist()) == ([3], [2])
