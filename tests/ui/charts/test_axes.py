"""Axes: they hold their values, and their labels fit."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.results import ResultColumn
from ioweather.core.units import GIB, KIB, UNITS
from ioweather.ui.charts.axes import Axis, Side, make_number_axis, make_time_axis
from ioweather.ui.charts.theme import wrapped

RATE = ResultColumn("rate", "Throughput", "bytes_per_s")
DAY_MS = 86_400_000
START_MS = 1_762_992_000_000  # 2025-11-13
NUMERIC = sorted(UNITS - {"time_ns", "date", "text"})


def drawn_labels(axis: Axis, side: Side, length: int) -> list[str]:
    """The labels that Vega draws along an axis of `length` pixels, from its beginning to its end."""
    encoding = {side: axis.channel("v", side, length, titled=False)}
    size = {"width": length, "height": 50} if side == "x" else {"width": 50, "height": length}
    svg = vl_convert.vegalite_to_svg(
        {**size, "data": {"values": [{"v": axis.low}]}, "mark": "point", "encoding": encoding}
    )
    texts = [e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}text") and e.get("opacity") != "0"]
    return [text.text or "" for text in texts if text.text]


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20), st.booleans())
def test_all_values_lie_on_the_axis(values: list[float], zero: bool) -> None:
    axis = make_number_axis(ResultColumn("v"), [np.array(values)], zero=zero)
    where = axis.fractions(np.array(values))
    assert np.all((where >= -1e-6) & (where <= 1 + 1e-6))
    if zero:
        assert axis.low <= 0 <= axis.high


@given(st.lists(st.floats(1e-9, 1e15), min_size=1, max_size=20))
def test_all_positive_values_lie_on_a_logarithmic_axis(values: list[float]) -> None:
    axis = make_number_axis(ResultColumn("v"), [np.array(values)], log=True)
    where = axis.fractions(np.array(values))
    assert np.all((where >= -1e-5) & (where <= 1 + 1e-5))


def test_zero_and_below_are_not_on_a_logarithmic_axis() -> None:
    axis = make_number_axis(ResultColumn("v"), [np.array([-1.0, 0.0, 10.0, np.nan])], log=True)
    assert axis.low > 0
    assert np.isnan(axis.fractions(np.array([-1.0, 0.0]))).all()


def test_values_far_from_zero_do_not_begin_at_zero() -> None:
    assert make_number_axis(ResultColumn("v"), [np.array([95.0, 100.0])]).low > 80
    assert make_number_axis(ResultColumn("v"), [np.array([5.0, 100.0])]).low == 0


def test_units_are_in_the_title_or_at_the_marks() -> None:
    per_node = ResultColumn("r", "I/O rate", "mib_per_s_per_node")
    assert make_number_axis(per_node, [np.array([1.0])]).title == "I/O rate (MiB/s per compute node)"
    assert make_number_axis(RATE, [np.array([1.0])]).title == "Throughput"
    assert "1 GiB/s" in drawn_labels(make_number_axis(RATE, [np.array([0, 2.0 * GIB])]), "y", 200)
    assert make_time_axis(ResultColumn("start_time", "", "time_ns"), [np.array([1.7e12, 1.7001e12])]).title.startswith(
        "Start time (UTC, "
    )


def test_bins_are_evenly_wide_and_place_their_values() -> None:
    axis = Axis("Size", "bins", unit="bytes", edges=(0.0, 100.0, 1024.0, float("inf")))
    assert axis.fractions(np.array([0.0, 50.0, 100.0, 1024.0])).tolist() == pytest.approx([0, 1 / 6, 1 / 3, 2 / 3])
    assert np.isnan(axis.fractions(np.array([5000.0]))).all()
    assert drawn_labels(axis, "x", 400) == ["0 B", "100 B", "1 KiB"]


def test_many_names_are_thinned() -> None:
    axis = Axis("o", "names", names=tuple(f"OST{i:04d}" for i in range(248)))
    labels = drawn_labels(axis, "x", 560)
    assert 4 < len(labels) < 14
    assert labels[0] == "OST0000"


def test_a_label_cannot_end_its_expression() -> None:
    axis = Axis("p", "names", names=('it\'s "quoted" \\ here',))
    assert '"it\'s \\"quoted\\" \\\\ here"' in axis.channel("x", "x", 500)["axis"]["labelExpr"]


def test_long_titles_are_wrapped_and_cut() -> None:
    lines = wrapped("word " * 100, 200, 14, bold=True)
    assert isinstance(lines, list)
    assert len(lines) == 3
    assert lines[-1].endswith("…")
    assert wrapped("short", 200, 14) == "short"


@pytest.mark.parametrize(
    ("unit", "high", "expected"),
    [
        ("bytes", 3.3 * GIB, ["0 B", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]),
        ("seconds", 0.003, ["0 s", "1 ms", "2 ms", "3 ms"]),
        ("seconds", 5000, ["0 s", "30 min", "60 min", "90 min"]),
        ("ns", 5e8, ["0 s", "200 ms", "400 ms"]),
        ("ratio", 1, ["0%", "20%", "40%", "60%", "80%", "100%"]),
        ("count", 3, ["0", "1", "2", "3"]),
        ("factor", 9, ["0x", "2x", "4x", "6x", "8x", "10x"]),
        ("mib_per_s", 7.3, ["0", "2", "4", "6", "8"]),
    ],
)
def test_linear_labels(unit: str, high: float, expected: list[str]) -> None:
    assert drawn_labels(make_number_axis(ResultColumn("v", "", unit), [np.array([0, high])]), "x", 420) == expected


@pytest.mark.parametrize(
    ("unit", "low", "high", "expected"),
    [
        ("bytes", 1, KIB**4, ["1 B", "32 B", "1 KiB", "32 KiB", "1 MiB", "32 MiB", "1 GiB", "32 GiB", "1 TiB"]),
        ("seconds", 0.2, 5, ["200 ms", "500 ms", "1 s", "2 s", "5 s"]),
        ("ns", 1e6, 6e11, ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "60 s", "10 min"]),
        ("ratio", 1e-4, 1, ["0.01%", "0.1%", "1%", "10%", "100%"]),
        ("count", 1, 1e6, ["1", "10", "100", "1k", "10k", "100k", "1M"]),
    ],
)
def test_log_labels(unit: str, low: float, high: float, expected: list[str]) -> None:
    axis = make_number_axis(ResultColumn("v", "", unit), [np.array([low, high])], log=True)
    assert drawn_labels(axis, "x", 600) == expected


@given(st.floats(-1e15, 1e15), st.floats(1e-9, 1e15), st.sampled_from(NUMERIC), st.booleans())
def test_ticks_of_own_are_on_the_axis_and_few(low: float, span: float, unit: str, log: bool) -> None:
    if span < abs(low) * 1e-6:
        return
    low = abs(low) + 1e-9 if log else low
    axis = make_number_axis(ResultColumn("v", "", unit), [np.array([low, low + span])], log=log)
    ticks = axis.number_labels(6).get("values", [axis.low, axis.high])
    slack = (axis.high - axis.low) * 1e-3
    assert 2 <= len(ticks) <= 14
    assert ticks == sorted(ticks)
    assert axis.low - slack <= ticks[0] <= ticks[-1] <= axis.high + slack


@pytest.mark.parametrize(
    ("span", "context", "expected"),
    [
        (600_000, "13 Nov 2025", ["13 Nov", *(f"00:{minute:02d}" for minute in range(1, 11))]),
        (3 * DAY_MS, "2025", ["13 Nov", "12:00", "14 Nov", "12:00", "15 Nov", "12:00", "16 Nov"]),
        (365 * DAY_MS, "2025 to 2026", ["2026", "Apr", "Jul", "Oct"]),
    ],
)
def test_time_labels(span: int, context: str, expected: list[str]) -> None:
    axis = make_time_axis(
        ResultColumn("t", "Time", "time_ns"), [np.array([START_MS, START_MS + span], dtype=np.float64)]
    )
    assert axis.title == f"Time (UTC, {context})"
    assert drawn_labels(axis, "x", 520) == expected
