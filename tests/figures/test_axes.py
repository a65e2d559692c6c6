"""Axes: they hold their values, and their labels fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.results import ResultColumn
from ioweather.core.units import GIB
from ioweather.figures.axes import Axis, capitalised, names_axis, number_axis, time_axis, wrapped

RATE = ResultColumn("rate", "Throughput", "bytes_per_s")


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20), st.booleans())
def test_all_values_lie_on_the_axis(values: list[float], zero: bool) -> None:
    axis = number_axis(ResultColumn("v"), [np.array(values)], zero=zero)
    where = axis.fractions(np.array(values))
    assert np.all((where >= -1e-6) & (where <= 1 + 1e-6))
    if zero:
        assert axis.low <= 0 <= axis.high


@given(st.lists(st.floats(1e-9, 1e15), min_size=1, max_size=20))
def test_all_positive_values_lie_on_a_logarithmic_axis(values: list[float]) -> None:
    axis = number_axis(ResultColumn("v"), [np.array(values)], log=True)
    where = axis.fractions(np.array(values))
    assert np.all((where >= -1e-5) & (where <= 1 + 1e-5))


def test_zero_and_below_are_not_on_a_logarithmic_axis() -> None:
    axis = number_axis(ResultColumn("v"), [np.array([-1.0, 0.0, 10.0, np.nan])], log=True)
    assert axis.low > 0
    assert np.isnan(axis.fractions(np.array([-1.0, 0.0]))).all()


def test_values_far_from_zero_do_not_begin_at_zero() -> None:
    assert number_axis(ResultColumn("v"), [np.array([95.0, 100.0])]).low > 80
    assert number_axis(ResultColumn("v"), [np.array([5.0, 100.0])]).low == 0


@pytest.mark.parametrize("values", [[], [np.nan], [0.0], [7.0], [-3.0]])
def test_few_values_still_make_an_axis(values: list[float]) -> None:
    axis = number_axis(ResultColumn("v"), [np.array(values)])
    assert axis.low < axis.high
    assert len(axis.ticks(200, "y")) >= 2


def test_units_are_in_the_title_or_at_the_marks() -> None:
    per_node = ResultColumn("r", "I/O rate", "mib_per_s_per_node")
    assert number_axis(per_node, [np.array([1.0])]).title == "I/O rate (MiB/s per compute node)"
    assert number_axis(RATE, [np.array([1.0])]).title == "Throughput"
    assert "1.0 GiB/s" in number_axis(RATE, [np.array([2.0 * GIB])]).channel("y", "y", 200)["axis"]["labelExpr"]
    assert time_axis(ResultColumn("start_time", "", "time_ns"), [np.array([1.7e12, 1.7001e12])]).title.startswith(
        "Start time (UTC, "
    )


def test_bins_are_evenly_wide_and_place_their_values() -> None:
    axis = Axis("Size", "bins", unit="bytes", edges=(0.0, 100.0, 1024.0, float("inf")))
    assert axis.fractions(np.array([0.0, 50.0, 100.0, 1024.0])).tolist() == pytest.approx([0, 1 / 6, 1 / 3, 2 / 3])
    assert np.isnan(axis.fractions(np.array([5000.0]))).all()
    assert [label for _, label in axis.ticks(400, "x")] == ["0", "100 B", "1 KiB", ""]


def test_names_break_into_lines_before_they_slant() -> None:
    axis = names_axis(ResultColumn("m"), ["distance correlation", "mutual information"])
    assert '["distance","correlation"]' in axis.channel("x", "x", 200)["axis"]["labelExpr"]
    long = names_axis(ResultColumn("m"), ["CombustionPhysics", "NuclearPhysics"])
    assert long.channel("x", "x", 120)["axis"]["labelAngle"] == -40


def test_whole_numbers_have_no_marks_between_them() -> None:
    lags = number_axis(ResultColumn("lag"), [np.arange(6.0)])
    assert [label for _, label in lags.ticks(600, "x")] == ["0", "1", "2", "3", "4", "5"]


def test_many_names_are_thinned() -> None:
    axis = names_axis(ResultColumn("o"), [f"OST{i:04d}" for i in range(248)])
    ticks = axis.ticks(560, "x")
    assert 4 < len(ticks) < 14
    assert ticks[0] == (0.5, "OST0000")


def test_a_label_cannot_end_its_expression() -> None:
    axis = names_axis(ResultColumn("p"), ['it\'s "quoted" \\ here'])
    assert '"it\'s \\"quoted\\" \\\\ here"' in axis.channel("x", "x", 500)["axis"]["labelExpr"]


def test_long_titles_are_wrapped_and_cut() -> None:
    lines = wrapped("word " * 100, 200, 14, bold=True)
    assert isinstance(lines, list)
    assert len(lines) == 3
    assert lines[-1].endswith("…")
    assert wrapped("short", 200, 14) == "short"


def test_words_get_a_capital_and_symbols_do_not() -> None:
    assert [capitalised(text) for text in ("read share", "n", "p-value", "MiB", "")] == [
        "Read share", "n", "p-value", "MiB", "",
    ]  # fmt: skip
