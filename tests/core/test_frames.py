"""Columns of a frame as arrays of one kind, whatever stands for null in them."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.frames import Frame, Text

FRAME = Frame(
    {
        "count": np.ma.MaskedArray(np.array([1, 2, 2**62 + 1]), mask=[False, True, False]),
        "whole": np.array([4, 5, 6]),
        "seconds": np.array([0.5, np.nan, 2.0]),
        "cached": np.ma.MaskedArray(np.array([True, True, False]), mask=[False, True, False]),
        "name": Text(np.array([0, -1, 0], np.int32), ("a",)),
    }
)


def test_floats_have_nan_for_null():
    np.testing.assert_array_equal(FRAME.floats("count"), [1, np.nan, 2.0**62])
    np.testing.assert_array_equal(FRAME.floats("seconds"), [0.5, np.nan, 2])
    np.testing.assert_array_equal(FRAME.floats("whole"), [4, 5, 6])
    assert FRAME.floats("whole").dtype == np.float64
    assert not isinstance(FRAME.floats("count"), np.ma.MaskedArray)


def test_integers_have_a_number_for_null_and_stay_exact():
    assert FRAME.ints("count").tolist() == [1, 0, 2**62 + 1]
    assert FRAME.ints("count", missing=-1).tolist() == [1, -1, 2**62 + 1]
    assert FRAME.ints("whole", missing=-1).tolist() == [4, 5, 6]
    assert type(FRAME.ints("count")) is np.ndarray


@pytest.mark.parametrize("name", ["count", "seconds", "cached", "name"])
def test_known_rows_of_every_kind_of_column(name):
    assert FRAME.known(name).tolist() == [True, False, True]
    assert FRAME.known("whole").all()
