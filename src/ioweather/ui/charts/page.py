"""Exhibits and answers as HTML: headings, figures, tables, estimates with their intervals, and provenance.

Figures are drawn as SVG: no script, and a page opens wherever a ticket system shows it.

Each page is one file with no address outside it, for light and dark, phone and paper. Everything that comes from data
passes `html.escape`; the content security policy forbids all loading and all scripts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ioweather.core.papers import PAPERS, exhibit_entry
from ioweather.core.papers.claim_tests import comparison_table
from ioweather.core.results import (
    Answer,
    Block,
    Cell,
    Chart,
    Estimate,
    Exhibit,
    FactGroup,
    Finding,
    Item,
    Items,
    Next,
    Provenance,
    ResultColumn,
    ResultTable,
    quantity_label,
)
from ioweather.core.units import format_span, format_time_ns, format_value, marked
from ioweather.ui.charts import theme as colours
from ioweather.ui.charts.chart_data import describe
from ioweather.ui.charts.render import draw, spec
from ioweather.ui.charts.theme import Spec

_VARIABLES: Final = {
    "paper": colours.BACKGROUND,
    "ink": colours.INK,
    "quiet": colours.SECONDARY,
    "line": colours.GRID,
    "edge": colours.AXIS,
    "accent": colours.SERIES[0],
    "warm": colours.SERIES[5],
}

_POLICY: Final = Markup(
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'none'; base-uri 'none'; "
    "form-action 'none'"
)

# Everything hangs on one class, so that a fragment inside another page (a notebook) changes nothing there.
_STYLE: Final = Path(__file__).with_name("page.css").read_text("utf-8")


Screen: TypeAlias = Literal["wide", "narrow"]
RowAddress: TypeAlias = Callable[[Sequence[Any]], str]  # of a row of a table; empty where it has none
_NO_LINKS: Final[Mapping[str, RowAddress]] = {}
_WIDTH_PX: Final[Mapping[Screen, int]] = {"wide": 760, "narrow": 330}
_MOST_ROWS = 400
_THUMBNAIL_PX = 100
_MOST_CHART_ROWS = 60
_MOST_ESTIMATES = 16
_MARK = {
    "supported": "agrees with the paper",
    "refuted": "contradicts the paper",
    "undecided": "undecided",
    "note": "",
    "alarm": "attention",
}


@dataclass(frozen=True)
class Drawn:
    """How the figures of a page are drawn. A smaller screen scrolls those of a wide one. `live` adds the specification
    that the dashboard's script draws again, with what a pointer shows, when one comes over the figure. `height` is that
    of the plots, `width` that of the drawing where it is known."""

    screen: Screen = "wide"
    live: bool = False
    height: int | None = None
    width: int | None = None


_STILL: Final = Drawn()


def prose(text: str) -> Markup:
    """A sentence as markup; text in backticks is a command."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def templates(folder: Path) -> Environment:
    """The templates of `folder`, and those of results."""
    made = Environment(
        loader=FileSystemLoader((folder, Path(__file__).with_name("templates"))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(unit=format_value, prose=prose)
    made.globals["marks"] = _MARK
    return made


_RESULTS: Final[Any] = templates(Path(__file__).with_name("templates")).get_template("results.html").module


def html_page(title: str, body_sections: Iterable[str], *, footer: str = "", style: str = "") -> str:
    """A whole page from sections of safe markup; `style` is added to that of all pages."""
    parts = (Markup(part) for part in body_sections)
    return marked(_RESULTS.page(title, _POLICY, Markup(style_html()), Markup(style), parts, Markup(footer)))


def style_html() -> str:
    """The style sheet of a page or of a fragment: variables and, for the dark, the partner of every colour in a
    drawing. Paper is always light."""
    dark = {name: colours.DARK[colour] for name, colour in _VARIABLES.items()}
    night = _format_css_rule(dark) + "".join(
        f'.iow .chart [{kind}="{a}"]{{{kind}:{b}}}' for a, b in colours.DARK.items() for kind in ("fill", "stroke")
    )
    day = f"{_STYLE}{_format_css_rule(_VARIABLES)}"
    return f"<style>\n{day}\n@media screen and (prefers-color-scheme:dark){{{night}}}</style>"


def json_block(name: str, value: object) -> Markup:
    """Data for the page's script; a text in it cannot end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup('<script type="application/json" id="{}">{}</script>').format(name, Markup(text))


def _format_css_rule(values: dict[str, str]) -> str:
    """A CSS rule that sets variables."""
    return ".iow{" + "".join(f"--{name}:{value};" for name, value in values.items()) + "}"


def exhibit_html(exhibit: Exhibit) -> str:
    """One exhibit as a page of its own."""
    footer = provenance_html(exhibit.provenance)
    return html_page(f"{exhibit.id}: {exhibit.title}", [exhibit_section(exhibit, 1)], footer=footer)


def answer_html(answer: Answer) -> str:
    """One answer as a page of its own."""
    return html_page(answer.headline, [answer_section(answer)], footer=provenance_html(answer.provenance))


def fragment_html(result: Exhibit | Answer) -> str:
    """A result for a place inside another page, such as a notebook: no script, and styles that stay inside."""
    body = exhibit_section(result, 3) if isinstance(result, Exhibit) else answer_section(result, 3)
    return marked(f'<div class="iow">{style_html()}{body}{provenance_html(result.provenance)}</div>')


def answer_section(answer: Answer, level: int = 1, drawn: Drawn = _STILL, *, headed: bool = True) -> Markup:
    """One answer as a part of a page: the headline, unless the page has it, the blocks of its first screen, then the
    evidence that these do not show."""
    blocks = [block_html(block, level + 1, drawn, f"block-{number}") for number, block in enumerate(answer.blocks)]
    shown = {block.name for block in answer.blocks if isinstance(block, FactGroup)}
    said = {block.text for block in answer.blocks if isinstance(block, Finding)}
    charted = [block.table for block in answer.blocks if isinstance(block, Chart)]
    rest = replace(
        answer,
        facts=tuple(group for group in answer.facts if group.name not in shown),
        findings=tuple(finding for finding in answer.findings if finding.text not in said),
    )
    exhibits = [
        exhibit_section(exhibit, level + 1, drawn, later=True)
        for exhibit in answer.exhibits
        if not exhibit.charts or not all(any(chart.table is each for each in charted) for chart in exhibit.charts)
    ]
    return _markup(_RESULTS.answer(rest, level, headed, blocks, exhibits, folded=bool(blocks) and not drawn.live))


def block_html(block: Block, level: int, drawn: Drawn, name: str) -> Markup:
    """One block of a screen. The dashboard has links where other surfaces have the next command."""
    match block:
        case FactGroup():
            return _markup(_RESULTS.facts(block, level))
        case Items():
            return items_html(block, level)
        case ResultTable():
            return table_html(block)
        case Chart():
            return figure_html(block, name, level, drawn)
        case Finding():
            return _markup(_RESULTS.findings((block,)))
        case Next():
            return Markup("") if drawn.live else _markup(_RESULTS.next(block))


def exhibit_section(
    exhibit: Exhibit, level: int = 2, drawn: Drawn = _STILL, *, later: bool = False, actions: str = ""
) -> Markup:
    """One exhibit as a part of a page; its headings begin at `level`, its id is the anchor, and `later` separates
    it from the section above. With `actions`, such as downloads, it is the whole page: its heading is the finding."""
    of_paper = exhibit.id.partition(".")[0] in PAPERS  # of others the id says nothing to a reader
    figures = []
    for number, chart in enumerate(exhibit.charts, 1):
        shown = replace(chart, title="") if chart.title == exhibit.title else chart  # the section has this title
        with_rows = chart.table not in exhibit.tables
        figures.append(figure_html(shown, f"{exhibit.id}-{number}", level + 1, drawn, with_rows=with_rows))
    tables = [table_html(table) for table in exhibit.tables]
    published = comparison_table(exhibit)
    compared = table_html(replace(published, title="")) if published else ""
    origin = provenance_html(exhibit.provenance) if level == 2 and exhibit.provenance != Provenance() else ""
    estimates = _tabulate_estimates(exhibit.estimates, level + 1)
    if actions:
        paper, entry = PAPERS[exhibit.id.partition(".")[0]], exhibit_entry(exhibit.id)
        parts = (figures, estimates, tables, published, compared, provenance_html(exhibit.provenance))
        return _markup(_RESULTS.exhibit_page(exhibit, paper, entry, Markup(actions), *parts))
    return _markup(_RESULTS.exhibit(exhibit, level, later, of_paper, figures, estimates, tables, compared, origin))


def items_html(found: Items, level: int, address: Callable[[Item], str] = lambda _: "") -> Markup:
    """A list; `address` says where the name of an item leads."""
    rows = [
        (item, format_span(item.start_ns, item.end_ns) if item.start_ns is not None else "", address(item))
        for item in found.items
    ]
    if not isinstance(found.more, Markup) and "--" in found.more:  # options of a command
        found = replace(found, more=found.more.partition(": ")[0])
    return _markup(_RESULTS.items(found, rows, level))


def _markup(text: str) -> Markup:
    return Markup(text.strip())


def figure_html(chart: Chart, name: str, level: int = 2, drawn: Drawn = _STILL, *, with_rows: bool = True) -> Markup:
    """A chart; its title is a heading of the page, not a text in the picture."""
    drawing = spec(replace(chart, title=""), width=drawn.width or _WIDTH_PX[drawn.screen], height=drawn.height)
    if drawn.height is not None and drawn.height < _THUMBNAIL_PX:
        drawing.pop("title", None)  # a thumbnail has no notes
    text = describe(chart)
    picture = _draw_inline_svg(drawing, f"{name}-{drawn.screen}", text)
    kind = "scroll" if drawn.screen == "wide" else "fitted"
    # What scrolls has a name. The dashboard's script asks for the drawing that its screen has room for.
    label, block = text, Markup("")
    if drawn.live:
        drawing.pop("$schema")
        label, block = "", json_block(f"{name}-spec", drawing)
    rows = table_html(chart.table) if with_rows and 0 < len(chart.table.rows) <= _MOST_CHART_ROWS else ""
    return _markup(_RESULTS.figure(chart.title, level, kind, label, picture, drawn.live, block, rows))


def _draw_inline_svg(specification: Spec, name: str, text: str) -> Markup:
    """The drawing as an element of the page, with ids of its own and a description."""
    svg = draw(specification, prefix=f"c{hashlib.sha256(name.encode()).hexdigest()[:8]}-").decode()
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(text)}" ', 1))


class _Cell(NamedTuple):
    """One cell as it is shown; `value` is what a script sorts by."""

    text: str
    kind: str = ""
    link: str = ""
    value: Cell = None


def table_html(table: ResultTable, links: Mapping[str, RowAddress] = _NO_LINKS, tools: str = "") -> Markup:
    """A table with its headings; numbers are right-aligned, in readable units. `links` maps a heading to the address
    of a row. With `tools` of the dashboard's script all rows are shown, but no column without a value."""
    shown = table.rows if tools else table.rows[:_MOST_ROWS]
    columns: list[list[_Cell]] = []
    for place, column in enumerate(table.columns):
        values = [row[place] for row in table.rows]
        if tools and place and all(value in (None, "") for value in values):
            continue
        address, kind = links.get(column.heading), _find_column_kind(column, values)
        sortable = bool(tools and kind)
        cells = [
            _Cell(format_value(value, column.unit), kind, address(row) if address else "", value if sortable else None)
            for row, value in zip(shown, values, strict=False)
        ]
        columns.append([_Cell(column.heading, kind), *cells])
    heads, *rows = zip(*columns, strict=True)
    return _markup(_RESULTS.result_table(table.title, heads, rows, len(table.rows) - len(shown), tools))


def _find_column_kind(column: ResultColumn, cells: Sequence[Cell]) -> str:
    """The class of a column: time, number or none."""
    if column.unit in ("time_ns", "date"):
        return "time"
    return "" if column.unit == "text" or any(isinstance(cell, (str, bool)) for cell in cells) else "number"


def _tabulate_estimates(estimates: Sequence[Estimate], level: int) -> Markup:
    """A table of estimates; those after the first few are folded."""
    columns = "Estimate [text]; Value [text]; Interval [text]; n [count]; Method [text]"
    rows = [
        (quantity_label(e.name, e.unit), format_value(e.value, e.unit), _format_interval(e), e.n, e.method)
        for e in estimates
    ]
    tables = [
        table_html(ResultTable.of("estimates", columns, part)) if part else ""
        for part in (rows[:_MOST_ESTIMATES], rows[_MOST_ESTIMATES:])
    ]
    return _markup(_RESULTS.estimates(*tables, len(rows) - _MOST_ESTIMATES, level))


def _format_interval(estimate: Estimate) -> str:
    """The interval of an estimate with its level; a dash where there is none."""
    if estimate.low is None and estimate.high is None:
        return "–"
    low, high = (format_value(v, estimate.unit) for v in (estimate.low, estimate.high))
    level = f" ({estimate.level:.0%})" if estimate.level is not None else ""
    return f"{low} to {high}{level}"


def provenance_html(provenance: Provenance) -> Markup:
    """What is needed to make the same result again; empty where nothing is known."""
    pairs = [
        ("Lake", provenance.lake),
        ("Tables", ", ".join(f"{name} version {number}" for name, number in provenance.table_versions.items())),
        ("Parameters", ", ".join(f"{name} = {format_value(value)}" for name, value in provenance.params.items())),
        ("Facility", provenance.facility_digest),
        ("Inputs", provenance.input_digest),
        ("ioweather", provenance.software_version),
        ("Made", format_time_ns(provenance.made_ns) if provenance.made_ns else ""),
    ]
    return _markup(_RESULTS.provenance([(name, value) for name, value in pairs if value]))
