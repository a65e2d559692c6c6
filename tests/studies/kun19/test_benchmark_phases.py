"""kun19.fig3 from planted measurements: what is usual is that of the period, not that of the benchmark's hour."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.tables import RESPONSES, concat, encode_text
from ioweather.core.units import HOUR_NS, NS
from ioweather.facts.slowdown import roll_up
from ioweather.studies.kun19.probing import BENCHMARK_PHASES as STUDY
from planted_source import PlantedSource, run_study

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
    frames = {"responses": hour, "events": phases} | ({"response_rollups": rollups} if rollups is not None else {})
    return list(run_study(STUDY, PlantedSource(frames), facility or Facility(), {}))


def test_slow_is_measured_against_the_whole_period():
    (exhibit,) = made(benchmark(), responses(np.full(36_000, 0.01), T - 10 * HOUR_NS))
    estimate, visible = exhibit.estimates
    assert (visible.name, visible.value) == ("visible_phases_ratio", 1.0)
    assert estimate.name == "slowdown[mdtest-hard-write, work read]"
    assert estimate.low <= estimate.value <= estimate.high
    assert (estimate.value, estimate.n) == (pytest.approx(100, rel=0.01), 2400)
    assert "over the whole period" in exhibit.caveats[0]
