"""One file of a run: who used it, how it was read and written, and on which targets it lies."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable
from ioweather.core.outcomes import StorageOutcome
from ioweather.core.results import Answer, Exhibit, ResultTable
from ioweather.core.run_outcomes import JobOutcome
from ioweather.facts.run_targets import target_number
from ioweather.ui.web.links import around_ns, where_to
from ioweather.ui.web.parts import answer_part, kept
from ioweather.ui.web.shell import Html, Listed, Place, page, part
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
FilePath = Annotated[str, Query(min_length=1, max_length=4096)]
# Of the answer about the job as if it had used no other file, what is of the file and not of the run.
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
def file(view: OwnView, job_id: str, path: FilePath) -> Html:
    def make() -> str:
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
                "job_parts.html", head=head, facts=facts, tables=list(_tables(view, answer, result)), timeline="",
                answer=answer_part(of_file, view.drawn(), headed=False), below="",
            )  # fmt: skip

    return kept(view, ("file", job_id, path), make, path)


def _of_one_file(exhibit: Exhibit) -> Exhibit:
    return replace(exhibit, tables=tuple(table for table in exhibit.tables if table.name != "file_kinds"))


def _tables(view: View, answer: Answer, result: JobOutcome) -> Iterator[Listed]:
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
    """Of the mount that holds it: its path may be hidden."""
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
