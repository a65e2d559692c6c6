"""Bars, boxes, histograms, heat maps, matrices, scatter plots: what each does with its data."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ioweather.core.results import Chart, Reference, ResultColumn, ResultTable
from ioweather.core.units import NS
from ioweather.ui.charts.render import draw, spec

Rows = tuple[tuple[Any, ...], ...]


def made(kind: Any, columns: dict[str, str], rows: Rows, encoding: dict[str, str], **more: Any) -> dict[str, Any]:
    table = ResultTable("t", tuple(ResultColumn(name, "", unit) for name, unit in columns.items()), rows)
    return spec(Chart(kind, table, encoding, "T", **more))


def rows_of(drawn: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = drawn["data"]["values"]
    return found


def bars(names: list[str], **more: Any) -> dict[str, Any]:
    rows = tuple((name, float(i + 1)) for i, name in enumerate(names))
    return made("bars", {"p": "text", "v": "bytes"}, rows, {"x": "p", "y": "v"}, **more)


def test_short_names_stand_and_long_ones_lie() -> None:
    assert bars(["a", "b"])["layer"][0]["encoding"]["y2"] == {"field": "y"}
    lying = bars([f"a project with a long name {i}" for i in range(12)], references=(Reference("y", 5, "limit"),))
    assert lying["layer"][0]["encoding"]["x2"] == {"field": "y"}
    rule = next(part for part in lying["layer"] if part["mark"]["type"] == "rule")
    assert "x2" not in rule["encoding"]  # a limit of the value is a vertical line now


def test_bars_of_series_share_a_place_without_overlap() -> None:
    rows = (("a", 1.0, "read"), ("a", 2.0, "write"), ("b", 3.0, "read"), ("b", None, "write"))
    drawn = made("bars", {"p": "text", "v": "", "s": "text"}, rows, {"x": "p", "y": "v", "series": "s"})
    read, write, other = rows_of(drawn)
    assert 0 < read["a"] < read["b"] == write["a"] < write["b"] < 1 < other["a"]
    assert drawn["title"]["subtitle"] == "1 without a value"


def test_bars_begin_at_zero_and_negative_ones_hang() -> None:
    drawn = made("bars", {"p": "text", "v": ""}, (("a", 95.0), ("b", -100.0)), {"x": "p", "y": "v"})
    assert all(row["o"] == 0 for row in rows_of(drawn))
    low, high = drawn["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert low <= -100 < 0 < 95 <= high


QUANTILES = ("q05", "q25", "q50", "q75", "q95")


def test_a_box_draws_its_quantiles() -> None:
    columns = {"p": "text", **dict.fromkeys(QUANTILES, "seconds")}
    drawn = made("box", columns, (("a", 1.0, 2.0, 3.0, 5.0, 9.0),), {"x": "p", **{q: q for q in QUANTILES}})
    (row,) = rows_of(drawn)
    assert [row[q] for q in QUANTILES] == [1, 2, 3, 5, 9]
    whiskers, box, median = (part["encoding"] for part in drawn["layer"])
    assert (whiskers["y"]["field"], whiskers["y2"]["field"]) == ("q05", "q95")
    assert (box["y"]["field"], box["y2"]["field"]) == ("q25", "q75")
    assert median["y"]["field"] == "q50"
    assert "whiskers 5% to 95%" in str(drawn).lower()


def test_a_box_says_how_far_its_whiskers_reach() -> None:
    names = ("min", "q25", "q50", "q75", "max")
    columns = {"p": "text", **dict.fromkeys(names, "seconds")}
    encoding = {"x": "p", **dict(zip(QUANTILES, names, strict=True))}
    drawn = str(made("box", columns, (("a", 1.0, 2.0, 3.0, 5.0, 9.0),), encoding)).lower()
    assert "whiskers to the extremes" in drawn
    assert "5% to 95%" not in drawn


def test_open_bins_are_drawn_evenly_with_their_edges_between() -> None:
    rows = ((0, 100, 0.5), (100, 1024, 0.2), (1024, None, 0.3))
    drawn = made("histogram", {"a": "bytes", "b": "bytes", "n": "ratio"}, rows, {"low": "a", "high": "b", "y": "n"},
                 references=(Reference("x", 100, "small"),))  # fmt: skip
    assert [round(row["a"]) for row in rows_of(drawn)] == [0, 1, 2]
    assert rows_of(drawn)[-1]["n"] == "1 KiB and more"
    axis = drawn["layer"][0]["encoding"]["x"]["axis"]
    assert axis["values"] == [0, 1, 2, 3]
    assert '"100 B"' in axis["labelExpr"]
    rule = next(part for part in drawn["layer"] if part["mark"]["type"] == "rule")
    assert rule["encoding"]["x"]["value"] == pytest.approx(drawn["width"] / 3, abs=0.1)


def test_even_bins_keep_a_number_axis_and_touch() -> None:
    rows = tuple((i / 10, (i + 1) / 10, 5) for i in range(30))
    cells = rows_of(made("histogram", {"a": "seconds", "b": "seconds", "n": "count"}, rows,
                         {"low": "a", "high": "b", "y": "n"}))  # fmt: skip
    assert [cell["b"] for cell in cells[:-1]] == pytest.approx([cell["a"] for cell in cells[1:]])


def test_cells_of_a_heat_map_tile_their_axes() -> None:
    """Ranks lie in the middle of their cell, times begin theirs; neighbours meet to within a pixel."""
    start = 1_756_684_800 * NS
    rows = tuple((start + t * 20 * NS, rank, float(t + rank)) for t in range(40) for rank in range(64))
    drawn = made(
        "heatmap", {"t": "time_ns", "rank": "count", "v": "bytes"}, rows, {"x": "t", "y": "rank", "value": "v"}
    )
    cells = rows_of(drawn)
    assert len(cells) == len(rows)
    assert sorted({cell["c"] for cell in cells})[:2] == [-0.5, 0.5]
    lefts = sorted({cell["a"] for cell in cells})
    assert lefts == [start // 1_000_000 + t * 20_000 for t in range(40)]
    pixel = 40 * 20_000 / drawn["width"]
    for cell in cells:
        assert 20_000 <= cell["b"] - cell["a"] <= 20_000 + pixel or cell["a"] == lefts[-1]


def test_a_heat_map_leaves_missing_cells_blank() -> None:
    drawn = made("heatmap", {"h": "count", "d": "text", "v": ""}, ((0, "Mon", 1.0), (1, "Mon", None)),
                 {"x": "h", "y": "d", "value": "v"})  # fmt: skip
    assert len(rows_of(drawn)) == 1
    assert drawn["title"]["subtitle"] == "Blank: no data"


def test_panels_of_a_heat_map_keep_the_places_of_the_whole() -> None:
    """A panel that lacks the first hours must not draw the others in their place."""
    late = range(15, 23)
    rows = (*((hour, "Mon", 1.0, "a") for hour in range(24)), *((hour, "Mon", 2.0, "b") for hour in late))
    columns = {"h": "count", "d": "text", "v": "", "f": "text"}
    drawn = made("heatmap", columns, rows, {"x": "h", "y": "d", "value": "v"}, facet="f")
    assert [[cell["a"] for cell in rows_of(panel)] for panel in drawn["concat"]][1] == list(late)


def test_a_matrix_prints_its_numbers_and_a_dash_for_none() -> None:
    rows = (("a", "a", 1.0), ("a", "b", -0.456), ("b", "a", None), ("b", "b", 0.1))
    drawn = made("matrix", {"x": "text", "y": "text", "r": ""}, rows, {"x": "x", "y": "y", "value": "r"})
    assert [row["t"] for row in rows_of(drawn)] == ["1.00", "-0.46", "0.10"]
    assert drawn["layer"][-1]["data"]["values"] == [{"a": 1, "c": 0, "t": "–"}]
    assert drawn["layer"][0]["encoding"]["color"]["scale"]["domain"] == [-1, -0.5, 0, 0.5, 1]


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_numbers_stand_out_from_their_cells(low: float) -> None:
    """By the colours that are really drawn: WCAG's contrast of text and cell."""
    values = [low + i * (1 - low) / 20 for i in range(21)]
    rows = tuple(("x", f"row {i}", value) for i, value in enumerate(values))
    svg = draw(made("matrix", {"a": "text", "b": "text", "r": ""}, rows, {"x": "a", "y": "b", "value": "r"})).decode()
    cells = [tuple(map(int, m)) for m in re.findall(r'fill="rgb\((\d+), (\d+), (\d+)\)"', svg)]
    # Numbers in dark ink are drawn first, then those in pale ink; each group in the order of its cells.
    inks = re.findall(r'fill="(#111417|#fcfcfb)">(-?\d\.\d\d)<', svg)
    assert len(cells) == len(inks) == len(values)
    by_text = {text: ink for ink, text in inks}
    for value, cell in zip(values, cells, strict=True):
        ink = by_text[f"{value:.2f}".replace("-0.00", "0.00")]
        assert contrast(cell, tuple(int(ink[i : i + 2], 16) for i in (1, 3, 5))) > 4


def contrast(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    light = []
    for colour in (a, b):
        share = [c / 255 for c in colour]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in share)
        light.append(0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
    return max(light) / min(light)


def test_points_without_a_place_are_counted() -> None:
    rows = ((1.0, 1.0), (0.0, 2.0), (None, 3.0), (4.0, 4.0))
    drawn = made("scatter", {"x": "", "y": ""}, rows, {"x": "x", "y": "y"}, scales={"x": "log"})
    assert len(rows_of(drawn)) == 2
    assert "1 at or below zero" in drawn["title"]["subtitle"]
    assert "1 without a value" in drawn["title"]["subtitle"]
