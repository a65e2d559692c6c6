"""Fits of tails, heads and whole samples against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from ioweather.core.frames import Floats
from ioweather.stats.families import GAMMA_SHAPE_MIN, LOGNORMAL_OFFSET_MAX, WEIBULL_SHAPE_MIN, Law
from ioweather.stats.tail_fits import (
    WHOLE_FAMILIES,
    fit_cauchy,
    fit_cauchy_heads,
    fit_exponential_tails,
    fit_gamma_tails,
    fit_lognormal_tails,
    fit_power_law_tails,
    fit_weibull_tail,
    fit_weibull_tails,
    fit_whole,
    sample_of,
    tail_sums,
)

LOW = 1.3


def tails() -> dict[str, Floats]:
    rng = np.random.default_rng(5)
    many = {
        "power law": LOW * rng.random(500) ** -0.5,
        "exponential": LOW + rng.exponential(0.4, 500),
        "lognormal": np.exp(rng.normal(0, 0.6, 3000)),
        "gamma": rng.gamma(2.5, 0.7, 3000),
        "weibull": rng.weibull(0.6, 3000),
        "narrow and far": rng.normal(5, 0.2, 300),
        "narrow and near": LOW + rng.exponential(0.001, 300),
        "beyond all means": LOW * np.exp(rng.pareto(1.5, 300)),
    }
    return {name: values[values > LOW] for name, values in many.items()}


def members(fitted: Law, place: Floats) -> Law:
    first, second = np.exp(place[0]), np.exp(place[-1])
    offset = min(float(place[0]), LOGNORMAL_OFFSET_MAX)
    values = {
        "power_law": (1 + first,),
        "exponential": (first,),
        "lognormal": (offset, second),
        "weibull": (max(first, WEIBULL_SHAPE_MIN), second),
        "gamma": (max(first, GAMMA_SHAPE_MIN), second),
    }
    return Law(fitted.name, LOW, *values[fitted.name])


def place_of(fitted: Law) -> Floats:
    names = {"power_law": "alpha", "exponential": "scale", "weibull": "shape steepness", "gamma": "shape cut"}
    if fitted.name == "lognormal":
        return np.array([float(fitted["offset"]), np.log(float(fitted["log_sd"]))])
    less = 1.0 if fitted.name == "power_law" else 0.0
    return np.log([float(fitted[name]) - less for name in names[fitted.name].split()])


@pytest.mark.parametrize("kind", tails())
def test_no_other_member_of_the_family_is_likelier(kind: str) -> None:
    values = tails()[kind]
    sums = tail_sums(sample_of(np.append(values, LOW)), np.array([LOW]), np.array([1]))
    fits = [
        fit(sums).at(0) for fit in (fit_power_law_tails, fit_exponential_tails, fit_lognormal_tails, fit_gamma_tails)
    ]
    fits.append(fit_weibull_tail(LOW, np.sort(values), np.ones(len(values))))
    rng = np.random.default_rng(1)
    for fitted in fits:
        best = float(fitted.log_density(values).sum())

        def loss(place: Floats, fitted: Law = fitted) -> float:
            with np.errstate(all="ignore"):
                return -float(members(fitted, place).log_density(values).sum())

        start = place_of(fitted)
        for width in (0.1, 1.0):
            found = minimize(loss, start + width * rng.normal(size=len(start)), method="Nelder-Mead",
                             options={"xatol": 1e-9, "fatol": 1e-9, "maxiter": 2000})  # fmt: skip
            assert -found.fun <= best + 1e-6 * max(1, abs(best) * 1e-3), (kind, fitted)


def test_families_that_become_the_power_law_say_so() -> None:
    values = tails()["power law"]
    sums = tail_sums(sample_of(np.append(values, LOW)), np.array([LOW]), np.array([1]))
    assert fit_lognormal_tails(sums).at(0).collapsed
    assert fit_weibull_tail(LOW, values, np.ones(len(values))).collapsed
    assert not fit_power_law_tails(sums).at(0).collapsed
    values = tails()["lognormal"]
    sums = tail_sums(sample_of(np.append(values, LOW)), np.array([LOW]), np.array([1]))
    assert not fit_lognormal_tails(sums).at(0).collapsed


@pytest.mark.parametrize("draw", ["cauchy", "normal", "exponential", "rounded"])
def test_the_cauchy_fit_is_the_maximum_likelihood(draw: str) -> None:
    rng = np.random.default_rng(0)
    values = {
        "cauchy": rng.standard_cauchy(300) + 500,
        "normal": rng.normal(5, 1, 200),
        "exponential": rng.exponential(1, 60),
        "rounded": np.round(rng.normal(5, 1, 500), 1),
    }[draw]
    ours = fit_cauchy(np.sort(values), np.ones(len(values)))
    theirs = stats.cauchy.fit(values)
    assert ours.log_density(values).sum() >= stats.cauchy.logpdf(values, *theirs).sum() - 1e-6
    assert ours["location"] == pytest.approx(theirs[0], abs=1e-3)
    assert ours["scale"] == pytest.approx(theirs[1], rel=1e-3)


def test_runs_of_values_lose_next_to_nothing() -> None:
    rng = np.random.default_rng(2)
    sample = sample_of(np.concatenate([rng.normal(5, 0.5, 17_000), rng.weibull(0.7, 3_000) + 6]))
    cuts = np.linspace(5_000, sample.distinct - 500, 20).astype(int)
    heads, tails = fit_cauchy_heads(sample, cuts), fit_weibull_tails(sample, cuts)
    for row, cut in enumerate(cuts):
        head = fit_cauchy(sample.values[: cut + 1], sample.counts[: cut + 1])
        tail = fit_weibull_tail(float(sample.values[cut]), sample.values[cut + 1 :], sample.counts[cut + 1 :])
        assert heads.at(row)["location"] == pytest.approx(head["location"], rel=1e-6)
        assert heads.at(row)["scale"] == pytest.approx(head["scale"], rel=1e-4)
        assert tails.at(row)["shape"] == pytest.approx(tail["shape"], rel=1e-3)
        assert tails.at(row)["steepness"] == pytest.approx(tail["steepness"], rel=1e-3)


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
    assert [name for name, *_ in fits] != list(WHOLE_FAMILIES)
    assert [ks for _, ks, *_ in fits] == sorted(ks for _, ks, *_ in fits if ks is not None)
    for name, ks, aic, parameters, _ in fits:
        assert parameters
        if name == "power_law":
            low = times.min()
            frozen = stats.pareto(len(times) / np.log(times / low).sum(), 0, low)
        else:
            family, options = SCIPY[name]
            frozen = family(*family.fit(times, **options))
        likelihood = frozen.logpdf(times).sum()
        degrees = WHOLE_FAMILIES[name]
        assert aic is not None
        assert (2 * degrees - aic) / 2 >= likelihood - 1e-6 * abs(likelihood)
        assert ks == pytest.approx(stats.kstest(times, frozen.cdf).statistic, abs=2e-4)


def test_zeros_rule_out_the_families_that_cannot_make_them() -> None:
    fits = {name: found for name, *found in fit_whole([0.0, 0.0, *np.linspace(1, 2, 20)])}
    for name in ("gamma", "weibull", "lognormal", "power_law"):
        assert not fits[name][2]
        assert fits[name][3] == "2 of 22 times are 0, which this family cannot produce"
    assert fits["normal"][0] is not None
    assert fits["exponential"][0] is not None
