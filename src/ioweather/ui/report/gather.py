"""All exhibits the lake allows, for every file system it knows; what could not be made is kept with its reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import chain

from ioweather.core.clock import now_ns
from ioweather.core.errors import IoweatherError
from ioweather.core.facility import Facility
from ioweather.core.papers import exhibits
from ioweather.core.progress import Progress, silent
from ioweather.core.results import Exhibit
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


@dataclass(frozen=True)
class _Task:
    """Exhibits that one study makes, for one file system."""

    ids: tuple[str, ...]
    filesystem: str
    params: Mapping[str, str]
    first: bool

    @property
    def spreads(self) -> bool:
        return study_of(self.ids[0]).spreads


def gather(
    lake: Lake,
    *,
    period_ns: Period = ALL_TIME,
    only: Collection[str] | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Material:
    """Run every study whose needs the lake meets: in this process, or on the executor (see make_exhibits). One that
    fails is named and never ends the report. `only`: these exhibits, and no word of the others."""
    with lake.snapshot() as snapshot:
        found = [item for item in availability(snapshot) if only is None or item.id in only] if only != () else []
        every = list(_tasks(found, snapshot.filesystems()))
        rows, versions, span = snapshot.tables(), snapshot.versions, _span(snapshot)
    left_out = [LeftOut(item.id, item.title, "; ".join(item.missing)) for item in found if not item.ready]
    made: list[Made] = []
    titles = {item.id: item.title for item in found}
    here = [task for task in every if executor is not None and task.spreads]
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
                made.append(_labelled(outcome, task))
            elif task.first:  # what a second file system lacks is no news
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
    """An exhibit without content is none."""
    if not isinstance(found, Exhibit):
        return _left_out(exhibit_id, found)
    return LeftOut(exhibit_id, "", f"empty: {found.empty_because}") if found.empty_because else found


def _lost(lake: Lake, task: _Task, period_ns: Period) -> list[tuple[str, Exhibit | LeftOut]]:
    reason = "it failed: its worker died (killed, or out of memory)"
    return [(exhibit_id, LeftOut(exhibit_id, "", reason, failed=True)) for exhibit_id in task.ids]


def _left_out(exhibit_id: str, error: Exception) -> LeftOut:
    if isinstance(error, IoweatherError):
        return LeftOut(exhibit_id, "", error.message)
    return LeftOut(exhibit_id, "", f"it failed: {type(error).__name__}: {error}", failed=True)


def _labelled(exhibit: Exhibit, task: _Task) -> Made:
    chosen = exhibit.provenance.params.get("filesystem")
    filesystem = str(chosen) if chosen else ""
    return Made(exhibit if task.first else replace(exhibit, id=f"{exhibit.id}@{task.filesystem}"), filesystem)


def without_repeats(made: tuple[Made, ...]) -> tuple[Made, ...]:
    """The file system that a study chose by itself is asked for by name again: its second copy goes."""
    first = {(m.exhibit.id, m.filesystem) for m in made if "@" not in m.exhibit.id}
    return tuple(
        m for m in made if (m.exhibit.id.partition("@")[0], m.filesystem) not in first or "@" not in m.exhibit.id
    )


def _span(snapshot: Snapshot) -> tuple[int, int] | None:
    """First and last moment that the lake knows of."""
    times = [(group.first_ns, group.end_ns) for group in snapshot.series()]
    for table, column in (("applications", "start_ns"), ("responses", "start_ns")):
        if snapshot.pinned[table].uris:
            low = snapshot.scalar(f"SELECT min({column}) FROM {table}")
            high = snapshot.scalar(f"SELECT max({column}) FROM {table}")
            if isinstance(low, int) and isinstance(high, int):
                times.append((low, high))
    return (min(low for low, _ in times), max(high for _, high in times)) if times else None
