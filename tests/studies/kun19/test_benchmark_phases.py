"""kun19.fig3 from planted measurements: what is usual is that of the period, not that of the benchmark's hour."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.contracts import StudyData
from ioweather.core.facility import Baseline, Facility
from ioweather.core.frames import Frame
from ioweather.core.tables import RESPONSES, concat, encode_text
from ioweather.core.units import HOUR_NS, NS
from ioweather.stats.slowdown import roll_up
from ioweather.studies.kun19.probing import BENCHMARK_PHASES as STUDY

T = 1_790_000_000 // 3600 * 3600 * NS
PHASES = Frame({
    "label": encode_text(["mdtest-hard-write"]), "start_ns": np.array([T + 600 * NS]),
    "end_ns": np.array([T + 3000 * NS]),
})  # fmt: skip


def responses(seconds, first_ns=T, **columns):
    n = len(seconds)
    return RESPONSES.frame(
        columns, start_ns=first_ns + np.arange(n) * NS, host="a", target="/work/p", op="read", request_bytes=1 << 20,
        mode="nocache", system="work", status="ok", duration_ns=np.round(np.asarray(seconds) * NS).astype(np.int64),
        rows=n,
    )  # fmt: skip


def benchmark(**columns):
    """An hour, two thirds of it a hundred times as slow: the median of that hour is itself slow."""
    seconds = np.full(3600, 0.01)
    seconds[600:3000] = 1.0
    return responses(seconds, **columns)


def made(hour, before, facility=None, phases=PHASES):
    rollups = roll_up(concat([before, hour]), HOUR_NS) if before is not None else None
    frames = {"benchmark": hour, "phases": phases} | ({"rollups": rollups} if rollups is not None else {})
    return list(STUDY.run(StudyData(frames), facility or Facility(), {}))


def test_slow_is_measured_against_the_whole_period():
    (exhibit,) = made(benchmark(), responses(np.full(36_000, 0.01), T - 10 * HOUR_NS))
    estimate, _, visible = exhibit.estimates
    assert (visible.name, visible.value) == ("visible_phases_ratio", 1.0)
    assert estimate.name == "slowdown[mdtest-hard-write, work read]"
    assert estimate.low <= estimate.value <= estimate.high
    assert (estimate.value, estimate.n) == (pytest.approx(100, rel=0.01), 2400)
    assert "over the whole period" in exhibit.caveats[0]


def test_every_measurement_its_slowdown_and_the_means_are_drawn_with_the_phases():
    (exhibit,) = made(benchmark(), responses(np.full(36_000, 0.01), T - 10 * HOUR_NS))
    response, slowdown, means, phases = exhibit.charts
    assert [chart.encoding["y"] for chart in exhibit.charts[:3]] == ["seconds", "slowdown", "slowdown"]
    assert all(chart.references for chart in exhibit.charts[:3])
    assert phases.table.column("phase") == ("mdtest-hard-write",)
    assert phases.table.column("q50")[0] == pytest.approx(100, rel=0.01)
    assert max(response.table.column("seconds")) == 1.0
    assert max(slowdown.table.column("slowdown")) == pytest.approx(100, rel=0.01)
    assert len(means.table.rows) == 60
    assert means.table.column("slowdown")[20] == pytest.approx(100, rel=0.01)


def test_a_baseline_of_the_facility_is_used():
    facility = Facility(baseline=Baseline(seconds={"read": 0.1}))
    (exhibit,) = made(benchmark(), responses(np.full(36_000, 0.01), T - 10 * HOUR_NS), facility)
    assert exhibit.estimates[0].value == pytest.approx(10)


def test_answers_of_the_cache_are_counted_and_left_out():
    cached = np.zeros(3600, np.bool_)
    cached[600:1200] = True
    (exhibit,) = made(benchmark(cached=cached), responses(np.full(36_000, 0.01), T - 10 * HOUR_NS))
    assert exhibit.estimates[0].n == 1800
    assert exhibit.coverage[0].excluded == {"answered_by_the_cache": 600}


def test_without_a_baseline_only_response_times_are_shown():
    (exhibit,) = made(benchmark(), None)
    assert len(exhibit.charts) == 1
    assert exhibit.estimates == ()
    assert exhibit.caveats[0] == "No baseline yet for work read."


def test_without_phases_there_is_nothing_to_show():
    assert made(benchmark(), None, phases=PHASES.take(slice(0, 0))) == []
