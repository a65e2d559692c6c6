"""The sparkline, for every kind of value that a table may hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.units import sparkline


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""),
        ([5.0], "█"),
        ([0.0], "▁"),
        ([-5.0], "▁"),
        ([None], " "),
        ([math.nan, 1.0], " █"),
        ([1.0, 1.0], "██"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([-7, 0], "▁█"),
        ([-4, 0, 4], "▁▄█"),
        ([math.inf, 1, 2, -math.inf], "█▄█▁"),
        ([math.inf], "▁"),
        ([-1e308, 0, 1e308], "▁▄█"),
    ],
)
def test_the_scale_goes_from_zero_or_the_least_to_the_greatest(values: list[float | None], drawn: str) -> None:
    assert sparkline(values) == drawn


@given(st.lists(st.none() | st.floats()), st.none() | st.integers(1, 50), st.none() | st.floats(0, allow_nan=False))
def test_any_values(values: list[float | None], width: int | None, top: float | None) -> None:
    drawn = sparkline(values, width, top=top)
    assert len(drawn) == (len(values) if width is None else min(width, len(values)))
    assert set(drawn) <= set(" ▁▂▃▄▅▆▇█")
