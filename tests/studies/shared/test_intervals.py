"""Estimates from sums: the value does not depend on the interval, and a claim stands only where its interval does."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.results import Estimate
from ioweather.core.units import MINUTE_NS
from ioweather.stats.intervals import Intervals, directed, plain, surely


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
    off = Intervals(np.ones(5, bool), MINUTE_NS, on=False)
    few = Intervals(np.ones(5, bool), MINUTE_NS, on=True)
    for intervals, kind in ((off, "note"), (few, "undecided")):
        estimate = intervals.estimate("x", "", np.ones((intervals.units, 1)), lambda s: s[:, 0], n=5)
        assert directed(estimate, 0, "more", "less").kind == kind
    assert directed(plain("x", None, ""), 0, "more", "less").kind == "undecided"
    assert plain("x", float("nan"), "").value is None
