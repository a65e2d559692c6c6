"""`triage`: the programs where a fix saves most, or that slow others most, one line each, and what was fixed since."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import ALL_TIME, Param, Params, Period, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import (
    Answer,
    Block,
    Coverage,
    Exhibit,
    Finding,
    Next,
    ResultColumn,
    ResultTable,
    columns_of,
)
from ioweather.core.units import DAY_NS, format_seconds, utc_day
from ioweather.diagnosis.blame import Activity, Party, blame, sum_blames
from ioweather.diagnosis.blame_query import activity_since, read_activity
from ioweather.facts.job_metrics import rows_of
from ioweather.facts.runs import JOB_COLUMNS, instances_of, program_of
from ioweather.job_io.advisor.advise import Advised, advise
from ioweather.job_io.advisor.expected_savings import Advice, Saving
from ioweather.job_io.view import JobView, printable
from ioweather.lake.caches import read_record, write_record
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class TriageItem:
    """A program of a user, and what its `runs` could win together: `seconds` with bounds. `name` to `fix` are of the
    pattern that costs most; `job_id` is the run with most to win."""

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
    dimension: str
    evidence: str
    fix: tuple[str, ...]
    job_id: int


@dataclass(frozen=True)
class OthersItem:
    """What runs of a program of a user cost `runs` of others: seconds with their 90% interval, and how sure it is that
    it was this program. `name` is the pattern that it should change first, empty where its own I/O is well; `job_id` is
    the run that cost one of the others most."""

    program: str
    user: str
    project: str
    runs: int
    seconds: float
    low: float
    high: float
    probability: float
    name: str
    job_id: int | None


@dataclass(frozen=True)
class FixedItem:
    """A pattern that is gone: medians of the I/O time of a run, before and since."""

    program: str
    user: str
    project: str
    name: str
    runs_before: int
    runs_after: int
    before_seconds: float
    after_seconds: float
    won_seconds: float


@dataclass(frozen=True)
class TriageOutcome:
    """`runs` were judged between `start_ns` and `end_ns`; `fixed` looks as far back again. `others`: programs that
    cost others time, the most first; empty too where no samples of the system tell."""

    start_ns: int
    end_ns: int
    runs: int
    seconds: float
    programs: tuple[TriageItem, ...]
    fixed: tuple[FixedItem, ...]
    others: tuple[OthersItem, ...] = ()


# The newest end is that of a run that began in one of the last days with runs. [ours]
_LONGEST_RUN_DAYS: Final = 31
# A job is submitted so long before its run at most. [ours]
_LONGEST_WAIT_NS: Final = 365 * DAY_NS
_CACHE: Final = "savings"
_MOST_CACHED: Final = 4_000
# Runs whose files are in memory together.
_AT_ONCE: Final = 50
_SHOWN: Final = 10
_NO_LOGS: Final = "The lake has no Darshan logs. Ingest some: ioweather ingest LOGS"
_COLUMNS: Final = columns_of(
    "program [text]; user [text]; project [text]; runs [count]; io_seconds: I/O time [seconds]; "
    "seconds: could save [seconds]; headline: pattern [text]; job_id: for example job [text]"
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
    """The programs of the period (default: of the last days) where a fix gains most, or that cost others most."""
    runs, period = read_costliest_runs(source, params["since"], params["most"])
    try:
        by_time = source.period_ns != ALL_TIME
        slowed: Activity | str = (
            read_activity(source.snapshot, None, period)
            if by_time
            else activity_since(source.snapshot, params["since"])
        )
    except DataUnavailable as error:
        slowed = error.message
    recorded = source.snapshot.scalar("SELECT count(*) FROM job_io")
    return triage_answer(runs, *period, int(recorded or 0), slowed)


def read_costliest_runs(source: DataSource, since_ns: int, most: int) -> tuple[list[_AdvisedRun], Period]:
    """(runs with most I/O time, in order of time; the period that is judged). The period ends with the newest run in
    the period of the source and is `since_ns` long, unless the source's begins then; runs are also of as long before.

    Their advice is cached: a run's log and the rules do not change, and to advise a run takes as long as to ingest it.
    Only days of these runs are read, and files only of runs without cached advice, so that the cost does not grow with
    the lake.
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
    period = 2 * start - end, min(end + 1, high)
    job_io = snapshot.frame("job_io", where={"io_seconds >": 0.0}, period_ns=period)
    job_io = job_io.take(job_io.ints("start_ns") >= period[0])
    job_io = job_io.take(np.sort(np.argsort(-job_io.floats("io_seconds"), kind="stable")[:most]))
    digests = tuple(map(str, job_io.text("log_digest").tolist()))
    applications = snapshot.frame("applications", where={"log_digest": digests}, period_ns=period)
    numbers = tuple(set(applications.ints("job_id").tolist()))
    submitted = period[0] - _LONGEST_WAIT_NS, period[1]
    jobs = snapshot.frame("jobs", JOB_COLUMNS, {"raw_job_id": numbers}, submitted)
    frames = {"job_io": job_io, "applications": applications, "jobs": jobs}
    stored = read_record(snapshot.root, _CACHE, snapshot.facility.digest)
    cached: dict[str, Any] = json.loads(bytes(stored["advice"])) if stored else {}
    missing = tuple(digest for digest in digests if digest not in cached)
    for first in range(0, len(missing), _AT_ONCE):
        some = missing[first : first + _AT_ONCE]
        mine = job_io.take(np.isin(np.array(digests), some))
        days = {utc_day(start) for start in mine.ints("start_ns").tolist()}
        files = snapshot.frame("files", where={"log_digest": some}, days=days)
        part = {**frames, "job_io": mine, "files": files}
        cached |= {str(run.row["log_digest"]): asdict(run.advised) for run in advise_runs(part, snapshot.facility)}
    mine_last = {digest: cached.pop(digest) for digest in digests}
    if missing:
        text = json.dumps(dict([*cached.items(), *mine_last.items()][-_MOST_CACHED:])).encode()
        advice = {"advice": np.frombuffer(text, np.uint8)}
        write_record(snapshot.root, _CACHE, snapshot.facility.digest, advice)
    rows = _rows_in_time(frames, snapshot.facility)
    return [_AdvisedRun(row, _advised_from_json(mine_last[str(row["log_digest"])])) for row in rows], (start, end)


def _advised_from_json(cached: Mapping[str, Any]) -> Advised:
    patterns = (
        Advice(**{**each, "saving": Saving(**each["saving"]), "fix_lines": tuple(each["fix_lines"])})
        for each in cached["patterns"]
    )
    return Advised(**{**cached, "patterns": tuple(patterns)})


def triage_answer(
    every: Sequence[_AdvisedRun],
    since_ns: int,
    end_ns: int,
    recorded: int,
    activity: Activity | str = "no storage samples",
) -> Answer:
    """The answer from the advice for runs; earlier ones than `since_ns` show what was fixed.

    `recorded` is the number of runs in the lake, `activity` who slowed others, or why that is unknown.
    """
    mine = [run for run in every if run.row["start_ns"] >= since_ns]
    items, gone = rank_programs(mine), find_fixed(every)
    others = _rank_by_cost_to_others(activity, items) if isinstance(activity, Activity) else []
    total = sum(item.seconds for item in items)
    tables = [
        ResultTable("triage", _COLUMNS, tuple(_table_row(item, _COLUMNS) for item in items), "Biggest possible savings")
    ]
    if others:
        tables.append(
            ResultTable("others", _OTHERS, tuple(_table_row(item, _OTHERS) for item in others), "Slow others most")
        )
    if gone:
        tables.append(ResultTable("fixed", _FIXED, tuple(_table_row(item, _FIXED) for item in gone), "Fixed since"))
    told = [
        Finding(
            f"Fixed: {item.program} of {item.user}, {item.name.replace('_', ' ')}: "
            f"{format_seconds(item.before_seconds)} of I/O per run became {format_seconds(item.after_seconds)}.",
            name=f"fixed_{number}",
        )
        for number, item in enumerate(gone[:_SHOWN], 1)
    ]
    programs = "1 program" if len(items) == 1 else f"{len(items):,} programs"
    headline = f"{programs} could save {format_seconds(total)} of I/O time in {len(mine):,} runs."
    return Answer(
        question="Where would a fix help most?",
        headline=headline if items else f"Nothing worth changing in {len(mine):,} runs.",
        exhibits=(Exhibit("triage", "Triage", tables=tuple(tables)),),
        findings=tuple(told),
        coverage=(Coverage(recorded, len(mine), "runs in the lake in this period"),),
        caveats=tuple(_caveats(activity)),
        result=TriageOutcome(since_ns, end_ns, len(mine), total, tuple(items), tuple(gone), tuple(others)),
    )


def _rank_by_cost_to_others(asked: Activity, items: Sequence[TriageItem]) -> list[OthersItem]:
    """Programs by what they cost others, the most first, with the first change of each."""
    advice = {(item.program, item.user): item.name for item in items}
    found = sum_blames([blame(run) for run in asked.slowed], _program_key)
    return [
        OthersItem(
            each.party.program or "",
            each.party.user or f"uid {each.party.uid}",
            each.party.project or "",
            each.runs,
            each.seconds,
            each.low,
            each.high,
            each.probability,
            advice.get((each.party.program or "", each.party.user or ""), ""),
            each.worst.suspect.party.job_id,
        )
        for each in found
    ]


def _program_key(party: Party) -> str | None:
    """Key of the program and user; None for hidden jobs."""
    return f"{party.program}\0{party.user or party.uid}" if party.program and not party.hidden else None


def _caveats(activity: Activity | str) -> Iterator[str]:
    yield "Times are estimated savings. Overlapping savings of one run are counted once."
    if isinstance(activity, Activity):
        yield (
            '"Cost to others" is the time that other jobs waited for this program (see `who`). A fix saves at most '
            "this time."
        )
    else:
        yield f"Cost to others is unknown: {activity}."


def _table_row(item: object, columns: tuple[ResultColumn, ...]) -> tuple[str | int | float, ...]:
    values = {column.name: getattr(item, column.name) for column in columns}
    return tuple(str(value) if name == "job_id" else value for name, value in values.items())


def triage_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Programs by what they could save, then those that cost others time."""
    result = answer.result
    assert isinstance(result, TriageOutcome)
    rows = [(p.program, p.user, p.runs, p.seconds, p.headline, str(p.job_id)) for p in result.programs[:10]]
    columns = (
        "program [text]; user [text]; runs [count]; seconds: could save [seconds]; pattern [text]; job: in job [text]"
    )
    if rows:
        yield ResultTable.of("triage", columns, rows)
    if result.others:
        slowing = [
            (p.program, p.user, p.runs, p.seconds, round(p.probability, 2), p.name.replace("_", " ") or "none")
            for p in result.others[:3]
        ]
        columns = (
            "program [text]; user [text]; runs: slowed [count]; seconds: cost others [seconds]; sure [ratio]; "
            "change: pattern to change [text]"
        )
        yield ResultTable.of("others", columns, slowing, "Programs that slow others most")
    yield from [finding for finding in answer.findings if finding.name.startswith("fixed_")][:3]
    if rows:
        yield Next(f"ioweather job {rows[0][-1]}")


QUESTION = Question(
    name="triage",
    result=TriageOutcome,
    run=run,
    tables=frozenset({"applications", "files", "job_io", "job_operations", "jobs", "series"}),
    params=(
        Param(
            "since", "Length of the period, which ends with the newest run.", "duration", default="7d", metavar="TIME"
        ),
        Param("most", "Maximum number of runs to analyse, longest I/O time first.", "int", default=500, least=1),
    ),
    help="""List the programs where a fix would save the most I/O time, the programs that slow others most, and
    recent fixes.

    A pattern counts as fixed when later runs with the same number of processes no longer show it and are faster.""",
    epilog="Example: ioweather triage --since 7d",
    table="triage",
    blocks=triage_screen,
)


# A pattern is fixed if so many runs in a row had it, so many since have not, and I/O became faster by this share.
FEWEST_RUNS: Final = 2
FASTER: Final = 0.2


@dataclass(frozen=True)
class _AdvisedRun:
    """A run with a log and the advice for it."""

    row: dict[str, Any]
    advised: Advised

    @property
    def whose(self) -> tuple[str, str, str]:
        """(program, user, project)."""
        user = self.row["user"] or f"uid {self.row['uid']}"
        return printable(program_of(self.row["exe"] or "")), user, self.row["project"] or ""

    @property
    def patterns(self) -> frozenset[str]:
        """Names of the patterns worth changing."""
        return frozenset(advice.name for advice in self.advised.worth)


def advise_runs(frames: Mapping[str, Frame], facility: Facility) -> Iterator[_AdvisedRun]:
    """Advise the runs that did I/O, in order of time."""
    job_io, applications, files = (frames[name] for name in ("job_io", "applications", "files"))
    rows = _rows_in_time(frames, facility)
    place = rows_of(job_io.text("log_digest"), files.text("log_digest"))
    of_application = rows_of(applications.text("log_digest"), job_io.text("log_digest")).tolist()
    number_of = {digest: number for number, digest in enumerate(job_io.text("log_digest").tolist())}
    # Those of all runs at once take less time than those of each.
    runs = instances_of({"job_io": job_io, "applications": applications}, facility, {})
    run_of = {digest: number for number, digest in enumerate(runs.frame.text("log_digest").tolist())}
    for row in rows:
        number = number_of[row["log_digest"]]
        application = applications.take([of_application[number]])
        mine = files.take(np.flatnonzero(place == number)).without_unused_texts()
        known = runs.take([run_of[row["log_digest"]]])
        view = JobView(
            str(row["job_id"]), application, mine, job_io.take([number]), facility=facility, known_runs=known
        )
        yield _AdvisedRun(row, advise(view))


def _rows_in_time(frames: Mapping[str, Frame], facility: Facility) -> list[dict[str, Any]]:
    """Rows of the runs with I/O time, with the names of users and projects, in order of start."""
    runs = instances_of(frames, facility, {}).frame
    runs = runs.take(np.nan_to_num(runs.floats("io_seconds")) > 0)
    return runs.take(np.argsort(runs.ints("start_ns"), kind="stable")).records()


def rank_programs(runs: Sequence[_AdvisedRun]) -> list[TriageItem]:
    """Programs by the total gain of their changes, the most first; changes of one run are not added."""
    groups: dict[tuple[str, str, str], list[_AdvisedRun]] = defaultdict(list)
    for run in runs:
        if run.advised.together_seconds > 0:
            groups[run.whose].append(run)
    items = [_triage_item(whose, found) for whose, found in groups.items()]
    return sorted(items, key=lambda item: (-item.seconds, item.program, item.user))


def _triage_item(whose: tuple[str, str, str], runs: Sequence[_AdvisedRun]) -> TriageItem:
    """The pattern that costs a program most, and what all its runs could save."""
    seconds: dict[str, float] = defaultdict(float)
    for run in runs:
        seconds[run.advised.worth[0].name] += run.advised.worth[0].seconds
    name = max(seconds, key=lambda pattern: seconds[pattern])
    firsts = [run.advised.worth[0] for run in runs if run.advised.worth[0].name == name]
    largest = max(firsts, key=lambda advice: advice.seconds)
    example = max(runs, key=lambda run: run.advised.together_seconds)
    return TriageItem(
        *whose,
        len(runs),
        sum(float(run.row["io_seconds"]) for run in runs),
        sum(run.advised.together_seconds for run in runs),
        sum(run.advised.worth[0].saving.low for run in runs),
        sum(
            run.advised.io_seconds or 0.0 if len(run.advised.worth) > 1 else run.advised.worth[0].saving.high
            for run in runs
        ),
        name,
        largest.headline,
        largest.dimension,
        largest.evidence,
        largest.fix_lines,
        int(example.row["job_id"]),
    )


def find_fixed(runs: Sequence[_AdvisedRun]) -> list[FixedItem]:
    """Patterns that earlier runs of a program had and later runs have not.

    For the same user and number of processes, if later runs moved as much and were faster.
    """
    groups: dict[tuple[Any, ...], list[_AdvisedRun]] = defaultdict(list)
    for run in runs:
        groups[*run.whose, run.row["nprocs"]].append(run)
    found = [item for group in groups.values() for item in _fixed_patterns(group)]
    return sorted(found, key=lambda item: -item.won_seconds)


def _fixed_patterns(runs: Sequence[_AdvisedRun]) -> Iterator[FixedItem]:
    """Patterns that all earlier runs had and no later run has, if later runs are faster."""
    for name in sorted(frozenset().union(*(run.patterns for run in runs))):
        last = max(number for number, run in enumerate(runs) if name in run.patterns)
        before = [run for run in runs[: last + 1] if name in run.patterns]
        after = runs[last + 1 :]
        # A pattern that comes and goes was not fixed.
        if len(before) < FEWEST_RUNS or len(after) < FEWEST_RUNS or len(before) < last + 1:
            continue
        old, new = (float(np.median([run.row["io_seconds"] for run in part])) for part in (before, after))
        moved = [
            float(np.median([run.row["read_bytes"] + run.row["write_bytes"] for run in part]))
            for part in (before, after)
        ]
        if new <= (1.0 - FASTER) * old and moved[1] >= 0.5 * moved[0]:
            yield FixedItem(*before[0].whose, name, len(before), len(after), old, new, old - new)
