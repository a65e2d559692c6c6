"""Every distribution agrees with itself (density, CDF, quantile, mean) and with scipy where scipy has it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ioweather.stats.families import Law, Mixture, log_upper_gamma

BOUNDED: list[Law] = [
    Law("power_law", 1.3, 3.0),
    Law("exponential", 1.3, 0.5),
    Law("lognormal", 1.3, 2.0, 0.7),
    Law("lognormal", 1.3, 29.0, 5.0),
    Law("lognormal", 1.3, -4.0, 0.1),
    Law("weibull", 1.3, 0.3, 2.0),
    Law("weibull", 1.3, 0.011, 3.0),
    Law("weibull", 1.3, 2.0, 0.1),
    Law("gamma", 1.3, 0.5, 0.1),
    Law("gamma", 1.3, 2.0, 1500.0),
    Law("gamma", 1.3, 0.001, 1e-4),
    Law("gamma", 1.3, 40.0, 20.0),
]
WHOLE: list[tuple[Law, object]] = [
    (Law("normal", 2.0, 0.5), stats.norm(2, 0.5)),
    (Law("cauchy", 2.0, 0.5), stats.cauchy(2, 0.5)),
]
HEADS = [
    Law("truncated_normal", 1.0, 0.2, 1.3),
    Law("truncated_cauchy", 1.0, 0.1, 1.3),
    Law("truncated_normal", 0.1, 0.5, 1.3),
]
MIXTURES = [Mixture(head, Law("power_law", 1.3, 3.5), 0.15) for head in HEADS]


@pytest.mark.parametrize(("ours", "theirs"), WHOLE, ids=lambda d: getattr(d, "name", ""))
def test_whole_families_equal_scipy(ours: Law, theirs: stats.rv_continuous) -> None:
    x = np.linspace(1.1, 2.9, 50)
    np.testing.assert_allclose(ours.cdf(x), theirs.cdf(x), rtol=1e-12)
    np.testing.assert_allclose(ours.log_density(x), theirs.logpdf(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("ours", BOUNDED, ids=lambda d: f"{d.name}-{list(d.parameters.values())[1]:.3g}")
def test_bounded_families_agree_with_themselves(ours: Law) -> None:
    q = np.array([1 - 1e-9, 0.9, 0.5, 0.01, 1e-6])
    np.testing.assert_allclose(ours.cdf(ours.upper_quantile(q)), 1 - q, atol=1e-11)
    # The density integrates to 1 and to the mean, in log x.
    s = np.linspace(0, math.log(float(ours.upper_quantile(1e-13)) / 1.3) + 1, 400_001)
    t = 1.3 * np.exp(s)
    density = np.exp(ours.log_density(t)) * t
    assert np.trapezoid(density, s) == pytest.approx(1, abs=1e-5)
    if np.isfinite(ours.mean):
        assert np.trapezoid(density * t, s) == pytest.approx(ours.mean, rel=1e-5)


@pytest.mark.parametrize("ours", [*HEADS, *MIXTURES], ids=lambda d: f"{list(d.parameters.values())}")
def test_heads_and_mixtures_agree_with_themselves(ours: Law | Mixture) -> None:
    p = np.array([1e-6, 0.2, 0.5, 0.8, 0.84])
    np.testing.assert_allclose(ours.cdf(ours.quantile(p)), p, rtol=1e-9)
    x = np.linspace(0, 1.3, 200_001)
    tail = getattr(ours, "tail_share", 0.0)
    assert np.trapezoid(np.exp(ours.log_density(x)), x) == pytest.approx(1 - tail, abs=1e-6)
    drawn = ours.sample(200_000, np.random.default_rng(5))
    assert drawn.min() >= 0
    assert drawn.mean() == pytest.approx(ours.mean, rel=0.02)
    assert stats.kstest(drawn, ours.cdf).pvalue > 1e-4


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_an_infinite_mean_is_infinite(alpha: float) -> None:
    assert Law("power_law", 1.0, alpha).mean == math.inf
    assert Mixture(HEADS[0], Law("power_law", 1.3, alpha), 0.1).mean == math.inf
    assert Law("power_law", 1.0, 2.05).mean == pytest.approx(1.05 / 0.05, rel=1e-6)


@pytest.mark.parametrize(("shape", "x"), [(2.0, 1000.0), (0.001, 800.0), (50.0, 2000.0), (1000.0, 4000.0), (0.5, 3.0)])
def test_the_incomplete_gamma_where_it_underflows(shape: float, x: float) -> None:
    import mpmath

    assert float(log_upper_gamma(shape, x)) == pytest.approx(float(mpmath.log(mpmath.gammainc(shape, x))), rel=1e-12)
