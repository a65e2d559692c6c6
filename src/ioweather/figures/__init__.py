"""Charts as pictures and pages. Nothing is imported until a name is used: a V8 and NumPy are not free.

spec(chart) -> dict                      Vega-Lite, data inside
static(chart, format) -> bytes           SVG, PNG or PDF
exhibit_figure(exhibit, format) -> bytes all charts of an exhibit, stacked
exhibit_html(exhibit), answer_html(answer) -> str
exhibit_section(exhibit, level), figure_html(chart, name), table_html(table), html_page(title, sections) -> str
vega_bundle() -> str                     JavaScript for pages that draw for themselves
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ioweather.figures.alt_text import describe
    from ioweather.figures.bundle import vega_bundle
    from ioweather.figures.catalogue import KINDS
    from ioweather.figures.frame import html_page
    from ioweather.figures.page import (
        Drawn,
        answer_html,
        answer_section,
        exhibit_fragment,
        exhibit_html,
        exhibit_section,
        figure_html,
        provenance_html,
        table_html,
    )
    from ioweather.figures.render import draw, exhibit_figure, exhibit_spec, spec, static

_PLACES = {
    "Drawn": "page",
    "KINDS": "catalogue",
    "answer_html": "page",
    "answer_section": "page",
    "describe": "alt_text",
    "draw": "render",
    "exhibit_figure": "render",
    "exhibit_fragment": "page",
    "exhibit_html": "page",
    "exhibit_section": "page",
    "exhibit_spec": "render",
    "figure_html": "page",
    "html_page": "frame",
    "provenance_html": "page",
    "spec": "render",
    "static": "render",
    "table_html": "page",
    "vega_bundle": "bundle",
}

__all__ = [
    "KINDS",
    "Drawn",
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


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"ioweather.figures.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
