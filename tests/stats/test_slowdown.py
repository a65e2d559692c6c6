"""Slowdown and episodes from planted response times."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.tables import RESPONSES
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.facts.slowdown import (
    COUNTINGS,
    RELATIVE_ERROR,
    STATISTICS,
    all_episodes,
    episodes,
    operation_series,
    roll_up,
)

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


def test_longer_intervals_of_shorter_ones_are_those_of_the_operations():
    rng = np.random.default_rng(8)
    n = 5_000
    frame = RESPONSES.frame(
        start_ns=T + np.sort(rng.integers(0, 30 * HOUR_NS, n)), host="h", target="/scratch/p", op="read",
        request_bytes=1 << 20, mode="nocache", duration_ns=rng.integers(1, NS, n), system="mount:/scratch",
        status=np.where(rng.random(n) < 0.02, "missed", "ok").tolist(), rows=n,
    )  # fmt: skip
    (short,), (long,) = (operation_series(roll_up(frame, n), {}, n) for n in (10 * MINUTE_NS, 4 * HOUR_NS))
    longer = short.by(4 * HOUR_NS)
    assert longer.interval_ns == 4 * HOUR_NS
    for name in ("start_ns", "count"):
        np.testing.assert_array_equal(getattr(longer, name), getattr(long, name))
    for name in ("error_count", "missed_count"):
        np.testing.assert_array_equal(longer.reduced[name], long.reduced[name])
    for counting in COUNTINGS:
        for name in STATISTICS:
            np.testing.assert_allclose(longer.counted(counting)[name], long.counted(counting)[name], rtol=1e-12)
    assert longer.expected() == long.expected() == short.expected()


def test_a_sliding_window_follows_a_lasting_change():
    durations = np.concatenate([np.full(200, 0.01), np.full(200, 0.03)])
    series = series_of(durations)
    sliding = series.slowdown(60 * MINUTE_NS)
    assert np.isnan(sliding[0])
    assert sliding[205] == pytest.approx(3, rel=0.05)
    assert sliding[399] == pytest.approx(1, rel=0.05)


def test_roll_ups_are_within_a_percent_of_the_order_statistics():
    rng = np.random.default_rng(5)
    n = 20_000
    frame = RESPONSES.frame(
        start_ns=T + np.arange(n) * NS, host="h", target="/scratch/p", op="read", request_bytes=1 << 20,
        mode="nocache", duration_ns=np.round(rng.lognormal(-4, 1, n) * NS).astype(np.int64), system="mount:/scratch",
        status="ok", rows=n,
    )  # fmt: skip
    shuffled = frame.take(rng.permutation(n))
    (rolled,) = operation_series(roll_up(shuffled, 10 * MINUTE_NS), {}, HOUR_NS)
    seconds = np.asarray(frame.array("duration_ns")) / NS
    hour = np.arange(n) // 3600
    for name, q in (("median", 0.5), ("q90", 0.9), ("q95", 0.95), ("q99", 0.99)):
        expected = [np.quantile(seconds[hour == h], q, method="inverted_cdf") for h in range(6)]
        np.testing.assert_allclose(rolled.statistics[name], expected, rtol=RELATIVE_ERROR + 1e-9)
    for name, of in (("mean", np.mean), ("max", np.max)):
        np.testing.assert_allclose(rolled.statistics[name], [of(seconds[hour == h]) for h in range(6)], rtol=1e-12)


def week_of(rng, per_interval: int, slow: slice | None = None):
    """Operations that are slow each for itself, every tenth twice the median; or longer throughout some minutes."""
    seconds = rng.lognormal(np.log(0.01), 0.54, (1008, per_interval))
    if slow is not None:
        seconds[slow] *= 5
    start = T + np.repeat(np.arange(1008), per_interval) * MINUTE_NS + np.tile(np.arange(per_interval), 1008)
    frame = RESPONSES.frame(
        start_ns=start, host="a", target="/scratch/p", op="read", request_bytes=1 << 20, mode="nocache",
        duration_ns=np.round(seconds.ravel() * NS).astype(np.int64), system="mount:/scratch", status="ok",
        rows=seconds.size,
    )  # fmt: skip
    (series,) = operation_series(roll_up(frame, MINUTE_NS), {}, MINUTE_NS)
    return series


@pytest.mark.parametrize("per_interval", [1, 3, 10])
def test_chance_alone_gives_no_episodes_and_planted_ones_are_kept(per_interval):
    rng = np.random.default_rng(per_interval)
    weeks = [week_of(rng, per_interval) for _ in range(40)]
    assert sum(bool(all_episodes([week], threshold=2.0)) for week in weeks) <= 5  # one of twenty: 5 at most, in 95%
    if per_interval == 1:
        assert min(len(episodes(week, week.slowdown(), 2.0)) for week in weeks) > 50, "what is to be left out"
    (planted,) = all_episodes([week_of(rng, per_interval, slice(400, 412))], threshold=2.0)
    assert planted.start_ns <= T + 402 * MINUTE_NS
    assert planted.end_ns >= T + 410 * MINUTE_NS
