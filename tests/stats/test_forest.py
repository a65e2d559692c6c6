"""The curve of a random forest."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ioweather.core.errors import UsageError
from ioweather.stats.forest import forest_curve


def test_the_curve_follows():
    x = np.linspace(0, 1, 300)
    curve, explained = forest_curve(x, x**2, np.array([0.1, 0.9]))
    assert curve == pytest.approx([0.01, 0.81], abs=0.03)
    assert explained > 0.95


def test_equal_times_are_foretold():
    curve, explained = forest_curve(np.arange(40.0), np.full(40, 0.5), np.array([-1.0, 20.0, 90.0]))
    assert (curve.tolist(), explained) == ([0.5, 0.5, 0.5], 1.0)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(UsageError, match=r"ioweather\[forest\]"):
        forest_curve(np.arange(40.0), np.arange(40.0), np.arange(3.0))
