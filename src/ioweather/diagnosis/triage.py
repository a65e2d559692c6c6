"""`triage`: the programs where a fix saves most, one line each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import ALL_TIME, Param, Params, Period, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Answer, Block, Coverage, Exhibit, Next, ResultTable, columns_of
from ioweather.core.units import DAY_NS, format_seconds, utc_day
from ioweather.facts.job_metrics import rows_of
from ioweather.facts.runs import JOB_COLUMNS, instances_of, program_of
from ioweather.job_io.advisor.advise import Advised, advise
from ioweather.job_io.view import JobView, printable
from ioweather.lake.caches import read_record, write_record
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class TriageItem:
    """A program of a user, and what its `runs` could win together: `seconds` with bounds. `name` and `headline` are of
    the pattern that costs most; `job_id` is the run with most to win."""

    program: str
    user: str
    project: str
    runs: int
    io_seconds: float
    seconds: float
    low: float
    high: float
    name: str
    headline: str
    job_id: int


@dataclass(frozen=True)
class TriageOutcome:
    """`runs` were judged between `start_ns` and `end_ns`."""

    start_ns: int
    end_ns: int
    runs: int
    seconds: float
    programs: tuple[TriageItem, ...]


# The newest end is that of a run that began in one of the last days with runs. [ours]
_LONGEST_RUN_DAYS: Final = 31
# A job is submitted so long before its run at most. [ours]
_LONGEST_WAIT_NS: Final = 365 * DAY_NS
_CACHE: Final = "triage-2"
_MOST_CACHED: Final = 4_000
# Runs whose files are in memory together.
_AT_ONCE: Final = 50
_NO_LOGS: Final = "The lake has no Darshan logs. Ingest some: ioweather ingest LOGS"
_COLUMNS: Final = columns_of(
    "program [text]; user [text]; project [text]; runs [count]; io_seconds: I/O time [seconds]; "
    "seconds: could save [seconds]; headline: pattern [text]; job_id: for example job [text]"
)
_CAVEAT: Final = "Times are estimated savings. Overlapping savings of one run are counted once."


@dataclass(frozen=True)
class PossibleSaving:
    """What all changes of one run save together: `seconds` with bounds. The rest is of the costliest pattern, whose
    change alone saves `pattern_seconds`."""

    seconds: float
    low: float
    high: float
    name: str
    headline: str
    pattern_seconds: float


def run(source: DataSource, params: Params) -> Answer:
    """The programs of the period (default: of the last days) where a fix gains most."""
    runs, period = read_costliest_runs(source, params["since"], params["most"])
    savings = read_savings(source, runs)
    recorded = source.snapshot.scalar("SELECT count(*) FROM job_io")
    rows = sorted(instances_of(runs, source.facility, {}).frame.records(), key=lambda row: row["start_ns"])
    return triage_answer(rows, savings, period, int(recorded or 0))


def read_costliest_runs(source: DataSource, since_ns: int, most: int) -> tuple[dict[str, Frame], Period]:
    """Return `job_io`, `applications` and `jobs` of the runs with most I/O time, and the period of their starts.

    The period ends with the newest run in the period of the source and is `since_ns` long, unless the source's begins
    then. Only its days are read, so that the cost does not grow with the lake.
    """
    snapshot, (low, high) = source.snapshot, source.period_ns
    source.note_tables(("applications", "files", "job_io", "jobs"))
    if not snapshot.filled(["job_io"]):
        raise DataUnavailable(_NO_LOGS)
    until = [day for day in sorted(snapshot.pinned["job_io"].days()) if day <= utc_day(high - 1)]
    ends = snapshot.rows(
        "job_io", {"start_ns <": high}, days=until[-_LONGEST_RUN_DAYS:], columns=("start_ns", "end_ns")
    )
    ((newest,),) = snapshot.bare.execute(f"SELECT max(end_ns) FROM ({ends})").fetchall()
    end = min(newest or 0, high)
    start = low if low > ALL_TIME[0] else end - since_ns
    if newest is None or end <= start:
        raise DataUnavailable("No run with a Darshan log in this period.", hint="`ioweather jobs` lists runs.")
    period = start, min(end + 1, high)
    job_io = snapshot.frame("job_io", where={"io_seconds >": 0.0, "start_ns >=": start}, period_ns=period)
    job_io = job_io.take(np.sort(np.argsort(-job_io.floats("io_seconds"), kind="stable")[:most]))
    digests = tuple(map(str, job_io.text("log_digest").tolist()))
    applications = snapshot.frame("applications", where={"log_digest": digests}, period_ns=period)
    numbers = tuple(set(applications.ints("job_id").tolist()))
    submitted = period[0] - _LONGEST_WAIT_NS, period[1]
    jobs = snapshot.frame("jobs", JOB_COLUMNS, {"raw_job_id": numbers}, submitted)
    return {"job_io": job_io, "applications": applications, "jobs": jobs}, (start, end)


def read_savings(source: DataSource, runs: Mapping[str, Frame]) -> dict[str, PossibleSaving]:
    """Return the possible saving of each run that has one, by the digest of its log.

    They are cached: a run's log and the rules do not change, and to advise a run takes as long as to ingest it. Files
    are read only of runs without cached advice.
    """
    snapshot, job_io = source.snapshot, runs["job_io"]
    digests = tuple(map(str, job_io.text("log_digest").tolist()))
    cached: dict[str, Any] = read_record(snapshot.root, _CACHE, snapshot.facility.digest) or {}
    missing = tuple(digest for digest in digests if digest not in cached)
    for first in range(0, len(missing), _AT_ONCE):
        some = missing[first : first + _AT_ONCE]
        mine = job_io.take(np.isin(np.array(digests), some))
        days = {utc_day(start) for start in mine.ints("start_ns").tolist()}
        files = snapshot.frame("files", where={"log_digest": some}, days=days)
        found = advise_runs({**runs, "job_io": mine, "files": files}, snapshot.facility)
        cached |= {digest: saving and asdict(saving) for digest, saving in found}
    of_these = {digest: cached.pop(digest) for digest in digests}
    if missing:
        newest = dict([*cached.items(), *of_these.items()][-_MOST_CACHED:])
        write_record(snapshot.root, _CACHE, snapshot.facility.digest, newest)
    return {digest: PossibleSaving(**saving) for digest, saving in of_these.items() if saving}


def triage_answer(
    rows: Sequence[Mapping[str, Any]], savings: Mapping[str, PossibleSaving], period: Period, recorded: int
) -> Answer:
    """Return the answer from the runs and their possible savings; `recorded` is the number of runs in the lake."""
    items = rank_programs(rows, savings)
    total = sum(item.seconds for item in items)
    cells = [
        [str(getattr(item, c.name)) if c.name == "job_id" else getattr(item, c.name) for c in _COLUMNS]
        for item in items
    ]
    table = ResultTable("triage", _COLUMNS, tuple(map(tuple, cells)), "Biggest possible savings")
    programs = "1 program" if len(items) == 1 else f"{len(items):,} programs"
    headline = f"{programs} could save {format_seconds(total)} of I/O time in {len(rows):,} runs."
    return Answer(
        question="Where would a fix help most?",
        headline=headline if items else f"Nothing worth changing in {len(rows):,} runs.",
        exhibits=(Exhibit("triage", "Triage", tables=(table,)),),
        coverage=(Coverage(recorded, len(rows), "runs in the lake in this period"),),
        caveats=(_CAVEAT,),
        result=TriageOutcome(*period, len(rows), total, tuple(items)),
    )


def triage_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Programs by what they could save."""
    result = answer.result
    assert isinstance(result, TriageOutcome)
    rows = [(p.program, p.user, p.runs, p.seconds, p.headline, str(p.job_id)) for p in result.programs[:10]]
    columns = (
        "program [text]; user [text]; runs [count]; seconds: could save [seconds]; pattern [text]; job: in job [text]"
    )
    if rows:
        yield ResultTable.of("triage", columns, rows)
        yield Next(f"ioweather job {rows[0][-1]}")


QUESTION = Question(
    name="triage",
    result=TriageOutcome,
    run=run,
    tables=frozenset({"applications", "files", "job_io", "jobs"}),
    params=(
        Param(
            "since", "Length of the period, which ends with the newest run.", "duration", default="7d", metavar="TIME"
        ),
        Param("most", "Maximum number of runs to analyse, longest I/O time first.", "int", default=500, least=1),
    ),
    help="List the programs where a fix would save the most I/O time.",
    epilog="Example: ioweather triage --since 7d",
    table="triage",
    blocks=triage_screen,
)


def advise_runs(frames: Mapping[str, Frame], facility: Facility) -> Iterator[tuple[str, PossibleSaving | None]]:
    """Yield the digest of each run's log with its possible saving; None where nothing is worth changing."""
    job_io, applications, files = (frames[name] for name in ("job_io", "applications", "files"))
    digests = job_io.text("log_digest")
    # The rows of a run are a slice of sorted rows, which is not copied.
    applications = applications.take(rows_of(applications.text("log_digest"), digests))
    place = rows_of(digests, files.text("log_digest"))
    files = files.take(np.argsort(place, kind="stable"))
    bounds = np.searchsorted(np.sort(place), np.arange(job_io.rows + 1)).tolist()
    # Those of all runs at once take less time than those of each.
    runs = instances_of({"job_io": job_io, "applications": applications}, facility, {})
    for number, digest in enumerate(digests.tolist()):
        one = slice(number, number + 1)
        mine = files.take(slice(*bounds[number : number + 2])).without_unused_texts()
        view = JobView(
            str(digest), applications.take(one), mine, job_io.take(one), facility=facility, known_runs=runs.take(one)
        )
        yield str(digest), possible_saving(advise(view))


def possible_saving(advised: Advised) -> PossibleSaving | None:
    """Return what the changes of a run save together; None if no change with a known saving is worth it."""
    worth, together = advised.worth, advised.together_seconds
    if not together > 0:
        return None
    first = worth[0]
    return PossibleSaving(
        together,
        first.saving.low,
        advised.io_seconds or 0.0 if len(worth) > 1 else first.saving.high,
        first.name,
        first.headline,
        first.seconds,
    )


def rank_programs(rows: Sequence[Mapping[str, Any]], savings: Mapping[str, PossibleSaving]) -> list[TriageItem]:
    """Programs by the total gain of their changes, the most first; changes of one run are not added."""
    groups: dict[tuple[str, str, str], list[tuple[Mapping[str, Any], PossibleSaving]]] = defaultdict(list)
    for row in rows:
        if saving := savings.get(row["log_digest"]):
            user = row["user"] or f"uid {row['uid']}"
            groups[printable(program_of(row["exe"] or "")), user, row["project"] or ""].append((row, saving))
    items = []
    for whose, runs in groups.items():
        of_pattern: dict[tuple[str, str], float] = defaultdict(float)
        for _, saving in runs:
            of_pattern[saving.name, saving.headline] += saving.pattern_seconds
        example, _ = max(runs, key=lambda run: run[1].seconds)
        items.append(
            TriageItem(
                *whose,
                len(runs),
                sum(float(row["io_seconds"]) for row, _ in runs),
                sum(each.seconds for _, each in runs),
                sum(each.low for _, each in runs),
                sum(each.high for _, each in runs),
                *max(of_pattern, key=lambda pattern: of_pattern[pattern]),
                int(example["job_id"]),
            )
        )
    return sorted(items, key=lambda item: (-item.seconds, item.program, item.user))
