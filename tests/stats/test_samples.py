"""The empirical distribution; distances and their search equal plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.stats.families import Law
from ioweather.stats.tail_fits import Sample, largest_gap, sample_of


def test_a_resample_has_the_same_size_and_only_known_values() -> None:
    sample = sample_of(np.repeat(np.arange(20.0), 3))
    drawn = sample.resampled(np.random.default_rng(1))
    assert drawn.n == 60
    assert np.isin(drawn.values, sample.values).all()
    counts = np.mean([sample.resampled(np.random.default_rng(s)).below[-1] for s in range(5)])
    assert counts == 60


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        ([1.0] * 9, "at least 10 times; there are 9"),
        ([], "there are 0"),
        ([1.0] * 12, "all 12 times are equal"),
        ([*range(10), np.nan], "1 of 11 times are missing"),
        ([*range(10), np.inf], "1 of 11 times are infinite"),
        ([*range(10), -1.0, -2.0], "2 of 12 times are negative"),
        (np.ones((5, 5)), "one-dimensional"),
    ],
)
def test_what_cannot_be_fitted_is_refused_with_a_sentence(times: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        sample_of(times)  # type: ignore[arg-type]


TIMES = st.lists(st.integers(1, 60), min_size=10, max_size=80).filter(lambda t: len(set(t)) > 3)


def every_point(sample: Sample, model: Law, first: int, stop: int) -> float:
    observations = np.repeat(sample.values, sample.counts.astype(int))[
        int(sample.below[first]) : int(sample.below[stop])
    ]
    gaps = []
    for value in np.unique(observations):
        before, after = (observations < value).mean(), (observations <= value).mean()
        gaps.append(abs(float(model.cdf(value)) - before))
        gaps.append(abs(float(model.cdf(value)) - after))
    return max(gaps)


@given(times=TIMES, location=st.floats(5, 50), scale=st.floats(0.5, 40))
@settings(max_examples=60, deadline=None)
def test_the_largest_gap_is_that_of_all_points(times: list[int], location: float, scale: float) -> None:
    sample, model = sample_of(times), Law("normal", location, scale)
    distance, _ = largest_gap(sample, model)
    assert distance == pytest.approx(every_point(sample, model, 0, sample.distinct), abs=1e-14)
