"""Conformance: every renderer takes every value that a table may hold. Numbers may be negative, infinite, missing, all
the same or alone; names may hold anything."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any
from xml.etree import ElementTree

import pytest

from ioweather.core.results import Answer, Cell, Chart, Exhibit, Fact, FactGroup, ResultTable
from ioweather.core.units import UNITS, format_value
from ioweather.ui.charts.kinds import KINDS
from ioweather.ui.charts.page import answer_section, exhibit_section
from ioweather.ui.charts.render import draw, spec
from ioweather.ui.cli.terminal import bar, chart_lines, print_answer, print_exhibit

ODD: dict[str, Any] = {
    "negative": lambda v, _: -abs(v) - 1,
    "alternating": lambda v, i: v * (-1) ** i,
    "infinite": lambda v, i: math.inf if i % 3 == 1 else v,
    "minus infinite": lambda v, i: -math.inf if i % 3 == 1 else v,
    "NaN": lambda v, i: math.nan if i % 3 == 1 else v,
    "missing": lambda v, i: None if i % 3 == 1 else v,
    "all missing": lambda v, _: None,
    "all NaN": lambda v, _: math.nan,
    "all infinite": lambda v, _: math.inf,
    "zero range": lambda v, _: 7.0,
    "all zero": lambda v, _: 0.0,
    "huge": lambda v, i: 1e308 * (-1) ** i,
}
HOSTILE = "\x1b[31m\u202e\n</script>&\x00\ufffe"


def odd(chart: Chart, how: str) -> Chart:
    """The chart with the numbers of its measured columns replaced; `single` has one row, `hostile` other names."""
    rows = chart.table.rows[:1] if how == "single" else chart.table.rows
    change = ODD.get(how)

    def cell(value: Cell, index: int) -> Cell:
        if isinstance(value, str) and how == "hostile":
            return value + HOSTILE
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return change(value, index) if number and change is not None else value

    made = tuple(tuple(cell(value, index) for value in row) for index, row in enumerate(rows))
    title = HOSTILE if how == "hostile" else chart.title
    return replace(chart, table=ResultTable("t", chart.table.columns, made), title=title)


CASES = [*ODD, "single", "hostile"]


@pytest.mark.parametrize("how", CASES)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_chart_in_text_and_as_a_specification(charts: Mapping[str, Chart], kind: str, how: str) -> None:
    chart = odd(charts[kind], how)
    for width in (20, 78):
        for line in chart_lines(chart, width):
            assert "\x1b" not in line
            assert "\n" not in line
            assert "nan" not in line
    text = json.dumps(spec(chart), allow_nan=False, ensure_ascii=False)
    assert "\u202e" not in text
    assert "\\u001b" not in text


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_chart_as_a_picture_and_in_a_page(
    charts: Mapping[str, Chart], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One drawing of each kind, of the oddest values; every one of them in a page and on a terminal."""
    for how in ("alternating", "hostile"):
        ElementTree.fromstring(draw(spec(odd(charts[kind], how))))
    chart = odd(charts[kind], "infinite")
    exhibit = Exhibit("x.fig1", HOSTILE, (chart.table,), (chart,))
    assert "<h2" in exhibit_section(exhibit, 2)
    print_exhibit(exhibit, "text")
    assert "\x1b" not in capsys.readouterr().out


VALUES = (
    None,
    math.nan,
    math.inf,
    -math.inf,
    0,
    0.0,
    -0.0,
    -1,
    -1.5,
    1e-320,
    1e308,
    -1e308,
    2**63,
    -(2**63),
    10**30,
    True,
)


@pytest.mark.parametrize(("value", "unit"), list(product(VALUES, sorted(UNITS))))
def test_every_value_of_every_unit_has_a_form(value: object, unit: str) -> None:
    shown = format_value(value, unit)
    assert shown
    assert "nan" not in shown
    assert "inf" not in shown


@pytest.mark.parametrize("share", [math.nan, math.inf, -math.inf, -1.0, 0.0, 0.5, 1.0, 7.0])
def test_a_bar_has_its_width(share: float) -> None:
    assert len(bar(share, 10)) == 10


def test_facts_of_odd_values(capsys: pytest.CaptureFixture[str]) -> None:
    facts = tuple(
        Fact(f"fact_{i}", f"{i}", value, "bytes", value, HOSTILE)
        for i, value in enumerate((-1.0, math.nan, math.inf, 0.0))
    )
    answer = Answer("question", HOSTILE, (FactGroup("group", "group", facts),))
    print_answer(answer)
    assert "-1 B" in capsys.readouterr().out
    assert "&lt;/script&gt;" in answer_section(answer)
