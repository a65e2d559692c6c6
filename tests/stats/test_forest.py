"""The forest where it is installed, and nothing where it is not."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ioweather.stats.learning import forest_curve


def test_without_the_extra_there_is_no_curve(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    assert forest_curve(np.arange(10.0), np.arange(10.0), np.arange(3.0)) is None


def test_with_it_the_curve_follows():
    pytest.importorskip("sklearn.ensemble")
    x = np.linspace(0, 1, 300)
    curve, explained = forest_curve(x, x**2, np.array([0.1, 0.9]))
    assert curve == pytest.approx([0.01, 0.81], abs=0.03)
    assert explained > 0.95
