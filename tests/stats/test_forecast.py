"""Forecasts use nothing later than their moment, and their intervals cover as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from ioweather.planning.rolling_forecast import (
    CHOSEN,
    CLIMATOLOGY,
    PERSISTENCE,
    Timed,
    residual_quantiles,
    rolling_forecasts,
    rolling_intervals,
)

PER_DAY = 288


def timed(values, ahead=24, first_minute=0):
    minute = first_minute + np.arange(len(values) + ahead) * 5
    day = minute // 1440
    return Timed(np.asarray(values, float), day - day[0], (day + 3) % 7 * 24 + minute // 60 % 24, 5.0)


def planted(days, rho=0.95, cycle=0.0, seed=0):
    """AR(1) of unit variance and a daily wave."""
    rng = np.random.default_rng(seed)
    n = days * PER_DAY
    noise = rng.standard_normal(n) * math.sqrt(1 - rho**2)
    wave = cycle * np.sin(2 * np.pi * np.arange(n) / PER_DAY)
    return lfilter([1.0], [1.0, -rho], noise) + wave


def errors(rolling):
    scored = rolling.scored()
    return np.abs(rolling.point[:, scored] - rolling.truth[scored]).mean(axis=1)


def test_no_forecast_knows_what_comes_after_it():
    values = planted(12, cycle=1.0, seed=3)
    cut = 9 * PER_DAY + 100
    changed = values.copy()
    changed[cut + 1 :] = 50.0
    for before, after in zip(
        rolling_forecasts(timed(values), (1, 12, 24)), rolling_forecasts(timed(changed), (1, 12, 24)), strict=True
    ):
        np.testing.assert_allclose(before.point[:, : cut + 1], after.point[:, : cut + 1], atol=1e-8)
        known, other = (rolling_intervals(r)[:2] for r in (before, after))
        for end, changed_end in zip(known, other, strict=True):
            np.testing.assert_allclose(end[: cut + 1], changed_end[: cut + 1], atol=1e-8)


@pytest.mark.parametrize(("horizon", "rho"), [(3, 0.95), (12, 0.95), (24, 0.97)])
def test_errors_of_a_planted_series_are_those_of_theory(horizon, rho):
    """Of AR(1) with a known cycle, as-now and as-usual err as sqrt(2 (1 - r)) : 1, r = rho^h."""
    rolling = rolling_forecasts(timed(planted(90, rho, seed=4)), (horizon,))[0]
    now, usual, chosen = errors(rolling)
    want = math.sqrt(2 * (1 - rho**horizon))
    assert now / usual == pytest.approx(want, rel=0.04)
    assert chosen / usual == pytest.approx(min(want, 1.0), rel=0.04)


def test_the_choice_of_a_day_rests_on_the_days_before_it():
    """White noise for 20 days, then a random walk: 'as usual' at first, and 'as now' once its past errors are less."""
    rng = np.random.default_rng(5)
    noise = rng.standard_normal(40 * PER_DAY)
    values = np.where(np.arange(len(noise)) < 20 * PER_DAY, noise, np.cumsum(noise) * 0.2)
    rolling = rolling_forecasts(timed(values), (1,))[0]
    error = np.abs(rolling.point[:CHOSEN] - rolling.truth)
    for today in (10, 19, 21, 30, 39):
        past = (rolling.target_day < today) & np.isfinite(error).all(axis=0)
        best = error[:, past].sum(axis=1).argmin()
        here = rolling.day == today
        np.testing.assert_array_equal(rolling.point[CHOSEN, here], rolling.point[best, here])
        assert best == (CLIMATOLOGY if today < 21 else PERSISTENCE)


@pytest.mark.parametrize(("shape", "off"), [("normal", 0.025), ("bursts", 0.025), ("drifting", 0.045)])
def test_intervals_hold_as_often_as_promised(shape, off):
    """Over two months; the first weeks are wide, because few hours teach little, and a drift is followed late."""
    values = planted(60, seed=6)
    if shape == "bursts":  # two states, and a spread that depends on the state
        values = np.where(values > 0.8, 6 + values, 0.05 * values)
    if shape == "drifting":  # four times the spread within two months
        values = values * np.linspace(0.5, 2.0, len(values))
    for rolling in rolling_forecasts(timed(values), (1, 12, 24)):
        _, _, within = rolling_intervals(rolling)
        judged = np.isfinite(within)
        assert judged.sum() > 50 * PER_DAY
        assert 0.9 - off < np.mean(within[judged]) < 0.94
        last = judged & (rolling.day >= 30)
        assert np.mean(within[last]) == pytest.approx(0.9, abs=off)


def test_gaps_are_neither_input_nor_truth():
    values = planted(20, cycle=0.5, seed=8)
    gap = slice(10 * PER_DAY + 50, 11 * PER_DAY + 60)
    values[gap] = np.nan
    values[np.random.default_rng(9).random(len(values)) < 0.1] = np.nan
    rolling = rolling_forecasts(timed(values), (6,))[0]
    missing = np.isnan(values)
    assert np.isnan(rolling.point[:, missing]).all()
    assert np.isnan(rolling.truth[:-6][missing[6:]]).all()
    after = slice(12 * PER_DAY, None)
    assert np.isfinite(rolling.point[:, after][:, ~missing[after]]).all()
    _, _, within = rolling_intervals(rolling)
    assert np.isnan(within[gap]).all()
    assert 0.85 < np.nanmean(within) < 0.97


@pytest.mark.parametrize("count", [0, 1, 5, 100, 2 * PER_DAY])
def test_too_short_a_series_has_no_forecast(count):
    for rolling in rolling_forecasts(timed(planted(3)[:count]), (1, 24)):
        assert not rolling.scored().any()


def test_classes_by_hand():
    rng = np.random.default_rng(11)
    value, residual = rng.standard_normal(2000), rng.standard_normal(2000)
    table = residual_quantiles(value, residual)  # 2000 // CLASS_SIZE = 4 classes
    borders = np.sort(value)[[500, 1000, 1500]]
    asked = np.array([-3.0, 0.0, 3.0])
    found = table(asked, (0.05, 0.5, 0.95))
    first = np.sort(residual[value < borders[0]])
    for place, v in enumerate(asked):
        own = np.sort(
            residual[np.searchsorted(borders, value, side="right") == np.searchsorted(borders, v, side="right")]
        )
        n = len(own)
        assert n == 500
        assert found[1, place] == np.median(own)
        assert found[0, place] == own[math.floor(501 * 0.05) - 1]
        assert found[2, place] == own[math.ceil(501 * 0.95) - 1]
    # Where ten in a row are one, 500 values are 50: 0.95 * 51 of 50 is 0.969, the 485th.
    few = residual_quantiles(value, residual, correlated_steps=10)(asked[:1], (0.05, 0.95))[:, 0]
    assert few.tolist() == [first[500 - 485], first[484]]
