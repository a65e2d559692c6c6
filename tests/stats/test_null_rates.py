"""Independent series that are each alike from one moment to the next: how often a test at 5% finds them associated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from ioweather.stats.dependence import MEASURES, shift_p

LEVEL = 0.05


def autoregressive(rng: np.random.Generator, n: int, keeps: float) -> np.ndarray:
    return lfilter([1.0], [1.0, -keeps], rng.standard_normal(n + 200))[200:]


def rejected(name: str, series: int, n: int, keeps: float) -> float:
    rng = np.random.default_rng(8)
    found = []
    for _ in range(series):
        x, y = autoregressive(rng, n, keeps), autoregressive(rng, n, keeps)
        found.append(shift_p(name, x, y, MEASURES[name](x, y), 99) <= LEVEL)
    return float(np.mean(found))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "keeps"), [(40, 0.0), (60, 0.8), (200, 0.8)])
def test_shifts_reject_about_one_in_twenty(n, keeps):
    """400 series: the standard error is 1.1%."""
    assert 0.02 <= rejected("spearman", 400, n, keeps) <= 0.08


def test_free_pairings_would_reject_far_too_many():
    rng = np.random.default_rng(8)
    found = []
    for _ in range(60):
        x, y = (autoregressive(rng, 200, 0.8) for _ in range(2))
        value = abs(MEASURES["spearman"](x, y))
        free = [abs(MEASURES["spearman"](x, rng.permutation(y))) >= value for _ in range(39)]
        found.append((1 + sum(free)) / 40 <= LEVEL)
    assert np.mean(found) > 0.2


def test_an_association_is_found_in_few_pairs():
    x = np.linspace(0, 1, 30)
    y = x + 0.1 * np.random.default_rng(1).standard_normal(30)
    order = np.random.default_rng(2).permutation(30)
    assert shift_p("spearman", x[order], y[order], MEASURES["spearman"](x, y)) <= LEVEL / 2
