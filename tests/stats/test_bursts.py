"""Bursts ahead: planted ones are foretold, noise is not, and nothing later is used."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from ioweather.stats.bursts import CLIMATOLOGY, PERSISTENCE, REGRESSION, Load, _logistic, burst_forecasts, f1_of

PER_DAY = 288
MEMORY = 56 * PER_DAY


def made(values: np.ndarray, horizon: int):
    hour = np.arange(len(values)) // 12 % 24
    return burst_forecasts(Load(values, values, hour), horizon, np.arange(0, len(values), PER_DAY), MEMORY)


def brier_skill(found) -> float:
    scores = found.squares[:, found.judged].mean(axis=1)
    return 1 - scores[REGRESSION] / scores[:REGRESSION].min()


def slow_load(days: int, seed: int = 1) -> np.ndarray:
    return lfilter([1.0], [1.0, -0.95], np.random.default_rng(seed).standard_normal(days * PER_DAY))


def test_a_slow_load_is_foretold_better_than_by_its_state_alone():
    found = made(slow_load(20), 6)
    assert found.f1(REGRESSION) > found.f1(CLIMATOLOGY) + 0.2
    assert brier_skill(found) > 0.05
    assert found.independent == found.judged.sum() // 6


def test_a_burst_at_the_same_hour_is_known_from_the_clock():
    values = 0.1 * np.random.default_rng(2).standard_normal(20 * PER_DAY)
    values[np.arange(len(values)) // 12 % 24 == 3] += 5.0
    found = made(values, 1)
    assert found.f1(CLIMATOLOGY) > 0.5  # half of such hours lie above the limit, which is a percentile of them
    assert found.f1(REGRESSION) > found.f1(PERSISTENCE)


def test_noise_has_no_skill():
    found = made(np.random.default_rng(3).standard_normal(20 * PER_DAY), 1)
    assert brier_skill(found) < 0.01


def test_nothing_later_is_used():
    values = slow_load(8)
    changed = values.copy()
    changed[5 * PER_DAY :] = 100.0
    first, second = made(values, 6), made(changed, 6)
    until = 5 * PER_DAY
    assert np.array_equal(first.probability[:, :until], second.probability[:, :until], equal_nan=True)
    assert np.array_equal(first.called[:, :until], second.called[:, :until])


def test_gaps_are_neither_input_nor_truth():
    values = slow_load(8)
    values[1000:1040] = np.nan
    found = made(values, 6)
    assert not found.judged[994:1045].any()
    assert np.isfinite(found.probability[PERSISTENCE, 1050])


@pytest.mark.parametrize("values", [np.zeros(0), np.ones(50), np.full(2000, np.nan), np.ones(2000)])
def test_too_little_gives_nothing(values):
    found = made(values, 6)
    assert not found.judged.any()
    assert np.isnan(found.f1(REGRESSION))


def test_f1_is_its_definition():
    called, came = np.array([1, 1, 0, 0, 1], bool), np.array([1, 0, 1, 0, 1], bool)
    precision, recall = 2 / 3, 2 / 3
    assert f1_of(called, came) == pytest.approx(2 * precision * recall / (precision + recall))
    assert np.isnan(f1_of(np.zeros(3, bool), np.zeros(3, bool)))


def test_the_regression_is_where_its_slope_is_zero():
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(400), rng.standard_normal((400, 3))])
    y = (rng.random(400) < 1 / (1 + np.exp(-(x @ np.array([-1.0, 2.0, 0.0, -0.5]))))).astype(float)
    found = _logistic(x, y, np.ones(4))
    slope = x.T @ (y - 1 / (1 + np.exp(-x @ found))) - found
    assert np.abs(slope).max() < 1e-5
    assert found == pytest.approx([-1.0, 2.0, 0.0, -0.5], abs=0.5)
    assert np.abs(_logistic(x, y, np.full(4, 400.0))).max() < 0.5
