"""The tail fits are maxima of the likelihood: no optimiser finds a better point, for any kind of data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from ioweather.core.arrays import Floats
from ioweather.stats.tails.bounded import (
    GAMMA_SHAPE_MIN,
    LOGNORMAL_OFFSET_MAX,
    WEIBULL_SHAPE_MIN,
    BoundedFamily,
    BoundedGamma,
    BoundedLogNormal,
    BoundedWeibull,
    Exponential,
    PowerLaw,
)
from ioweather.stats.tails.boundedfit import (
    fit_exponential_tails,
    fit_gamma_tails,
    fit_lognormal_tails,
    fit_power_law_tails,
    fit_weibull_tail,
    tail_sums,
)
from ioweather.stats.tails.sample import sample_of

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


def members(fitted: BoundedFamily, place: Floats) -> BoundedFamily:
    first, second = np.exp(place[0]), np.exp(place[-1])
    match fitted:
        case PowerLaw():
            return PowerLaw(LOW, 1 + first)
        case Exponential():
            return Exponential(LOW, first)
        case BoundedLogNormal():
            return BoundedLogNormal(LOW, min(float(place[0]), LOGNORMAL_OFFSET_MAX), second)
        case BoundedWeibull():
            return BoundedWeibull(LOW, max(first, WEIBULL_SHAPE_MIN), second)
        case _:
            return BoundedGamma(LOW, max(first, GAMMA_SHAPE_MIN), second)


def place_of(fitted: BoundedFamily) -> Floats:
    match fitted:
        case PowerLaw(alpha=alpha):
            return np.log([alpha - 1])
        case Exponential(scale=scale):
            return np.log([scale])
        case BoundedLogNormal(offset=offset, log_sd=sd):
            return np.array([offset, np.log(sd)])
        case BoundedWeibull(shape=shape, steepness=steepness):
            return np.log([shape, steepness])
        case BoundedGamma(shape=shape, cut=cut):
            return np.log([shape, cut])
    raise AssertionError


@pytest.mark.parametrize("kind", tails())
def test_no_other_member_of_the_family_is_likelier(kind: str) -> None:
    values = tails()[kind]
    sums = tail_sums(sample_of(np.append(values, LOW)), np.array([LOW]), np.array([1]))
    fits = [
        fit(sums).one(0) for fit in (fit_power_law_tails, fit_exponential_tails, fit_lognormal_tails, fit_gamma_tails)
    ]
    fits.append(fit_weibull_tail(LOW, np.sort(values), np.ones(len(values))))
    rng = np.random.default_rng(1)
    for fitted in fits:
        best = float(fitted.log_density(values).sum())

        def loss(place: Floats, fitted: BoundedFamily = fitted) -> float:
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
    assert fit_lognormal_tails(sums).one(0).collapsed
    assert fit_weibull_tail(LOW, values, np.ones(len(values))).collapsed
    assert not fit_power_law_tails(sums).one(0).collapsed
    values = tails()["lognormal"]
    sums = tail_sums(sample_of(np.append(values, LOW)), np.array([LOW]), np.array([1]))
    assert not fit_lognormal_tails(sums).one(0).collapsed


def test_sums_of_every_tail_are_those_of_each_tail() -> None:
    rng = np.random.default_rng(3)
    sample = sample_of(np.round(5 * rng.random(400) ** -0.5, 2))
    cuts = np.arange(0, sample.distinct - 3, 7)
    sums = tail_sums(sample, sample.values[cuts], cuts + 1)
    for row, cut in enumerate(cuts):
        ratio = sample.part(int(cut) + 1, sample.distinct).expanded() / sample.values[cut]
        assert sums.excess[row] == pytest.approx((ratio - 1).mean(), rel=1e-10)
        assert sums.log[row] == pytest.approx(np.log(ratio).mean(), rel=1e-10)
        assert sums.log_square[row] == pytest.approx((np.log(ratio) ** 2).mean(), rel=1e-10)


def test_long_runs_of_gamma_tails_equal_single_solves() -> None:
    rng = np.random.default_rng(4)
    sample = sample_of(rng.gamma(2.0, 1.0, 20_000))
    cuts = np.arange(100, sample.distinct - 200)
    sums = tail_sums(sample, sample.values[cuts], cuts + 1)
    fitted = fit_gamma_tails(sums)
    for row in (0, 5_000, 12_345, len(cuts) - 1):
        alone = fit_gamma_tails(sums.at(np.array([row]))).one(0)
        assert fitted.one(row).shape == pytest.approx(alone.shape, rel=1e-6, abs=1e-9)
        assert fitted.one(row).cut == pytest.approx(alone.cut, rel=1e-6)
