"""The pages of jobs, of one file of a job, and of users, projects and programs."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import JobOutcome, RunsOutcome, StorageOutcome, WhyOutcome
from ioweather.core.results import Answer, Block, Chart, Exhibit, FactGroup, Finding, Items, Reference, ResultTable
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.facts.run_targets import target_number
from ioweather.topics.analyse import ALL_TIME
from ioweather.ui.charts.page import block_html
from ioweather.ui.web.queries import answers_for_log, few_at_once, job_answers, received
from ioweather.ui.web.requests import period_for
from ioweather.ui.web.shell import (
    Html,
    Listed,
    Place,
    answer_part,
    around_ns,
    behind,
    cached_part,
    failed,
    figure,
    files_part,
    headed,
    lazy_part,
    page,
    part,
    runs_table,
    tables_part,
    where_to,
)
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MAIN: Final = 0.66  # the main column's share of a page
_PANEL_PX: Final = 40  # borders of a panel
_PICTURE_PX: Final = 200
Name = Annotated[str, Query(max_length=1000)]
Cluster = Annotated[str, Query(max_length=200)]


@router.get("/jobs")
def search_page(
    view: PublicView, q: Name = "", user: Name = "", program: Name = "", filesystem: Name = "", order: str = ""
) -> Html:
    asked = {"q": q, "user": user, "program": program, "filesystem": filesystem, "order": order}
    return page("find_job.html", view, "/jobs", "Jobs", chosen={name: text for name, text in asked.items() if text})


@router.get("/job", response_model=None)
@router.get("/job/{job_id}", response_model=None)
def former_address(_: PublicView, request: Request, job_id: str = "") -> RedirectResponse:
    """Pages of jobs had this address, and people type it."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/jobs/{quote(job_id, safe='')}{query}" if job_id else f"/jobs{query}", 307)


@router.get("/jobs/{job_id}")
def job_page(view: PublicView, job_id: str, cluster: Cluster = "") -> Html:
    place = Place(view, f"/jobs/{job_id}")
    crumbs = [("Jobs", place.link("/jobs"))]
    address = place.to("fragments/jobs", job_id, cluster=cluster)
    return page("job.html", view, f"/jobs/{job_id}", f"Job {job_id}", crumbs=crumbs, address=address, ranged=False)


@router.get("/fragments/jobs/{job_id}")
@cached_part("Job {job_id}")
def job(view: OwnView, job_id: str, cluster: Cluster = "") -> str:
    """The first screen of a job; the evidence below it is a part that loads on scrolling."""

    address = Place(view, "").link(f"/fragments/jobs/{job_id}/evidence", cluster=cluster)
    below = lazy_part(address, "Drawing the evidence…")
    return _job_parts(view, *job_answers(view, job_id, cluster), below)


@router.get("/fragments/jobs/{job_id}/evidence")
@cached_part()
def evidence(view: OwnView, job_id: str, cluster: Cluster = "") -> str:
    return _evidence(view, *job_answers(view, job_id, cluster), job_id)


def _job_parts(view: View, reason: Answer | None, facts: Answer, below: str) -> str:
    """The verdict; the cause and the effect as pictures; what to do; the evidence, folded."""
    if reason is None:
        return _counted_parts(view, facts)
    which = next((finding.text for finding in reason.findings if finding.name == "as_of"), "")
    head = Markup('<h1>{}</h1><p class="quiet">{}</p>').format(reason.headline, which)
    place = Place(view, "")
    filesystem = reason.result.filesystem if isinstance(reason.result, WhyOutcome) else None
    return part(
        "job_parts.html",
        head=head,
        facts=list(where_to(place, filesystem, facts)),
        figures=list(_pictures(view, reason, facts)),
        side=list(_side(view, reason)),
        tables=list(_culprit_tables(place, reason)),
        folded=[("Bars, coverage and caveats of the verdict", _folded(view, reason))],
        below=below,
    )


def _side(view: View, reason: Answer) -> Iterator[Markup]:
    """What to do first, then where the time went, and what the figures depend on."""
    warnings = [block for block in reason.blocks if isinstance(block, Finding)]
    told = [block for block in reason.blocks if not (isinstance(block, FactGroup) and block.name == "runs")]
    lists = [block for kind in (Items, FactGroup) for block in told if isinstance(block, kind)]
    blocks: list[Block] = [*lists, *warnings]
    for block in blocks:
        yield block_html(block, 2, view.drawn(), "side")


def _folded(view: View, reason: Answer) -> Markup:
    elsewhere = ("as_of", "unhealthy_components")  # above, and in a table of their own
    said = replace(
        reason, findings=tuple(f for f in reason.findings if f.name not in elsewhere), exhibits=(), blocks=()
    )
    return answer_part(said, view.drawn(), headed=False, folded=False) + behind(reason)


def _evidence(view: View, reason: Answer | None, facts: Answer, job_id: str = "") -> Markup:
    """What the run did, and how it lies among similar runs. The same advice not twice, nor an id. Files of a job in the
    lake have a page each."""
    if reason is None:
        return Markup("")
    told = {exhibit.id for exhibit in reason.exhibits}
    groups = {group.name for group in reason.facts}
    rest = replace(
        facts,
        facts=tuple(group for group in facts.facts if group.name not in groups),
        exhibits=tuple(exhibit for exhibit in facts.exhibits if exhibit.id not in (*told, "job.files")),
        findings=tuple(finding for finding in facts.findings if finding not in reason.findings),
        blocks=(),
    )
    verdict = replace(reason, facts=(), findings=(), blocks=(), caveats=(), coverage=())
    files = [files_part(Place(view, ""), e, job_id) for e in facts.exhibits if e.id == "job.files"]
    drawn = view.drawn(less=_PANEL_PX)
    with view.facilities.drawing():
        parts = [
            ("This run among similar runs", answer_part(verdict, drawn, headed=False, folded=False)),
            ("What the run did", answer_part(rest, drawn, second=True)),
            *(("Largest files", each) for each in files),
        ]
    fold = Markup("<details><summary>{}</summary>{}</details>")
    return Markup("").join(fold.format(title, inner) for title, inner in parts)


def _counted_parts(view: View, facts: Answer) -> str:
    """A job without a log: what accounting and servers know of it."""
    head = Markup("<h1>{}</h1>").format(facts.headline)
    with view.facilities.drawing():
        return part(
            "job_parts.html",
            head=head,
            facts=list(where_to(Place(view, ""), None, facts)),
            figures=[("The job", answer_part(facts, view.drawn(share=_MAIN, less=_PANEL_PX), headed=False))],
            side=[],
            tables=[],
            folded=[],
            below="",
        )


def _culprit_tables(place: Place, reason: Answer) -> Iterator[Listed]:
    """Yield the table of jobs that slowed this run, if the verdict names any."""
    result = reason.result
    if not isinstance(result, WhyOutcome):
        return
    if result.culprits:
        columns = headed("job; user; project; probability [ratio]; cost this run [seconds]")
        rows = [(str(c.job_id or ""), c.user or "", c.project or "", c.probability, c.seconds) for c in result.culprits]
        links = {
            "job": lambda row: place.to("jobs", row[0]),
            "user": lambda row: place.to("users", row[1]),
            "project": lambda row: place.to("projects", row[2]),
        }
        yield Listed("Jobs that loaded the storage during the run", columns, rows, links, tools="brief")


def _pictures(view: View, reason: Answer, facts: Answer) -> Iterator[tuple[str, Markup]]:
    """The cause beside the verdict (the sick component against its peers, else the load of the file system), then the
    effect: this run among similar runs."""
    result, verdict = facts.result, reason.result
    if not isinstance(result, JobOutcome) or not isinstance(verdict, WhyOutcome):
        return
    drawn = view.drawn(_PICTURE_PX, _MAIN, _PANEL_PX)
    run = Reference("x", result.start_ns, "this run", result.end_ns)
    sick = next((each for each in verdict.unhealthy if each.component and verdict.kind in ("system", "both")), None)
    length = max(result.end_ns - result.start_ns, 15 * MINUTE_NS)
    start, end = result.start_ns, result.end_ns
    if sick is not None:
        length = max(length, ((sick.end_ns or end) - sick.start_ns) // 3)
        start, end = min(start, sick.start_ns), max(end, sick.end_ns or end)
    where = sick.component if sick else verdict.filesystem
    if where is not None:
        try:
            answer = view.ask("storage", {"where": where}, (start - length, end + length))
        except DataUnavailable:
            answer = None
        charts = [c for e in answer.exhibits for c in e.charts if c.kind == "timeline"] if answer else []
        with view.facilities.drawing():
            if charts:
                words = "The cause: {} against its peers" if sick else "Load of {} during the run"
                page = Place(view, "").to("components" if sick else "filesystems", where)
                title = Markup(words).format(Markup('<a href="{}">{}</a>').format(page, where))
                chart = _most_used(charts, result) if sick else charts[0]
                marked = replace(chart, title="", references=(run, *chart.references))
                yield title, figure(marked, "cause", drawn)
    effect = _effect(reason, result)
    if effect is not None:
        with view.facilities.drawing():
            yield f"The effect: this run among {verdict.n} similar runs", figure(effect, "effect", drawn)


def _most_used(charts: Sequence[Chart], result: JobOutcome) -> Chart:
    """Of reads and writes of a component the one that the job did more of."""
    place = 1 if (result.write_bytes or 0) > (result.read_bytes or 0) and len(charts) > 1 else 0
    return charts[place]


def _effect(reason: Answer, result: JobOutcome) -> Chart | None:
    """I/O time of this run and of similar ones, by start."""
    found = next((c for e in reason.exhibits for c in e.charts if c.kind == "umami"), None)
    if found is None:
        return None
    names = {name: [column.name for column in found.table.columns].index(name) for name in ("time", "value", "this")}
    rows = [
        (row[names["time"]], "this run" if row[names["this"]] else "similar runs", row[names["value"]])
        for row in found.table.rows
        if str(row[0]).startswith("I/O time")
    ]
    if not rows:
        return None
    rows.sort(key=lambda row: row[1] == "this run")
    table = ResultTable.of("effect", "time: start [time_ns]; run [text]; seconds: I/O time [seconds]", rows)
    usual = reason.result.seconds.usual if isinstance(reason.result, WhyOutcome) else None
    lines = (Reference("y", usual.value, "usual"),) if usual is not None and usual.value is not None else ()
    return Chart.of("scatter", table, "x=time y=seconds series=run", references=lines)


@router.post("/fragments/upload")
async def upload(request: Request, view: OwnView) -> Html:
    try:
        data = await received(request)
        with few_at_once():
            return Html(await anyio.to_thread.run_sync(_upload_parts, data, view))
    except IoweatherError as error:
        return failed(error)


def _upload_parts(data: bytes, view: View) -> str:
    answers = answers_for_log(data, view)
    return _job_parts(view, *answers, below=_evidence(view, *answers))


FilePath = Annotated[str, Query(min_length=1, max_length=4096)]
# Groups of facts that are about the file; the answer is that of the job restricted to this file.
_FACTS = ("time", "speed", "accesses")
_OF_THE_RUN = ("job.about", "job.interfaces", "job.mounts", "job.files", "job_targets", "advice")


@router.get("/jobs/{job_id}/file")
def file_page(view: PublicView, job_id: str, path: FilePath) -> Html:
    own = f"/jobs/{quote(job_id, safe='')}/file"
    place = Place(view, own)
    parts = ((place.link(f"/fragments{own}", path=path), "Looking up how this file was used…", "The file"),)
    crumbs = [("Jobs", place.link("/jobs")), (f"Job {job_id}", place.to("jobs", job_id))]
    title = f"File of job {job_id}"
    return page("entity.html", view, "/job", title, heading="", parts=parts, crumbs=crumbs, ranged=False)


@router.get("/fragments/jobs/{job_id}/file")
@cached_part("{path}")
def file(view: OwnView, job_id: str, path: FilePath) -> str:
    answer = view.ask("job", {"job": job_id, "file": glob.escape(path)})
    result = answer.result
    if not isinstance(result, JobOutcome) or not result.logs:
        raise DataUnavailable(f"Job {job_id} has no log, so its files are unknown.")
    place = Place(view, "")
    of_file = replace(
        answer,
        facts=tuple(group for group in answer.facts if group.name in _FACTS),
        exhibits=tuple(_of_one_file(e) for e in answer.exhibits if e.id not in _OF_THE_RUN),
        findings=(),
        blocks=(),
    )
    head = Markup('<p class="kicker">File of job {}</p><h1>{}</h1>').format(job_id, path)
    facts = [("job", job_id, place.to("jobs", job_id)), *where_to(place, _filesystem(view, answer), answer)]
    with view.facilities.drawing():
        return part(
            "job_parts.html",
            head=head,
            facts=facts,
            figures=[("The file", answer_part(of_file, view.drawn(share=_MAIN, less=_PANEL_PX), headed=False))],
            side=[],
            tables=list(_file_tables(view, answer, result)),
            folded=[],
            below="",
        )


def _of_one_file(exhibit: Exhibit) -> Exhibit:
    return replace(exhibit, tables=tuple(table for table in exhibit.tables if table.name != "file_kinds"))


def _file_tables(view: View, answer: Answer, result: JobOutcome) -> Iterator[Listed]:
    tables = {exhibit.id: exhibit.tables[0] for exhibit in answer.exhibits if exhibit.tables}
    if "job.files" in tables:
        yield _without(tables["job.files"], "file", "What it was used for")
    if "job_targets" in tables:
        around = around_ns(result.start_ns, result.end_ns)
        names = _target_names(view, _filesystem(view, answer), result)
        numbered = tables["job_targets"]
        rows = tuple((names.get(str(row[0]), f"OST {row[0]}"), *row[1:]) for row in numbered.rows)
        listed = _without(replace(numbered, rows=rows), "files", "Storage targets of this file")
        known = set(names.values())

        def address(row: Sequence[Any]) -> str:
            return Place(view, "").to("components", row[0], **around) if row[0] in known else ""

        yield replace(listed, links={"target": address})


def _without(table: ResultTable, left_out: str, title: str) -> Listed:
    shown = [i for i, column in enumerate(table.columns) if column.name != left_out]
    columns = [(table.columns[i].heading, table.columns[i].unit) for i in shown]
    return Listed(title, columns, [tuple(row[i] for i in shown) for row in table.rows], tools="brief")


def _filesystem(view: View, answer: Answer) -> str | None:
    """The file system of the file, by its mount: the path may be hidden."""
    mounts = next((exhibit.tables[0] for exhibit in answer.exhibits if exhibit.id == "job.mounts"), None)
    found = view.lake.facility.filesystem_of_path(str(mounts.rows[0][0])) if mounts and mounts.rows else None
    return found.name if found else None


def _target_names(view: View, filesystem: str | None, result: JobOutcome) -> Mapping[str, str]:
    """A log has the numbers of targets; what servers call them is in their samples of that time."""
    if filesystem is None:
        return {}
    try:
        found = view.ask("storage", {"where": filesystem}, (result.start_ns, result.end_ns)).result
    except DataUnavailable:
        return {}
    components = found.components if isinstance(found, StorageOutcome) else ()
    return {str(target_number(part.component)): part.component for part in components}


_LISTED_BY: Final = "car11.fig4"
Order = Literal["newest", "slowest", "largest", "longest"]


def _entity(view: View, kind: str, name: str, *more: tuple[str, str, str]) -> Html:
    path = f"/{kind}s/{quote(name, safe='')}"
    place = Place(view, path)
    runs = (place.link("/fragments/runs", **{kind: name, "order": "slowest"}), "Comparing runs…", "Runs")
    crumbs = [("Jobs", place.link("/jobs"))]
    title = f"{kind.capitalize()} {name}"
    return page("entity.html", view, path, title, heading=title, parts=(*more, runs), crumbs=crumbs)


@router.get("/users/{name}")
def user_page(view: PublicView, name: str) -> Html:
    return _entity(view, "user", name)


@router.get("/programs/{name}")
def program_page(view: PublicView, name: str) -> Html:
    return _entity(view, "program", name)


@router.get("/projects/{name}")
def project_page(view: PublicView, name: str) -> Html:
    address = Place(view, "").link(f"/fragments/projects/{quote(name, safe='')}")
    return _entity(view, "project", name, (address, "Adding up…", "What it did"))


@router.get("/fragments/projects/{name}")
@cached_part()
def project(view: OwnView, name: str) -> str:
    answer = view.ask("project", {"name": name}, period_for(view))
    with view.facilities.drawing():
        return answer_part(answer, view.drawn(), second=True)


@router.get("/fragments/projects")
@cached_part()
def projects(view: OwnView) -> str:
    place = Place(view, "/jobs")

    table = view.exhibit(_LISTED_BY, {}, ALL_TIME).tables[0]
    columns = [(column.heading, column.unit) for column in table.columns]
    links = {columns[0][0]: lambda row: place.to("projects", row[0])}
    return tables_part(Listed("The largest projects", columns, table.rows, links))


@router.get("/fragments/runs")
@cached_part()
def runs(
    view: OwnView,
    q: Name = "",
    user: Name = "",
    project: Name = "",
    program: Name = "",
    filesystem: Name = "",
    order: Order = "newest",
    most: Annotated[int, Query(ge=1, le=1000)] = 50,
    days: Annotated[int, Query(ge=0, le=36500)] = 0,
) -> str:
    """`days`: of the newest, where the page has no range."""
    chosen = {"words": q, "user": user, "project": project, "program": program, "filesystem": filesystem}
    chosen = {name: text for name, text in chosen.items() if text}

    result = view.ask("runs", {**chosen, "order": order, "most": most}, period_for(view, days * DAY_NS or None)).result
    assert isinstance(result, RunsOutcome)
    place = Place(view, "")
    query = {("q" if name == "words" else name): text for name, text in chosen.items()}
    days_asked = str(days or "")
    kinds = ("newest", "slowest", "largest", "longest")
    address = partial(place.link, "/fragments/runs", **query, days=days_asked)
    orders = [(name, address(order=name), name == order) for name in kinds]
    title = f"{len(result.runs):,} of {result.count:,} jobs, the {order} first"
    judged = any(run.verdict for run in result.runs)
    return part("runs.html", result=result, orders=orders, judged=judged, listed=runs_table(place, result.runs, title))
