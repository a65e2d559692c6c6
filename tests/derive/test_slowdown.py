"""Slowdown and episodes from planted response times."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.derive.response_rollups import roll_up
from ioweather.derive.slowdown import LEAST_BASELINE, all_episodes, episodes, operation_series
from ioweather.tables.responses import RESPONSES

T = 1_790_000_000 // 3600 * 3600 * NS


def rollups(durations: np.ndarray, *, per_minute: int = 10, op: str = "read", host: str = "a"):
    """`durations` in seconds, one value per minute; the operations of a minute spread a little around it."""
    spread = np.linspace(0.9, 1.1, per_minute)
    seconds = (durations[:, None] * spread).ravel()
    starts = (
        T
        + np.repeat(np.arange(len(durations)), per_minute) * MINUTE_NS
        + np.tile(np.arange(per_minute), len(durations))
    )
    frame = RESPONSES.frame(
        start_ns=starts, host=host, target="/scratch/p", op=op, request_bytes=1 << 20, mode="nocache",
        duration_ns=np.round(seconds * NS).astype(np.int64), system="mount:/scratch", status="ok", rows=len(starts),
    )  # fmt: skip
    return roll_up(frame, MINUTE_NS)


def series_of(durations, **options):
    (series,) = operation_series(rollups(durations, **options), {"mount:/scratch": "scratch"}, MINUTE_NS)
    return series


def test_statistics_and_expected():
    series = series_of(np.full(60, 0.010))
    assert series.label == "scratch read"
    usual, n = series.expected()
    assert n == 600
    assert usual == pytest.approx(0.010, rel=0.02)
    assert series.statistics["max"].max() == pytest.approx(0.011, rel=1e-6)
    assert series.statistics["mean"][0] == pytest.approx(0.010, rel=1e-6)
    np.testing.assert_allclose(series.slowdown(), 1.0, rtol=0.03)


def test_no_baseline_below_thirty():
    series = series_of(np.full(2, 0.01), per_minute=10)
    usual, n = series.expected()
    assert (usual, n) == (None, 20)
    assert n < LEAST_BASELINE
    assert np.isnan(series.slowdown()).all()


def test_an_episode_has_start_peak_recovery_and_end():
    durations = np.full(600, 0.01)
    durations[100:120] = 0.04
    durations[110] = 0.27
    (episode,) = all_episodes([series_of(durations)], threshold=2.0)
    assert (episode.start_ns, episode.end_ns) == (T + 100 * MINUTE_NS, T + 120 * MINUTE_NS)
    assert episode.peak_ns == T + 110 * MINUTE_NS
    assert episode.peak_ratio == pytest.approx(27, rel=0.03)
    assert episode.recovery_ns == 10 * MINUTE_NS
    assert not episode.ongoing


def test_one_calm_interval_does_not_end_an_episode_and_the_last_may_be_ongoing():
    durations = np.full(300, 0.01)
    durations[[200, 202, 298, 299]] = 0.05
    series = series_of(durations)
    found = episodes(series, series.slowdown(), 2.0)
    assert [(e.start_ns - T) // MINUTE_NS for e in found] == [200, 298]
    assert [e.ongoing for e in found] == [False, True]


def test_hosts_are_one_series_and_operations_are_not():
    from ioweather.tables import concat

    together = concat(
        [rollups(np.full(40, 0.01)), rollups(np.full(40, 0.03), host="b"), rollups(np.full(40, 1.0), op="stat")]
    )
    read, stat = operation_series(together, {}, HOUR_NS)
    assert (read.op, stat.op) == ("read", "stat")
    assert read.count.tolist() == [800]
    assert read.filesystem == "mount:/scratch"


def test_a_sliding_window_follows_a_lasting_change():
    durations = np.concatenate([np.full(200, 0.01), np.full(200, 0.03)])
    series = series_of(durations)
    sliding = series.slowdown(window_ns=60 * MINUTE_NS)
    assert np.isnan(sliding[0])
    assert sliding[205] == pytest.approx(3, rel=0.05)
    assert sliding[399] == pytest.approx(1, rel=0.05)
