"""The best hour to start: found where hours differ, refused where they do not or the days are few."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.planning.forecast_model import LEAST_DAYS, History, best_start, past_gains
from ioweather.planning.rolling_forecast import HOURS, HourlyMeans

QUIET = 4
UNTIL_MONDAY = History("scratch", "slowdown", "read", 4 * DAY_NS, HOUR_NS, np.zeros(0)), (dt.UTC, "UTC")


def days_with_a_quiet_hour(days, depth=1.0, noise=0.3, seed=0):
    """Logarithms: one hour of every day lies `depth` lower."""
    rng = np.random.default_rng(seed)
    means = 5 + noise * rng.standard_normal((days, HOURS))
    means[:, QUIET] -= depth
    return HourlyMeans(means, np.arange(days) % 7)


def test_the_quiet_hour_is_found_and_its_gain_measured():
    found = best_start(days_with_a_quiet_hour(60), *UNTIL_MONDAY, HOUR_NS)
    assert found.start_ns == 4 * DAY_NS + QUIET * HOUR_NS
    # The average hour of the day lies (23/24) of the depth above the quiet one.
    want = 1 - np.exp(-23 / 24)
    assert found.gain.value == pytest.approx(want, abs=0.05)
    assert found.gain.low < want < found.gain.high
    assert "hours differ" in found.finding.text
    facts = {fact.label: fact.value for fact in found.facts[0].facts}
    assert facts["start at"] == "Mon 04:00"
    assert facts["typical slowdown then"] == pytest.approx(np.exp(4), rel=0.15)


def test_hours_that_do_not_differ():
    pays = 0
    for seed in range(20):
        found = best_start(days_with_a_quiet_hour(40, depth=0.0, seed=seed), *UNTIL_MONDAY, HOUR_NS)
        pays += found.start_ns is not None
    assert pays <= 1
    assert "any time" in found.finding.text


def test_too_few_days_to_tell():
    found = best_start(days_with_a_quiet_hour(LEAST_DAYS - 2), *UNTIL_MONDAY, HOUR_NS)
    assert found.start_ns is None
    assert "needs 14 days" in found.finding.text
    assert found.facts[0].facts[0].value == "any time"
    nothing = best_start(HourlyMeans(np.full((3, HOURS), np.nan), np.arange(3)), *UNTIL_MONDAY, HOUR_NS)
    assert "No best start" in nothing.finding.text


def test_gains_by_hand():
    """Three days without noise: the third is judged by what the first two said."""
    means = np.tile(np.linspace(1.0, 2.0, HOURS), (3, 1))
    means[:, 7] = 0.0
    means[1] += 0.01
    gains = past_gains(HourlyMeans(means, np.arange(3)), 1)
    assert np.isnan(gains[0])
    assert gains[1] == 0.0  # one day tells no hour from another
    assert gains[2] == pytest.approx(means[2].mean() - 0.0)
