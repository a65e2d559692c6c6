"""`triage`: the programs where a fix saves most, or that slow others most, one line each, and what was fixed since."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Indices
from ioweather.core.results import (
    Answer,
    Block,
    Coverage,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    Next,
    ResultColumn,
    ResultTable,
    columns_of,
    largest,
)
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, format_seconds, utc_day
from ioweather.diagnosis.blame import Activity, Party, accused, blame
from ioweather.diagnosis.blame_query import activity_since
from ioweather.facts.job_metrics import rows_of
from ioweather.facts.runs import JOB_COLUMNS, instances_of, program_of
from ioweather.job_io.advisor.advise import Advised, advise
from ioweather.job_io.advisor.expected_savings import Advice, Promise
from ioweather.job_io.view import JobView, printable
from ioweather.lake.caches import LakeRecords
from ioweather.lake.lake import Snapshot
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
_KEPT: Final = "advice"
_MOST_KEPT: Final = 4_000
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
    """The programs of the last days where a fix gains most, or that cost others most."""
    frames, end_ns, kept = fetch_costliest(source, params["since"], params["most"])
    try:
        found: Activity | str = activity_since(source.snapshot, params["since"])
    except DataUnavailable as error:
        found = error.message
    recorded = source.snapshot.scalar("SELECT count(*) FROM job_io")
    return triage_answer(frames, source.facility, params, found, int(recorded or 0), kept, end_ns)


def fetch_costliest(source: DataSource, since_ns: int, most: int) -> tuple[dict[str, Frame], int, KeptAdvice]:
    """Rows of the runs with most I/O time among those of twice the time asked for, before the newest run ended; when
    that was; and their cached advice.

    Only their days are read, and files only of runs without cached advice: the cost does not grow with the lake."""
    snapshot = source.snapshot
    source.note_tables(("applications", "files", "job_io", "jobs"))
    if not snapshot.filled(["job_io"]):
        raise DataUnavailable(_NO_LOGS)
    newest_days = set(sorted(snapshot.pinned["job_io"].days())[-_LONGEST_RUN_DAYS:])
    ends = snapshot.rows("job_io", days=newest_days, columns=("end_ns",))
    ((end,),) = snapshot.bare.execute(f"SELECT max(end_ns) FROM ({ends})").fetchall()
    period = (end or 0) - 2 * since_ns, (end or 0) + 1
    runs = snapshot.frame("job_io", where={"io_seconds >": 0.0}, period_ns=period)
    spent = runs.floats("io_seconds")
    runs = runs.take(np.sort(np.argsort(-spent, kind="stable")[:most]))
    digests = tuple(map(str, runs.text("log_digest").tolist()))
    kept = KeptAdvice(snapshot, digests)
    applications = snapshot.frame("applications", where={"log_digest": digests}, period_ns=period)
    submitted = period[0] - _LONGEST_WAIT_NS, period[1]
    numbers = tuple(set(applications.ints("job_id").tolist()))
    jobs = snapshot.frame("jobs", JOB_COLUMNS, {"raw_job_id": numbers}, submitted)
    frames = {"job_io": runs, "applications": applications, "jobs": jobs}
    for first in range(0, len(kept.missing), _AT_ONCE):
        some = kept.missing[first : first + _AT_ONCE]
        mine = runs.take(np.isin(np.array(digests), some))
        days = {utc_day(start) for start in mine.ints("start_ns").tolist()}
        files = snapshot.frame("files", where={"log_digest": some}, days=days)
        part = {**frames, "job_io": mine, "files": files}
        kept.add(advise_runs(part, snapshot.facility, 0, most))
    kept.store()
    return frames, period[1] - 1, kept


class KeptAdvice:
    """Advice for runs, cached next to the tables: a run's log and the rules do not change, and to advise a run takes
    as long as to ingest it. Runs whose advice is not cached are in `missing`."""

    def __init__(self, snapshot: Snapshot, digests: Sequence[str]) -> None:
        self._records, self._key = LakeRecords(snapshot.root), snapshot.facility.digest
        cached = self._records.get(_KEPT, self._key, lambda stored: json.loads(bytes(stored["advice"])))
        self._cached: dict[str, Any] = cached or {}
        self._digests = dict.fromkeys(digests)
        self.missing = tuple(digest for digest in digests if digest not in self._cached)

    def find(self, digest: str) -> Advised | None:
        found = self._cached.get(digest)
        if found is None:
            return None
        patterns = (
            Advice(**{**each, "promise": Promise(**each["promise"]), "fix_lines": tuple(each["fix_lines"])})
            for each in found["patterns"]
        )
        return Advised(**{**found, "patterns": tuple(patterns)})

    def add(self, runs: Iterable[AdvisedRun]) -> None:
        self._cached |= {str(run.row["log_digest"]): asdict(run.advised) for run in runs}

    def store(self) -> None:
        """Store the advice for these runs, and of others as long as there is room."""
        if self.missing:
            others = {digest: self._cached[digest] for digest in self._cached if digest not in self._digests}
            room = max(0, _MOST_KEPT - len(self._digests))
            mine = {digest: self._cached[digest] for digest in self._digests if digest in self._cached}
            text = json.dumps({**dict([*others.items()][-room:] if room else ()), **mine}).encode()
            self._records.put(_KEPT, self._key, {"advice": np.frombuffer(text, np.uint8)})


def triage_answer(
    frames: Mapping[str, Frame],
    facility: Facility,
    params: Params,
    activity: Activity | str = "no samples of the system",
    recorded: int | None = None,
    kept: KeptAdvice | None = None,
    end_ns: int | None = None,
) -> Answer:
    """The answer from rows of runs; `activity` is who slowed others, or why that is unknown. `recorded` is the number
    of runs in the lake, if these are only some, and `end_ns` when the newest ended; of runs with `kept` advice no files
    are needed."""
    end = newest_ns(frames["job_io"]) if end_ns is None else end_ns
    since = end - params["since"]
    # What was fixed shows against the time before: as long again.
    every = list(advise_runs(frames, facility, since - (end - since), params["most"], kept))
    mine = [run for run in every if run.row["start_ns"] >= since]
    items, gone = rank_programs(mine), find_fixed(every)
    others = _cost_others(activity, items) if isinstance(activity, Activity) else []
    total = sum(item.seconds for item in items)
    facts = tuple(_line(number, item) for number, item in enumerate(items[:_SHOWN], 1))
    groups = [FactGroup("triage", "Biggest possible savings (sum over the runs)", facts)]
    slowing = tuple(_slowing(number, item) for number, item in enumerate(others[:_SHOWN], 1))
    groups.append(FactGroup("others", "These slow others most", slowing))
    tables = [
        ResultTable("triage", _COLUMNS, tuple(_cells(item, _COLUMNS) for item in items), "Biggest possible savings")
    ]
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
    headline = f"{programs} could save {format_seconds(total)} of I/O time in {len(mine):,} runs."
    return Answer(
        question="Where would a fix help most?",
        headline=headline if items else f"Nothing worth changing in {len(mine):,} runs.",
        facts=tuple(group for group in groups if group.facts),
        exhibits=(Exhibit("triage", "Triage", tables=tuple(tables)),),
        findings=tuple(told),
        coverage=(
            Coverage(
                frames["job_io"].rows if recorded is None else recorded,
                len(mine),
                "runs in the lake in this period",
            ),
        ),
        caveats=tuple(_caveats(activity)),
        result=TriageOutcome(since, end, len(mine), total, tuple(items), tuple(gone), tuple(others)),
    )


def _line(number: int, item: TriageItem) -> Fact:
    runs = "1 run" if item.runs == 1 else f"{item.runs:,} runs"
    note = f"{item.user}, {runs}: {item.headline}, as job {item.job_id}"
    return Fact(f"program_{number}", item.program or "unknown", item.seconds, "seconds", note=note)


def _cost_others(asked: Activity, items: Sequence[TriageItem]) -> list[OthersItem]:
    """Programs by what they cost others, the most first, with the first change of each."""
    advice = {(item.program, item.user): item.name for item in items}
    found = accused([(run, blame(run)) for run in asked.slowed], _of_program)
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


def _of_program(party: Party) -> str | None:
    """Key of the program and user; None for hidden jobs."""
    return f"{party.program}\0{party.user or party.uid}" if party.program and not party.hidden else None


def _slowing(number: int, item: OthersItem) -> Fact:
    change = f"change: {item.name.replace('_', ' ')}" if item.name else "nothing to change in its own I/O"
    note = (
        f"{item.user}, slowed {item.runs} run{'s' if item.runs != 1 else ''} of others, {item.probability:.0%} sure; "
    )
    return Fact(f"slowing_{number}", item.program, item.seconds, "seconds", note=note + change)


def _caveats(activity: Activity | str) -> Iterator[str]:
    yield "Times are estimated savings; overlapping ones of one run are counted once."
    if isinstance(activity, Activity):
        yield ('"Cost to others" is the time they waited for this program (see `who`). A fix saves at most that.')
    else:
        yield f"What programs cost others is not known: {activity}."


def _cells(item: object, columns: tuple[ResultColumn, ...]) -> tuple[str | int | float, ...]:
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
    yield from (largest(group, 3) for group in answer.facts if group.name == "others")
    yield from [finding for finding in answer.findings if finding.name.startswith("fixed_")][:3]
    if rows:
        yield Next(f"ioweather job {rows[0][-1]}")


QUESTION = Question(
    name="triage",
    result=TriageOutcome,
    run=run,
    tables=frozenset({"applications", "files", "job_io", "job_operations", "jobs", "series"}),
    params=(
        Param("since", "How far back to look, counted from the newest run.", "duration", default="7d", metavar="TIME"),
        Param("most", "Maximum number of runs to judge, longest I/O time first.", "int", default=500, least=1),
    ),
    help="""List the programs where a fix would save the most I/O time, those that slow others most, and recent fixes.

    A pattern counts as fixed when later runs with the same number of processes no longer show it and are faster.""",
    epilog="Example: ioweather triage --since 7d",
    table="triage",
    blocks=triage_screen,
)


# A pattern is fixed if so many runs in a row had it, so many since have not, and I/O became faster by this share.
FEWEST_RUNS: Final = 2
FASTER: Final = 0.2


@dataclass(frozen=True)
class AdvisedRun:
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


def advise_runs(
    frames: Mapping[str, Frame], facility: Facility, start_ns: int, most: int, kept: KeptAdvice | None = None
) -> Iterator[AdvisedRun]:
    """Advise the runs since `start_ns` with most I/O time, in order of time."""
    runs = instances_of(frames, facility, {}).frame
    job_io, applications = (frames[name] for name in ("job_io", "applications"))
    files = frames.get("files") or TABLES["files"].frame({name: [] for name in TABLES["files"].names}, rows=0)
    spent = np.nan_to_num(runs.floats("io_seconds"), nan=0.0)
    chosen = np.flatnonzero((runs.ints("start_ns") >= start_ns) & (spent > 0))
    chosen = chosen[np.argsort(-spent[chosen], kind="stable")][:most]
    chosen = chosen[np.argsort(runs.ints("start_ns")[chosen], kind="stable")]
    place = rows_of(job_io.text("log_digest"), files.text("log_digest"))
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(job_io.rows + 1))
    of_application = rows_of(applications.text("log_digest"), job_io.text("log_digest"))
    of_job_io = rows_of(job_io.text("log_digest"), runs.text("log_digest"))
    rows = runs.take(chosen).records()
    for row, number in zip(rows, of_job_io[chosen].tolist(), strict=True):
        if kept is not None and (advised := kept.find(str(row["log_digest"]))) is not None:
            yield AdvisedRun(row, advised)
            continue
        mine: Indices = order[bounds[number] : bounds[number + 1]]
        application = applications.take([int(of_application[number])])
        view = JobView(str(row["job_id"]), application, files.take(mine), job_io.take([number]), facility=facility)
        yield AdvisedRun(row, advise(view))


def rank_programs(runs: Sequence[AdvisedRun]) -> list[TriageItem]:
    """Programs by the total gain of their changes, the most first; changes of one run are not added."""
    groups: dict[tuple[str, str, str], list[AdvisedRun]] = defaultdict(list)
    for run in runs:
        if run.advised.together_seconds > 0:
            groups[run.whose].append(run)
    items = [_item(whose, found) for whose, found in groups.items()]
    return sorted(items, key=lambda item: (-item.seconds, item.program, item.user))


def _item(whose: tuple[str, str, str], runs: Sequence[AdvisedRun]) -> TriageItem:
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
        sum(run.advised.worth[0].promise.low for run in runs),
        sum(
            run.advised.io_seconds or 0.0 if len(run.advised.worth) > 1 else run.advised.worth[0].promise.high
            for run in runs
        ),
        name,
        largest.headline,
        largest.dimension,
        largest.evidence,
        largest.fix_lines,
        int(example.row["job_id"]),
    )


def find_fixed(runs: Sequence[AdvisedRun]) -> list[FixedItem]:
    """Patterns that earlier runs of a program had and later runs have not.

    For the same user and number of processes, if later runs moved as much and were faster.
    """
    groups: dict[tuple[Any, ...], list[AdvisedRun]] = defaultdict(list)
    for run in runs:
        groups[*run.whose, run.row["nprocs"]].append(run)
    found = [item for group in groups.values() for item in _fixed(group)]
    return sorted(found, key=lambda item: -item.won_seconds)


def _fixed(runs: Sequence[AdvisedRun]) -> Iterator[FixedItem]:
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


def newest_ns(job_io: Frame) -> int:
    return int(job_io.ints("end_ns").max(initial=0))
