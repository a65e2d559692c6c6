"""kun19.fig1, fig2 and bands from planted measurements."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.facility import Facility
from ioweather.core.results import Exhibit
from ioweather.core.tables import RESPONSES
from ioweather.core.units import DAY_NS, MINUTE_NS, NS
from ioweather.studies.kun19.probing import STUDY
from judging import stands
from planted_source import PlantedSource, run_study

T = 1_790_000_000 * NS
PARAMS = {"window": 10 * MINUTE_NS, "bands_window": DAY_NS, "last_ns": 0}


def responses(seconds, *, hosts=("a",), starts=None, status="ok"):
    n = len(seconds)
    return RESPONSES.frame(
        start_ns=T + np.arange(n) * NS if starts is None else starts, host=[hosts[i % len(hosts)] for i in range(n)],
        target="/work/p", op="read", request_bytes=1 << 20, mode="nocache", system="work", status=status,
        duration_ns=np.round(np.asarray(seconds) * NS).astype(np.int64), rows=n,
    )  # fmt: skip


def made(frame):
    data = PlantedSource({"responses": frame})
    return {exhibit.id: exhibit for exhibit in run_study(STUDY, data, Facility(), PARAMS)}


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
    assert "1% of operations" in exhibits["kun19.fig1"].findings[0].text
    drawn = exhibits["kun19.fig1"].charts[0].table
    assert max(drawn.column("seconds")) == 1.0, "the slowest are drawn"
    assert len(drawn.rows) <= 1800


def hosts_of(factor: float, seed: int = 6, n: int = 9000, common: float = 0.0) -> Exhibit:
    """Three hosts, the last `factor` as slow, on a system whose load moves by `common`."""
    rng = np.random.default_rng(seed)
    load = np.cumsum(rng.standard_normal(n)) / np.sqrt(n) * common
    seconds = 0.01 * rng.lognormal(0, 0.3, n) * np.exp(load)
    seconds[2::3] *= factor
    return made(responses(seconds, hosts=("h1", "h2", "h3")))["kun19.fig2"]


def test_a_host_that_differs_is_named_and_contradicts() -> None:
    slow = hosts_of(1.5)
    assert stands(slow, "hosts_agree") == "refuted"
    assert all("h3" in finding.text for finding in slow.findings)
    assert stands(hosts_of(1.0), "hosts_agree") == "supported"


def test_a_test_that_finds_nothing_shows_no_agreement() -> None:
    few = hosts_of(1.12, n=450)
    assert stands(few, "hosts_agree") == "undecided"


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "wrong"), [(1.12, "supported"), (1.0, "refuted")])
def test_hosts_are_rarely_judged_wrongly(factor: float, wrong: str) -> None:
    assert sum(stands(hosts_of(factor, seed, 2000, 2.0), "hosts_agree") == wrong for seed in range(60)) <= 3
