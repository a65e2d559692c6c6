"""Makes the exhibits of a report, and writes them with the sheets for people as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from markupsafe import Markup

from ioweather._version import __version__
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.logs import Progress, silent
from ioweather.core.papers import PAPERS, document, exhibits
from ioweather.core.results import Exhibit, Provenance, ResultTable
from ioweather.core.safe_files import write_whole
from ioweather.core.units import format_time_ns, now_ns
from ioweather.lake.lake import Lake
from ioweather.topics.analyse import availability, each_exhibit, parameters_of
from ioweather.ui.charts.page import (
    Drawn,
    exhibit_section,
    figure_html,
    html_page,
    provenance_html,
    table_html,
    templates,
)
from ioweather.ui.report.sheets import Sheet, actions, director_sheet, find, operator_sheet

Audience: TypeAlias = Literal["director", "operator", "science"]
_FOLDER: Final = Path(__file__).with_name("templates")
_TEMPLATES: Final = templates(_FOLDER)
_SUBJECTS: Final = {
    "car11": "Applications, throughput and contents",
    "don15": "Response times",
    "kun19": "Slowdown",
    "mad17": "Jobs and the system",
    "pat19": "Climate of the servers",
}
_CHART_PX: Final = 120
_RAISED: Final = re.compile(r"([_^])\{([^}]*)\}")  # subscripts and superscripts of equations


@dataclass(frozen=True)
class LeftOut:
    """`failed`: not for want of data, but of a fault."""

    id: str
    title: str
    reason: str
    failed: bool = False


@dataclass(frozen=True)
class Material:
    """What a report is written from. The id of an exhibit of a further file system ends with @ and its name."""

    facility: Facility
    period_ns: Period
    lake: str
    table_rows: Mapping[str, int]
    table_versions: Mapping[str, int]
    span_ns: tuple[int, int] | None
    made: tuple[Exhibit, ...]
    left_out: tuple[LeftOut, ...]
    made_ns: int
    sheets: tuple[Sheet, ...] = ()

    @property
    def within_ns(self) -> Period:
        """The part of the period that has rows."""
        low, high = self.period_ns
        return (max(low, self.span_ns[0]), min(high, self.span_ns[1])) if self.span_ns else (low, high)


def filesystem_of(exhibit: Exhibit) -> str:
    """Empty for exhibits of jobs and of probes, which are about all file systems."""
    return str(exhibit.provenance.params.get("filesystem") or "")


def gather(
    lake: Lake,
    *,
    period_ns: Period = ALL_TIME,
    only: Collection[str] | None = None,
    use_cache: bool = True,
    progress: Progress = silent,
) -> Material:
    """Make all exhibits that the lake allows, for every file system.

    A study that fails is listed with its reason. `only`: make these exhibits and do not list the others.
    """
    with lake.snapshot() as snapshot:
        found = [item for item in availability(snapshot) if only is None or item.id in only] if only != () else []
        filesystems = snapshot.filesystems()
        rows, versions, span = snapshot.tables(), snapshot.versions, snapshot.time_span()
    titles = {item.id: item.title for item in found}
    left_out = [LeftOut(item.id, item.title, "; ".join(item.missing)) for item in found if not item.ready]
    by_study: dict[str, list[str]] = {}
    for item in found:
        if item.ready:
            by_study.setdefault(item.study, []).append(item.id)
    made: list[Exhibit] = []
    for number, ids in enumerate(by_study.values()):
        progress(number, len(by_study), ids[0])
        of_one = len(filesystems) > 1 and "filesystem" in {param.name for param in parameters_of(ids[0])}
        for filesystem in ("", *(filesystems if of_one else ())):  # first the one that the study chooses
            params = {"filesystem": filesystem} if filesystem else {}
            how: dict[str, Any] = {"params": params, "period_ns": period_ns, "use_cache": use_cache}
            for exhibit_id, outcome in each_exhibit(lake, ids, **how).items():
                if isinstance(outcome, Exhibit) and not outcome.empty_because:
                    made.append(replace(outcome, id=f"{outcome.id}@{filesystem}") if filesystem else outcome)
                elif not filesystem:  # missing data of a second file system are not reported again
                    left_out.append(_leave_out(exhibit_id, titles[exhibit_id], outcome))
    progress(len(by_study), len(by_study), "")
    order = {entry.id: number for number, entry in enumerate(exhibits())}
    made.sort(key=lambda exhibit: order[exhibit.id.partition("@")[0]])
    left_out.sort(key=lambda item: order[item.id])
    root = str(lake.root)
    return Material(lake.facility, period_ns, root, rows, versions, span, tuple(made), tuple(left_out), now_ns())


def _leave_out(exhibit_id: str, title: str, outcome: Exhibit | Exception) -> LeftOut:
    """Why an exhibit is left out: it would be empty, the data do not allow it, or it failed."""
    if isinstance(outcome, Exhibit):
        return LeftOut(exhibit_id, title, f"empty: {outcome.empty_because}")
    if isinstance(outcome, IoweatherError):
        return LeftOut(exhibit_id, title, outcome.message)
    return LeftOut(exhibit_id, title, f"it failed: {type(outcome).__name__}: {outcome}", failed=True)


def without_repeats(made: Sequence[Exhibit]) -> tuple[Exhibit, ...]:
    """Drop copies: the file system that a study chose by default is also requested by name."""
    first = {(exhibit.id, filesystem_of(exhibit)) for exhibit in made if "@" not in exhibit.id}
    return tuple(e for e in made if "@" not in e.id or (e.id.partition("@")[0], filesystem_of(e)) not in first)


def equation_html(text: str) -> Markup:
    """The equation as markup."""
    marks = {"_": "sub", "^": "sup"}
    return Markup(_RAISED.sub(lambda m: f"<{marks[m[1]]}>{m[2]}</{marks[m[1]]}>", escape(text)))


def report_html(
    material: Material,
    sheets: Sequence[Sheet] = (),
    *,
    appendix: bool = True,
    progress: Progress = silent,
) -> str:
    """The whole report as one HTML page."""
    parts = [sheet_html(sheet, number, material) for number, sheet in enumerate(sheets)]
    if appendix:
        made = without_repeats(material.made)
        inside = "".join(part for part in _science(material, made, progress) if part)
        ids = {exhibit.id.partition("@")[0] for exhibit in made}
        summary = f"Science: {len(ids)} exhibits of five papers, methods"
        parts.append(f'<details class="appendix"><summary>{summary}</summary>{inside}</details>')
    provenance = Provenance(
        lake=material.lake,
        table_versions=material.table_versions,
        facility_digest=material.facility.digest,
        software_version=__version__,
        made_ns=material.made_ns,
    )
    title = f"Storage of {material.facility.name}"
    style = _FOLDER.joinpath("report.css").read_text("utf-8")
    return html_page(title, parts, footer=provenance_html(provenance), style=style)


def sheet_html(sheet: Sheet, number: int, material: Material, *, drawn: bool = True) -> str:
    """Return one sheet as HTML; without pictures if not `drawn`."""
    simulated = " This facility is simulated: nothing here was measured." if material.facility.simulated else ""
    figures = [
        figure_html(chart, f"sheet{number}-{i}", 3, Drawn(height=_CHART_PX), with_rows=False)
        for i, chart in enumerate(sheet.charts if drawn else ())
    ]
    kicker, tables = f"ioweather report. {_period(material)}{simulated}", [table_html(t) for t in sheet.tables]
    template = _TEMPLATES.get_template("sheet.html")
    return template.render(sheet=sheet, first=number == 0, kicker=kicker, figures=figures, tables=tables)


def _science(material: Material, made: Sequence[Exhibit], progress: Progress) -> Iterator[str]:
    """The appendix: summary, exhibits by paper, what could not be made, contents of the lake, methods."""
    of_papers = [(p, _SUBJECTS[p.key], [e for e in made if e.id.startswith(f"{p.key}.")]) for p in PAPERS.values()]
    shown = [each for each in of_papers if each[2]]
    yield _TEMPLATES.get_template("opening.html").render(
        sentences=_opening(material, made), statements=_statements(made), papers=shown, left_out=bool(material.left_out)
    )
    for number, (paper, subject, mine) in enumerate(shown):
        progress(number, len(PAPERS), f"drawing {paper.key}")
        yield _TEMPLATES.get_template("paper.html").render(paper=paper, subject=subject)
        yield from (exhibit_section(exhibit, 3, later=True) for exhibit in mine)
    progress(len(PAPERS), len(PAPERS), "")
    if material.left_out:
        rows = ((item.id, item.title, item.reason) for item in material.left_out)
        columns = "id: exhibit [text]; title: what it shows [text]; reason: why not [text]"
        yield f'<h2 id="left-out">Exhibits left out</h2>{table_html(ResultTable.of("left_out", columns, rows))}'
    counts = ((name, count) for name, count in material.table_rows.items() if count)
    table = table_html(ResultTable.of("tables", "table [text]; rows [count]", counts))
    text = "<p>Coverage and caveats are listed with each exhibit. Times are UTC; sizes are in powers of two.</p>"
    yield f'<h2 id="coverage">Contents of the lake</h2>{text}{table}'
    said = [(paper, document(key)) for key, paper in PAPERS.items()]
    yield _TEMPLATES.get_template("methods.html").render(papers=said, equation=equation_html)


def _opening(material: Material, made: Sequence[Exhibit]) -> list[str]:
    """Sentences on the period, the exhibits and the claims."""
    kinds = [finding.kind for e in made if e.id != "pat19.observations" for finding in e.findings if finding.claim]
    included = len({exhibit.id.partition("@")[0] for exhibit in made})
    total = included + len(material.left_out)
    empty = sum(item.reason.startswith("empty: ") for item in material.left_out)
    simulated = ["This facility is simulated: nothing here was measured."] if material.facility.simulated else []
    return [
        *simulated,
        _period(material),
        f"{included} of {total} exhibits of the five papers are included, {empty} would be empty, and "
        f"{total - included - empty} are not possible with these data. Each missing exhibit is listed with the "
        "reason.",
        f"Of the papers' claims, {kinds.count('refuted'):,} are contradicted here, "
        f"{kinds.count('supported'):,} are supported, and {kinds.count('undecided'):,} are weaker, undecided or not "
        "testable.",
    ]


def _period(material: Material) -> str:
    low, high = material.within_ns
    return "" if high >= 2**62 else f"From {format_time_ns(low)[:16]} to {format_time_ns(high)[:16]} UTC."


def _statements(made: Sequence[Exhibit]) -> Iterator[tuple[str, str, dict[str, list[tuple[str, str]]]]]:
    """Findings that contradict the papers, then those that agree: a heading, the kind, sentences by subject."""
    for kind, heading in (("refuted", "Different from the papers"), ("supported", "As in the papers")):
        groups: dict[str, list[tuple[str, str]]] = {}
        for exhibit in made:
            if exhibit.id.startswith("pat19.observations"):  # it repeats what others found
                continue
            subject = f"{_SUBJECTS[exhibit.id.partition('.')[0]]} {filesystem_of(exhibit)}".strip()
            for finding in (finding for finding in exhibit.findings if finding.kind == kind):
                groups.setdefault(subject, []).append((finding.text, exhibit.id))
        yield heading, kind, groups


def write_report(
    lake: Lake,
    out: Path,
    *,
    period_ns: Period = ALL_TIME,
    audience: Audience = "science",
    for_bundle: bool = False,
    progress: Progress = silent,
) -> Material:
    """Write the report to `out` (.html) and return its material. Raises UsageError, for `out` before any work.

    `audience`: a director gets one sheet, an operator two, science also the exhibits. `for_bundle`: the material has
    all exhibits, made by this code rather than read from the cache.
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {out}: the extension must be .html.", hint="For a PDF, print it from a browser.")
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot create its folder: {error.strerror}.") from None
    wanted = None if audience == "science" or for_bundle else ()  # None: all exhibits, (): none
    material = gather(lake, period_ns=period_ns, only=wanted, use_cache=not for_bundle, progress=progress)
    sheets = front_sheets(lake, material, operator=audience != "director")
    page = report_html(material, sheets, appendix=audience == "science", progress=progress)
    try:
        write_whole(out, page.encode())
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}.") from None
    return replace(material, sheets=tuple(sheets))


def front_sheets(lake: Lake, material: Material, *, operator: bool) -> list[Sheet]:
    """The sheet for directors and, if wanted, the one for operators."""
    low, high = material.period_ns
    if material.span_ns is not None:
        low, high = max(low, material.span_ns[0]), min(high, material.span_ns[1] + 1)
    if material.span_ns is None or low >= high:
        return [Sheet(f"Storage of {material.facility.name}", ("The lake has no data for this period.",))]
    now, before = find(lake, [(low, high), (2 * low - high, low)])
    sheets = [director_sheet(material.facility.name, now, before, actions(lake, now))]
    return [*sheets, operator_sheet(now)] if operator else sheets
