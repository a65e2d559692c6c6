"""Estimates from sums: the value does not depend on the interval, and a claim stands only where its interval does."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.results import Estimate
from ioweather.core.units import MINUTE_NS
from ioweather.studies.shared.intervals import Intervals, finding, plain, standing


def test_the_value_is_the_same_with_intervals_on_and_off() -> None:
    values = np.random.default_rng(1).lognormal(size=30 * 1440)
    values[100:200] = np.nan
    for on in (True, False):
        intervals = Intervals(~np.isnan(values), MINUTE_NS, on=on)
        sums = intervals.sums(~np.isnan(values), values)
        assert sums.shape == (30, 2)
        mean = intervals.estimate("mean", "bytes", sums, lambda s: s[:, 1] / s[:, 0], n=len(values))
        assert mean.value == pytest.approx(np.nanmean(values))
        assert (mean.low is not None) is on
        if on:
            assert mean.low < mean.value < mean.high
            assert "day" in mean.method


def test_many_values_at_once() -> None:
    rng = np.random.default_rng(2)
    intervals = Intervals(np.ones(40, bool), MINUTE_NS, on=True, unit=1, unit_name="day")
    per_unit = rng.random((40, 3, 2)) + 1
    value, low, high = intervals.estimates(per_unit, lambda s: s[..., 0] / s[..., 1])
    assert value.shape == (3,)
    assert ((low < value) & (value < high)).all()
    off = Intervals(np.ones(40, bool), MINUTE_NS, on=False, unit=1)
    assert np.isnan(off.estimates(per_unit, lambda s: s[..., 0] / s[..., 1])[1]).all()


def test_a_long_gap_does_not_count_as_data() -> None:
    """Thirty days in the midst of three hundred give the interval of thirty days."""
    values = np.full(300 * 1440, np.nan)
    values[100 * 1440 : 130 * 1440] = np.random.default_rng(3).lognormal(size=30 * 1440)

    def mean(series: np.ndarray) -> Estimate:
        intervals = Intervals(~np.isnan(series), MINUTE_NS, on=True)
        sums = intervals.sums(~np.isnan(series), series)
        return intervals.estimate("mean", "", sums, lambda s: s[:, 1] / s[:, 0], n=1)

    alone = mean(values[100 * 1440 : 130 * 1440])
    assert (alone.low, alone.high) == (pytest.approx(mean(values).low), pytest.approx(mean(values).high))
    empty = Intervals(np.zeros(0, bool), MINUTE_NS, on=True)
    assert empty.estimate("x", "", np.zeros((1, 1)), lambda s: s[:, 0], n=0).low is None


def test_an_interval_raised_by_noise_stays_within_its_bounds() -> None:
    rng = np.random.default_rng(4)
    intervals = Intervals(np.ones(40, bool), MINUTE_NS, on=True, unit=1)
    largest = intervals.estimate(
        "largest", "", rng.random((40, 9)) / 40, lambda s: s.max(axis=-1), n=40, bounds=(0.5, 0.55)
    )
    assert largest.low >= 0.5
    assert largest.high <= 0.55


@pytest.mark.parametrize(
    ("low", "high", "above", "below", "want"),
    [
        (1.1, 1.5, 1.0, None, "supported"),
        (0.5, 0.9, 1.0, None, "refuted"),
        (0.9, 1.1, 1.0, None, "undecided"),
        (0.5, 0.9, None, 1.0, "supported"),
        (1.1, 1.5, None, 1.0, "refuted"),
        (-0.2, -0.1, None, 0.0, "supported"),
    ],
)
def test_a_claim_stands_where_its_whole_interval_does(
    low: float, high: float, above: float | None, below: float | None, want: str
) -> None:
    estimate = Estimate("x", (low + high) / 2, "", low, high, 0.9, 10, "bootstrap")
    assert standing(estimate, above=above, below=below) == want


def test_without_an_interval_a_claim_is_a_note_or_undecided() -> None:
    off = Intervals(np.ones(5, bool), MINUTE_NS, on=False)
    few = Intervals(np.ones(5, bool), MINUTE_NS, on=True)
    for intervals, want in ((off, "note"), (few, "undecided")):
        estimate = intervals.estimate("x", "", np.ones((intervals.units, 1)), lambda s: s[:, 0], n=5)
        assert standing(estimate, above=0) == want
    with pytest.raises(ValueError, match="above and below"):
        standing(plain("x", 1.0, ""))
    assert "do not decide" in finding("So it is", "undecided", "so").text
    assert plain("x", float("nan"), "").value is None
