"""The largest of 24 is large by being chosen: chance alone is not named, and a planted hour is."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.stats.peaks import chance_bound, turned


def bursts(days: int, seed: int, planted: float = 0.0) -> np.ndarray:
    """Volumes by day and hour: bursts at random times, and at 2 what is planted."""
    random = np.random.default_rng(seed)
    volume = random.gamma(0.3, 1.0, (days, 24))
    volume[:, 2] += planted
    return volume


def largest(cycles: np.ndarray) -> np.ndarray:
    return np.asarray(cycles.mean(axis=0).max())


def names_a_peak(volume: np.ndarray, level: float = 0.99) -> bool:
    return float(largest(volume)) > chance_bound(turned(volume, largest, 299), level)


def test_sixteen_facilities_without_a_pattern_have_at_most_one_peak_hour() -> None:
    assert sum(names_a_peak(bursts(7 if seed % 2 else 14, seed)) for seed in range(16)) <= 1


def test_a_planted_hour_is_found() -> None:
    assert sum(names_a_peak(bursts(14, seed, planted=1.5)) for seed in range(8)) >= 7


def test_turning_keeps_every_day_and_its_order() -> None:
    volume = np.arange(48.0).reshape(2, 24)
    seen = turned(volume, lambda cycles: np.asarray(cycles.sum()), 20)
    assert seen.tolist() == [volume.sum()] * 20
    steps = turned(volume, lambda cycles: np.asarray(np.sum(np.diff(cycles, axis=1) == 1)), 50)
    assert steps.min() >= 44  # each day is cut once at most
    assert turned(volume, largest, 5).tolist() == turned(volume, largest, 5).tolist()


def test_nothing_known_gives_no_bound() -> None:
    assert np.isnan(chance_bound(np.full(3, np.nan), 0.9))
    assert chance_bound(np.array([1.0, 2.0, np.nan]), 1.0) == pytest.approx(2.0)
