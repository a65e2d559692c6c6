"""Timelines, bands and distributions: gaps, lone points, bands, thinning, bundles."""

from __future__ import annotations

from typing import Any

import pytest

from ioweather.core.results import Chart, ResultColumn, ResultTable
from ioweather.core.units import NS
from ioweather.ui.charts.render import spec


def timeline(values: list[float | None], **more: Any) -> Chart:
    columns = (ResultColumn("t", "Time", "time_ns"), ResultColumn("v", "Value", "seconds"))
    rows = tuple((i * 60 * NS, value) for i, value in enumerate(values))
    return Chart("timeline", ResultTable("t", columns, rows), {"x": "t", "y": "v"}, "T", **more)


def layer(drawn: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(part for part in drawn["layer"] if part["mark"]["type"] == kind and part.get("name") != "hover")


def test_a_gap_is_a_null_and_never_a_zero() -> None:
    drawn = spec(timeline([1.0, None, 3.0, 4.0]))
    assert [row["y"] for row in drawn["data"]["values"]] == [1, None, 3, 4]


def test_a_value_alone_between_gaps_is_a_point() -> None:
    many: list[float | None] = [1.0] * 200
    many[50], many[51], many[52] = None, 7.0, None
    dots = layer(spec(timeline(many)), "point")
    assert [row["y"] for row in dots["data"]["values"]] == [7]


def test_rows_are_sorted_by_time() -> None:
    chart = timeline([1.0, 2.0, 3.0])
    back = Chart("timeline", ResultTable("t", chart.table.columns, chart.table.rows[::-1]), chart.encoding)
    assert [row["y"] for row in spec(back)["data"]["values"]] == [1, 2, 3]


def test_the_peak_of_many_values_is_drawn_and_said() -> None:
    values: list[float | None] = [1.0] * 50_000
    values[31_234] = 99.0
    drawn = spec(timeline(values))
    assert max(row["y"] for row in drawn["data"]["values"]) == 99
    assert drawn["title"]["subtitle"].startswith("Drawn from 50,000 values")


def test_zero_on_a_logarithmic_axis_is_counted_not_drawn() -> None:
    drawn = spec(timeline([1.0, 0.0, -2.0, 10.0], scales={"y": "log"}))
    assert [row["y"] for row in drawn["data"]["values"]] == [1, None, None, 10]
    assert "2 at or below zero" in drawn["title"]["subtitle"]


def test_bands_break_where_the_value_is_missing() -> None:
    columns = tuple(ResultColumn(name) for name in ("n", "y", "low", "high"))
    rows = ((1, 2.0, 1.0, 3.0), (2, None, None, 3.0), (3, 2.0, 1.0, 3.0))
    chart = Chart("band", ResultTable("t", columns, rows), {"x": "n", "y": "y", "low": "low", "high": "high"})
    drawn = spec(chart)
    assert layer(drawn, "area")["encoding"]["y2"] == {"field": "h"}
    assert [(row["l"], row["h"]) for row in drawn["data"]["values"]] == [(1, 3), (None, None), (1, 3)]


@pytest.mark.parametrize(("count", "shape"), [(20, "step-after"), (500, "linear")])
def test_few_points_of_a_distribution_are_steps(count: int, shape: str) -> None:
    columns = (ResultColumn("x"), ResultColumn("p", "", "ratio"))
    rows = tuple((i, (i + 1) / count) for i in range(count))
    line = layer(spec(Chart("cdf", ResultTable("t", columns, rows), {"x": "x", "y": "p"})), "line")
    assert line["mark"]["interpolate"] == shape
    assert line["encoding"]["y"]["scale"]["domain"] == [0, 1]


def test_a_single_panel_of_another_size_gets_its_own_axis() -> None:
    columns = (
        ResultColumn("x", "", "seconds"),
        ResultColumn("p", "", "ratio"),
        ResultColumn("size", "Request", "bytes"),
    )
    rows = tuple((i * scale, i / 20, size) for size, scale in ((512, 1.0), (4096, 1000.0)) for i in range(1, 21))
    drawn = spec(Chart("cdf", ResultTable("t", columns, rows), {"x": "x", "y": "p"}, "Sizes", facet="size"))
    assert drawn["title"]["subtitle"] == "The axes differ between panels"
    assert [panel["title"]["text"] for panel in drawn["concat"]] == ["Request 512 B", "Request 4 KiB"]


def test_too_many_panels_are_counted() -> None:
    columns = (ResultColumn("x"), ResultColumn("y"), ResultColumn("ost", "", "text"))
    rows = tuple((i, i, f"OST{n}") for n in range(40) for i in range(3))
    drawn = spec(Chart("timeline", ResultTable("t", columns, rows), {"x": "x", "y": "y"}, "T", facet="ost"))
    assert len(drawn["concat"]) == 24
    assert "16 more panels are not shown" in drawn["title"]["subtitle"]


CURVE_ROWS = (
    (1.0, 1.0, 5.0, "a", None), (2.0, 3.0, 6.0, "b", None),
    (1.0, 2.0, None, None, "limit"), (3.0, 40.0, None, None, "limit"), (None, None, None, None, "limit"),
)  # fmt: skip


@pytest.mark.parametrize("kind", ["scatter", "heatmap"])
def test_curves_are_lines_over_the_data_and_no_points(kind: str) -> None:
    names = ("x", "y", "v", "s", "c")
    columns = tuple(ResultColumn(name, "", "text" if name in "sc" else "seconds") for name in names)
    encoding = {"x": "x", "y": "y", "curve": "c"} | ({"series": "s"} if kind == "scatter" else {"value": "v"})
    drawn = spec(Chart(kind, ResultTable("t", columns, CURVE_ROWS), encoding, "T"))  # type: ignore[arg-type]
    line = layer(drawn, "line")
    assert [(row["x"], row["y"]) for row in line["data"]["values"]] == [(1, 2), (3, 40), (None, None)]
    assert line["encoding"]["strokeDash"]["scale"]["domain"] == ["limit"]
    assert len(drawn["data"]["values"]) == 2
    data = layer(drawn, "point" if kind == "scatter" else "rect")
    top = data["encoding"]["y"]["scale"]["domain"][-1]
    assert (top >= 40) == (kind == "scatter")  # cells keep their axes
    if kind == "scatter":
        assert data["encoding"]["color"]["scale"]["domain"] == ["a", "b"]
