"""Reading tables: missing stays missing, times stay exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.results import Chart, ResultColumn, ResultTable
from ioweather.core.units import format_value
from ioweather.ui.charts import chart_data


def chart(unit: str, cells: list[object]) -> Chart:
    table = ResultTable("t", (ResultColumn("a", "", unit),), tuple((cell,) for cell in cells))  # type: ignore[misc]
    return Chart("bars", table, {"x": "a", "y": "a"})


def test_missing_text_and_infinities_are_nan() -> None:
    values = chart_data.numbers(chart("", [1, None, "x", float("inf"), float("nan"), True]), "y")
    np.testing.assert_array_equal(values, [1, np.nan, np.nan, np.nan, np.nan, 1])


def test_nanoseconds_are_divided_as_integers() -> None:
    assert chart_data.numbers(chart("time_ns", [1_756_684_800_123_999_999, None]), "x")[0] == 1_756_684_800_123


def test_dates_are_midnights() -> None:
    values = chart_data.numbers(chart("date", ["1970-01-03", "not a date", None]), "x")
    assert values[0] == 2 * 86_400_000
    assert np.isnan(values[1:]).all()


def test_names_are_what_people_read() -> None:
    size = format_value(3 << 20, "bytes")
    assert chart_data.names(chart("bytes", [3 << 20, None, ""]), "x") == [size, "(none)", "(none)"]


def test_numbers_with_text_are_not_numeric() -> None:
    assert chart_data.is_numeric(chart("", [1, None, 2.5]), "x")
    assert not chart_data.is_numeric(chart("", [1, "a"]), "x")
    assert not chart_data.is_numeric(chart("", [True, False]), "x")
    assert not chart_data.is_numeric(chart("", [None]), "x")


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_drawable_is_close(value: float) -> None:
    made = chart_data.drawable(value)
    assert made is not None
    assert made == pytest.approx(value, rel=1e-8, abs=0.5 if abs(value) >= 1e6 else 1e-300)


@given(st.integers(0, 4_000_000_000_000))
def test_times_keep_every_millisecond(value: int) -> None:
    assert chart_data.drawable(float(value)) == value


def test_missing_is_null() -> None:
    assert chart_data.drawable(math.nan) is None
    assert chart_data.drawable(math.inf) is None


CELLS = st.lists(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2) | st.sampled_from([1, 1.0, True])
)


@given(CELLS, st.booleans())
def test_columns_are_read_as_their_cells_are(cells, with_text) -> None:
    """Numbers at once and names once each: the same as one by one."""
    cells = cells if with_text else [cell for cell in cells if not isinstance(cell, str)]
    one_by_one = [chart_data.number(cell) for cell in cells]
    np.testing.assert_array_equal(chart_data.numbers(chart("", cells), "y"), one_by_one)
    assert chart_data.names(chart("", cells), "x") == [chart_data.name_of(cell, "") for cell in cells]
