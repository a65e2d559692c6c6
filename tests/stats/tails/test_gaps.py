"""The shortcuts of the distance and of the search change nothing: both equal the plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ioweather.stats.tails.bounded import PowerLaw
from ioweather.stats.tails.families import Family, Normal
from ioweather.stats.tails.gaps import Group, largest_gap, least_gap
from ioweather.stats.tails.sample import Sample, sample_of

TIMES = st.lists(st.integers(1, 60), min_size=10, max_size=80).filter(lambda t: len(set(t)) > 3)


def every_point(sample: Sample, model: Family, first: int, stop: int, ecdf: str) -> float:
    observations = sample.part(first, stop).expanded()
    gaps = []
    for value in np.unique(observations):
        before, after = (observations < value).mean(), (observations <= value).mean()
        gaps.append(abs(float(model.cdf(value)) - before))
        if ecdf == "both":
            gaps.append(abs(float(model.cdf(value)) - after))
    return max(gaps)


@pytest.mark.parametrize("ecdf", ["both", "left"])
@given(times=TIMES, location=st.floats(5, 50), scale=st.floats(0.5, 40))
@settings(max_examples=60, deadline=None)
def test_the_largest_gap_is_that_of_all_points(times: list[int], location: float, scale: float, ecdf: str) -> None:
    sample, model = sample_of(times), Normal(location, scale)
    found = largest_gap(sample, model, ecdf=ecdf)  # type: ignore[arg-type]
    assert found.distance == pytest.approx(every_point(sample, model, 0, sample.distinct, ecdf), abs=1e-14)


@pytest.mark.parametrize("n", [300, 5_000, 200_000])
def test_the_largest_gap_equals_scipy_on_large_samples(n: int) -> None:
    times = np.random.default_rng(n).gamma(3, 1, n)
    model = Normal(3.0, 1.8)
    assert largest_gap(sample_of(times), model).distance == pytest.approx(
        stats.kstest(times, model.cdf).statistic, abs=1e-12
    )


@pytest.mark.parametrize("ecdf", ["both", "left"])
@given(times=TIMES, alphas=st.lists(st.floats(1.2, 5), min_size=60, max_size=60))
@settings(max_examples=40, deadline=None)
def test_the_least_gap_is_that_of_all_candidates(times: list[int], alphas: list[float], ecdf: str) -> None:
    """Arbitrary parameters per candidate: the bounds must hold whatever the fits are."""
    sample = sample_of(times)
    first = np.arange(sample.distinct - 2)
    fitted = PowerLaw(sample.values[first], np.array(alphas[: len(first)]))
    group = Group(sample, first, np.full_like(first, sample.distinct), fitted, ecdf)  # type: ignore[arg-type]
    found = least_gap([group], lambda rows, gaps: gaps[0])
    plain = [every_point(sample, fitted.one(i), int(first[i]), sample.distinct, ecdf) for i in range(len(first))]
    assert found.value == pytest.approx(min(plain), abs=1e-14)
    assert plain[found.row] == pytest.approx(min(plain), abs=1e-14)


def test_most_candidates_are_never_examined() -> None:
    rng = np.random.default_rng(0)
    sample = sample_of(np.concatenate([rng.normal(5, 0.2, 8_500), 6 * rng.random(1_500) ** -0.5]))
    first = np.arange(sample.distinct - 3)
    logs = np.log(sample.values)
    mean = np.cumsum(logs[::-1])[::-1][first] / (sample.n - first) - logs[first]
    group = Group(sample, first, np.full_like(first, sample.distinct), PowerLaw(sample.values[first], 1 + 1 / mean))
    assert least_gap([group], lambda rows, gaps: gaps[0]).evaluated < 60
