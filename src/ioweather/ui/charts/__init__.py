"""Charts as pictures and pages.

spec(chart) -> dict                      Vega-Lite, data inside
static(chart, format) -> bytes           SVG, PNG or PDF
exhibit_figure(exhibit, format) -> bytes all charts of an exhibit, stacked
exhibit_html(exhibit), answer_html(answer) -> str
exhibit_section(exhibit, level), figure_html(chart, name), table_html(table), html_page(title, sections) -> str
vega_bundle() -> str                     JavaScript for pages that draw for themselves
"""

from ioweather.ui.charts.chart_data import describe
from ioweather.ui.charts.page import (
    Drawn,
    answer_fragment,
    answer_html,
    answer_section,
    exhibit_fragment,
    exhibit_html,
    exhibit_section,
    figure_html,
    html_page,
    provenance_html,
    table_html,
)
from ioweather.ui.charts.render import KINDS, draw, exhibit_figure, exhibit_spec, spec, static, vega_bundle

__all__ = [
    "KINDS",
    "Drawn",
    "answer_fragment",
    "answer_html",
    "answer_section",
    "describe",
    "draw",
    "exhibit_figure",
    "exhibit_fragment",
    "exhibit_html",
    "exhibit_section",
    "exhibit_spec",
    "figure_html",
    "html_page",
    "provenance_html",
    "spec",
    "static",
    "table_html",
    "vega_bundle",
]
