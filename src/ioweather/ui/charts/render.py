"""Charts as Vega-Lite specifications and as pictures: SVG, PNG or PDF, without a browser and without a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import vl_convert

from ioweather.core.errors import UsageError
from ioweather.core.results import Chart, Exhibit
from ioweather.core.units import marked
from ioweather.ui.charts.chart_data import describe
from ioweather.ui.charts.kinds import KINDS
from ioweather.ui.charts.panels import HOVER
from ioweather.ui.charts.theme import LABEL_SIZE, Spec, config, wrapped

Format: TypeAlias = Literal["svg", "png", "pdf"]
Column: TypeAlias = Literal["single", "double"]
# Columns of IEEE and ACM. Letters of 11 pixels of 1/96 inch are about 8 points there.
COLUMN_INCHES: Final[Mapping[Column, float]] = {"single": 3.5, "double": 7.16}
_PX_PER_INCH: Final = 96
_SIZE: Final = re.compile(r'width="([\d.]+)" height="([\d.]+)"')
_NUMBERS: Final = (float, int)

# For editors and notebooks. What is written here is the same in versions 5 and 6; the installed vl-convert draws
# with the newest it has, which is the one its Vega was made for.
_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
_STACK_SPACING: Final = 34
# A legend stays with its plot, below the title; a shared one would be above everything.
_INDEPENDENT: Final = {
    "scale": dict.fromkeys(("color", "fill", "stroke", "strokeDash", "shape", "size"), "independent")
}
_ID: Final = re.compile(r'\bid="([^"]+)"')
_USE: Final = re.compile(r"url\(#([^)]+)\)")
# Vega gives its groups of marks a role without a name, whatever the configuration says. The picture as a whole has one.
_NAMELESS: Final = re.compile(r' role="graphics-(?:symbol|object)" aria-roledescription="[^"]*"')


def spec(chart: Chart, width: int = 640, height: int | None = None) -> Spec:
    """The Vega-Lite specification of a chart, with its data inside, about `width` pixels wide; its plots `height`
    pixels high, where that is given."""
    return _finish_spec(_build_body(chart, width, height), describe(chart))


def exhibit_spec(exhibit: Exhibit, width: int = 640) -> Spec:
    """All charts of an exhibit as one picture, one below the other."""
    if not exhibit.charts:
        raise UsageError(
            f"Exhibit {exhibit.id} has no chart to draw.", hint="Write it as .html, .json or .csv to see its tables."
        )
    bodies = [_build_body(chart, width) for chart in exhibit.charts]
    if len(bodies) == 1 and not exhibit.charts[0].title:
        bodies[0] = _build_body(replace(exhibit.charts[0], title=exhibit.title), width)
    text = " ".join(describe(chart) for chart in exhibit.charts)
    if len(bodies) == 1:
        return _finish_spec(bodies[0], text)
    for body in bodies:  # plots are stacked, so their titles begin where the plots do
        if "title" in body:
            body["title"] = body["title"] | {"frame": "group"}
    stacked: Spec = {"vconcat": bodies, "spacing": _STACK_SPACING, "resolve": _INDEPENDENT}
    return _finish_spec(stacked, text)


def exhibit_figure(
    exhibit: Exhibit,
    format: Format = "svg",  # noqa: A002
    scale: float = 2.0,
    origin: str = "",
    column: Column | None = None,
) -> bytes:
    """All charts of an exhibit as one picture; `origin` (facility and period) is printed below it. `column`: as
    wide as one column of a printed paper or as both, PNG then in 300 dots per inch."""
    inches = COLUMN_INCHES[column] if column else None
    width = round(inches * _PX_PER_INCH) if inches else 640
    whole = exhibit_spec(exhibit, width)
    if not origin:
        return draw(whole, format, scale, inches=inches)
    outer: Spec = {
        key: whole[key] for key in ("$schema", "description", "config", "background", "padding") if key in whole
    }
    inner = {key: value for key, value in whole.items() if key not in outer}
    words = {"text": wrapped(marked(origin), width - 16, LABEL_SIZE), "fontSize": LABEL_SIZE, "fontWeight": "normal"}
    below = words | {"orient": "bottom", "anchor": "start", "offset": 12, "frame": "bounds"}
    titled: Spec = {**outer, "vconcat": [inner], "resolve": _INDEPENDENT, "title": below}
    return draw(titled, format, scale, inches=inches)


def draw(
    specification: Spec,
    format: Format = "svg",  # noqa: A002
    scale: float = 1.0,
    prefix: str = "i",
    inches: float | None = None,
) -> bytes:
    """A specification as a picture, exactly `inches` wide if given. Drawings in a page must not share the `prefix` of
    their ids."""
    # No address is allowed: a specification that asks for one fails instead of waiting for a network.
    drawn = vl_convert.vegalite_to_svg(_remove_tooltips(specification), allowed_base_urls=[])
    svg = _prefix_ids(_NAMELESS.sub("", drawn), prefix)
    if inches is not None and (size := _SIZE.search(svg)):
        width, height = float(size[1]), float(size[2])
        scale = inches * 300 / width
        unit, per_inch = ("in", 1) if format == "svg" else ("", 72)  # a PDF has a point for each unit of the drawing
        across, down = (f"{inches * per_inch * part / width:.5g}{unit}" for part in (width, height))
        svg = svg if format == "png" else _SIZE.sub(f'width="{across}" height="{down}"', svg, count=1)
    if format == "svg":
        return svg.encode()
    return bytes(vl_convert.svg_to_png(svg, scale=scale) if format == "png" else vl_convert.svg_to_pdf(svg))


def _prefix_ids(svg: str, prefix: str) -> str:
    """The drawing with its ids in the order of their appearance after `prefix`. Vega counts them through the life of a
    process, so the same chart would not give the same bytes twice."""
    numbers = {name: f"{prefix}{i}" for i, name in enumerate(dict.fromkeys(_ID.findall(svg)))}
    svg = _ID.sub(lambda match: f'id="{numbers[match[1]]}"', svg)
    return _USE.sub(lambda match: f"url(#{numbers.get(match[1], match[1])})", svg)


def _build_body(chart: Chart, width: int, height: int | None = None) -> Spec:
    """The specification without configuration; raises UsageError where channels are missing or unknown."""
    kind = KINDS[chart.kind]
    if height is not None:
        usual = kind.size
        kind = replace(kind, size=lambda *of: (usual(*of)[0], height))
    missing = [channel for channel in kind.required if channel not in chart.encoding]
    unknown = sorted(set(chart.encoding) - set(kind.required) - set(kind.optional))
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"does not use {', '.join(unknown)}"
        raise UsageError(f"The {chart.kind} chart {chart.title!r} {wrong}.")
    return kind.build(chart, width)


def _finish_spec(body: Spec, description: str) -> Spec:
    """The specification with description and configuration."""
    whole: Spec = _make_legible({"$schema": _SCHEMA, "description": description, "config": config(), **body})
    return whole


def _make_legible(value: Any) -> Any:
    """The specification without characters that XML forbids, which would abort vl-convert and the process, and without
    marks of direction."""
    if isinstance(value, dict):  # numbers, which rows are made of, are not looked at one by one
        return {k: v if type(v) in _NUMBERS else _make_legible(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_make_legible(item) for item in value]
    return marked(value) if isinstance(value, str) else value


def _remove_tooltips(value: Any) -> Any:
    """The specification without what only a pointer can reach."""
    if isinstance(value, dict):
        return {k: v if k == "data" else _remove_tooltips(v) for k, v in value.items() if k != "tooltip"}
    if isinstance(value, list):
        return [_remove_tooltips(v) for v in value if not (isinstance(v, dict) and v.get("name") == HOVER)]
    return value


@cache
def vega_bundle() -> str:
    """The JavaScript text for browsers; building it takes two seconds."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;window.vegaLite=vegaLite;window.vega=vega;"))
