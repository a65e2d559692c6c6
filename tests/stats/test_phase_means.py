"""Mean phases of known length, with gaps, and intervals whose threshold is estimated again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from ioweather.core.units import MINUTE_NS
from ioweather.stats.estimates import Intervals
from ioweather.stats.series import at_percentile, find_phases, mean_interarrival, mean_length, phase_sums, thresholds


def remembering(rng: np.random.Generator, days: int, per_day: int, keeps: float) -> np.ndarray:
    return lfilter([1.0], [1.0, -keeps], rng.standard_normal(days * per_day + 500))[500:]


@pytest.mark.parametrize("side", ["high", "low"])
def test_without_gaps_means_are_those_of_the_phases(side: str) -> None:
    values = remembering(np.random.default_rng(1), 5, 1440, 0.95)
    low, high = thresholds(values)
    phases = find_phases(values, high if side == "high" else low, side)
    every = phase_sums(values, side, 1440, 5)
    sums = at_percentile(every.sum(axis=0), every.sum(axis=0))
    assert mean_length(sums) == pytest.approx(phases.length.mean())
    assert mean_interarrival(sums) == pytest.approx(len(values) / phases.count)
    assert mean_length(sums) / mean_interarrival(sums) == pytest.approx(0.25)
    assert sums[5:].tolist() == [phases.count, (phases.length <= 5).sum()]


@pytest.mark.parametrize("missing", [0.001, 0.01, 0.05, 0.2])
def test_missing_minutes_do_not_shorten_the_time_between_starts(missing: float) -> None:
    rng = np.random.default_rng(2)
    values = remembering(rng, 60, 1440, 0.98)

    def means(series: np.ndarray) -> tuple[float, float]:
        every = phase_sums(series, "high", 1440, 5).sum(axis=0)
        sums = at_percentile(every, every)
        return float(mean_length(sums)), float(mean_interarrival(sums))

    whole = means(values)
    gappy = means(np.where(rng.random(len(values)) < missing, np.nan, values))
    assert gappy == pytest.approx(whole, rel=0.05)


def low_over_high_held(rng: np.random.Generator) -> bool | None:
    """In a Gaussian series with a level of its own every day, low phases are as long as high ones."""
    values = remembering(rng, 40, 144, 0.9) + np.repeat(rng.standard_normal(40), 144)
    every = np.stack([phase_sums(values, side, 144, 5) for side in ("low", "high")], axis=1)
    whole = every.sum(axis=0)
    intervals = Intervals(np.ones(len(values), bool), 10 * MINUTE_NS)

    def ratio(sums: np.ndarray) -> np.ndarray:
        lengths = mean_length(at_percentile(sums, whole))
        return lengths[:, 0] / lengths[:, 1]

    found = intervals.estimate("ratio", "factor", every, ratio, n=40, scale="log")
    return None if found.low is None or found.high is None else found.low <= 1 <= found.high


@pytest.mark.slow
def test_a_ratio_of_equal_phases_is_rarely_called_unequal() -> None:
    held = [low_over_high_held(np.random.default_rng([4, seed])) for seed in range(200)]
    assert 0.84 <= np.mean([each for each in held if each is not None]) <= 0.97
