"""The running median against the exact one, its memory, its life after a restart."""

from __future__ import annotations

import errno
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.agent.agent import ObservedOperation, RunningMedian, load_baselines, save_baselines
from ioweather.agent.sensor import Operation
from ioweather.core.safe_files import PrivateDirectory


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 10**12), min_size=30, max_size=200))
def test_right_to_one_percent_at_every_moment(durations):
    running = RunningMedian()
    for place, duration in enumerate(durations, 1):
        running.add(duration)
        if place >= 30:
            exact = statistics.median_low(durations[:place])
            assert running.median_ns() == pytest.approx(exact, rel=0.0101, abs=1)


def test_it_survives_a_restart(tmp_path):
    key = ("/scratch", Operation("read", 1 << 20, "nocache"))
    running = RunningMedian()
    for n in range(1, 100):
        running.add(n * 1000)
    with PrivateDirectory.at(tmp_path) as folder:
        save_baselines({key: running}, folder)
    loaded = load_baselines(tmp_path)
    assert loaded.keys() == {key}
    assert loaded[key].median_ns() == running.median_ns()
    assert loaded[key].count == running.count
    loaded[key].add(5)
    assert loaded[key].count == 100


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 9, "entries": []}', '{"version": 1, "entries": [{}]}'])
def test_a_broken_file_is_no_loss(tmp_path, text):
    assert load_baselines(tmp_path) == {}
    (tmp_path / "baseline.json").write_text(text)
    assert load_baselines(tmp_path) == {}


KIND = Operation("read", 1 << 20, "nocache")
S = 10**9


def row(start=0, duration=None, status="ok", number=None):
    return {"start_ns": start, "scheduled_ns": start, "duration_ns": duration, "status": status, "errno": number,
            "cached": False}  # fmt: skip


def test_counts_errors_and_the_last_result():
    seen = ObservedOperation(KIND, RunningMedian())
    for entry in (row(1, 500), row(2, 9, "error", errno.EIO), row(3, 9, "error", None), row(4, None, "missed"),
                  row(5, 9, "error", errno.EIO)):  # fmt: skip
        seen.add(entry, S)
    status = seen.status(S)
    assert (status.ok_count, status.error_count, status.missed_count) == (1, 3, 1)
    assert status.errors == {"EIO": 2, "short": 1}
    assert (status.last.status, status.last.errno) == ("error", errno.EIO)
    assert status.last_success_ns == 501


def test_the_last_minute_forgets():
    seen = ObservedOperation(KIND, RunningMedian())
    durations = [7, 100, 3, 50, 20, 9]
    for n, duration in enumerate(durations):
        seen.add(row(n, duration), n * 15 * S)
    recent = seen.status(75 * S).recent
    kept = durations[1:]
    assert recent.count == 5
    assert recent.median_ns == np.median(kept)
    assert recent.q90_ns == pytest.approx(np.quantile(kept, 0.9), abs=0.5)
    assert recent.max_ns == 100
    assert seen.status(1000 * S).recent.median_ns is None
