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
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import JobOutcome, RunsOutcome, StorageOutcome, WhyOutcome
from ioweather.core.results import Answer, Exhibit, Reference, ResultTable
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.facts.run_targets import target_number
from ioweather.topics.analyse import ALL_TIME
from ioweather.ui.charts import exhibit_section
from ioweather.ui.web.queries import answers_for_log, few_at_once, job_answers, received
from ioweather.ui.web.requests import period_for
from ioweather.ui.web.shell import (
    CHART_PX,
    Html,
    Listed,
    Place,
    answer_part,
    around_ns,
    cached_part,
    failed,
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


Cluster = Annotated[str, Query(max_length=200)]


@router.get("/job")
def search_page(view: PublicView, q: str = "") -> Html:
    return page("find_job.html", view, "/job", "Jobs", q=q)


@router.get("/jobs/{job_id}")
def job_page(view: PublicView, job_id: str, cluster: Cluster = "") -> Html:
    place = Place(view, f"/jobs/{job_id}")
    crumbs = [("Facility", place.link("/")), ("Jobs", place.link("/job"))]
    address = place.to("fragments/jobs", job_id, cluster=cluster)
    return page("job.html", view, "/job", f"Job {job_id}", crumbs=crumbs, address=address, ranged=False)


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
    """The verdict, links to related pages, the load of the system during the run, the evidence."""
    if reason is None:
        return _counted_parts(view, facts)
    which = next((finding.text for finding in reason.findings if finding.name == "as_of"), "")
    elsewhere = ("as_of", "unhealthy_components")  # above, and in a table of their own
    said = replace(reason, findings=tuple(f for f in reason.findings if f.name not in elsewhere), exhibits=())
    head = Markup('<p class="kicker">{}</p><h1>{}</h1><p class="quiet">{}</p>').format(
        reason.question, reason.headline, which
    )
    place = Place(view, "")
    filesystem = reason.result.filesystem if isinstance(reason.result, WhyOutcome) else None
    return part(
        "job_parts.html",
        head=head,
        facts=list(where_to(place, filesystem, facts)),
        tables=list(_named(place, reason)),
        timeline=_meanwhile(view, reason, facts),
        below=below,
        answer=answer_part(said, view.drawn(), headed=False, folded=False),
    )


def _evidence(view: View, reason: Answer | None, facts: Answer, job_id: str = "") -> Markup:
    """The evidence, then what the run did. The same advice not twice, nor an id. Files of a job in the lake have a page
    each."""
    if reason is None:
        return Markup("")
    told = {exhibit.id for exhibit in reason.exhibits}
    groups = {group.name for group in reason.facts}
    rest = replace(
        facts,
        facts=tuple(group for group in facts.facts if group.name not in groups),
        exhibits=tuple(exhibit for exhibit in facts.exhibits if exhibit.id not in (*told, "job.files")),
        findings=tuple(finding for finding in facts.findings if finding not in reason.findings),
    )
    files = [files_part(Place(view, ""), e, job_id) for e in facts.exhibits if e.id == "job.files"]
    with view.facilities.drawing():
        verdict = answer_part(replace(reason, facts=(), findings=()), view.drawn(), headed=False)
        return part("evidence.html", verdict=verdict, job=answer_part(rest, view.drawn(), second=True), files=files)


def _counted_parts(view: View, facts: Answer) -> str:
    """Of a job without a log: what the servers counted."""
    head = Markup('<p class="kicker">What the servers counted of it</p><h1>{}</h1>').format(facts.headline)
    with view.facilities.drawing():
        return part(
            "job_parts.html",
            head=head,
            facts=list(where_to(Place(view, ""), None, facts)),
            tables=[],
            timeline="",
            answer=answer_part(facts, view.drawn(), headed=False),
            below="",
        )


def _named(place: Place, reason: Answer) -> Iterator[Listed]:
    """Who else and what else the verdict names."""
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
        yield Listed("Jobs that loaded the storage meanwhile", columns, rows, links, tools="brief")
    if result.unhealthy:
        columns = headed("component; what; from [time_ns]; to [time_ns]; probability [ratio]")
        sick = [(u.component or "", u.cause, u.start_ns, u.end_ns, u.probability) for u in result.unhealthy]
        to_component = {"component": lambda row: place.to("components", row[0])}
        yield Listed("Unhealthy components during the run", columns, sick, to_component, tools="brief")


def _meanwhile(view: View, reason: Answer, facts: Answer) -> Markup:
    """The load of the file system around the run, with the run's span on it."""
    result, verdict = facts.result, reason.result
    if not isinstance(result, JobOutcome) or not isinstance(verdict, WhyOutcome) or verdict.filesystem is None:
        return Markup("")
    length = max(result.end_ns - result.start_ns, 15 * MINUTE_NS)
    try:
        period = (result.start_ns - length, result.end_ns + length)
        answer = view.ask("storage", {"where": verdict.filesystem}, period)
    except DataUnavailable:
        return Markup("")
    assert isinstance(answer.result, StorageOutcome)
    span = Reference("x", result.start_ns, "this run", result.end_ns)
    timelines = [
        replace(e, charts=tuple(replace(c, references=(span, *c.references)) for c in e.charts))
        for e in answer.exhibits
        if e.charts and e.charts[0].kind == "timeline"
    ]
    with view.facilities.drawing():
        return Markup("".join(exhibit_section(e, 2, view.drawn(CHART_PX)) for e in timelines))


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
    parts = ((place.link(f"/fragments{own}", path=path), "Looking what it was used for…", "The file"),)
    crumbs = [("Facility", place.link("/")), ("Jobs", place.link("/job")), (f"Job {job_id}", place.to("jobs", job_id))]
    title = f"File of job {job_id}"
    return page("entity.html", view, "/job", title, heading="", parts=parts, crumbs=crumbs, ranged=False)


@router.get("/fragments/jobs/{job_id}/file")
@cached_part("{path}")
def file(view: OwnView, job_id: str, path: FilePath) -> str:
    answer = view.ask("job", {"job": job_id, "file": glob.escape(path)})
    result = answer.result
    if not isinstance(result, JobOutcome) or not result.logs:
        raise DataUnavailable(f"Job {job_id} has no log, so that none of its files is known.")
    place = Place(view, "")
    of_file = replace(
        answer,
        facts=tuple(group for group in answer.facts if group.name in _FACTS),
        exhibits=tuple(_of_one_file(e) for e in answer.exhibits if e.id not in _OF_THE_RUN),
        findings=(),
    )
    head = Markup('<p class="kicker">File of job {}</p><h1>{}</h1>').format(job_id, path)
    facts = [("job", job_id, place.to("jobs", job_id)), *where_to(place, _filesystem(view, answer), answer)]
    with view.facilities.drawing():
        return part(
            "job_parts.html",
            head=head,
            facts=facts,
            tables=list(_file_tables(view, answer, result)),
            timeline="",
            answer=answer_part(of_file, view.drawn(), headed=False),
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
        listed = _without(replace(numbered, rows=rows), "files", "Storage targets that it lies on")
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
Name = Annotated[str, Query(max_length=1000)]


def _entity(view: View, kind: str, name: str, *more: tuple[str, str, str]) -> Html:
    path = f"/{kind}s/{quote(name, safe='')}"
    place = Place(view, path)
    runs = (place.link("/fragments/runs", **{kind: name, "order": "slowest"}), "Comparing runs…", "Runs")
    crumbs = [("Facility", place.link("/")), ("Jobs", place.link("/job"))]
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
    place = Place(view, "/applications")

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
