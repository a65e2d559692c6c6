"""Climatology against plain loops; the largest of 24 hours is named only where it exceeds chance."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.planning.rolling_forecast import HOURS, SLOTS, HourlyMeans, climate_tables, hourly_means
from ioweather.stats.series import chance_bound, rotated_sums


def days_of(pattern, days, noise, seed=0, first_weekday=2):
    """Hourly means of `days` days: a value per hour of the week, and noise."""
    weekday = (first_weekday + np.arange(days)) % 7
    rng = np.random.default_rng(seed)
    means = np.stack([pattern[w * HOURS : (w + 1) * HOURS] for w in weekday])
    return HourlyMeans(means + noise * rng.standard_normal(means.shape), weekday)


def kept(groups, parents):
    """tau^2 / (tau^2 + s^2/n) by hand, from lists of values per cell."""
    seen = [(g, p) for g, p in zip(groups, parents, strict=True) if len(g)]
    freedom = sum(len(g) - 1 for g, _ in seen)
    if freedom == 0:
        return [0.0] * len(groups)
    variance = sum(sum((x - np.mean(g)) ** 2 for x in g) for g, _ in seen) / freedom
    noise = np.mean([variance / len(g) for g, _ in seen])
    tau = max(np.mean([(np.mean(g) - p) ** 2 for g, p in seen]) - noise, 0.0)
    return [tau / (tau + variance / len(g)) if len(g) and tau > 0 else 0.0 for g in groups]


def by_hand(hourly, day):
    """The table of one day, from the days before it."""
    rows = [(hourly.weekday[d], h, hourly.means[d, h]) for d in range(day) for h in range(HOURS)]
    rows = [row for row in rows if not np.isnan(row[2])]
    level = np.mean([row[2] for row in rows])
    hours = [[v for _, h, v in rows if h == hour] for hour in range(HOURS)]
    weight = kept(hours, [level] * HOURS)
    usual = [level + (w * (np.mean(g) - level) if len(g) else 0.0) for w, g in zip(weight, hours, strict=True)]
    cells = [[v for wd, h, v in rows if wd * HOURS + h == slot] for slot in range(SLOTS)]
    parents = [usual[slot % HOURS] for slot in range(SLOTS)]
    weight = kept(cells, parents)
    return [p + (w * (np.mean(g) - p) if len(g) else 0.0) for w, g, p in zip(weight, cells, parents, strict=True)]


def test_tables_equal_loops_over_days_with_gaps():
    rng = np.random.default_rng(3)
    hourly = days_of(rng.normal(5, 1, SLOTS), 23, 0.7, seed=4)
    hourly.means[rng.random(hourly.means.shape) < 0.1] = np.nan
    hourly.means[11] = np.nan
    tables = climate_tables(hourly)
    assert tables.shape == (24, SLOTS)
    assert np.isnan(tables[0]).all()
    for day in (1, 2, 9, 16, 23):
        np.testing.assert_allclose(tables[day], by_hand(hourly, day), rtol=1e-9, atol=1e-9)


def test_hourly_means_of_windows():
    values = np.arange(48.0)
    values[0], values[12:24] = np.nan, np.nan
    minute = np.arange(48) * 5 + 60
    hourly = hourly_means(values, minute // 1440, (minute // 60) % 24 + 72)
    np.testing.assert_allclose(hourly.means[0, 1], np.arange(1, 12).mean())
    assert np.isnan(hourly.means[0, 2])
    assert hourly.weekday.tolist() == [3]


def bursts(days: int, seed: int, planted: float = 0.0) -> np.ndarray:
    """Volumes by day and hour: bursts at random times, and at 2 what is planted."""
    random = np.random.default_rng(seed)
    volume = random.gamma(0.3, 1.0, (days, 24))
    volume[:, 2] += planted
    return volume


def names_a_peak(volume: np.ndarray, level: float = 0.99) -> bool:
    return float(volume.sum(axis=0).max()) > chance_bound(rotated_sums(volume, 299).max(axis=1), level)


def test_sixteen_facilities_without_a_pattern_have_at_most_one_peak_hour() -> None:
    assert sum(names_a_peak(bursts(7 if seed % 2 else 14, seed)) for seed in range(16)) <= 1


def test_a_planted_hour_is_found() -> None:
    assert sum(names_a_peak(bursts(14, seed, planted=1.5)) for seed in range(8)) >= 7


@pytest.mark.parametrize("shape", [(1, 2), (5, 24), (40, 7, 3), (300, 24, 2, 3)])
def test_sums_are_those_of_cycles_turned_one_by_one(shape: tuple[int, ...]) -> None:
    """Also where not all replicates are made at once."""
    cycles = np.random.default_rng(1).normal(size=shape)
    shifts = np.random.default_rng(4).integers(0, shape[1], (30, shape[0]))
    one_by_one = [
        sum(np.roll(cycle, -int(by), axis=0) for cycle, by in zip(cycles, shift, strict=True)) for shift in shifts
    ]
    np.testing.assert_allclose(rotated_sums(cycles, 30, seed=4), np.array(one_by_one), rtol=1e-12, atol=1e-12)
