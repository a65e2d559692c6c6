"""The block bootstrap: weights against blocks drawn one by one, and intervals that cover what they promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ioweather.stats.bootstrap import (
    MIN_BLOCKS,
    BlockBootstrap,
    default_block,
    effective_samples,
    expanded_levels,
    sums_by_unit,
    unit_steps,
)
from ioweather.stats.series import correlation, lagged_sums, variation_from_sums


def slow_sums(values: np.ndarray, block: int, replicates: int, seed: int) -> np.ndarray:
    units = len(values)
    starts = np.random.default_rng(seed).integers(0, units, size=(replicates, -(-units // block)))
    out = []
    for row in starts:
        drawn = [values[(start + i) % units] for start in row for i in range(block)]
        out.append(np.sum(drawn, axis=0) * units / len(drawn))
    return np.array(out)


@pytest.mark.parametrize(("units", "block"), [(1, 1), (7, 1), (7, 3), (12, 4), (10, 10)])
def test_weights_equal_blocks_drawn_one_by_one(units: int, block: int) -> None:
    values = np.random.default_rng(units).random((units, 2))
    bootstrap = BlockBootstrap(units, block=block, replicates=50, seed=9)
    np.testing.assert_allclose(bootstrap.sums(values), slow_sums(values, block, 50, 9))
    np.testing.assert_allclose(bootstrap.weights.sum(axis=1), units)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(0).random(40)
    one, two = BlockBootstrap(40), BlockBootstrap(40)
    assert one.interval(one.sums(values)) == two.interval(two.sums(values))
    assert "blocks of 4 units" in one.method


def test_too_few_blocks_or_a_statistic_that_often_fails_have_no_interval() -> None:
    few = BlockBootstrap(MIN_BLOCKS - 1, block=1)
    assert few.interval(few.sums(np.ones(MIN_BLOCKS - 1))) == (None, None)
    assert "too few" in few.method
    enough = BlockBootstrap(30)
    broken = np.full(enough.replicates, np.nan)
    broken[:10] = 1.0
    assert enough.interval(broken) == (None, None)


def test_mistakes_of_the_caller_are_named() -> None:
    with pytest.raises(ValueError, match="at least one unit"):
        BlockBootstrap(0)
    with pytest.raises(ValueError, match="level"):
        BlockBootstrap(5, level=1.5)
    with pytest.raises(ValueError, match="3 unit sums for 5 units"):
        BlockBootstrap(5).sums(np.ones(3))


def test_units_and_blocks() -> None:
    assert unit_steps(525_600, 60) == 1440  # a year of minutes: days
    assert unit_steps(3 * 1440, 60) == 60  # three days: hours
    assert unit_steps(100, 60) == 5
    assert unit_steps(3, 60) == 1
    assert default_block(365) == 8
    assert default_block(27) == 3
    assert default_block(14) == 2
    assert default_block(1) == 1
    assert sums_by_unit(np.arange(5.0), 2).tolist() == [1, 5, 4]
    low, high = expanded_levels(0.9, 1000)
    assert low == pytest.approx(0.05, abs=1e-3)
    assert high == 1 - low
    assert expanded_levels(0.9, 8)[0] < 0.05


def _autoregressive(rng: np.random.Generator, size: int, phi: float) -> np.ndarray:
    noise = rng.normal(size=size + 50)
    out = np.zeros(size + 50)
    for i in range(1, len(out)):
        out[i] = phi * out[i - 1] + noise[i]
    return out[50:]


def _mean(rng: np.random.Generator) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray], float]:
    values = 10 + _autoregressive(rng, 120, 0.4)
    return np.stack([np.ones(120), values], axis=1), lambda s: s[:, 1] / s[:, 0], 10.0


def _ratio(rng: np.random.Generator) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray], float]:
    reads = 1.75 * np.exp(0.5 * _autoregressive(rng, 120, 0.3))
    writes = np.exp(0.5 * _autoregressive(rng, 120, 0.3))
    return np.stack([reads, writes], axis=1), lambda s: s[:, 0] / s[:, 1], 1.75


def _variation(rng: np.random.Generator) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray], float]:
    minutes = rng.gamma(4.0, size=(90, 200)) * rng.gamma(25.0, size=(90, 1)) / 25
    sums = np.stack([np.full(90, 200.0), minutes.sum(axis=1), (minutes**2).sum(axis=1)], axis=1)
    # E[X^2]/E[X]^2 of independent factors multiply: (1 + 1/4)(1 + 1/25) - 1.
    truth = np.sqrt((1 + 1 / 4) * (1 + 1 / 25) - 1)
    return sums, lambda s: variation_from_sums(s[:, 0], s[:, 1], s[:, 2]), float(truth)


def _lag_one(rng: np.random.Generator) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray], float]:
    series = _autoregressive(rng, 3000, 0.6)
    return lagged_sums(series, series, 1, 50)[:, 1], correlation, 0.6


@pytest.mark.parametrize("case", [_mean, _ratio, _variation, _lag_one])
def test_ninety_percent_intervals_cover(case: Callable[[np.random.Generator], tuple]) -> None:
    """Of 60 intervals 54 are expected to cover; outside 46..60 lies less than 0.3% of Binomial(60, 0.9)."""
    covered = 0
    for seed in range(60):
        sums, statistic, truth = case(np.random.default_rng(seed))
        bootstrap = BlockBootstrap(len(sums), replicates=400)
        low, high = bootstrap.interval(statistic(bootstrap.sums(sums)))
        assert low is not None
        assert high is not None
        covered += low <= truth <= high
    assert covered >= 46, covered


def test_a_statistic_that_noise_raises_is_reflected() -> None:
    """Largest over smallest of noisy totals, in truth 1.5: reflected intervals cover it, plain ones too rarely."""
    plain = reflected = 0
    shares = np.linspace(1.0, 1.5, 30)
    for seed in range(60):
        days = shares * np.random.default_rng(seed).gamma(0.5, size=(100, 30))
        bootstrap = BlockBootstrap(100, replicates=300)

        def ratio(totals: np.ndarray) -> np.ndarray:
            return totals.max(axis=-1) / totals.min(axis=-1)

        replicates, value = ratio(bootstrap.sums(days)), float(ratio(days.sum(axis=0)))
        low, high = bootstrap.interval(replicates)
        plain += low <= 1.5 <= high
        low, high = bootstrap.interval(replicates, value, reflect=True)
        reflected += low <= 1.5 <= max(high, value)
    assert reflected >= 46, reflected
    assert plain < reflected


def test_many_intervals_are_those_of_each():
    rng = np.random.default_rng(3)
    per_unit, bootstrap = rng.lognormal(size=(60, 5)), BlockBootstrap(60)
    replicates, about = bootstrap.sums(per_unit), per_unit.sum(axis=0)
    replicates[:2, 1], replicates[:500, 2], about[3] = np.nan, np.nan, np.nan
    spreads = effective_samples(per_unit)
    spreads[4] = replace(spreads[4], count=0.0)
    low, high = bootstrap.intervals(replicates, about, spreads)
    for place in range(5):
        value = None if np.isnan(about[place]) else float(about[place])
        one = bootstrap.interval(replicates[:, place], value, spread=spreads[place])
        np.testing.assert_array_equal([low[place], high[place]], np.array(one, np.float64))
    assert np.isfinite(low).tolist() == [True, True, False, True, False]
