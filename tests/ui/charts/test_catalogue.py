"""Conformance: what holds for every chart kind there is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest
import vl_convert
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioweather.core.errors import UsageError
from ioweather.core.results import Chart, ChartKind, Reference, ResultColumn, ResultTable
from ioweather.ui.charts.chart_data import MAX_POINTS
from ioweather.ui.charts.kinds import KINDS
from ioweather.ui.charts.render import spec

KIND_NAMES = sorted(get_args(ChartKind))


def walk(value: Any) -> Iterator[Any]:
    yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from walk(child)


def points(specification: dict[str, Any]) -> int:
    return sum(len(v["data"]["values"]) for v in walk(specification) if isinstance(v, dict) and "data" in v)


def texts(specification: dict[str, Any]) -> list[str]:
    return [v for v in walk(specification) if isinstance(v, str)]


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize("width", [330, 760])
def test_compiles_without_a_warning(
    charts: Mapping[str, Chart], kind: str, width: int, capfd: pytest.CaptureFixture[str]
) -> None:
    vl_convert.vegalite_to_vega(spec(charts[kind], width=width), show_warnings=True)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_no_data_says_so(charts: Mapping[str, Chart], kind: str) -> None:
    chart = charts[kind]
    empty = replace(chart, table=ResultTable("t", chart.table.columns, ()))
    drawn = spec(empty)
    assert "no data" in texts(drawn)
    assert drawn["title"]["text"] == chart.title
    assert "no data" in drawn["description"]


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_never_more_points_than_allowed(charts: Mapping[str, Chart], kind: str) -> None:
    """Twenty thousand rows, made by shifting the sample along its first number."""
    chart = charts[kind]
    times = 20_000 // len(chart.table.rows) + 1
    moved = {"bars": "project", "box": "project", "matrix": "a"}.get(kind)
    column = next(i for i, c in enumerate(chart.table.columns) if c.name == (moved or chart.table.columns[0].name))
    rows = []
    for n in range(times):
        for row in chart.table.rows:
            cell = row[column]
            shifted = f"{cell} {n}" if isinstance(cell, str) else cell if cell is None else cell + n * 7
            rows.append((*row[:column], shifted, *row[column + 1 :]))
    huge = spec(replace(chart, table=ResultTable("t", chart.table.columns, tuple(rows))))
    assert 0 < points(huge) <= MAX_POINTS


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_facet_makes_panels(charts: Mapping[str, Chart], kind: str) -> None:
    chart = charts[kind]
    columns = (*chart.table.columns, replace(chart.table.columns[0], name="where", unit="text"))
    rows = tuple((*row, place) for place in ("scratch", "home") for row in chart.table.rows)
    drawn = spec(replace(chart, table=ResultTable("t", columns, rows), facet="where"))
    assert [panel["title"]["text"] for panel in drawn["concat"]] == ["scratch", "home"]
    assert len({json.dumps(panel["layer"][0]["encoding"], sort_keys=True) for panel in drawn["concat"]}) <= 2


cells = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**19), 10**19), st.floats(), st.text(max_size=6),
    st.sampled_from([0, 1, -1.0, 1e-320, 1e300, "2025-01-01", "read"]),
)  # fmt: skip
units = st.sampled_from(["", "count", "bytes", "seconds", "ns", "ratio", "time_ns", "date", "text", "mib_per_s"])
ends = st.one_of(st.none(), st.floats(-1e20, 1e20))
lines = st.builds(Reference, st.sampled_from("xy"), st.floats(-1e20, 1e20), st.text(max_size=5), ends)


@pytest.mark.parametrize("kind", KIND_NAMES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_table_gives_a_picture(kind: Any, data: st.DataObject) -> None:
    """Whatever the cells: no exception, no NaN, no more points than allowed."""
    names = (*KINDS[kind].required, *KINDS[kind].optional)
    columns = tuple(ResultColumn(name, "", data.draw(units)) for name in names)
    rows = tuple(tuple(row) for row in data.draw(st.lists(st.lists(cells, min_size=len(names), max_size=len(names)))))
    scales = data.draw(st.dictionaries(st.sampled_from(names), st.just("log"), max_size=3))
    references = tuple(data.draw(st.lists(lines, max_size=3)))
    facet = data.draw(st.sampled_from([None, *names]))
    chart = Chart(kind, ResultTable("t", columns, rows), {n: n for n in names}, "T", facet, scales, references)
    drawn = spec(chart, data.draw(st.sampled_from([330, 760])))
    json.dumps(drawn, allow_nan=False)
    assert points(drawn) <= MAX_POINTS


def test_a_missing_channel_is_named(charts: Mapping[str, Chart]) -> None:
    with pytest.raises(UsageError, match="lacks y"):
        spec(replace(charts["timeline"], encoding={"x": "time"}))
    with pytest.raises(UsageError, match="does not use size"):
        spec(replace(charts["bars"], encoding={"x": "project", "y": "volume", "size": "volume"}))
