"""kun19.fig1, fig2 and bands from planted measurements."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.contracts import StudyData
from ioweather.core.facility import Facility
from ioweather.core.tables import RESPONSES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.studies.kun19.probing import STUDY
from ioweather.topics.parameters import resolve_params

T = 1_790_000_000 * NS
PARAMS = {"window": 10 * MINUTE_NS}


def responses(seconds, *, hosts=("a",), starts=None, status="ok"):
    n = len(seconds)
    return RESPONSES.frame(
        start_ns=T + np.arange(n) * NS if starts is None else starts, host=[hosts[i % len(hosts)] for i in range(n)],
        target="/work/p", op="read", request_bytes=1 << 20, mode="nocache", system="work", status=status,
        duration_ns=np.round(np.asarray(seconds) * NS).astype(np.int64), rows=n,
    )  # fmt: skip


def made(frame):
    data = StudyData({"window": frame, "day": frame, "hour": frame})
    return {exhibit.id: exhibit for exhibit in STUDY.run(data, Facility(), PARAMS)}


def test_the_stretches_shown_end_and_begin_where_they_are_told():
    class Lake:
        def scalar(self, sql):
            return T if "responses" in sql else None

    found = resolve_params(STUDY.params, {}, Lake, lambda: "UTC")
    assert (found["first_ns"], found["hour_ns"], found["last_ns"]) == (
        T + 1 - 10 * MINUTE_NS, T + 1 - 60 * MINUTE_NS, T + 1,
    )  # fmt: skip
    typed = resolve_params(STUDY.params, {"window": "30min", "last_ns": str(T - 5)}, Lake, lambda: "UTC")
    assert (typed["first_ns"], typed["hour_ns"]) == (T - 5 - 30 * MINUTE_NS, T - 5 - 60 * MINUTE_NS)


def test_a_samplers_requests_are_not_the_probes():
    frame = responses(np.full(100, 0.01), hosts=("a", "b"))
    sizes = np.where(np.arange(100) < 20, 1 << 30, 1 << 20)
    mixed = made(frame.with_columns(request_bytes=sizes))["kun19.fig2"]
    assert mixed.coverage[0].excluded == {"of_another_size_or_mode": 20}
    assert sum(mixed.tables[0].column("n")) == 80


def test_a_slow_episode_is_no_band_and_a_band_is_named_by_evidence():
    rng = np.random.default_rng(5)
    seconds = 1e-3 * rng.lognormal(0, 0.1, 7200)  # two hours, one operation a second
    seconds[3000:3900] *= 20
    bands = made(responses(seconds))["kun19.bands"]
    assert [row[3] for row in bands.tables[0].rows] == ["band 1"]
    fast = np.where(np.arange(7200) % 3 == 0, 1e-4, 1e-2) * rng.lognormal(0, 0.1, 7200)
    frame = responses(fast)
    cached = made(frame.with_columns(cached=np.ma.masked_array(fast < 1e-3)))["kun19.bands"]
    assert [row[3] for row in cached.tables[0].rows] == ["cache", "storage"]
    assert {e.name: e.value for e in cached.estimates}["most_read_bands"] == 2


def test_bands_and_slow_fraction():
    rng = np.random.default_rng(5)
    seconds = np.where(rng.random(2000) < 0.3, 1e-4, 1e-2) * rng.lognormal(0, 0.2, 2000)
    seconds[:20] = 1.0
    exhibits = made(responses(seconds))
    assert [row[4] for row in exhibits["kun19.bands"].tables[0].rows] == pytest.approx([1e-4, 1e-2], rel=0.1)
    assert [chart.kind for chart in exhibits["kun19.bands"].charts] == ["box"]
    assert exhibits["kun19.bands"].charts[0].table.column("label") == ("band 1", "band 2")
    assert "1.0% of operations" in exhibits["kun19.fig1"].findings[0].text
    drawn = exhibits["kun19.fig1"].charts[0].table
    assert max(drawn.column("seconds")) == 1.0, "the slowest are drawn"
    assert len(drawn.rows) <= 1800


def test_a_host_that_differs_is_named():
    rng = np.random.default_rng(6)
    seconds = 0.01 * rng.lognormal(0, 0.3, 3000)
    seconds[2::3] *= 1.5
    (finding,) = made(responses(seconds, hosts=("h1", "h2", "h3")))["kun19.fig2"].findings
    assert finding.kind == "note"
    assert "h3" in finding.text
    calm = 0.01 * rng.lognormal(0, 0.3, 3000)
    (finding,) = made(responses(calm, hosts=("h1", "h2", "h3")))["kun19.fig2"].findings
    assert finding.kind == "undecided"


def test_failures_are_counted_and_nothing_gives_nothing():
    both = made(responses([0.01] * 30))
    assert both["kun19.fig1"].coverage[0].ratio == 1.0
    assert made(responses([0.01] * 5, status="error")) == {}
