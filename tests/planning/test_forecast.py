"""The forecast in words: as now or as usual with its interval, the record of both, and what is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from ioweather.core.facility import Facility, _Window
from ioweather.core.units import DAY_NS, HOUR_NS, MIB, MINUTE_NS, parse_time_ns
from ioweather.planning.forecast_model import HORIZONS_NS, History, forecast_answer, without_maintenance

FIVE = 5 * MINUTE_NS
START = 20_000 * DAY_NS
LOAD = "scratch", "load", "write"
SLOWDOWN = "scratch", "slowdown", "read"


def swinging(days, rho=0.96, cycle=1.0, seed=0):
    """Load in bytes per second whose logarithm is AR(1) with a daily wave."""
    rng = np.random.default_rng(seed)
    n = days * 288
    noise = lfilter([1.0], [1.0, -rho], rng.standard_normal(n) * math.sqrt(1 - rho**2))
    return np.exp(5 + noise + cycle * np.sin(2 * np.pi * np.arange(n) / 288)) * MIB


def answer_of(values, quantity=LOAD, facility=None, **asked):
    return forecast_answer(History(*quantity, START, FIVE, values), facility or Facility(), **asked)


def column(answer, name):
    return np.array(answer.exhibits[0].tables[0].column(name), float)


def test_a_planted_series_is_forecast_by_the_better_of_both():
    answer = answer_of(swinging(40, rho=0.9))
    assert column(answer, "horizon").tolist() == list(HORIZONS_NS)
    by = list(answer.exhibits[0].tables[0].column("by"))
    # r = 0.9 a window: the present value forecasts better up to where r^h is a half, 6.6 windows.
    assert by == ["persistence"] * 4 + ["climatology"] * 3
    assert (column(answer, "skill_low")[:3] > 0).all()
    assert column(answer, "skill")[0] == pytest.approx(1 - math.sqrt(2 * 0.1), abs=0.04)
    assert (np.abs(column(answer, "coverage") - 0.91) < 0.03).all()
    assert (column(answer, "low") <= column(answer, "expected")).all()
    assert (column(answer, "expected") <= column(answer, "high")).all()
    assert answer.headline.startswith("Writes on scratch: ")
    assert "expected in 60 minutes (90%): as usual at this hour." in answer.headline
    skill = next(e for e in answer.exhibits[0].estimates if e.name == "skill in 5 min")
    assert skill.n > 30 * 288
    assert "bootstrap" in skill.method
    assert any("up to 30 minutes ahead" in finding.text for finding in answer.findings)
    # The daily wave is a reason to choose the hour.
    assert any("hours differ" in finding.text for finding in answer.findings)
    assert [exhibit.id for exhibit in answer.exhibits] == ["forecast"]


@pytest.mark.parametrize("kind", ["white noise", "random walk"])
def test_noise_is_as_usual_and_a_random_walk_is_as_now(kind):
    noise = 0.2 * np.random.default_rng(3).standard_normal(30 * 288)
    values = np.exp(noise if kind == "white noise" else np.cumsum(0.2 * noise))
    answer = answer_of(values, SLOWDOWN)
    word = "as usual at this hour" if kind == "white noise" else "as now"
    assert answer.headline.endswith(f": {word}.")
    assert set(answer.exhibits[0].tables[0].column("by")) == {"climatology" if kind == "white noise" else "persistence"}
    assert any("Start any time" in finding.text for finding in answer.findings)


@pytest.mark.parametrize("windows", [0, 1, 144, 863])
def test_too_short_a_history_says_what_is_needed(windows):
    answer = answer_of(swinging(4)[:windows])
    assert f"It has {windows} windows of 5 min and needs 3 days (864 windows)." in answer.headline
    assert not answer.exhibits


def test_maintenance_is_neither_input_nor_truth():
    facility = Facility(maintenance=(_Window(START + DAY_NS, START + DAY_NS + HOUR_NS + 1),))
    seen = without_maintenance(History(*LOAD, START, FIVE, np.ones(600)), facility)
    assert np.flatnonzero(np.isnan(seen.values)).tolist() == list(range(288, 301))


def test_the_clock_is_the_facilitys_through_the_change_to_summer_time():
    """A quiet hour at 04:00 local time is found after the clocks changed, although it moved in UTC."""
    start = parse_time_ns("2026-03-01T00:00:00Z")  # clocks change on 29 March in Berlin
    n = 50 * 288 + 12
    minutes = np.arange(n) * 5
    moved = start + minutes * MINUTE_NS >= parse_time_ns("2026-03-29T01:00:00Z")
    local_hour = (minutes // 60 + np.where(moved, 2, 1)) % 24
    noise = 0.1 * np.random.default_rng(2).standard_normal(n)
    values = np.exp(noise - 2.0 * (local_hour == 4))
    answer = forecast_answer(History(*SLOWDOWN, start, FIVE, values), Facility(zone="Europe/Berlin"))
    facts = {fact.label: fact for group in answer.facts for fact in group.facts}
    assert str(facts["start at"].value).endswith("04:00")
    assert facts["start at"].note == "Europe/Berlin"
    assert any("Europe/Berlin" in caveat for caveat in answer.caveats)
    # The data end at 01:00 UTC, 03:00 local time: 60 minutes ahead the hour is not yet quiet, 120 minutes ahead it is.
    expected = dict(zip((column(answer, "horizon") / MINUTE_NS).tolist(), column(answer, "expected"), strict=True))
    assert expected[60] == pytest.approx(1.0, abs=0.3)
    assert expected[120] == pytest.approx(np.exp(-2.0), rel=0.3)
