"""The report as one HTML file: a sheet for the director, one for operators, and the science as an appendix that folds:
summary, contents, exhibits by paper, what was left out, methods, provenance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from markupsafe import Markup

from ioweather._version import __version__
from ioweather.core.papers import PAPERS
from ioweather.core.papers.catalogue import document
from ioweather.core.progress import Progress, silent
from ioweather.core.results import Provenance, ResultTable
from ioweather.core.units import format_time_ns
from ioweather.ui.charts import Drawn, exhibit_section, figure_html, html_page, provenance_html, table_html
from ioweather.ui.charts.page import templates
from ioweather.ui.report.front import Sheet
from ioweather.ui.report.gather import Made, Material, without_repeats

# In an equation they are set below and above the line.
_RAISED: Final = re.compile(r"([_^])\{([^}]*)\}")


def equation_html(text: str) -> Markup:
    """The equation as markup."""
    marks = {"_": "sub", "^": "sup"}
    return Markup(_RAISED.sub(lambda m: f"<{marks[m[1]]}>{m[2]}</{marks[m[1]]}>", escape(text)))


_TEMPLATES = templates(Path(__file__).with_name("templates"))
_SUBJECTS = {
    "car11": "Applications, throughput and contents",
    "don15": "Response times",
    "kun19": "Slowdown",
    "mad17": "Jobs and the system",
    "pat19": "Climate of the servers",
}


_CHART_PX = 120


def report_html(
    material: Material,
    sheets: Sequence[Sheet] = (),
    *,
    anonymous: bool = False,
    appendix: bool = True,
    progress: Progress = silent,
) -> str:
    """The whole file."""
    made = without_repeats(material.made)
    name = "a facility" if anonymous else material.facility.name
    parts = [_sheet_html(sheet, number, material) for number, sheet in enumerate(sheets)]
    if appendix:
        inside = "".join(part for part in _science(material, made, progress) if part)
        ids = {m.exhibit.id.partition("@")[0] for m in made}
        summary = f"Science: {len(ids)} exhibits of five papers, methods"
        parts.append(f'<details class="appendix"><summary>{summary}</summary>{inside}</details>')
    provenance = Provenance(
        lake="" if anonymous else material.lake,
        table_versions=material.table_versions,
        facility_digest=material.facility.digest,
        software_version=__version__,
        made_ns=material.made_ns,
    )
    return html_page(
        f"Storage of {name}",
        parts,
        footer=provenance_html(provenance),
        style=Path(__file__).with_name("templates").joinpath("report.css").read_text("utf-8"),
    )


def _sheet_html(sheet: Sheet, number: int, material: Material) -> str:
    simulated = " This facility is simulated: nothing here was measured." if material.facility.simulated else ""
    figures = [
        Markup(figure_html(chart, f"sheet{number}-{i}", 3, Drawn(height=_CHART_PX), with_rows=False))
        for i, chart in enumerate(sheet.charts)
    ]
    kicker, tables = f"ioweather report. {_period(material)}{simulated}", [Markup(table_html(t)) for t in sheet.tables]
    template = _TEMPLATES.get_template("sheet.html")
    return template.render(sheet=sheet, first=number == 0, kicker=kicker, figures=figures, tables=tables)


def _science(material: Material, made: Sequence[Made], progress: Progress) -> Iterator[str]:
    of_papers = [(paper, [m for m in made if m.exhibit.id.startswith(f"{paper.key}.")]) for paper in PAPERS.values()]
    shown = [(paper, _SUBJECTS[paper.key], mine) for paper, mine in of_papers if mine]
    yield _TEMPLATES.get_template("opening.html").render(
        sentences=_opening(material, made), statements=_statements(made), papers=shown, left_out=bool(material.left_out)
    )
    for number, (paper, subject, mine) in enumerate(shown):
        progress(number, len(PAPERS), f"drawing {paper.key}")
        yield _TEMPLATES.get_template("paper.html").render(paper=paper, subject=subject)
        # Many figures, for whoever sits down to read them: drawing each for a phone too would take as long again.
        yield from (exhibit_section(m.exhibit, 3, Drawn(screens=("wide",)), later=True) for m in mine)
    progress(len(PAPERS), len(PAPERS), "")
    yield _left_out(material)
    yield _coverage_part(material)
    said = [(paper, document(key)) for key, paper in PAPERS.items()]
    yield _TEMPLATES.get_template("methods.html").render(papers=said, equation=equation_html)


def _opening(material: Material, made: Sequence[Made]) -> list[str]:
    kinds = [f.kind for m in made for f in m.exhibit.findings if f.claim and m.exhibit.id != "pat19.observations"]
    rows = material.table_rows
    names = {
        "series": "samples of servers",
        "applications": "runs with a Darshan log",
        "jobs": "jobs in accounting",
        "responses": "timed operations",
        "scans": "scans of contents",
    }
    counts = [(rows.get(table, 0), what) for table, what in names.items()]
    held = ", ".join(f"{n:,} {what}" for n, what in counts if n) or "nothing yet"
    ids = {m.exhibit.id.partition("@")[0] for m in made}
    total = len(ids) + len(material.left_out)
    empty = sum(item.reason.startswith("empty: ") for item in material.left_out)
    sentences = [
        "This facility is simulated: nothing here was measured." if material.facility.simulated else "",
        f"{_period(material)} The lake holds {held}.",
        f"{len(ids)} of {total} exhibits of the five papers are made, {empty} would be empty, and "
        f"{total - len(ids) - empty} are not possible with these data; each says why.",
        f"Of what the papers state, {kinds.count('refuted'):,} statements are contradicted here, "
        f"{kinds.count('supported'):,} agree, and {kinds.count('undecided'):,} are not decided by these data.",
    ]
    return [sentence for sentence in sentences if sentence]


def _period(material: Material) -> str:
    low, high = material.period_ns
    if material.span_ns is not None:
        low, high = max(low, material.span_ns[0]), min(high, material.span_ns[1])
    elif high >= 2**62:
        return ""
    return f"From {format_time_ns(low)[:16]} to {format_time_ns(high)[:16]} UTC."


def _statements(made: Sequence[Made]) -> Iterator[tuple[str, str, dict[str, list[tuple[str, str]]]]]:
    """What the papers state and this site contradicts first, for that is news; then what agrees with them: a heading,
    its kind, and by subject the sentences with their exhibits."""
    every = [m for m in made if not m.exhibit.id.startswith("pat19.observations")]  # it repeats what others found
    for kind, heading in (("refuted", "Different from the papers"), ("supported", "As in the papers")):
        groups: dict[str, list[tuple[str, str]]] = {}
        for m in every:
            subject = " ".join(filter(None, [_SUBJECTS[m.exhibit.id.partition(".")[0]], m.filesystem]))
            for finding in (f for f in m.exhibit.findings if f.kind == kind):
                groups.setdefault(subject, []).append((finding.text, m.exhibit.id))
        yield heading, kind, groups


def _left_out(material: Material) -> str:
    if not material.left_out:
        return ""
    rows = ((item.id, item.title, item.reason) for item in material.left_out)
    columns = "id: exhibit [text]; title: what it shows [text]; reason: why not [text]"
    return f'<h2 id="left-out">What could not be made</h2>{table_html(ResultTable.of("left_out", columns, rows))}'


def _coverage_part(material: Material) -> str:
    rows = ((name, count) for name, count in material.table_rows.items() if count)
    table = table_html(ResultTable.of("tables", "table [text]; rows [count]", rows))
    text = "<p>Coverage and caveats stand with each exhibit. Times are UTC; sizes are in powers of two.</p>"
    return f'<h2 id="coverage">What the lake holds</h2>{text}{table}'
