"""Exhibits and answers as HTML: headings, figures, tables, estimates with their intervals, and where it all came from.

Figures are drawn as SVG: no script, and a page opens wherever a ticket system shows it.

Each page is one file with no address outside it, for light and dark, phone and paper. Everything that comes from data
passes `html.escape`; the content security policy forbids all loading and all scripts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ioweather.core.papers import PAPERS
from ioweather.core.papers.comparison import comparison_table
from ioweather.core.results import (
    Answer,
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    FactGroup,
    Finding,
    Provenance,
    ResultColumn,
    ResultTable,
    quantity_label,
)
from ioweather.core.units import format_time_ns, format_value
from ioweather.ui.charts import theme as colours
from ioweather.ui.charts.chart_data import describe, legible
from ioweather.ui.charts.render import draw, spec
from ioweather.ui.charts.theme import Spec

PageTheme: TypeAlias = Literal["auto", "light", "dark"]

_VARIABLES: Final = {
    "paper": colours.BACKGROUND,
    "ink": colours.INK,
    "quiet": colours.SECONDARY,
    "line": colours.GRID,
    "edge": colours.AXIS,
    "accent": colours.SERIES[0],
    "warm": colours.SERIES[1],
}

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'none'; base-uri 'none'; "
    "form-action 'none'"
)

# Everything hangs on one class, so that a fragment inside somebody else's page (a notebook) changes nothing there.
_STYLE: Final = Path(__file__).with_name("page.css").read_text("utf-8")


def html_page(
    title: str, body_sections: Iterable[str], theme: PageTheme = "auto", *, footer: str = "", style: str = ""
) -> str:
    """A whole page from sections of safe markup; `style` is added to that of all pages."""
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="color-scheme" content="{"light dark" if theme == "auto" else theme}">',
        f"<title>{escape(title)}</title>",
        style_html(theme),
        f"<style>{style}</style>" if style else "",
    ]
    foot = f"<footer>{footer}</footer>" if footer else ""
    start = ["<!DOCTYPE html>", '<html lang="en">', "<head>", *head, "</head>", '<body class="iow">', "<main>"]
    body = [legible(part) for part in (*start, *body_sections, "</main>", foot)]
    return "\n".join([*body, "</body>", "</html>", ""])


def style_html(theme: PageTheme = "auto") -> str:
    """The style sheet of a page or of a fragment."""
    return f"<style>\n{_STYLE}{_colour_rules(theme)}</style>"


def prose(text: str) -> str:
    """A sentence as markup; what stands between backticks in it is a command."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def json_block(name: str, value: object) -> str:
    """Data for the page's script; a text in it cannot end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f'<script type="application/json" id="{escape(name)}">{_inert(text)}</script>'


def _inert(text: str) -> str:
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _colour_rules(theme: PageTheme) -> str:
    """Variables of the page and, for the dark, the partner of every colour in a drawing. Paper is always light."""
    light = _root(_VARIABLES) if theme != "dark" else ""
    night = _root({name: colours.DARK[colour] for name, colour in _VARIABLES.items()}) + "".join(
        f'.iow .chart [{kind}="{a}"]{{{kind}:{b}}}' for a, b in colours.DARK.items() for kind in ("fill", "stroke")
    )
    if theme == "light":
        return light
    if theme == "dark":
        return night
    return f"{light}\n@media screen and (prefers-color-scheme:dark){{{night}}}"


def _root(values: dict[str, str]) -> str:
    return ".iow{" + "".join(f"--{name}:{value};" for name, value in values.items()) + "}"


Screen: TypeAlias = Literal["wide", "narrow"]
_WIDTH_PX: Final[Mapping[Screen, int]] = {"wide": 760, "narrow": 330}
_MOST_ROWS = 400
_MOST_CHART_ROWS = 60
_MOST_ESTIMATES = 16
_MARK = {
    "supported": "agrees with the paper",
    "refuted": "contradicts the paper",
    "undecided": "undecided",
    "note": "",
    "alarm": "attention",
}
Styled: TypeAlias = tuple[str, str]  # a text and the class it is shown in: number, time or none


@dataclass(frozen=True)
class Drawn:
    """How the figures of a page are drawn. For one of the `screens` alone a figure takes half the time, and a smaller
    screen scrolls it. `live` adds the specification that the dashboard's script draws again, with what a pointer shows,
    when one comes over the figure. `height` is that of the plots."""

    screens: tuple[Screen, ...] = ("wide", "narrow")
    live: bool = False
    height: int | None = None


_STILL: Final = Drawn()


def exhibit_html(exhibit: Exhibit, theme: PageTheme = "auto") -> str:
    """One exhibit as a page of its own."""
    body, footer = exhibit_section(exhibit, 1), provenance_html(exhibit.provenance)
    return html_page(f"{exhibit.id}: {exhibit.title}", [body], theme, footer=footer)


def answer_html(answer: Answer, theme: PageTheme = "auto") -> str:
    """One answer as a page of its own."""
    return html_page(answer.headline, [answer_section(answer)], theme, footer=provenance_html(answer.provenance))


def answer_section(answer: Answer, level: int = 1, drawn: Drawn = _STILL, *, headed: bool = True) -> str:
    """One answer as a part of a page: the headline, unless the page has it, facts, then the exhibits behind them."""
    inner = level + 1
    head = [f'<p class="kicker">{escape(answer.question)}</p>', f"<h{level}>{prose(answer.headline)}</h{level}>"]
    parts = [*(head if headed else ()), _findings(answer.findings)]
    facts = "".join(_facts(group, inner) for group in answer.facts)
    parts += [f'<div class="groups">{facts}</div>' if facts else ""]
    parts += _closing(answer.caveats, answer.coverage, inner)
    parts += [exhibit_section(exhibit, inner, drawn, later=True) for exhibit in answer.exhibits]
    return "\n".join(part for part in parts if part)


def exhibit_fragment(exhibit: Exhibit, theme: PageTheme = "auto") -> str:
    """One exhibit for a place inside another page, such as a notebook: no script, and styles that stay inside."""
    body = exhibit_section(exhibit, 3) + provenance_html(exhibit.provenance)
    return legible(f'<div class="iow">{style_html(theme)}{body}</div>')


def answer_fragment(answer: Answer, theme: PageTheme = "auto") -> str:
    """The same of an answer."""
    body = answer_section(answer, 3) + provenance_html(answer.provenance)
    return legible(f'<div class="iow">{style_html(theme)}{body}</div>')


def exhibit_section(exhibit: Exhibit, level: int = 2, drawn: Drawn = _STILL, *, later: bool = False) -> str:
    """One exhibit as a part of a page; its headings begin at `level`, its id is the anchor, and `later` sets it off
    from what stands above it."""
    inner = level + 1
    of_paper = exhibit.id.partition(".")[0] in PAPERS  # of others the id says nothing to a reader
    parts = [f'<p class="kicker">{escape(exhibit.id)}</p>'] if of_paper else []
    parts += [f"<h{level}>{escape(exhibit.title)}</h{level}>"]
    parts += [_findings(exhibit.findings)]
    for number, chart in enumerate(exhibit.charts):
        name = f"{exhibit.id}-{number + 1}"
        head = replace(chart, title="") if chart.title == exhibit.title else chart  # said above
        with_rows = chart.table not in exhibit.tables
        parts.append(figure_html(head, name, inner, drawn, with_rows=with_rows))
    parts += [_estimates(exhibit.estimates, inner)]
    parts += [table_html(table) for table in exhibit.tables]
    parts += [_published(exhibit, inner)]
    parts += _closing(exhibit.caveats, exhibit.coverage, inner)
    if level == 2 and exhibit.provenance != Provenance():
        parts.append(f"<details><summary>Provenance</summary>{provenance_html(exhibit.provenance)}</details>")
    content = "\n".join(part for part in parts if part)
    kind = "exhibit later" if later else "exhibit"
    return f'<section class="{kind}" id="{escape(exhibit.id)}">\n{content}\n</section>'


def figure_html(chart: Chart, name: str, level: int = 2, drawn: Drawn = _STILL, *, with_rows: bool = True) -> str:
    """A chart; its title is a heading of the page, not a text in the picture."""
    untitled = replace(chart, title="")
    specs = {screen: spec(untitled, width=_WIDTH_PX[screen], height=drawn.height) for screen in drawn.screens}
    text = escape(describe(chart))
    heading = f"<h{level}>{escape(chart.title)}</h{level}>" if chart.title else ""
    is_one, alone = len(specs) == 1, {"wide": "scroll", "narrow": "fitted"}
    # What scrolls has a name. The dashboard's script asks for the drawing that its screen has room for.
    focus = f' role="region" tabindex="0" aria-label="{text}"' if is_one and not drawn.live else ""
    picture = "".join(
        f'<div class="{alone[screen] if is_one else screen}"{focus}>{_inline_svg(part, f"{name}-{screen}", text)}</div>'
        for screen, part in specs.items()
    )
    block = ""
    if drawn.live:
        (one,) = specs.values()
        block = json_block(f"{name}-spec", {key: value for key, value in one.items() if key != "$schema"})
    rows = _chart_rows(chart) if with_rows else ""
    return f'{heading}\n<figure class="chart"{" data-live" if drawn.live else ""}>{picture}{block}{rows}</figure>'


def _inline_svg(specification: Spec, name: str, text: str) -> str:
    """The drawing as an element of the page, with ids of its own and a description."""
    svg = draw(specification, prefix=f"c{hashlib.sha256(name.encode()).hexdigest()[:8]}-").decode()
    return svg.replace("<svg ", f'<svg role="img" aria-label="{text}" ', 1)


def _chart_rows(chart: Chart) -> str:
    if not 0 < len(chart.table.rows) <= _MOST_CHART_ROWS:
        return ""
    return f"<details><summary>The numbers behind this chart</summary>{table_html(chart.table)}</details>"


def table_html(table: ResultTable) -> str:
    """A table with its headings; numbers stand to the right, in the units people read."""
    if not table.rows:
        return f'<p class="quiet">{escape(table.title)}: none.</p>' if table.title else ""
    kinds = [_kind_of(column, table.column(column.name)) for column in table.columns]
    heads = [(column.heading, kind) for column, kind in zip(table.columns, kinds, strict=True)]
    units = [column.unit for column in table.columns]
    rows = [
        [(format_value(cell, unit), kind) for cell, unit, kind in zip(row, units, kinds, strict=True)]
        for row in table.rows[:_MOST_ROWS]
    ]
    more = len(table.rows) - _MOST_ROWS
    note = f'<p class="quiet">{more:,} more rows are not shown.</p>' if more > 0 else ""
    return _table(heads, rows, caption=table.title) + note


def _kind_of(column: ResultColumn, cells: Sequence[Cell]) -> str:
    if column.unit in ("time_ns", "date"):
        return "time"
    return "" if column.unit == "text" or any(isinstance(cell, (str, bool)) for cell in cells) else "number"


def _table(heads: Sequence[Styled], rows: Iterable[Sequence[Styled]], *, caption: str = "") -> str:
    """The first column names its row."""
    head = "".join(f'<th scope="col"{_class(kind)}>{escape(text)}</th>' for text, kind in heads)
    body = "".join(f"<tr>{_cell(row[:1], 'th')}{_cell(row[1:], 'td')}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return _scrolling(f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", caption or "Table")


def _cell(cells: Sequence[Styled], element: str) -> str:
    scope = ' scope="row"' if element == "th" else ""
    return "".join(f"<{element}{scope}{_class(kind)}>{escape(text)}</{element}>" for text, kind in cells)


def _scrolling(table: str, label: str) -> str:
    """A region that scrolls must be reachable by keyboard, and have a name."""
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">{table}</div>'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    items = "".join(
        f'<li class="{finding.kind}">{_tag(_MARK[finding.kind])}{prose(finding.text)}</li>' for finding in findings
    )
    return f'<ul class="findings">{items}</ul>'


def _tag(text: str) -> str:
    return f'<span class="tag">{text}</span>' if text else ""


def _estimates(estimates: Sequence[Estimate], level: int) -> str:
    """Of very many the first; the others wait to be asked for."""
    if not estimates:
        return ""
    heads = [("Estimate", ""), ("Value", "number"), ("Interval", "number"), ("n", "number"), ("Method", "")]
    rows = [
        [
            (quantity_label(estimate.name, estimate.unit), ""),
            (format_value(estimate.value, estimate.unit), "number"),
            (_interval(estimate), "number"),
            (format_value(estimate.n, "count"), "number"),
            (estimate.method, "method"),
        ]
        for estimate in estimates
    ]
    more = len(rows) - _MOST_ESTIMATES
    rest = f"<details><summary>{more} more</summary>{_table(heads, rows[_MOST_ESTIMATES:])}</details>"
    return f"<h{level}>Estimates</h{level}>{_table(heads, rows[:_MOST_ESTIMATES])}{rest if more > 0 else ''}"


def _published(exhibit: Exhibit, level: int) -> str:
    compared = comparison_table(exhibit)
    return f"<h{level}>Published, and here</h{level}>{table_html(replace(compared, title=''))}" if compared else ""


def _interval(estimate: Estimate) -> str:
    if estimate.low is None and estimate.high is None:
        return "–"
    low, high = (format_value(v, estimate.unit) for v in (estimate.low, estimate.high))
    level = f" ({estimate.level:.0%})" if estimate.level is not None else ""
    return f"{low} to {high}{level}"


def _facts(group: FactGroup, level: int) -> str:
    rows = []
    for fact in group.facts:
        bar = _bar(fact.share) if fact.share is not None else ""
        rows.append(
            f'<tr><th scope="row">{escape(fact.label)}</th>'
            f'<td class="number">{escape(format_value(fact.value, fact.unit))}</td>'
            f"<td>{bar}</td><td>{escape(fact.note)}</td></tr>"
        )
    table = f'<table class="facts"><tbody>{"".join(rows)}</tbody></table>'
    return f"<div><h{level}>{escape(group.title)}</h{level}>{_scrolling(table, group.title)}</div>"


def _bar(share: float) -> str:
    filled = min(max(share, 0.0), 1.0) * 100 if share == share else 0.0
    text = format_value(share, "ratio")
    return (
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{text}">'
        f'<rect class="track" width="100" height="8"/><rect class="share" width="{filled:.1f}" height="8"/></svg>'
    )


def _closing(caveats: Sequence[str], coverage: Sequence[Coverage], level: int) -> list[str]:
    parts = []
    if caveats:
        items = "".join(f"<li>{prose(caveat)}</li>" for caveat in caveats)
        parts.append(f"<h{level}>Caveats</h{level}><ul>{items}</ul>")
    if coverage:
        items = "".join(f"<li>{escape(c.sentence)}</li>" for c in coverage)
        parts.append(f"<h{level}>Coverage</h{level}><ul>{items}</ul>")
    return parts


def provenance_html(provenance: Provenance) -> str:
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
    rows = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in pairs if value)
    return f"<dl>{rows}</dl>" if rows else ""
