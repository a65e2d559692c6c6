"""The running median against the exact one, its memory, its life after a restart."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.agent.live_baseline import RunningMedian, load_baselines, save_baselines
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
