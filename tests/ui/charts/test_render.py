"""Pictures: the bytes are what they say, and the same every time."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import vl_convert

from ioweather.core.errors import UsageError
from ioweather.core.results import Chart, Exhibit, Reference
from ioweather.ui.charts import theme
from ioweather.ui.charts.page import exhibit_html
from ioweather.ui.charts.render import Column, draw, exhibit_figure, exhibit_spec, spec

Drawings = Mapping[str, str]


def words(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("}text")]


def test_every_drawing_is_well_formed_and_has_its_title(charts: Mapping[str, Chart], drawings: Drawings) -> None:
    for kind, svg in drawings.items():
        shown = words(svg)
        assert charts[kind].title in shown
        assert len(svg) > 3000
        assert "NaN" not in svg
        assert not any(text in ("undefined", "null") for text in shown)


def test_every_colour_of_a_drawing_has_a_partner_on_dark_pages(drawings: Drawings) -> None:
    cells = {theme.CELL_INK, theme.CELL_PAPER}
    for kind, svg in drawings.items():
        if kind not in ("heatmap", "matrix"):  # cells bring their own colours
            colours = set(re.findall(r'(?:fill|stroke)="(#\w+)"', svg))
            assert colours <= set(theme.DARK) | cells, kind


def test_png_and_pdf_of_every_kind(drawings: Drawings) -> None:
    for svg in drawings.values():
        png = vl_convert.svg_to_png(svg, scale=1)
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", png[16:24])
        assert 300 < width < 760
        assert 80 < height < 1200
        assert len(png) > 3000
        assert vl_convert.svg_to_pdf(svg)[:5] == b"%PDF-"


def test_the_same_chart_gives_the_same_bytes(charts: Mapping[str, Chart], drawings: Drawings) -> None:
    """Vega counts clip paths through the life of a process; the drawing must not show it."""
    assert draw(spec(charts["timeline"])).decode() == drawings["timeline"]


def test_characters_that_no_picture_can_hold_are_replaced(charts: Mapping[str, Chart]) -> None:
    """A control character in a project's name used to abort the process inside the converter."""
    name = "a\x00b\x01\ud800\ufffe\uffff \U0001f600"
    chart = replace(charts["bars"], title=name)
    rows = ((name, 1.0), ("c", 2.0))
    chart = replace(chart, table=replace(chart.table, rows=rows), references=(Reference("y", 1.5, name),))
    assert "a\ufffdb\ufffd\ufffd\ufffd\ufffd \U0001f600" in words(draw(spec(chart), "svg").decode())
    assert draw(spec(chart), "png")[:4] == b"\x89PNG"
    assert exhibit_html(Exhibit("x.fig1", name, charts=(chart,), tables=(chart.table,))).encode()


def test_an_address_is_refused() -> None:
    encoding = {"x": {"field": "a", "type": "nominal"}}
    remote = {"data": {"url": "http://127.0.0.1:9/x.csv"}, "mark": "point", "encoding": encoding}
    with pytest.raises(ValueError, match=r"(?i)url"):
        draw(remote)


def test_an_exhibit_stacks_its_charts(charts: Mapping[str, Chart]) -> None:
    exhibit = Exhibit("x.fig1", "Two charts", charts=(charts["bars"], charts["cdf"]))
    drawn = exhibit_figure(exhibit, "svg").decode()
    assert {"Volume", "Response time"} <= set(words(drawn))


def test_a_figure_is_as_wide_as_a_column_of_a_paper_and_says_whose_it_is(charts: Mapping[str, Chart]) -> None:
    exhibit = Exhibit("car11.fig7", charts=(charts["cdf"],))
    for column, inches in (("single", 3.5), ("double", 7.16)):
        svg, png, pdf = (
            exhibit_figure(exhibit, form, origin="Some site, car11.fig7", column=column)
            for form in ("svg", "png", "pdf")
        )
        assert ElementTree.fromstring(svg).attrib["width"] == f"{inches:g}in"
        assert "Some site, car11.fig7" in words(svg.decode())
        assert struct.unpack(">I", png[16:20])[0] == pytest.approx(inches * 300, abs=2)
        (box,) = re.findall(rb"MediaBox ?\[0 0 ([\d.]+)", pdf)
        assert float(box) == pytest.approx(inches * 72, abs=1)


def test_a_legend_stays_with_its_plot_where_an_origin_is_written(charts: Mapping[str, Chart]) -> None:
    """Hoisted out of it, it would stand above the title."""
    chart = next(chart for kind, chart in charts.items() if kind == "scatter")
    shown = words(exhibit_figure(Exhibit("car11.fig7", charts=(chart,)), "svg", origin="Some site").decode())
    alone = words(draw(spec(chart), "svg").decode())
    assert [text for text in shown if text != "Some site"] == alone


def test_a_single_untitled_chart_takes_the_title_of_its_exhibit(charts: Mapping[str, Chart]) -> None:
    exhibit = Exhibit("x.fig1", "What it shows", charts=(replace(charts["bars"], title=""),))
    assert exhibit_spec(exhibit)["title"]["text"] == "What it shows"


def test_an_exhibit_without_charts_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"car11\.table4 has no chart.*\.html"):
        exhibit_figure(Exhibit("car11.table4", "A table"))


@pytest.mark.parametrize(("column", "mm"), [("single", 84), ("double", 174)])
def test_letters_are_legible_in_print(charts: Mapping[str, Chart], column: Column, mm: int) -> None:
    origin = "A facility with a long name (simulated), car11.fig2, 2026-03-02 to 2026-03-09, ioweather 0.3.0"
    for kind, chart in charts.items():
        exhibit = Exhibit("x.fig", "A title", charts=(chart,))
        svg = exhibit_figure(exhibit, "svg", origin=origin, column=column).decode()
        found = re.search(r'viewBox="0 0 ([\d.]+)', svg)
        assert found is not None
        points = [float(size) * mm / 25.4 * 72 / float(found[1]) for size in re.findall(r'font-size="([\d.]+)px"', svg)]
        assert min(points) >= 7, kind
