"""The largest of 24 is large by being chosen: chance alone is not named, and a planted hour is."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.stats.climatology import chance_bound, turned_sums


def bursts(days: int, seed: int, planted: float = 0.0) -> np.ndarray:
    """Volumes by day and hour: bursts at random times, and at 2 what is planted."""
    random = np.random.default_rng(seed)
    volume = random.gamma(0.3, 1.0, (days, 24))
    volume[:, 2] += planted
    return volume


def names_a_peak(volume: np.ndarray, level: float = 0.99) -> bool:
    return float(volume.sum(axis=0).max()) > chance_bound(turned_sums(volume, 299).max(axis=1), level)


def test_sixteen_facilities_without_a_pattern_have_at_most_one_peak_hour() -> None:
    assert sum(names_a_peak(bursts(7 if seed % 2 else 14, seed)) for seed in range(16)) <= 1


def test_a_planted_hour_is_found() -> None:
    assert sum(names_a_peak(bursts(14, seed, planted=1.5)) for seed in range(8)) >= 7


def test_turning_keeps_every_day_and_its_order() -> None:
    volume = np.arange(48.0).reshape(2, 24)
    assert turned_sums(volume, 20).sum(axis=1).tolist() == [volume.sum()] * 20
    for day in volume:
        steps = np.sum(np.diff(turned_sums(day[None], 50), axis=1) == 1, axis=1)
        assert steps.min() >= 22  # a day is cut once at most
    assert turned_sums(volume, 5).tolist() == turned_sums(volume, 5).tolist()


@pytest.mark.parametrize("shape", [(1, 2), (5, 24), (40, 7, 3), (300, 24, 2, 3)])
def test_sums_are_those_of_cycles_turned_one_by_one(shape: tuple[int, ...]) -> None:
    """Also where not all replicates are made at once."""
    cycles = np.random.default_rng(1).normal(size=shape)
    shifts = np.random.default_rng(4).integers(0, shape[1], (30, shape[0]))
    one_by_one = [
        sum(np.roll(cycle, -int(by), axis=0) for cycle, by in zip(cycles, shift, strict=True)) for shift in shifts
    ]
    np.testing.assert_allclose(turned_sums(cycles, 30, seed=4), np.array(one_by_one), rtol=1e-12, atol=1e-12)


def test_nothing_known_gives_no_bound() -> None:
    assert np.isnan(chance_bound(np.full(3, np.nan), 0.9))
    assert chance_bound(np.array([1.0, 2.0, np.nan]), 1.0) == pytest.approx(2.0)
