"""Whole-sample fits against scipy.stats with floc=0."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ioweather.stats.tails import fit_whole
from ioweather.stats.tails.whole import WHOLE_FAMILIES

SCIPY = {
    "uniform": (stats.uniform, {}),
    "normal": (stats.norm, {}),
    "cauchy": (stats.cauchy, {}),
    "gamma": (stats.gamma, {"floc": 0}),
    "weibull": (stats.weibull_min, {"floc": 0}),
    "lognormal": (stats.lognorm, {"floc": 0}),
    "exponential": (stats.expon, {"floc": 0}),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["gamma", "lognormal", "normal", "heavy", "tied"])
def test_fits_equal_scipy(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = {
        "gamma": rng.gamma(2, 3, 400),
        "lognormal": np.exp(rng.normal(0, 1, 300)),
        "normal": rng.normal(10, 1, 300),
        "heavy": rng.pareto(1.2, 300) + 0.1,
        "tied": np.round(rng.gamma(2, 3, 400) + 0.1, 1),
    }[kind]
    fits = fit_whole(times)
    assert [fit.family for fit in fits] != list(WHOLE_FAMILIES)
    assert [fit.ks for fit in fits] == sorted(fit.ks for fit in fits if fit.ks is not None)
    for fit in fits:
        assert fit.distribution is not None
        if fit.family == "power_law":
            low = times.min()
            frozen = stats.pareto(len(times) / np.log(times / low).sum(), 0, low)
        else:
            family, options = SCIPY[fit.family]
            frozen = family(*family.fit(times, **options))
        likelihood = frozen.logpdf(times).sum()
        degrees = WHOLE_FAMILIES[fit.family][1]
        assert fit.aic is not None
        assert (2 * degrees - fit.aic) / 2 >= likelihood - 1e-6 * abs(likelihood)
        assert fit.ks == pytest.approx(stats.kstest(times, frozen.cdf).statistic, abs=2e-4)


def test_zeros_rule_out_the_families_that_cannot_make_them() -> None:
    fits = {fit.family: fit for fit in fit_whole([0.0, 0.0, *np.linspace(1, 2, 20)])}
    for name in ("gamma", "weibull", "lognormal", "power_law"):
        assert fits[name].distribution is None
        assert fits[name].problem == "2 of 22 times are 0, which this family cannot produce"
    assert fits["normal"].ks is not None
    assert fits["exponential"].ks is not None


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(ValueError, match="unknown family zeta: there are uniform"):
        fit_whole(np.arange(1.0, 20), ["zeta"])
