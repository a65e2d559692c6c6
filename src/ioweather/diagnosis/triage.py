"""`triage`: the programs where a fix wins most, or that cost others most, one line each, and what was fixed since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.outcomes import OthersItem, TriageItem, TriageOutcome
from ioweather.core.results import (
    Answer,
    Coverage,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    ResultColumn,
    ResultTable,
    columns_of,
)
from ioweather.core.units import format_seconds
from ioweather.diagnosis.blame import Party, accused, blame
from ioweather.diagnosis.fix_gains import fixed, judged, newest_ns, worst
from ioweather.diagnosis.job_activity_in_period import Activity
from ioweather.diagnosis.suspects import activity_since
from ioweather.facts.runs import NEEDS
from ioweather.topics.source import DataSource

_NEEDS: Final = (*(replace(need, columns=()) for need in NEEDS), Need("files", "files"))
_SHOWN: Final = 10
_NO_LOGS: Final = "The lake has no Darshan logs. Ingest some: ioweather ingest LOGS"
_COLUMNS: Final = columns_of(
    "program [text]; user [text]; project [text]; runs [count]; io_seconds: I/O time [seconds]; "
    "seconds: to win [seconds]; headline: pattern [text]; job_id: for example job [text]"
)
_OTHERS: Final = columns_of(
    "program [text]; user [text]; project [text]; runs: runs slowed [count]; seconds: cost others [seconds]; "
    "low: at least [seconds]; high: at most [seconds]; probability [ratio]; name: pattern to change [text]"
)
_FIXED: Final = columns_of(
    "program [text]; user [text]; project [text]; name: pattern that is gone [text]; "
    "before_seconds: I/O before [seconds]; after_seconds: after [seconds]; runs_after: runs since [count]"
)


def run(source: DataSource, params: Params) -> Answer:
    """The programs of the last days where a fix gains most, or that cost others most."""
    data = source.fetch(_NEEDS, any_time=True, missing=_NO_LOGS)
    try:
        found: Activity | str = activity_since(source.snapshot, params["since"])
    except DataUnavailable as error:
        found = error.message
    return triage_answer(data, source.facility, params, found)


def triage_answer(
    data: StudyData, facility: Facility, params: Params, activity: Activity | str = "no samples of the system"
) -> Answer:
    """From rows of runs, and who slowed others, or why that is not known."""
    end = newest_ns(data.frames["job_io"])
    since = end - params["since"]
    # What was fixed shows against the time before: as long again.
    every = list(judged(data, facility, since - (end - since), params["most"]))
    mine = [run for run in every if run.row["start_ns"] >= since]
    items, gone = worst(mine), fixed(every)
    others = _cost_others(activity, items) if isinstance(activity, Activity) else []
    total = sum(item.seconds for item in items)
    facts = tuple(_line(number, item) for number, item in enumerate(items[:_SHOWN], 1))
    groups = [FactGroup("triage", "A fix wins most here (added up over the runs)", facts)]
    slowing = tuple(_slowing(number, item) for number, item in enumerate(others[:_SHOWN], 1))
    groups.append(FactGroup("others", "These cost others most", slowing))
    tables = [ResultTable("triage", _COLUMNS, tuple(_cells(item, _COLUMNS) for item in items), "Where a fix wins most")]
    if others:
        tables.append(
            ResultTable("others", _OTHERS, tuple(_cells(item, _OTHERS) for item in others), "Cost others most")
        )
    if gone:
        tables.append(ResultTable("fixed", _FIXED, tuple(_cells(item, _FIXED) for item in gone), "Fixed since"))
    told = [
        Finding(
            f"Fixed: {item.program} of {item.user}, {item.name.replace('_', ' ')}: "
            f"{format_seconds(item.before_seconds)} of I/O a run became {format_seconds(item.after_seconds)}.",
            name=f"fixed_{number}",
        )
        for number, item in enumerate(gone[:_SHOWN], 1)
    ]
    programs = "1 program" if len(items) == 1 else f"{len(items):,} programs"
    headline = f"{programs} could win {format_seconds(total)} of I/O in {len(mine):,} runs."
    return Answer(
        question="Where does a fix win most?",
        headline=headline if items else f"Nothing worth changing in {len(mine):,} runs.",
        facts=tuple(group for group in groups if group.facts),
        exhibits=(Exhibit("triage", "Triage", tables=tuple(tables)),),
        findings=tuple(told),
        coverage=(Coverage(data.frames["job_io"].rows, len(mine), "runs in the lake, within the time asked for"),),
        caveats=tuple(_caveats(activity)),
        result=TriageOutcome(since, end, len(mine), total, tuple(items), tuple(gone), tuple(others)),
    )


def _line(number: int, item: TriageItem) -> Fact:
    runs = "1 run" if item.runs == 1 else f"{item.runs:,} runs"
    note = f"{item.user}, {runs}: {item.headline}, as job {item.job_id}"
    return Fact(f"program_{number}", item.program or "unknown", item.seconds, "seconds", note=note)


def _cost_others(asked: Activity, items: Sequence[TriageItem]) -> list[OthersItem]:
    """Programs by what their runs cost others, the most first, with the change that each should make."""
    advice = {(item.program, item.user): item.name for item in items}
    found = accused([(run, blame(run)) for run in asked.slowed], _of_program)
    return [
        OthersItem(
            each.party.program or "", each.party.user or f"uid {each.party.uid}", each.party.project or "", each.runs,
            each.seconds, each.low, each.high, each.probability,
            advice.get((each.party.program or "", each.party.user or ""), ""), each.worst.suspect.party.job_id,
        )
        for each in found
    ]  # fmt: skip


def _of_program(party: Party) -> str | None:
    """Jobs that may not be seen belong to no program."""
    return f"{party.program}\0{party.user or party.uid}" if party.program and not party.hidden else None


def _slowing(number: int, item: OthersItem) -> Fact:
    change = f"change: {item.name.replace('_', ' ')}" if item.name else "nothing to change in its own I/O"
    note = (
        f"{item.user}, slowed {item.runs} run{'s' if item.runs != 1 else ''} of others, {item.probability:.0%} sure; "
    )
    return Fact(f"slowing_{number}", item.program, item.seconds, "seconds", note=note + change)


def _caveats(activity: Activity | str) -> Iterator[str]:
    yield "Seconds are the advisor's promises; those of one run are not added where they overlap."
    if isinstance(activity, Activity):
        yield "What a program cost others is what they waited for it (`ioweather who`): a fix spares them at most that."
    else:
        yield f"What programs cost others is not known: {activity}."


def _cells(item: object, columns: tuple[ResultColumn, ...]) -> tuple[str | int | float, ...]:
    values = {column.name: getattr(item, column.name) for column in columns}
    return tuple(str(value) if name == "job_id" else value for name, value in values.items())


QUESTION = Question(
    name="triage",
    result=TriageOutcome,
    run=run,
    tables=frozenset({"applications", "files", "job_io", "job_operations", "jobs", "series"}),
    params=(
        Param("since", "Runs of so much time before the newest one.", "duration", default="7d", metavar="TIME"),
        Param("most", "Of all runs those with most I/O time are judged: so many.", "int", default=500, least=1),
    ),
    help="""List the programs where a fix wins most I/O time, those that cost others most, one line each, and what was
    fixed since.

    Fixed is a pattern that runs of a program had, and later runs of as many processes have no more, and are faster.""",
    epilog="Example: ioweather triage --since 7d",
    table="triage",
    brief={"triage": _SHOWN, "others": 5, "fixed_1": 1, "fixed_2": 1, "fixed_3": 1},
)
