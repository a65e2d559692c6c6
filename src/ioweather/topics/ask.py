"""The one way from a question to its answer: parameters, needs, the question itself, provenance, standing caveats."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ioweather.core.contracts import ALL_TIME, Period, Question, StudyData
from ioweather.core.results import Answer, Exhibit, Provenance
from ioweather.job_io.view import JobView
from ioweather.lake.place import Place
from ioweather.topics.parameters import check_names, resolve_params
from ioweather.topics.question_catalogue import QUESTIONS
from ioweather.topics.resolve import Request, resolve
from ioweather.topics.stamp import provenance_of, standing_caveats

if TYPE_CHECKING:
    from ioweather.lake.lake import Lake

_OWN_ROWS: Final = "Made of your own jobs and of what all may see: with the jobs of others it may come out differently."


def ask(
    name: str,
    lake: Lake | str | os.PathLike[str] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    period_ns: Period = ALL_TIME,
    given: dict[str, Any] | None = None,
    files: bool = True,
) -> Answer:
    """The answer to the question of this name. `lake`: default the person's own, where the question needs one. Text
    among the parameters is read as a command reads it. `given` are needs that the caller has already, and the place of
    those that are found, for another question about the same; without `files` nothing is read from a path."""
    question = QUESTIONS[name]
    typed = {key: value for key, value in (params or {}).items() if value is not None}
    check_names([question], typed)
    with ExitStack() as until:
        place = Place(lake, until)
        values = resolve_params(question.params, typed, lambda: place.snapshot, lambda: zone_of(lake))
        request = Request(place, values, period_ns, files, {} if given is None else given)
        data = resolve(question, request)
        answer = question.answer(data, place.facility, values)
        provenance = _provenance(question, request, data)
        own = (_OWN_ROWS,) if request.own_rows else ()
        return replace(
            answer,
            name=name,
            exhibits=tuple(_titled(exhibit) for exhibit in answer.exhibits),
            caveats=(*_simulated(request, data), *own, *answer.caveats),
            provenance=provenance,
        )


def _simulated(request: Request, data: StudyData) -> tuple[str, ...]:
    """Whether the answer is about simulated data. What agents measure now is not; nor is a log that the lake does not
    have, though the runs that it is compared with are."""
    if not request.place.facility.simulated or "status" in data.given:
        return ()
    logs = [digest for view in _views(data) if view.log for digest in view.applications.text("log_digest").tolist()]
    if not logs or request.place.snapshot.frame("applications", ("log_digest",), {"log_digest": tuple(logs)}).rows:
        return standing_caveats(request.place.facility)
    return ("The runs that it is compared with are simulated.",) if "similar" in data.given else ()


def _titled(exhibit: Exhibit) -> Exhibit:
    """An exhibit of a paper has the title that the paper's file gives."""
    if exhibit.title:
        return exhibit
    from ioweather.core.papers import exhibit_entry  # few answers have one

    return replace(exhibit, title=exhibit_entry(exhibit.id).title)


def zone_of(lake: Lake | str | os.PathLike[str] | None) -> str:
    """Of times that are typed without one: the facility's."""
    place = Place(lake, ExitStack())
    return (place.lake.facility.zone if place.is_there else None) or "UTC"


def _provenance(question: Question, request: Request, data: StudyData) -> Provenance:
    """With the parameters that were set or chosen. Which logs were meant is said by their digests: a path tells more
    than whoever hides paths wants to tell."""
    values = request.values
    wanted = [need for need in question.needs if need.is_wanted(values)]
    used = {table for need in wanted for table in (need.table, *need.also)}
    logs = {need.param for need in wanted if need.shape == "log" and need.name in data.given}
    shown = {
        param.name: values[param.name]
        for param in question.params
        if param.shown and not param.local and param.name not in logs and values[param.name] != param.default
    }
    found = provenance_of(request.place.opened, used, shown, request.period, own_rows=request.own_rows)
    digests = [str(digest)[:16] for view in _views(data) for digest in view.applications.text("log_digest").tolist()]
    return replace(found, input_digest=",".join(digests)) if digests else found


def _views(data: StudyData) -> list[JobView]:
    """The jobs and logs that an answer is about."""
    items = (each for item in data.given.values() for each in (item if isinstance(item, tuple) else (item,)))
    return [each for each in items if isinstance(each, JobView)]
