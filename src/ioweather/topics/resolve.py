"""From the needs of a question to data: one function per shape. Rows, matrices and rollups are those of studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ioweather.core.contracts import ALL_TIME, Need, Period, Question, StudyData
from ioweather.core.errors import DataUnavailable
from ioweather.core.frames import Frame
from ioweather.job_io.heat_map import PAGE, SCREEN
from ioweather.job_io.view import JobView
from ioweather.lake.place import Place
from ioweather.topics.stamp import of_people


@dataclass
class Request:
    """What is asked, where, and what was found so far. `files`: paths may be read, for they are the asker's own.
    `own_rows`: of people only rows of the one who asks were read, and everybody's would tell another tale."""

    place: Place
    values: Mapping[str, Any]
    period: Period
    files: bool = True
    found: dict[str, Any] = field(default_factory=dict)
    own_rows: bool = False


def resolve(question: Question, request: Request) -> StudyData:
    """Every need that is wanted, in their order; needs that are `found` already are not fetched again."""
    lacking: dict[str, str] = {}
    frames: dict[str, Frame] = {}
    caveats: list[str] = []
    for need in question.needs:
        if need.name in request.found or not need.is_wanted(request.values):
            continue
        try:
            if need.after in lacking:
                raise DataUnavailable(lacking[need.after])
            if need.shape in RESOLVERS:
                found = RESOLVERS[need.shape](request, need)
                if found is not None:
                    request.found[need.name] = found
                continue
            data = _fetched(request, need)
            frames |= data.frames
            caveats += data.caveats
        except DataUnavailable as error:
            if not need.optional:
                raise
            lacking[need.name] = error.message
    request.own_rows |= bool(request.found.get("own_rows"))
    return StudyData(
        frames, period_ns=request.period, caveats=tuple(caveats), given=dict(request.found), lacking=lacking
    )


def _fetched(request: Request, need: Need) -> StudyData:
    from ioweather.topics.analyse import fetch  # a log alone needs no database

    _note_own_rows(request, need)
    if not need.optional and not request.place.snapshot.filled([need.table]):
        raise DataUnavailable(need.missing or f"The lake has no rows in `{need.table}`.")
    return fetch(request.place.snapshot, (need,), request.values, ALL_TIME if need.any_time else request.period)


def _note_own_rows(request: Request, need: Need) -> None:
    request.own_rows |= request.place.snapshot.owner is not None and of_people((need.table, *need.also))


def _log(request: Request, need: Need) -> Any:
    """A JobView, or several. What is optional is None where the parameter names no file."""
    from ioweather.job_io.job_source import find_job

    asked = request.values[need.param]
    if need.optional and not (request.files and Path(asked).is_file()):
        return None
    if isinstance(asked, tuple):
        return tuple(find_job(target, request.place, request.values, request.period, request.files) for target in asked)
    try:
        view = find_job(asked, request.place, request.values, request.period, request.files)
        if view.log is None and request.files and "detail" in request.values:
            # A question that draws. A server opens no file for who asks: what lies there now may be another.
            from ioweather.job_io.job_in_lake import with_heat_maps

            resolution = PAGE if request.values["detail"] else SCREEN
            return with_heat_maps(view, request.place.snapshot, resolution)
        return view
    except DataUnavailable:
        if "job_operations" not in need.also:
            raise
        from ioweather.job_io.job_in_lake import Which, counted_by_servers

        which = Which(request.values.get("uid"), request.period)
        found = counted_by_servers(request.place.snapshot, asked, which)
        if found is None:
            raise
        return found


def _counted(request: Request, need: Need) -> Any:
    """What the servers counted of the job of the need `after`, where that one is of logs and there is a lake."""
    view = request.found[need.after]
    if not isinstance(view, JobView) or not (request.place.was_named or request.place.opened):
        return None
    from ioweather.job_io.job_in_lake import counted_beside_log

    return counted_beside_log(request.place.snapshot, view)


def _volumes(request: Request, need: Need) -> Any:
    from ioweather.facts.job_volumes import server_volumes

    _note_own_rows(request, need)
    return server_volumes(request.place.snapshot, request.period)


def _similar_if_named(request: Request, need: Need) -> Any:
    """The same where a lake was named or is open: a log alone is answered without one."""
    if not (request.place.was_named or request.place.opened):
        raise DataUnavailable("no lake was named")
    return _similar(request, need)


def _similar(request: Request, need: Need) -> Any:
    from ioweather.diagnosis.blame_query import judged_on
    from ioweather.diagnosis.similar_runs import similar_runs

    snapshot = request.place.snapshot_if_there()
    if snapshot is None:
        raise DataUnavailable("there is no lake")
    view = request.found[need.after]
    if not isinstance(view, JobView):
        raise DataUnavailable("the job has no log")
    rows = judged_on(snapshot, view)
    # Kept with what was found, for the next question about the same job.
    request.found["own_rows"] = rows.owner is not None
    return similar_runs(view, rows, request.values.get("as_of"))


def _conditions(request: Request, need: Need) -> Any:
    from ioweather.diagnosis.blame_query import judged_on
    from ioweather.diagnosis.similar_runs import conditions

    values, similar = request.values, request.found[need.after]
    rows = judged_on(request.place.snapshot, similar.view)
    return conditions(similar, rows, filesystem=values.get("filesystem"), step_ns=values.get("resolution"))


def _suspects(request: Request, need: Need) -> Any:
    from ioweather.diagnosis.blame_query import slowed_run

    return slowed_run(request.place.snapshot, request.found["similar"], request.found[need.after].filesystem)


def _recorded(request: Request, need: Need) -> Any:
    from ioweather.diagnosis.recorded_verdicts import recorded

    snapshot = request.place.snapshot_if_there()
    if snapshot is None:
        return None
    view = request.found[need.after]
    return recorded(snapshot, str(view.applications.text("log_digest").tolist()[view.main_run]))


def _activity(request: Request, need: Need) -> Any:
    """Of the period or the run that is asked for; with `param`, of so much time before the newest."""
    from ioweather.diagnosis.blame_query import activity, activity_since

    if need.param:
        return activity_since(request.place.snapshot, request.values[need.param])
    return activity(request.place, request.values, request.period, request.files)


def _history(request: Request, need: Need) -> Any:
    from ioweather.planning.forecast_query import history

    return history(request.place.snapshot, request.values)


def _recent(request: Request, need: Need) -> Any:
    from ioweather.diagnosis.agent_status import lake_history

    snapshot = request.place.snapshot_if_there()
    return None if snapshot is None else lake_history(snapshot, request.values["at"], request.values["exact"])


def _status(request: Request, need: Need) -> Any:
    from ioweather.diagnosis.agent_status import seen_now

    values = request.values
    return seen_now(
        [Path(spool) for spool in values["spool"]], request.found.get(need.after), request.place.directory, values["at"]
    )


def _loads(request: Request, need: Need) -> Any:
    from ioweather.facts.load_query import loads

    return loads(request.place.snapshot, request.values["where"], request.period)


def _relief(request: Request, need: Need) -> Any:
    from ioweather.planning.relieve_query import relief

    return relief(request.place.snapshot, request.values, request.period)


def _exhibits(request: Request, need: Need) -> Any:
    from ioweather.studies.claims_query import exhibits_of_claims

    _note_own_rows(request, need)
    request.place.snapshot  # noqa: B018  opened, so that the answer says of which state of the lake it is
    return exhibits_of_claims(request.place.lake, request.values["paper"] or "", request.period)


def _sites(request: Request, need: Need) -> Any:
    from ioweather.studies.claims_query import read_claims

    return tuple(read_claims(Path(file)) for file in request.values[need.param])


RESOLVERS: Final[Mapping[str, Callable[[Request, Need], Any]]] = {
    "log": _log,
    "counted": _counted,
    "volumes": _volumes,
    "similar": _similar,
    "similar_if_named": _similar_if_named,
    "conditions": _conditions,
    "suspects": _suspects,
    "recorded": _recorded,
    "activity": _activity,
    "history": _history,
    "recent": _recent,
    "status": _status,
    "loads": _loads,
    "relief": _relief,
    "exhibits": _exhibits,
    "sites": _sites,
}
