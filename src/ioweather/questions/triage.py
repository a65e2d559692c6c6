"""`triage`: the programs where a fix wins most, one line each, and what was fixed since."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ioweather.advice.advisor.triage import fixed, judged, newest_ns, worst
from ioweather.core.advised import TriageItem
from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.outcomes import TriageOutcome
from ioweather.core.results import Answer, Coverage, Exhibit, Fact, FactGroup, Finding, ResultColumn, ResultTable
from ioweather.core.units import NS, format_seconds
from ioweather.studies.shared.runs import NEEDS

_WEEK_NS: Final = 7 * 86_400 * NS
_SHOWN: Final = 10
_NO_LOGS: Final = "The lake has no Darshan logs. Ingest some: ioweather ingest LOGS"
_COLUMNS: Final = (
    ResultColumn("program", "", "text"), ResultColumn("user", "", "text"), ResultColumn("project", "", "text"),
    ResultColumn("runs", "", "count"), ResultColumn("io_seconds", "I/O time", "seconds"),
    ResultColumn("seconds", "to win", "seconds"), ResultColumn("headline", "pattern", "text"),
    ResultColumn("job_id", "for example job", "text"),
)  # fmt: skip
_FIXED: Final = (
    ResultColumn("program", "", "text"), ResultColumn("user", "", "text"), ResultColumn("project", "", "text"),
    ResultColumn("name", "pattern that is gone", "text"), ResultColumn("before_seconds", "I/O before", "seconds"),
    ResultColumn("after_seconds", "after", "seconds"), ResultColumn("runs_after", "runs since", "count"),
)  # fmt: skip


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    end = newest_ns(data.frames["job_io"])
    since = end - (params["since"] or _WEEK_NS)
    # What was fixed shows against the time before: as long again.
    every = list(judged(data, facility, since - (end - since), params["most"]))
    mine = [run for run in every if run.row["start_ns"] >= since]
    items, gone = worst(mine), fixed(every)
    total = sum(item.seconds for item in items)
    facts = tuple(_line(number, item) for number, item in enumerate(items[:_SHOWN], 1))
    groups = (FactGroup("triage", "A fix wins most here (added up over the runs)", facts),) if facts else ()
    tables = [ResultTable("triage", _COLUMNS, tuple(_cells(item, _COLUMNS) for item in items), "Where a fix wins most")]
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
        facts=groups,
        exhibits=(Exhibit("triage", "Triage", tables=tuple(tables)),),
        findings=tuple(told),
        coverage=(Coverage(data.frames["job_io"].rows, len(mine), "runs in the lake, within the time asked for"),),
        caveats=("Seconds are the advisor's promises; those of one run are not added where they overlap.",),
        result=TriageOutcome(since, end, len(mine), total, tuple(items), tuple(gone)),
    )


def _line(number: int, item: TriageItem) -> Fact:
    note = f"{item.user}, {item.runs} runs: {item.headline}, as job {item.job_id}"
    return Fact(f"program_{number}", item.program or "unknown", item.seconds, "seconds", note=note)


def _cells(item: object, columns: tuple[ResultColumn, ...]) -> tuple[str | int | float, ...]:
    values = {column.name: getattr(item, column.name) for column in columns}
    return tuple(str(value) if name == "job_id" else value for name, value in values.items())


QUESTION = Question(
    name="triage",
    result=TriageOutcome,
    needs=(
        *(replace(need, columns=(), any_time=True, missing=_NO_LOGS) for need in NEEDS),
        Need("files", "files", any_time=True, missing=_NO_LOGS),
    ),
    answer=answer,
    params=(
        Param("since", "Runs of so much time before the newest one (default: 7 days).", "duration", metavar="TIME"),
        Param("most", "Of all runs those with most I/O time are judged: so many.", "int", default=500, least=1),
    ),
    help="""List the programs where a fix wins most I/O time, one line each, and what was fixed since.

    Fixed is a pattern that runs of a program had, and later runs of as many processes have no more, and are faster.""",
    epilog="Example: ioweather triage --since 7d",
    table="triage",
)
