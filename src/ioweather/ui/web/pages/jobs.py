"""*Jobs*: find a run, or look at a log; the verdict on one run, what the system did meanwhile, and what the run did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import anyio.to_thread
from fastapi import APIRouter, Request
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import StorageOutcome
from ioweather.core.results import Answer, Reference
from ioweather.core.run_outcomes import JobOutcome, WhyOutcome
from ioweather.core.units import MINUTE_NS
from ioweather.ui.charts import exhibit_section
from ioweather.ui.web.links import files_part, where_to
from ioweather.ui.web.parts import answer_part, failed, kept
from ioweather.ui.web.shared_answers import job_answers
from ioweather.ui.web.shell import CHART_PX, Html, Listed, Place, headed, lazy_part, page, part
from ioweather.ui.web.uploads import answers_for_log, few_at_once, received
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)


@router.get("/job")
def search_page(view: PublicView, q: str = "") -> Html:
    return page("find_job.html", view, "/job", "Jobs", q=q)


@router.get("/jobs/{job_id}")
def job_page(view: PublicView, job_id: str) -> Html:
    place = Place(view, f"/jobs/{job_id}")
    crumbs = [("Facility", place.link("/")), ("Jobs", place.link("/job"))]
    address = place.to("fragments/jobs", job_id)
    return page("job.html", view, "/job", f"Job {job_id}", crumbs=crumbs, address=address, ranged=False)


@router.get("/fragments/jobs/{job_id}")
def job(view: OwnView, job_id: str) -> Html:
    """The page is many screens long: what is below the first is drawn when somebody comes there."""

    def make() -> str:
        below = lazy_part(Place(view, "").link(f"/fragments/jobs/{job_id}/evidence"), "Drawing the evidence…")
        return _job_parts(view, *job_answers(view, job_id), below)

    return kept(view, ("job", job_id), make, f"Job {job_id}")


@router.get("/fragments/jobs/{job_id}/evidence")
def evidence(view: OwnView, job_id: str) -> Html:
    return kept(view, ("evidence", job_id), lambda: _evidence(view, *job_answers(view, job_id), job_id))


def _job_parts(view: View, reason: Answer | None, facts: Answer, below: str) -> str:
    """The answer, where to go from it, the system meanwhile, what the answer rests on."""
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
