"""Estimates of samples against known values and by coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ioweather.stats.job_estimates import known, mean_estimate, median_estimate, quantiles, share_estimate


def test_nulls_are_left_out() -> None:
    masked = np.ma.MaskedArray([1, 2, 3], mask=[False, True, False])
    assert known(masked).tolist() == [1.0, 3.0]
    assert known(np.array([np.nan, 5.0])).tolist() == [5.0]
    assert mean_estimate("m", masked).value == 2.0


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


def test_large_samples_use_the_t_interval() -> None:
    sample = np.random.default_rng(1).exponential(size=5000)
    found = mean_estimate("m", sample)
    expected = stats.ttest_1samp(sample, 0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.slow
def test_intervals_cover_their_level() -> None:
    rng = np.random.default_rng(5)
    inside = np.zeros(2)
    for _ in range(400):
        sample = rng.gamma(2.0, size=40)
        for i, (found, truth) in enumerate(
            ((mean_estimate("m", sample), 2.0), (median_estimate("m", sample), float(stats.gamma(2.0).median())))
        ):
            inside[i] += found.low < truth < found.high  # type: ignore[operator]
    assert (inside / 400 > 0.86).all()
