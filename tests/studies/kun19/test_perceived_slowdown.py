"""kun19.fig4-6 and episodes from planted roll-ups: an afternoon five times as slow."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.facility import Facility, _FileSystem
from ioweather.core.tables import RESPONSES, concat, encode_text
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS
from ioweather.facts.slowdown import roll_up
from ioweather.studies.kun19.perceived_slowdown import STUDY, TWO_LENGTHS
from judging import stands
from planted_source import PlantedSource, run_study

T = 1_790_000_000 // 86400 * 86400 * NS
FACILITY = Facility(filesystems=(_FileSystem("work", mounts=("/work",)),))
PARAMS = {"threshold": 2.0}


def responses(days: int = 4, slow_day: int | None = 2, sampled_every: int = 0):
    """One request a minute; every `sampled_every`-th is a sampler's, of a size of its own."""
    rng = np.random.default_rng(3)
    starts = T + np.arange(days * 24 * 60) * MINUTE_NS
    seconds = 0.01 * rng.lognormal(0, 0.2, len(starts))
    if slow_day is not None:
        slow = (starts >= T + slow_day * DAY_NS + 12 * HOUR_NS) & (starts < T + slow_day * DAY_NS + 16 * HOUR_NS)
        seconds[slow] *= 5
    sizes = np.full(len(starts), 1 << 20)
    if sampled_every:
        sizes[::sampled_every] = 1 << 30
        seconds[::sampled_every] *= 1000
    return RESPONSES.frame(
        start_ns=starts, host="h", target="/work/p", op="read", request_bytes=sizes, mode="nocache",
        duration_ns=np.round(seconds * NS).astype(np.int64), system="mount:/work/p", status="ok", rows=len(starts),
    )  # fmt: skip


def made(frame):
    data = PlantedSource({"response_rollups": roll_up(frame, 10 * MINUTE_NS)})
    of_both = [*run_study(STUDY, data, FACILITY, PARAMS), *run_study(TWO_LENGTHS, data, FACILITY)]
    return {exhibit.id: exhibit for exhibit in of_both}


def test_the_planted_slowdown_is_found_at_both_lengths():
    exhibits = made(responses())
    values = {e.name: e.value for e in exhibits["kun19.fig6"].estimates}
    assert values["slowdown_read[work, 4 h]"] == pytest.approx(5, rel=0.1)
    assert values["slowdown_read[work, 10 min]"] == pytest.approx(5, rel=0.5)
    (episode,) = exhibits["kun19.episodes"].tables[0].rows
    assert episode[:4] == ("work", "read", T + 2 * DAY_NS + 12 * HOUR_NS, T + 2 * DAY_NS + 16 * HOUR_NS)
    values = {e.name: e.value for e in exhibits["kun19.fig4"].estimates}
    assert values["worst_over_typical"] == pytest.approx(5, rel=0.1)
    assert values["metadata_over_data_variation"] is None, "no metadata was measured"
    assert set(exhibits["kun19.fig4"].tables[0].column("counted")) == {"raw"}, "nothing was hidden"


def test_of_several_episodes_the_strongest_is_the_estimate():
    calm = responses(slow_day=None)
    seconds = np.asarray(calm.array("duration_ns")).copy()
    hour = (np.asarray(calm.array("start_ns")) - T) // HOUR_NS
    seconds[(hour >= 12) & (hour < 20)] *= 3
    seconds[(hour >= 60) & (hour < 64)] *= 8  # eight times for four hours, then four times for eight
    seconds[(hour >= 64) & (hour < 72)] *= 4
    episodes = made(calm.with_columns(duration_ns=seconds))["kun19.episodes"]
    values = {e.name: e.value for e in episodes.estimates}
    assert len(values) == len(episodes.estimates) == 6
    peak = next(e for e in episodes.estimates if e.name == "peak_slowdown_read[work]")
    assert peak.low <= peak.value <= peak.high
    assert peak.high < 1.1 * peak.low
    assert values["peak_slowdown_read[work]"] == pytest.approx(8, rel=0.1)
    assert values["recovery_read[work]"] == 12 * 3600


def test_what_failed_or_came_from_a_cache_is_counted():
    fine = responses(slow_day=None)
    n = fine.rows
    failing = fine.with_columns(op=encode_text(["write"] * n), status=encode_text(["error"] * n))
    frame = concat([fine.with_columns(cached=np.arange(n) < 100), failing])
    for exhibit in run_study(STUDY, PlantedSource({"response_rollups": roll_up(frame, HOUR_NS)}), FACILITY, PARAMS):
        (coverage,) = exhibit.coverage
        assert coverage.excluded == {"answered_by_the_cache": 100, "failed": n}
        assert coverage.expected == 2 * n


def heavy_tailed(seed, planted=1.0, days=14):
    """Independent times with a tail, the same law all the time; `planted` multiplies one interval of four hours."""
    rng = np.random.default_rng(seed)
    starts = T + np.arange(days * 24 * 60) * MINUTE_NS
    seconds = 0.01 * rng.pareto(1.5, len(starts)) + 0.01
    seconds[2400:2640] *= planted
    return RESPONSES.frame(
        start_ns=starts, host="h", target="/work/p", op="read", request_bytes=1 << 20, mode="nocache",
        duration_ns=np.round(seconds * NS).astype(np.int64), system="mount:/work/p", status="ok", rows=len(starts),
    )  # fmt: skip


def test_the_worst_of_many_intervals_is_held_against_chance():
    calm = made(heavy_tailed(1))
    worst = next(e for e in calm["kun19.fig4"].estimates if e.name == "worst_over_typical")
    assert worst.value > 2, "the worst q99 of 84 intervals, of one law"
    assert worst.low < 1.3
    assert stands(calm["kun19.fig4"], "slow_intervals") != "supported"
    slow = made(heavy_tailed(1, planted=200.0))
    assert stands(slow["kun19.fig4"], "slow_intervals") == "supported"
    assert stands(slow["kun19.fig6"], "slow_four_hours") == "supported"


@pytest.mark.slow
def test_intervals_of_one_law_are_rarely_called_slow():
    lows = []
    for seed in range(40):
        found = made(heavy_tailed(seed, days=7))["kun19.fig4"].estimates
        lows.append(next(e.low for e in found if e.name == "worst_over_typical"))
    assert np.mean(np.array(lows) > 1) <= 0.15
