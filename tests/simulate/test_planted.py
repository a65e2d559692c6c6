"""What an analysis should find, on rows where a person can count it."""

from __future__ import annotations

import numpy as np

from ioweather.simulate.generate import degrees, high_phases


def test_degrees_grow_from_the_smallest():
    assert degrees(np.array([100.0, 104.0, 0.0, 200.0, 105.0, 209.0])) == [2, 1, 2]
    assert degrees(np.zeros(4)) == []


def test_high_phases_by_hand():
    minutes = np.array([1, 9, 9, 1, 1, 1, 1, 9, 1, 1, 1, 1.0])
    length, distance = high_phases(minutes)
    assert length == 1.5
    assert distance == 6.0
