"""Planted bands of response times."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.studies.kun19.probing import find_bands


def test_cache_and_disk_are_told_apart():
    rng = np.random.default_rng(1)
    times = np.concatenate([1e-4 * rng.lognormal(0, 0.2, 300), 1e-2 * rng.lognormal(0, 0.3, 700)])
    cache, disk = find_bands(times)
    assert cache.centre == pytest.approx(1e-4, rel=0.1)
    assert disk.centre == pytest.approx(1e-2, rel=0.1)
    assert cache.share == pytest.approx(0.3, abs=0.01)
    assert 1.5e-4 < cache.high == disk.low < 5e-3


@pytest.mark.parametrize("seed", range(10))
def test_one_mode_is_one_band_and_stragglers_are_none(seed):
    rng = np.random.default_rng(seed)
    times = 1e-2 * rng.lognormal(0, 0.4, 2000)
    times[:10] *= 200
    assert len(find_bands(times)) == 1


def test_every_time_is_in_one_band():
    rng = np.random.default_rng(4)
    times = np.concatenate([10.0**p * rng.lognormal(0, 0.1, 100) for p in (-5, -3, -1)])
    bands = find_bands(times)
    assert len(bands) == 3
    assert sum(band.n for band in bands) == 300
    assert bands[0].low == 0.0
    assert bands[-1].high == float("inf")
