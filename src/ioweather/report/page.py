"""The report as one HTML file: a sheet for the director, one for operators, and the science as an appendix that folds:
summary, contents, exhibits by paper, what was left out, methods, provenance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ioweather._version import __version__
from ioweather.core.papers import PAPERS, Paper
from ioweather.core.progress import Progress, silent
from ioweather.core.results import Provenance, ResultTable
from ioweather.core.units import format_time_ns
from ioweather.figures import Drawn, exhibit_section, figure_html, html_page, provenance_html, table_html
from ioweather.report.front import Sheet
from ioweather.report.gather import Made, Material, without_repeats

# What each paper computes, in a few sentences and with its equations, for the reader of a report.
#
# `_{...}` and `^{...}` in an equation are set below and above the line.

_RAISED: Final = re.compile(r"([_^])\{([^}]*)\}")


@dataclass(frozen=True)
class Method:
    text: str
    equations: tuple[tuple[str, str], ...] = ()  # the equation, and what it is


METHODS: Final[dict[str, Method]] = {
    "car11": Method(
        "A job's I/O comes from its Darshan log. Its bytes over its I/O time, per allocated node, is its performance. "
        "The throughput of the servers is summed per interval; the share of time below a third of the peak says how "
        "bursty it is. Scans of the file systems give sizes, ages and growth. The cost of metadata includes close, "
        "where file systems flush.",
        (
            ("B = Σ(bytes read + written) / D / 2^{20} / N_{CN}", "performance in MiB/s per compute node (II-D)"),
            ("metadata share = Σ t_{meta} / Σ (t_{meta} + t_{read} + t_{write})", "over all processes (Table IV)"),
        ),
    ),
    "don15": Method(
        "Response times are sampled by request size, with and without the cache. Each sample is split at a pivot into "
        "a head and a tail; the pivot is the one with the least Kolmogorov-Smirnov distance of both together. The "
        "head is fitted with Normal and Cauchy, the tail with Power Law, Exponential, LogNormal, Weibull and Gamma, by "
        "maximum likelihood. A striped transfer waits for its slowest part.",
        (
            ("T_{R} = max(t_{1}, …, t_{n}) + ψ", "a transfer over n targets"),
            ("F_{T}(t) = F_{S/n}(t − ψ)^{n}", "its distribution, for a transfer of S bytes"),
        ),
    ),
    "kun19": Method(
        "A probe times a read and a write of 1 MB at random places of a large file, and create, stat, read and delete "
        "of small files, once a second. The usual time of an operation is the median of all of them on that file "
        "system. Intervals are reduced to mean, median, quantiles and maximum; below 1 is faster than usual.",
        (("slowdown = t_{observed} / t_{expected}", "t_{expected}: the median of the whole period"),),
    ),
    "mad17": Method(
        "The I/O time of a run is set beside what the whole system moved while it ran. Runs of one group do the same "
        "I/O, so what differs between them is the system. Association is measured by Pearson, Spearman, distance "
        "correlation and mutual information, each with an interval; runs moved in time show what chance alone gives.",
        (
            ("D = D_{U,M} + D_{U,RW} + D_{S}", "I/O time of a run: slowest rank on unique files, and shared files (1)"),
            (
                "Ψ_{R} = δ Σ R_{i} − (T_{start} − T_{0}) R_{1} − (T_{n} − T_{end}) R_{n}",
                "bytes the system read while the run ran (2)",
            ),
            ("D_{D} = m δ", "m: the sampling intervals with I/O of the run (5)"),
        ),
    ),
    "pat19": Method(
        "Samples of every target and server are summed to one minute. A minute at or above the 75th percentile is "
        "high, one below the 25th low; a maximal run of such minutes is a phase. Targets whose activity lies within 5% "
        "of each other work together: their number is the degree of parallelism. Correlations are of sums over "
        "windows of 1, 5 and 25 minutes, at lags of 0 to 5 windows.",
        (
            ("CoV = 100 σ / μ", "coefficient of variation in percent"),
            ("CC(k) = corr(X_{1…n−k}, Y_{1+k…n})", "correlation at a lag of k windows"),
            ("max − min < 0.05 min", "targets of one cluster"),
        ),
    ),
}


def equation_html(text: str) -> str:
    """The equation as markup."""
    marks = {"_": "sub", "^": "sup"}
    return _RAISED.sub(lambda m: f"<{marks[m[1]]}>{m[2]}</{marks[m[1]]}>", escape(text))


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_SUBJECTS = {
    "car11": "Applications, throughput and contents",
    "don15": "Response times",
    "kun19": "Slowdown",
    "mad17": "Jobs and the system",
    "pat19": "Climate of the servers",
}


_CHART_PX = 120
# One sheet of paper for the first; the appendix is printed where it is open.
_STYLE = """
body.iow{max-width:60rem}
.iow .lead{font-size:1.1rem;font-weight:600}
.iow .tiles{list-style:none;padding:0;display:grid;gap:.5rem;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr))}
.iow .tiles li{border:1px solid var(--line);border-radius:.4rem;padding:.4rem .6rem;margin:0}
.iow .tiles .number{display:block;font-size:1.25rem;font-weight:700;text-align:left}.iow .tiles .quiet{display:block}
.iow .first .beside{display:grid;gap:0 1.5rem;grid-template-columns:repeat(auto-fit,minmax(min(22rem,100%),1fr))}
.iow .appendix>summary{font-size:1.15rem;font-weight:600;color:var(--ink);margin:2rem 0 .5rem}
.iow .appendix{font-size:1rem}
@page{size:A4;margin:11mm}
@media print{.iow .sheet+.sheet,.iow details.appendix[open]{break-before:page}.iow details.appendix[open]{display:block}
.iow .first{font-size:8.5pt}.iow .first table,.iow .first .quiet,.iow .first .kicker{font-size:8pt}
.iow .first h1{font-size:15pt;margin:0}.iow .first h2{font-size:10.5pt;margin:.5rem 0 .2rem}
.iow .first p{margin:.2rem 0}.iow .first .lead{font-size:10pt}.iow .first li{margin:.1rem 0}
.iow .first .tiles{grid-template-columns:repeat(5,1fr);gap:2mm}.iow .first .tiles .number{font-size:12pt}
.iow .first .beside{grid-template-columns:11fr 9fr}.iow .first figure{margin:0}
.iow .first .scroll{margin:.2rem 0 .5rem}.iow .first th,.iow .first td{padding:.1rem .4rem .1rem 0}
.iow .first tbody th{min-width:0}.iow footer{font-size:6.5pt;margin-top:2mm;padding-top:1mm}
.iow footer dl{display:block}.iow footer dt,.iow footer dd{display:inline;margin:0}
.iow footer dt::after{content:": "}.iow footer dd::after{content:". "}}
"""


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
    return html_page(f"Storage of {name}", parts, footer=provenance_html(provenance), style=_STYLE)


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
    yield _opening(material, made)
    yield _summary(made)
    yield _contents(made, material)
    for number, paper in enumerate(PAPERS.values()):
        progress(number, len(PAPERS), f"drawing {paper.key}")
        yield from _paper_part(paper, made)
    progress(len(PAPERS), len(PAPERS), "")
    yield _left_out(material)
    yield _coverage_part(material)
    yield _methods()


def _opening(material: Material, made: Sequence[Made]) -> str:
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
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence)


def _period(material: Material) -> str:
    low, high = material.period_ns
    if material.span_ns is not None:
        low, high = max(low, material.span_ns[0]), min(high, material.span_ns[1])
    elif high >= 2**62:
        return ""
    return f"From {format_time_ns(low)[:16]} to {format_time_ns(high)[:16]} UTC."


def _summary(made: Sequence[Made]) -> str:
    """What the papers state and this site contradicts first, for that is news; then what agrees with them."""
    every = [m for m in made if not m.exhibit.id.startswith("pat19.observations")]  # it repeats what others found
    parts = ['<h2 id="summary">Summary</h2>']
    for kind, heading in (("refuted", "Different from the papers"), ("supported", "As in the papers")):
        groups: dict[str, list[str]] = {}
        for m in every:
            link = f'<a href="#{escape(m.exhibit.id)}">{escape(m.exhibit.id)}</a>'
            subject = " ".join(filter(None, [_SUBJECTS[m.exhibit.id.partition(".")[0]], m.filesystem]))
            groups.setdefault(subject, []).extend(
                f'<li class="{kind}">{escape(finding.text)} <span class="quiet">{link}</span></li>'
                for finding in m.exhibit.findings
                if finding.kind == kind
            )
        parts.append(f"<h3>{heading}</h3>")
        shown = ((name, "".join(items)) for name, items in groups.items() if items)
        listed = [f'<h4>{escape(name)}</h4><ul class="findings">{items}</ul>' for name, items in shown]
        parts += listed or ["<p>Nothing that these data decide.</p>"]
    return "".join(parts)


def _contents(made: Sequence[Made], material: Material) -> str:
    parts = ['<nav aria-label="Contents"><h2 id="contents">Contents</h2><ul>']
    for paper in PAPERS.values():
        mine = [m for m in made if m.exhibit.id.startswith(f"{paper.key}.")]
        if mine:
            items = "".join(
                f'<li><a href="#{escape(m.exhibit.id)}">{escape(m.exhibit.id)}</a> {escape(m.exhibit.title)}</li>'
                for m in mine
            )
            parts.append(f'<li><a href="#{paper.key}">{escape(_SUBJECTS[paper.key])}</a><ul>{items}</ul></li>')
    parts += ['<li><a href="#left-out">What could not be made</a></li>'] if material.left_out else []
    parts += ['<li><a href="#coverage">What the lake holds</a></li>', '<li><a href="#methods">Methods</a></li>']
    return "".join([*parts, "</ul></nav>"])


def _paper_part(paper: Paper, made: Sequence[Made]) -> Iterator[str]:
    mine = [m for m in made if m.exhibit.id.startswith(f"{paper.key}.")]
    if not mine:
        return
    yield f'<section class="later" id="{paper.key}"><h2>{escape(_SUBJECTS[paper.key])}</h2>'
    yield f'<p class="quiet">Published values beside ours: {escape(paper.site)}. {escape(paper.citation)}</p></section>'
    for m in mine:
        # Many figures, for whoever sits down to read them: drawing each for a phone too would take as long again.
        yield exhibit_section(m.exhibit, 3, Drawn(screens=("wide",)), later=True)


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


def _methods() -> str:
    parts = ['<h2 id="methods">Methods</h2>']
    for key, method in METHODS.items():
        paper = PAPERS[key]
        items = "".join(
            f"<li><strong>{equation_html(equation)}</strong><br><span class='quiet'>{equation_html(what)}</span></li>"
            for equation, what in method.equations
        )
        parts.append(f"<h3>{key}</h3><p>{escape(method.text)}</p><ul>{items}</ul>")
        parts.append(f'<p class="quiet">{escape(paper.citation)}</p>')
    return "".join(parts)
