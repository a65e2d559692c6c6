"""*Why / job*: find a run, or look at a log; the verdict on one run, and what it did."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Request

from ioweather.core.errors import IoweatherError
from ioweather.core.results import Answer
from ioweather.derive.jobs.signatures import program_of
from ioweather.web.api import job_answers
from ioweather.web.parts import answer_part, failed, kept
from ioweather.web.queries import find_jobs
from ioweather.web.shell import Html, Listed, Place, page, part, tables_part
from ioweather.web.uploads import answers_for_log, few_at_once, received
from ioweather.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)


@router.get("/job")
def search_page(view: PublicView, q: str = "") -> Html:
    return page("find_job.html", view, "/job", "Why / job", q=q)


@router.get("/jobs/{job_id}")
def job_page(view: PublicView, job_id: str) -> Html:
    address = Place(view.facilities, view.name, "/job").link(f"/fragments/jobs/{quote(job_id, safe='')}")
    title = f"Job {job_id}"
    return page(
        "one_part.html", view, "/job", title, kicker=title, address=address, waiting="Comparing with similar runs…"
    )


@router.get("/fragments/jobs")
def jobs(view: OwnView, q: str = "") -> Html:
    try:
        with view.lake.snapshot() as snapshot:
            found = find_jobs(snapshot, q)
    except IoweatherError as error:
        return failed(error)
    columns = (("job", "text"), ("user", "text"), ("project", "text"), ("program", "text"), ("processes", "count"),
               ("start", "time_ns"), ("read", "bytes"), ("written", "bytes"), ("I/O time", "seconds"))  # fmt: skip
    rows = [
        (
            str(job["job_id"]), job["user"] or f"uid {job['uid']}", job["account"], program_of(job["exe"] or ""),
            job["nprocs"], job["start_ns"], job["read_bytes"], job["write_bytes"], job["io_seconds"],
        )
        for job in found
    ]  # fmt: skip
    place = Place(view.facilities, view.name, "/job")
    return Html(
        tables_part(
            Listed(
                f"{len(rows)} runs, the newest first",
                columns,
                rows,
                {"job": lambda row: place.link(f"/jobs/{row[0]}")},
                "No run with a Darshan log matches.",
            )
        )
    )


@router.get("/fragments/jobs/{job_id}")
def job(view: OwnView, job_id: str) -> Html:
    return kept(view, ("job", job_id), lambda: _job_parts(view, *job_answers(view, job_id)), f"Job {job_id}")


def _job_parts(view: View, reason: Answer, facts: Answer) -> str:
    """The verdict with its advice, then what the run did; the same advice not twice, nor an id."""
    told = {exhibit.id for exhibit in reason.exhibits}
    groups = {group.name for group in reason.facts}
    rest = replace(
        facts,
        facts=tuple(group for group in facts.facts if group.name not in groups),
        exhibits=tuple(exhibit for exhibit in facts.exhibits if exhibit.id not in told),
        findings=tuple(finding for finding in facts.findings if finding not in reason.findings),
    )
    with view.facilities.drawing():
        return part("answers.html", sections=(answer_part(reason), answer_part(rest, second=True)), all_later=False)


@router.post("/fragments/upload")
async def upload(request: Request, view: OwnView) -> Html:
    try:
        data = await received(request)
        with few_at_once():
            return Html(await anyio.to_thread.run_sync(_upload_parts, data, view))
    except IoweatherError as error:
        return failed(error)


def _upload_parts(data: bytes, view: View) -> str:
    return _job_parts(view, *answers_for_log(data, view))
