"""What a sample refuses, and how ties are kept."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.stats.tails.sample import sample_of


def test_ties_are_counted() -> None:
    sample = sample_of([3, 1, 1, 2, 3, 3, 7, 7, 8, 9])
    assert sample.values.tolist() == [1, 2, 3, 7, 8, 9]
    assert sample.below.tolist() == [0, 2, 3, 6, 8, 9, 10]
    assert sample.expanded().tolist() == [1, 1, 2, 3, 3, 3, 7, 7, 8, 9]
    assert sample.part(2, 4).below.tolist() == [0, 3, 5]


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
