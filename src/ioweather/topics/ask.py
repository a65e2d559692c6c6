"""Run a question on a lake or log, and add provenance and standing caveats to its answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.results import Answer, Exhibit
from ioweather.lake.lake import Place
from ioweather.topics.catalogue import QUESTIONS
from ioweather.topics.source import (
    DataSource,
    SharedResults,
    check_names,
    provenance_of,
    resolve_params,
    standing_caveats,
)

if TYPE_CHECKING:
    from ioweather.lake.lake import Lake

_OWN_ROWS: Final = "Made of your own jobs and of what all may see: with the jobs of others it may come out differently."


def ask(
    name: str,
    lake: Lake | str | os.PathLike[str] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    period_ns: Period = ALL_TIME,
    shared: SharedResults | None = None,
    files: bool = True,
) -> Answer:
    """The answer to the question of this name. `lake`: default the person's own, where the question needs one. Text
    among the parameters is parsed as a command parses it. `shared` are results of other questions about the same job;
    without `files` nothing is read from a path."""
    question = QUESTIONS[name]
    typed = {key: value for key, value in (params or {}).items() if value is not None}
    check_names([question], typed)
    with ExitStack() as until:
        source = DataSource(lake, until, period_ns, reads_files=files, shared=shared)
        source.tables = question.tables
        values = resolve_params(question.params, typed, lambda: source.snapshot, lambda: zone_of(lake))
        answer = question.run(source, values)
        own = (_OWN_ROWS,) if source.own_rows else ()
        blocks = answer.blocks if question.blocks is None else tuple(question.blocks(answer, values))
        exhibits = tuple(each if each.title else _titled(each) for each in answer.exhibits)
        # Logs are named by their digests, since a path may be private.
        shown = {
            param.name: values[param.name]
            for param in question.params
            if param.shown
            and not param.local
            and param.name not in source.log_params
            and values[param.name] != param.default
        }
        provenance = provenance_of(
            source.place.opened, source.tables, shown, source.period_ns, own_rows=source.own_rows
        )
        if source.log_digests:
            digests = ",".join(digest[:16] for digest in source.log_digests)
            provenance = replace(provenance, input_digest=digests)
        return replace(
            answer,
            blocks=blocks,
            name=name,
            exhibits=exhibits,
            caveats=(*_simulated(source), *own, *answer.caveats),
            provenance=provenance,
        )


def _simulated(source: DataSource) -> tuple[str, ...]:
    """Whether the answer is about simulated data. What agents measure now is not; nor is a log that the lake does not
    have, though the runs that it is compared with are."""
    if not source.facility.simulated or source.reads_agents:
        return ()
    digests = source.file_digests
    if not digests or source.snapshot.frame("applications", ("log_digest",), {"log_digest": tuple(digests)}).rows:
        return standing_caveats(source.facility)
    return ("The runs that it is compared with are simulated.",) if source.is_compared else ()


def _titled(exhibit: Exhibit) -> Exhibit:
    """The exhibit with the title that its paper's file has for it."""
    from ioweather.core.papers import exhibit_entry  # reads five files; few answers have one

    return replace(exhibit, title=exhibit_entry(exhibit.id).title)


def zone_of(lake: Lake | str | os.PathLike[str] | None) -> str:
    """Time zone of the facility, for times that are typed without one."""
    place = Place(lake, ExitStack())
    return (place.lake.facility.zone if place.is_there else None) or "UTC"
