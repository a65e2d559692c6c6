"""Makes the exhibits of a report, lays them out as one HTML file, and writes it as HTML or PDF."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
from markupsafe import Markup

from ioweather._version import __version__
from ioweather.core.clock import now_ns
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.papers import PAPERS, document, exhibit_entry, exhibits
from ioweather.core.progress import Progress, silent
from ioweather.core.results import Exhibit, Provenance, ResultTable
from ioweather.core.safe_files import write_whole
from ioweather.core.units import format_time_ns
from ioweather.lake.caches import CachedLake, LakeCache, LakeRecords
from ioweather.lake.lake import Lake
from ioweather.lake.snapshot import Snapshot
from ioweather.lake.workers import Serial, WorkersDied, in_order
from ioweather.topics.analyse import (
    ALL_TIME,
    Availability,
    Period,
    availability,
    each_exhibit,
    parameters_of,
    study_of,
)
from ioweather.ui.charts import Drawn, exhibit_section, figure_html, html_page, provenance_html, table_html
from ioweather.ui.charts.page import templates
from ioweather.ui.charts.render import DRAWINGS
from ioweather.ui.report.aliases import aliases_of
from ioweather.ui.report.sheets import Sheet, actions, director_sheet, find, operator_sheet


@dataclass(frozen=True)
class Made:
    """`filesystem` is empty for exhibits of jobs and of probes, which are about all of them."""

    exhibit: Exhibit
    filesystem: str


@dataclass(frozen=True)
class LeftOut:
    """`failed`: not for want of data, but of a fault."""

    id: str
    title: str
    reason: str
    failed: bool = False


@dataclass(frozen=True)
class Material:
    """What a report is written from."""

    facility: Facility
    period_ns: Period
    lake: str
    table_rows: Mapping[str, int]
    table_versions: Mapping[str, int]
    span_ns: tuple[int, int] | None
    made: tuple[Made, ...]
    left_out: tuple[LeftOut, ...]
    made_ns: int
    sheets: tuple[Sheet, ...] = ()


@dataclass(frozen=True)
class _Task:
    """Exhibits that one study makes, for one file system."""

    ids: tuple[str, ...]
    filesystem: str
    params: Mapping[str, str]
    first: bool


def gather(
    lake: Lake,
    *,
    period_ns: Period = ALL_TIME,
    only: Collection[str] | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Material:
    """Make all exhibits that the lake allows, in this process or on the executor, for every file system.

    A study that fails is listed with its reason. `only`: make these exhibits and do not list the others.
    """
    with lake.snapshot() as snapshot:
        found = [item for item in availability(snapshot) if only is None or item.id in only] if only != () else []
        every = list(_tasks(found, snapshot.filesystems()))
        rows, versions, span = snapshot.tables(), snapshot.versions, _span(snapshot)
    left_out = [LeftOut(item.id, item.title, "; ".join(item.missing)) for item in found if not item.ready]
    made: list[Made] = []
    titles = {item.id: item.title for item in found}
    here = [task for task in every if executor is not None and study_of(task.ids[0]).spreads]
    there = [task for task in every if task not in here]
    tasks = (*here, *there)
    results = chain(
        (_outcomes(lake, task, period_ns, executor) for task in here),
        in_order(executor or Serial(), _outcomes, ((lake, task, period_ns) for task in there), lost=_lost),
    )
    for number, task in enumerate(tasks):
        progress(number, len(tasks), task.ids[0])
        for exhibit_id, outcome in next(results):
            if isinstance(outcome, Exhibit):
                filesystem = str(outcome.provenance.params.get("filesystem") or "")
                exhibit = outcome if task.first else replace(outcome, id=f"{outcome.id}@{task.filesystem}")
                made.append(Made(exhibit, filesystem))
            elif task.first:  # missing data of a second file system are not reported again
                left_out.append(replace(outcome, title=titles[exhibit_id]))
    progress(len(tasks), len(tasks), "")
    order = {entry.id: number for number, entry in enumerate(exhibits())}
    return Material(
        facility=lake.facility,
        period_ns=period_ns,
        lake=str(lake.root),
        table_rows=rows,
        table_versions=versions,
        span_ns=span,
        made=tuple(sorted(made, key=lambda m: order[m.exhibit.id.partition("@")[0]])),
        left_out=tuple(sorted(left_out, key=lambda item: order[item.id])),
        made_ns=now_ns(),
    )


def _tasks(found: list[Availability], filesystems: tuple[str, ...]) -> Iterator[_Task]:
    by_study: dict[str, list[str]] = {}
    for item in found:
        if item.ready and item.study is not None:
            by_study.setdefault(item.study, []).append(item.id)
    for ids in by_study.values():
        of_one = "filesystem" in {param.name for param in parameters_of(ids[0])}
        yield _Task(tuple(ids), "", {}, True)
        if of_one and len(filesystems) > 1:
            yield from (_Task(tuple(ids), name, {"filesystem": name}, False) for name in filesystems)


def _outcomes(
    lake: Lake, task: _Task, period_ns: Period, executor: Executor | None = None
) -> list[tuple[str, Exhibit | LeftOut]]:
    try:
        made = each_exhibit(lake, task.ids, params=task.params, period_ns=period_ns, executor=executor)
    except WorkersDied:
        return _lost(lake, task, period_ns)
    return [(exhibit_id, _outcome(exhibit_id, found)) for exhibit_id, found in made.items()]


def _outcome(exhibit_id: str, found: Exhibit | Exception) -> Exhibit | LeftOut:
    """The exhibit, or why it is left out: it would be empty, or it failed."""
    if isinstance(found, Exhibit):
        return LeftOut(exhibit_id, "", f"empty: {found.empty_because}") if found.empty_because else found
    if isinstance(found, IoweatherError):
        return LeftOut(exhibit_id, "", found.message)
    return LeftOut(exhibit_id, "", f"it failed: {type(found).__name__}: {found}", failed=True)


def _lost(lake: Lake, task: _Task, period_ns: Period) -> list[tuple[str, Exhibit | LeftOut]]:
    reason = "it failed: its worker died (killed, or out of memory)"
    return [(exhibit_id, LeftOut(exhibit_id, "", reason, failed=True)) for exhibit_id in task.ids]


def without_repeats(made: tuple[Made, ...]) -> tuple[Made, ...]:
    """Drop copies: the file system that a study chose by default is also requested by name."""
    first = {(m.exhibit.id, m.filesystem) for m in made if "@" not in m.exhibit.id}
    return tuple(
        m for m in made if (m.exhibit.id.partition("@")[0], m.filesystem) not in first or "@" not in m.exhibit.id
    )


def _span(snapshot: Snapshot) -> tuple[int, int] | None:
    """The first and last time of the rows in the lake."""
    times = [(group.first_ns, group.end_ns) for group in snapshot.series()]
    for table, column in (("applications", "start_ns"), ("responses", "start_ns")):
        if snapshot.pinned[table].uris:
            low = snapshot.scalar(f"SELECT min({column}) FROM {table}")
            high = snapshot.scalar(f"SELECT max({column}) FROM {table}")
            if isinstance(low, int) and isinstance(high, int):
                times.append((low, high))
    return (min(low for low, _ in times), max(high for _, high in times)) if times else None


# Subscripts and superscripts of equations.
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
    parts = [sheet_html(sheet, number, material) for number, sheet in enumerate(sheets)]
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


def sheet_html(sheet: Sheet, number: int, material: Material, *, drawn: bool = True) -> str:
    """Return one sheet as HTML; without pictures if not `drawn`."""
    simulated = " This facility is simulated: nothing here was measured." if material.facility.simulated else ""
    figures = [
        Markup(figure_html(chart, f"sheet{number}-{i}", 3, Drawn(height=_CHART_PX), with_rows=False))
        for i, chart in enumerate(sheet.charts if drawn else ())
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
        # Many figures, read at a desk: drawing each for a phone too would double the time.
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
        f"{_period(material)} The lake contains {held}.",
        f"{len(ids)} of {total} exhibits of the five papers are included, {empty} would be empty, and "
        f"{total - len(ids) - empty} are not possible with this data; each gives its reason.",
        f"Of the papers' claims, {kinds.count('refuted'):,} are contradicted here, "
        f"{kinds.count('supported'):,} are supported, and {kinds.count('undecided'):,} cannot be decided from "
        "this data.",
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
    """Findings that contradict the papers, then those that agree: a heading, the kind, sentences by subject."""
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
    text = "<p>Coverage and caveats are listed with each exhibit. Times are UTC; sizes are in powers of two.</p>"
    return f'<h2 id="coverage">Contents of the lake</h2>{text}{table}'


# PDF is printed by the installed browser, so it looks like the page.

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE_SECONDS: Final = 120
_ROOM_BYTES: Final = 256 << 20
_DRAWINGS: Final = "drawings"


def pdf_printer(out: Path) -> str:
    """The browser, found before the work begins."""
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise UsageError(
            f"--out {out}: PDF output needs Chromium, which is not installed.",
            hint="Write .html and print it from a browser.",
        )
    return found


def print_pdf(browser: str, page: str, out: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ioweather-pdf-") as folder:
        source, made = Path(folder) / "report.html", Path(folder) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        options = "--headless=new --disable-gpu --no-first-run --disable-background-networking --no-pdf-header-footer"
        line = [browser, *options.split(), f"--user-data-dir={folder}/profile", f"--print-to-pdf={made}"]
        # Chromium refuses to run as root with its sandbox; the page has no script and may load nothing.
        line += ["--no-sandbox"] if os.geteuid() == 0 else []
        try:
            subprocess.run([*line, source.as_uri()], check=True, capture_output=True, timeout=_PATIENCE_SECONDS)
            data = made.read_bytes()
        except (subprocess.SubprocessError, OSError) as error:
            raise UsageError(
                f"--out {out}: {Path(browser).name} did not print it ({type(error).__name__}).",
                hint="Write .html and print it from a browser.",
            ) from None
    out.write_bytes(data)


Audience: TypeAlias = Literal["director", "operator", "science"]


def write_report(
    lake: Lake,
    out: Path,
    *,
    period_ns: Period = ALL_TIME,
    audience: Audience = "science",
    only: Sequence[str] = (),
    anonymous: bool = False,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Material:
    """Write the report to `out` and return what it was written from. A place that cannot be written is reported first.
    `audience`: a director gets one sheet, an operator two, science the exhibits too; `only` these of them."""
    if out.suffix.lower() not in (".html", ".htm", ".pdf"):
        raise UsageError(f"--out {out}: the ending must be .html or .pdf.")
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: its folder cannot be made: {error.strerror}.") from None
    browser = pdf_printer(out) if out.suffix.lower() == ".pdf" else None
    for exhibit_id in only:
        exhibit_entry(exhibit_id)
    wanted = (tuple(only) or None) if audience == "science" else ()
    # Many questions: tables are opened once and shared results are read once.
    kept = CachedLake(lake.root, LakeCache(room_bytes=_ROOM_BYTES), lake.owner)
    of_tasks = kept if executor is None else lake  # which other processes are given too
    material = gather(of_tasks, period_ns=period_ns, only=wanted, executor=executor, progress=progress)
    sheets = front_sheets(kept, material, operator=audience != "director")
    if anonymous:
        material, sheets = anonymised(lake, material, sheets)
    with _stored_drawings(lake):
        page = report_html(material, sheets, anonymous=anonymous, appendix=audience == "science", progress=progress)
    try:
        if browser is None:
            write_whole(out, page.encode())
        else:
            print_pdf(browser, page, out)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}.") from None
    return replace(material, sheets=tuple(sheets))


@contextmanager
def _stored_drawings(lake: Lake) -> Iterator[None]:
    """Draw again only what is not in the last report of this lake."""
    records = LakeRecords(lake.root)
    known = records.get(_DRAWINGS, "svg", lambda stored: json.loads(zlib.decompress(bytes(stored["drawings"])))) or {}
    drawn: ChainMap[str, str] = ChainMap({}, known)
    mark = DRAWINGS.set(drawn)
    try:
        yield
    finally:
        DRAWINGS.reset(mark)
    used = dict(drawn.maps[0])
    if not used.keys() <= known.keys():
        packed = zlib.compress(json.dumps(used).encode(), 1)
        records.put(_DRAWINGS, "svg", {"drawings": np.frombuffer(packed, np.uint8)})


def front_sheets(lake: Lake, material: Material, *, operator: bool) -> list[Sheet]:
    low, high = material.period_ns
    if material.span_ns is not None:
        low, high = max(low, material.span_ns[0]), min(high, material.span_ns[1] + 1)
    if low >= high:
        return [Sheet(f"Storage of {material.facility.name}", ("The lake has no data for this period.",))]
    if material.period_ns == ALL_TIME:  # without a period before, the second half is compared with the first
        middle = (low + high) // 2
        whole, compared, before = find(lake, [(low, high), (middle, high), (low, middle)])
        now = replace(whole, slow=before.slow_with(compared))  # at one resolution, or shares do not compare
    else:
        now, before = find(lake, [(low, high), (2 * low - high, low)])
        compared = now
    sheets = [director_sheet(material.facility.name, now, compared, before, actions(lake, now))]
    return [*sheets, operator_sheet(now)] if operator else sheets


def anonymised(lake: Lake, material: Material, sheets: Sequence[Sheet] = ()) -> tuple[Material, list[Sheet]]:
    with lake.snapshot() as snapshot:
        aliases = aliases_of(snapshot)
    made = tuple(Made(aliases.hide(m.exhibit), m.filesystem) for m in material.made)
    left_out = tuple(replace(item, reason=aliases.text(item.reason)) for item in material.left_out)
    facility = material.facility.name
    hidden = [aliases.hide(replace(sheet, title=sheet.title.replace(facility, "a facility"))) for sheet in sheets]
    return replace(material, made=made, left_out=left_out, lake=""), hidden
