"""Estimates with intervals: known values and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ioweather.core.results import Estimate
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.stats.estimates import (
    REPLICATES,
    Intervals,
    _BlockBootstrap,
    default_block,
    directed,
    mean_estimate,
    median_estimate,
    plain,
    quantiles,
    share_estimate,
    sums_by_unit,
    surely,
    unit_steps,
)


def test_the_value_is_that_of_all_steps() -> None:
    values = np.random.default_rng(1).lognormal(size=30 * 1440)
    values[100:200] = np.nan
    intervals = Intervals(~np.isnan(values), MINUTE_NS)
    sums = intervals.sums(~np.isnan(values), values)
    assert sums.shape == (30, 2)
    mean = intervals.estimate("mean", "bytes", sums, lambda s: s[:, 1] / s[:, 0], n=len(values))
    assert mean.value == pytest.approx(np.nanmean(values))
    assert mean.low < mean.value < mean.high
    assert "day" in mean.method


def test_a_long_gap_does_not_count_as_data() -> None:
    """Thirty days in the midst of three hundred give the interval of thirty days."""
    values = np.full(300 * 1440, np.nan)
    values[100 * 1440 : 130 * 1440] = np.random.default_rng(3).lognormal(size=30 * 1440)

    def mean(series: np.ndarray) -> Estimate:
        intervals = Intervals(~np.isnan(series), MINUTE_NS)
        sums = intervals.sums(~np.isnan(series), series)
        return intervals.estimate("mean", "", sums, lambda s: s[:, 1] / s[:, 0], n=1)

    alone = mean(values[100 * 1440 : 130 * 1440])
    assert (alone.low, alone.high) == (pytest.approx(mean(values).low), pytest.approx(mean(values).high))
    empty = Intervals(np.zeros(0, bool), MINUTE_NS)
    assert empty.estimate("x", "", np.zeros((1, 1)), lambda s: s[:, 0], n=0).low is None


@pytest.mark.parametrize(
    ("low", "high", "above", "below", "want"),
    [
        (1.1, 1.5, 1.0, None, True),
        (0.5, 0.9, 1.0, None, False),
        (0.9, 1.1, 1.0, None, False),
        (0.5, 0.9, None, 1.0, True),
        (1.1, 1.5, None, 1.0, False),
        (-0.2, -0.1, None, 0.0, True),
        (None, None, 1.0, None, False),
    ],
)
def test_only_a_whole_interval_is_sure(
    low: float | None, high: float | None, above: float | None, below: float | None, want: bool
) -> None:
    assert surely(Estimate("x", 1.0, "", low, high, 0.9, 10, "bootstrap"), above=above, below=below) is want


def test_a_directed_sentence_is_a_note_or_says_that_nothing_is_decided() -> None:
    for low, high, kind in ((1.1, 1.3, "note"), (0.9, 1.5, "undecided")):
        found = directed(Estimate("x", 1.2, "", low, high, 0.9, 10, "bootstrap"), 1.0, "It is more.", "It is less.")
        assert (found.text.startswith("It is more."), found.kind) == (True, kind)
    few = Intervals(np.ones(5, bool), MINUTE_NS)
    estimate = few.estimate("x", "", np.ones((few.units, 1)), lambda s: s[:, 0], n=5)
    assert directed(estimate, 0, "more", "less").kind == "undecided"
    assert directed(plain("x", None, ""), 0, "more", "less").kind == "undecided"
    assert plain("x", float("nan"), "").value is None


def test_nothing_and_too_little() -> None:
    for make in (mean_estimate, median_estimate):
        assert make("x", np.array([])).value is None
        few = make("x", np.array([1.0, 3.0]))
        assert (few.value, few.low, few.n) == (2.0, None, 2)
    assert share_estimate("s", 0, 0).value is None
    assert quantiles(np.array([np.nan])) == [None] * 5


def test_median_interval_is_that_of_the_binomial() -> None:
    """n = 20, 90%: the 6th and the 15th value, which cover .9586 (tables of the sign test)."""
    found = median_estimate("m", np.arange(1.0, 21.0))
    assert (found.value, found.low, found.high) == (10.5, 6.0, 15.0)


def test_wilson_interval_is_scipys() -> None:
    expected = stats.binomtest(7, 30).proportion_ci(0.9, method="wilson")
    found = share_estimate("s", 7, 30)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


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
    bootstrap = _BlockBootstrap(units, block=block)
    np.testing.assert_allclose(bootstrap.sums(values), slow_sums(values, block, REPLICATES, 20110523))
    np.testing.assert_allclose(bootstrap.weights.sum(axis=1), units)


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


def test_too_few_blocks_or_a_statistic_that_often_fails_have_no_interval() -> None:
    few = Intervals(np.ones(5, bool), DAY_NS, unit=1)
    assert few.estimate("x", "", np.arange(5.0)[:, None], lambda s: s[:, 0], n=5).low is None
    assert "too few" in few.method
    enough = Intervals(np.ones(30, bool), DAY_NS, unit=1)
    amounts = np.random.default_rng(0).normal(0, 1, (30, 1))
    found = enough.estimate("x", "", amounts, lambda s: np.where(s[:, 0] > 0, s[:, 0], np.nan) + 0, n=30)
    assert found.low is None


def test_a_statistic_that_noise_raises_is_reflected() -> None:
    """Largest over smallest of noisy totals, in truth 1.5."""
    held = 0
    for seed in range(60):
        days = np.linspace(1.0, 1.5, 30) * np.random.default_rng(seed).gamma(0.5, size=(100, 30))
        intervals = Intervals(np.ones(100, bool), DAY_NS, unit=1)
        found = intervals.estimate("r", "", days, lambda s: s.max(axis=-1) / s.min(axis=-1), n=30, bounds=(1.0, np.inf))
        held += found.low <= 1.5 <= found.high
    assert held >= 46, held
