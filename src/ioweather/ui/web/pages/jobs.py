"""The pages of jobs, and of users, projects and programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Final, Literal, get_args
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from ioweather.core.contracts import ALL_TIME
from ioweather.core.errors import DataUnavailable, IoweatherError, UsageError
from ioweather.core.results import Answer, Chart, FactGroup, Finding, Items, Reference, ResultTable
from ioweather.core.units import DAY_NS, MINUTE_NS, format_bytes
from ioweather.diagnosis.list_jobs import VERDICT_WORDS, RunsOutcome
from ioweather.facts.accounting import quotas_of_user
from ioweather.job_io.outcomes import JobOutcome, Unhealthy, WhyOutcome
from ioweather.ui.charts.page import block_html
from ioweather.ui.web import shell
from ioweather.ui.web.queries import answers_for_log, few_at_once, job_answers, received
from ioweather.ui.web.shell import Html, Listed, Place
from ioweather.ui.web.visible import OwnView, PublicView, View, period_for

router = APIRouter(include_in_schema=False, default_response_class=Html)
_TEMPLATE: Final = "job_parts.html"
_PICTURE_PX: Final = 200
_MOST_SLOWED: Final = 5
# Rows until more are wanted: of the page Jobs, and of the page of a file system.
_MOST_RUNS: Final = {"wide": 50, "narrow": 15}
_FEW_RUNS: Final = {"wide": 10, "narrow": 3}
_MOST_WANTED: Final = 500
_LISTED_BY: Final = "car11.fig4"
_ORDER_WORDS: Final = {"extra": "most extra time"}
Name = Annotated[str, Query(max_length=1000)]
Cluster = Annotated[str, Query(max_length=200)]
Order = Literal["newest", "slowest", "extra", "largest", "longest"]


@router.get("/jobs")
def search_page(
    view: PublicView,
    q: Name = "",
    user: Name = "",
    program: Name = "",
    filesystem: Name = "",
    cluster: Cluster = "",
    order: str = "",
) -> Html:
    asked = {"q": q, "user": user, "program": program, "filesystem": filesystem, "cluster": cluster, "order": order}
    chosen = {name: text for name, text in asked.items() if text}
    return shell.page("find_job.html", view, "/jobs", "Jobs", chosen=chosen)


@router.get("/job", response_model=None)
@router.get("/job/{job_id}", response_model=None)
def former_address(_: PublicView, request: Request, job_id: str = "") -> RedirectResponse:
    """Redirect the former address of job pages, which people still type."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/jobs/{quote(job_id, safe='')}{query}" if job_id else f"/jobs{query}", 307)


@router.get("/jobs/{job_id}")
def job_page(view: PublicView, job_id: str, cluster: Cluster = "") -> Html:
    place = Place(view, f"/jobs/{job_id}")
    crumbs = [("Jobs", place.link("/jobs")), (f"Job {job_id}", "")]
    address = place.to("fragments/jobs", job_id, cluster=cluster)
    return shell.page("job.html", view, place.path, f"Job {job_id}", crumbs=crumbs, address=address, ranged=False)


@router.get("/fragments/jobs/{job_id}")
@shell.cached_part("Job {job_id}")
def job(view: OwnView, job_id: str, cluster: Cluster = "") -> str:
    """The first screen of a job; the evidence below it loads on scrolling."""
    address = Place(view).link(f"/fragments/jobs/{job_id}/evidence", cluster=cluster)
    below = shell.lazy_part(address, "Drawing the evidence…")
    try:
        return _job_part(view, *job_answers(view, job_id, cluster), below)
    except UsageError:
        listed = view.ask("runs", {"words": job_id, "most": _MOST_WANTED}).result
        assert isinstance(listed, RunsOutcome)
        same = [run for run in listed.runs if str(run.job_id) == job_id]
        if len({run.cluster for run in same}) < 2:
            raise
        return shell.tables_part(shell.runs_table(Place(view), same, f"Jobs with ID {job_id} in several clusters"))


@router.get("/fragments/jobs/{job_id}/evidence")
@shell.cached_part()
def evidence(view: OwnView, job_id: str, cluster: Cluster = "") -> str:
    return _evidence(view, *job_answers(view, job_id, cluster))


@router.post("/fragments/upload")
async def upload(request: Request, view: OwnView) -> Html:
    """Explain a Darshan log that the reader sends; it is not stored."""

    def explain(data: bytes) -> str:
        answers = answers_for_log(data, view)
        return _job_part(view, *answers, below=_evidence(view, *answers))

    try:
        data = await received(request)
        with few_at_once():
            return Html(await anyio.to_thread.run_sync(explain, data))
    except IoweatherError as error:
        return shell.failed(error)


def _job_part(view: View, reason: Answer | None, facts: Answer, below: str) -> str:
    """The verdict; the cause and the effect as pictures; what to do; the evidence, folded. Of a job without a log what
    accounting and servers know of it."""
    place = Place(view)
    if reason is None:
        drawn = shell.answer_part(facts, view.drawn(share=shell.MAIN_SHARE, less=shell.PANEL_PX), headed=False)
        head = Markup("<h1>{}</h1>").format(facts.headline)
        return shell.part(
            _TEMPLATE, head=head, facts=[*shell.where_to(place, None, facts)], figures=[("The job", drawn)]
        )
    result = reason.result
    assert isinstance(result, WhyOutcome)
    # What to do first, then where the time went, and what the figures depend on.
    steps, notes = (
        [block_html(block, 2, view.drawn(), "side") for block in reason.blocks if isinstance(block, kind)]
        for kind in (Items, Finding)
    )
    tables = [*_also_slowed(view, reason, facts)]
    if result.culprits:
        rows = [
            (str(c.job_id or ""), c.user or "", c.project or "", f"{c.probability or 0:.0%}", c.seconds)
            for c in result.culprits
        ]
        columns = "job; user; project; sure; cost this run [seconds]"
        tables.append(Listed.of("Jobs that loaded the storage during the run", columns, rows, place))
    findings = tuple(f for f in reason.findings if f.name != "unhealthy_components")  # they have a table of their own
    evidence = replace(reason, findings=findings, exhibits=(), blocks=())
    bars = shell.answer_part(evidence, view.drawn(), headed=False, folded=False) + shell.closing_part(reason)
    return shell.part(
        _TEMPLATE,
        head=Markup("<h1>{}</h1>").format(reason.headline),
        verdict=_badge(result),
        facts=[*shell.where_to(place, result.filesystem, facts)],
        figures=[*_pictures(view, reason, facts)],
        side=[*steps, *_time_split(view, reason), *([Markup("").join(notes)] if notes else [])],
        tables=tables,
        folded=[("How sure, and what would change the verdict", _odds(result), bars)],
        below=below,
    )


def _badge(result: WhyOutcome) -> tuple[str, str]:
    """The verdict in a word or two, and the kind of its badge."""
    kind = {"system": "bad", "both": "bad", "you": "info", "normal": "ok"}.get(result.kind, "")
    return VERDICT_WORDS.get(result.kind, result.kind).capitalize(), kind


def _odds(result: WhyOutcome) -> str:
    """What the verdict is, and what else it may be."""
    every = sorted(result.probabilities.items(), key=lambda each: -each[1])
    return ", ".join(f"{VERDICT_WORDS.get(kind, kind)} {p:.0%}" for kind, p in every if p >= 0.01)


def _time_split(view: View, reason: Answer) -> list[Markup]:
    """The I/O time as one bar: as usual, and the parts of the time beyond it with their reasons."""
    groups = {block.name: block for block in reason.blocks if isinstance(block, FactGroup)}
    if not {"runs", "extra"} <= groups.keys():
        return [block_html(group, 2, view.drawn(), "side") for name, group in groups.items() if name != "runs"]
    return [shell.part("split.html", runs=groups["runs"].facts, extra=groups["extra"].facts)]


def _also_slowed(view: View, reason: Answer, facts: Answer) -> Iterator[Listed]:
    """Other runs that were slower than similar ones while the component was unhealthy."""
    sick = _sick_component(reason.result)
    if sick is None or not isinstance(facts.result, JobOutcome):
        return
    period = sick.start_ns, sick.end_ns or facts.result.end_ns
    asked = {"order": "extra", "most": _MOST_SLOWED + 1, **({"filesystem": sick.filesystem} if sick.filesystem else {})}
    found = view.ask("runs", asked, period).result
    assert isinstance(found, RunsOutcome)
    rows = [
        (str(r.job_id), r.program, r.user, r.extra_seconds)
        for r in found.runs
        if r.job_id != facts.result.job_id and r.extra_seconds
    ]
    title = f"Also slow while {sick.component} was unhealthy"
    if rows:
        yield Listed.of(title, "job; program; user; extra [seconds]", rows[:_MOST_SLOWED], Place(view))


def _sick_component(result: WhyOutcome) -> Unhealthy | None:
    return next((each for each in result.unhealthy if each.component and result.kind in ("system", "both")), None)


def _evidence(view: View, reason: Answer | None, facts: Answer) -> Markup:
    """What the run did, and how it lies among similar runs. The same advice not twice, nor an id."""
    if reason is None:
        return Markup("")
    shown = {exhibit.id for exhibit in reason.exhibits}
    groups = {group.name for group in reason.facts}
    rest = replace(
        facts,
        facts=tuple(group for group in facts.facts if group.name not in groups),
        exhibits=tuple(exhibit for exhibit in facts.exhibits if exhibit.id not in (*shown, "job.files")),
        findings=tuple(finding for finding in facts.findings if finding not in reason.findings),
        blocks=(),
    )
    verdict = replace(reason, facts=(), findings=(), blocks=(), caveats=(), coverage=())
    largest = [exhibit for exhibit in facts.exhibits if exhibit.id == "job.files"]
    files = [shell.tables_part(*map(Listed, each.tables), notes=each.caveats) for each in largest]
    drawn = view.drawn(less=shell.PANEL_PX)
    ranked = next((fact.note for group in reason.facts for fact in group.facts if fact.name == "this_run"), "")
    result = facts.result
    assert isinstance(result, JobOutcome)
    moved = [(result.read_bytes, "read"), (result.write_bytes, "written")]
    did = ", ".join([*(f"{format_bytes(n)} {verb}" for n, verb in moved if n), f"{result.files:,} files"])
    return Markup("").join(
        [
            shell.fold(
                "This run among similar runs", shell.answer_part(verdict, drawn, headed=False, folded=False), ranked
            ),
            shell.fold("What the run did", shell.answer_part(rest, drawn, second=True), did),
            *(shell.fold("Largest files", each) for each in files),
        ]
    )


def _pictures(view: View, reason: Answer, facts: Answer) -> Iterator[tuple[str, Markup]]:
    """The cause beside the verdict (the sick component against its peers, else the load of the file system), then the
    effect: this run among similar runs."""
    result, verdict = facts.result, reason.result
    if not isinstance(result, JobOutcome) or not isinstance(verdict, WhyOutcome):
        return
    drawn = view.drawn(_PICTURE_PX, shell.MAIN_SHARE, shell.PANEL_PX)
    run = Reference("x", result.start_ns, "this run", result.end_ns, "this")
    sick = _sick_component(verdict)
    length = max(result.end_ns - result.start_ns, 15 * MINUTE_NS)
    start, end = result.start_ns, result.end_ns
    if sick is not None:
        length = max(length, ((sick.end_ns or end) - sick.start_ns) // 3)
        start, end = min(start, sick.start_ns), max(end, sick.end_ns or end)
    where = sick.component if sick else verdict.filesystem
    charts: list[Chart] = []
    if where is not None:
        try:
            charts = shell.time_lines(view.ask("storage", {"where": where}, (start - length, end + length)))
        except DataUnavailable:
            charts = []
    if charts:
        words = "The cause: {} against its peers" if sick else "Load of {} during the run"
        address = Place(view).to("components" if sick else "filesystems", where)
        title = Markup(words).format(Markup('<a href="{}">{}</a>').format(address, where))
        # Of reads and writes of a component the one that the job did more of.
        wrote_more = (result.write_bytes or 0) > (result.read_bytes or 0)
        chart = charts[1] if sick and wrote_more and len(charts) > 1 else charts[0]
        marked = replace(chart, title="", references=(run, *chart.references))
        yield title, shell.figure(marked, "cause", drawn)
    effect = next((c for e in reason.exhibits if e.id == "why.similar_runs" for c in e.charts), None)
    if effect is not None:
        named = {fact.name: fact.note for group in reason.facts if group.name == "comparison" for fact in group.facts}
        said = ". ".join(
            text[:1].upper() + text[1:] for name in ("similar_runs", "this_run") if (text := named.get(name))
        )
        lead = Markup('<p class="quiet">{}.</p>').format(said) if said else ""
        yield f"The effect: this run among {verdict.n} similar runs", lead + shell.figure(effect, "effect", drawn)


def _entity(view: View, kind: str, name: str, *more: tuple[str, str, str]) -> Html:
    """The page of a user, a project or a program: its runs below `more` parts."""
    place = Place(view, f"/{kind}s/{quote(name, safe='')}")
    runs = (place.link("/fragments/runs", **{kind: name, "order": "extra"}), "Comparing runs…", "Runs")
    crumbs = [("Jobs", place.link("/jobs"))]
    return shell.parts_page(view, place.path, f"{kind.capitalize()} {name}", *more, runs, crumbs=crumbs)


@router.get("/users/{name}")
def user_page(view: PublicView, name: str) -> Html:
    with view.lake.snapshot() as snapshot:
        has_quotas = bool(snapshot.pinned["quotas"].uris)
    address = Place(view).link(f"/fragments/users/{quote(name, safe='')}/quotas")
    return _entity(view, "user", name, *([(address, "Reading quotas…", "Quotas")] if has_quotas else []))


@router.get("/fragments/users/{name}/quotas")
@shell.cached_part()
def quotas(view: OwnView, name: str) -> str:
    """The quotas of a user, as last recorded; those of other users are not shown to a user."""
    with view.lake.snapshot() as snapshot:
        found = quotas_of_user(snapshot, name)
    rows = [
        (
            *(q.filesystem, q.fileset, q.recorded_ns, q.used_bytes, q.hard_bytes or q.soft_bytes),
            *(q.used_files, q.hard_files or q.soft_files, q.full_ratio),
        )
        for q in found
    ]
    columns = (
        "file system; fileset; recorded [time_ns]; used [bytes]; limit [bytes]; files [count]; limit of files [count]; "
        "full [ratio]"
    )
    empty = "No quota was recorded for this user, or you cannot see it."
    return shell.tables_part(Listed.of("Quotas", columns, rows, Place(view), empty))


@router.get("/programs/{name}")
def program_page(view: PublicView, name: str) -> Html:
    return _entity(view, "program", name)


@router.get("/projects/{name}")
def project_page(view: PublicView, name: str) -> Html:
    address = Place(view).link(f"/fragments/projects/{quote(name, safe='')}")
    return _entity(view, "project", name, (address, "Adding up…", "What it did"))


@router.get("/fragments/projects/{name}")
@shell.cached_part()
def project(view: OwnView, name: str) -> str:
    answer = view.ask("project", {"name": name}, period_for(view))
    return shell.answer_part(answer, view.drawn(), second=True)


@router.get("/fragments/projects")
@shell.cached_part()
def projects(view: OwnView) -> str:
    table = view.exhibit(_LISTED_BY, {}, ALL_TIME).tables[0]
    kept = [n for n, column in enumerate(table.columns) if column.heading not in ("read", "written")]
    rows = tuple(tuple(row[n] for n in kept) for row in table.rows)
    shown = ResultTable(table.name, tuple(table.columns[n] for n in kept), rows, "The largest projects")
    return shell.tables_part(Listed(shown, Place(view, "/jobs")))


@router.get("/fragments/runs")
@shell.cached_part()
def runs(
    view: OwnView,
    q: Name = "",
    user: Name = "",
    project: Name = "",
    program: Name = "",
    filesystem: Name = "",
    cluster: Cluster = "",
    order: Order = "newest",
    most: Annotated[int, Query(ge=0, le=1000)] = 0,
    days: Annotated[int, Query(ge=0, le=36500)] = 0,
) -> str:
    """`days`: length of the period if the page has none. `most`: number of rows that fit on the screen."""
    asked = {"words": q, "user": user, "project": project, "program": program, "filesystem": filesystem}
    asked["cluster"] = cluster
    chosen = {name: text for name, text in asked.items() if text}
    period = period_for(view, days * DAY_NS or None)
    most = most or (_FEW_RUNS if filesystem else _MOST_RUNS)[view.screen]
    answer = view.ask("runs", {**chosen, "order": order, "most": most}, period)
    result = answer.result
    assert isinstance(result, RunsOutcome)
    place = Place(view)
    query = {("q" if name == "words" else name): text for name, text in chosen.items()}
    address = partial(place.link, "/fragments/runs", **query, days=str(days or ""))
    orders = [(_ORDER_WORDS.get(name, name), address(order=name), name == order) for name in get_args(Order)]
    count = len(result.runs)
    more = address(order=order, most=str(_MOST_WANTED)) if count < min(result.count, _MOST_WANTED) else ""
    judged = any(run.verdict for run in result.runs)
    listed = shell.runs_table(place, result.runs, answer.exhibits[0].tables[0].title)
    return shell.part("runs.html", result=result, orders=orders, judged=judged, listed=listed, more=more)
