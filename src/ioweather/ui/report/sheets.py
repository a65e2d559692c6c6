"""The pages of a report for people: one sheet for directors, one for operators.

All numbers come from questions, and are compared with the period before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from ioweather.core.contracts import Period
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.results import Answer, Chart, Fact, ResultTable, columns_of
from ioweather.core.units import NS, format_time_ns, format_value
from ioweather.diagnosis.events import TROUBLES, EventOutcome, EventsOutcome, count_by_kind, without_name
from ioweather.diagnosis.file_systems import FileSystemState, StorageOutcome
from ioweather.diagnosis.now import SLOW
from ioweather.job_io.outcomes import WhyOutcome
from ioweather.lake.lake import Lake
from ioweather.topics.source import ask

if TYPE_CHECKING:
    from ioweather.diagnosis.health import HealthOutcome
    from ioweather.diagnosis.list_jobs import RunOutcome, RunsOutcome
    from ioweather.diagnosis.triage import TriageOutcome
    from ioweather.job_io.outcomes import Unhealthy

_EVERY_RUN: Final = 10**9
_MOST_PROGRAMS: Final = 5
_MOST_ACTIONS: Final = 3
_MOST_EVENTS: Final = 20
_MOST_RUNS: Final = 15
_FULL: Final = 0.8  # of its peak: a file system that needs more, or less work


@dataclass(frozen=True)
class Sheet:
    """Part of a report: sentences, numbers, pictures and tables, in this order."""

    title: str
    sentences: tuple[str, ...] = ()
    tiles: tuple[Fact, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[ResultTable, ...] = ()
    actions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """What the questions say of one period; None where the lake has nothing for one.

    `runs` are of jobs with a log: `with_log` of `jobs`. `slow` are (time, slowdown) by file system. Of the jobs without
    a log: their run time in seconds, their number by verdict, and those that ran longest against similar ones.
    """

    period: Period
    storage: Answer | None
    runs: tuple[RunOutcome, ...] = ()
    events: tuple[EventOutcome, ...] = ()
    slow: Mapping[str, list[tuple[int, float]]] = field(default_factory=dict)
    jobs: int = 0
    with_log: int = 0
    unlogged_seconds: float = 0.0
    run_time_verdicts: Mapping[str, int] = field(default_factory=dict)
    slow_unlogged: tuple[RunOutcome, ...] = ()

    @property
    def states(self) -> tuple[FileSystemState, ...]:
        """The file systems at the end of the period."""
        result = self.storage.result if self.storage is not None else None
        return result.filesystems if isinstance(result, StorageOutcome) else ()

    def charts(self, of: str) -> tuple[Chart, ...]:
        exhibits = self.storage.exhibits if self.storage is not None else ()
        return tuple(chart for each in exhibits if each.id == f"storage.{of}" for chart in each.charts)

    @property
    def moved_bytes(self) -> float:
        """Bytes moved as servers count them; as runs count them where no server is sampled."""
        servers = sum(state.read_bytes + state.write_bytes for state in self.states)
        return servers or float(sum(run.moved_bytes for run in self.runs))

    @property
    def started_runs(self) -> int:
        """Runs that started in the period, so that no run is in two periods."""
        return sum(self.period[0] <= run.start_ns < self.period[1] for run in self.runs)

    @property
    def slow_share(self) -> float | None:
        """Of the time that probes measured, the share in which some operation took twice its usual time or longer."""
        values = [value for series in self.slow.values() for _, value in series]
        return sum(value >= SLOW for value in values) / len(values) if values else None

    @property
    def troubles(self) -> list[EventOutcome]:
        return [event for event in self.events if event.kind in TROUBLES]


def find(lake: Lake, periods: Sequence[Period]) -> list[Found]:
    """The answers for each period; runs and events are queried once and then split."""

    def put(name: str, params: Mapping[str, Any], period: Period) -> Answer | None:
        try:
            return ask(name, lake, params, period_ns=period)
        except DataUnavailable:
            return None

    whole = min(low for low, _ in periods), max(high for _, high in periods)
    happened = put("events", {}, whole)
    listed = put("runs", {"most": _EVERY_RUN, "every_run": True}, whole)
    runs = cast("RunsOutcome", listed.result).runs if listed is not None else ()
    events = happened.result.events if happened is not None and isinstance(happened.result, EventsOutcome) else ()
    found = []
    for low, high in periods:
        storage, counted = put("storage", {}, (low, high)), put("runs", {"most": 1}, (low, high))
        totals = cast("RunsOutcome", counted.result) if counted is not None else None
        slowest: Answer | None = None
        if totals is not None and totals.with_log < totals.count:
            slowest = put("runs", {"most": _MOST_RUNS, "order": "slowest", "without_log": True}, (low, high))
        slow: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for exhibit in storage.exhibits if storage is not None else ():
            if exhibit.id == "storage.slowdown":
                for start_ns, name, value in exhibit.charts[0].table.rows:
                    if isinstance(start_ns, int) and isinstance(value, float):
                        slow[str(name)].append((start_ns, value))
        found.append(
            Found(
                (low, high),
                storage,
                tuple(run for run in runs if run.start_ns < high and (run.end_ns is None or run.end_ns > low)),
                tuple(e for e in events if e.start_ns < high and (e.end_ns is None or e.end_ns > low)),
                slow,
                totals.count if totals is not None else 0,
                totals.with_log if totals is not None else 0,
                totals.unlogged_seconds if totals is not None else 0.0,
                totals.run_time_verdicts if totals is not None else {},
                cast("RunsOutcome", slowest.result).runs if slowest is not None else (),
            )
        )
    return found


def overlaps_any(run: RunOutcome, events: Sequence[EventOutcome]) -> bool:
    """Whether the run overlaps one of the events."""
    return any(
        (run.end_ns is None or e.start_ns < run.end_ns) and (e.end_ns is None or e.end_ns > run.start_ns)
        for e in events
    )


def director_sheet(name: str, now: Found, before: Found, todo: Sequence[str]) -> Sheet:
    """One A4 page; `before` is the period of the same length before."""
    sentences = [_verdict(now)]
    if now.with_log < now.jobs:
        sentences += _unlogged_sentences(now)
    if before.moved_bytes or before.runs:
        sentences.append(f"Arrows compare with {_span(before.period)}.")
    else:
        sentences.append("There are no earlier data for comparison.")
    return Sheet(
        f"Storage of {name}",
        tuple(sentences),
        tuple(_tiles(now, before)),
        tuple(replace(chart, title="Load; incidents are shaded") for chart in now.charts("load")),
        tuple(table for table in (_program_table(now.runs),) if table.rows),
        tuple(todo) or ("No problems found: all components are healthy and no program has avoidable I/O time.",),
    )


def _unlogged_sentences(now: Found) -> Iterator[str]:
    """How many jobs have a log, how long the others ran, and what was found from their run times."""
    share = format_value(now.with_log / now.jobs, "ratio")
    yield (
        f"{now.with_log:,} of {now.jobs:,} jobs ({share}) have a Darshan log. I/O times are known only for these "
        f"jobs. The other jobs ran for {format_value(now.unlogged_seconds, 'seconds')}."
    )
    counts = now.run_time_verdicts
    if judged := sum(counts.values()):
        system, unexplained, unknown = (counts.get(kind, 0) for kind in ("system", "unexplained", "unknown"))
        yield (
            f"{judged:,} of these jobs were judged by their run times: {system:,} were slow while storage was slow, "
            f"{unexplained:,} were slow while storage was as usual, and {unknown:,} cannot be judged."
        )


def _verdict(now: Found) -> str:
    """How slow storage was, and what it cost its users."""
    share = now.slow_share
    if share is None and not now.runs:
        return "No measurements in this period show how slow storage was for its users."
    extra, whole = _extra_seconds(now.runs), sum(run.io_seconds or 0.0 for run in now.runs)
    parts = []
    if share is not None:
        of_time = format_value(share, "ratio")
        parts.append(f"Storage was slow (an operation took at least twice its usual time) for {of_time} of the time.")
    if whole:
        parts.append(
            f"Users' runs spent {format_value(whole, 'seconds')} in I/O; {format_value(extra, 'seconds')} of it "
            f"({format_value(extra / whole, 'ratio')}) is time beyond similar runs."
        )
    return " ".join(parts)


def _tiles(now: Found, before: Found) -> Iterator[Fact]:
    """Numbers of the period, compared with those of the period before."""

    def trend(value: float | None, earlier: float | None, unit: str) -> str:
        if value is None or not earlier:
            return ""
        change = value / earlier - 1
        arrow = "→" if abs(change) < 0.05 else "↑" if change > 0 else "↓"
        return f"{arrow} {format_value(abs(change), 'ratio')} (before {format_value(earlier, unit)})"

    moved = trend(now.moved_bytes, before.moved_bytes, "bytes")
    yield Fact("moved", "moved", format_value(now.moved_bytes, "bytes"), note=moved)
    seconds = (now.period[1] - now.period[0]) / NS
    used = [
        ((s.read_bytes + s.write_bytes) / s.peak_bytes_per_s / seconds, s.filesystem)
        for s in now.states
        if s.peak_bytes_per_s
    ]
    if used:
        share, busiest = max(used, key=lambda each: each[0])
        yield Fact("used", "used", format_value(share, "ratio"), note=f"of the peak of {busiest}, on average")
    slow = trend(now.slow_share, before.slow_share, "ratio")
    yield Fact("slow", "of the time storage was slow", format_value(now.slow_share, "ratio"), note=slow)
    cost = _extra_seconds(run for run in now.runs if overlaps_any(run, now.troubles))
    note = f"runs at these times took {format_value(cost, 'seconds')} longer than similar runs" if cost else ""
    number, _, names = (count_by_kind(now.troubles) or "0 incidents").partition(" ")
    yield Fact("troubles", names, number, note=note)
    count = trend(now.started_runs, before.started_runs, "count")
    users = len({run.user for run in now.runs})
    yield Fact("runs", f"runs of {users} users", f"{len(now.runs):,}", note=count)


def _extra_seconds(runs: Iterable[RunOutcome]) -> float:
    """I/O time of the runs beyond similar runs."""
    return sum(run.extra_seconds or 0.0 for run in runs)


def _program_table(runs: Sequence[RunOutcome]) -> ResultTable:
    """The programs with the most time beyond similar runs, by project."""
    of: dict[tuple[str, str], list[RunOutcome]] = defaultdict(list)
    for run in runs:
        of[run.program, run.project or ""].append(run)
    rows = []
    for (program, project), mine in of.items():
        io_seconds = sum(run.io_seconds or 0.0 for run in mine)
        ran_seconds = sum(run.run_seconds or 0.0 for run in mine)
        share = io_seconds / ran_seconds if ran_seconds else None
        if io_seconds:
            rows.append((program, project, len(mine), io_seconds, share, _extra_seconds(mine)))
    rows.sort(key=lambda row: (-row[5], -row[3]))
    columns = (
        "program [text]; project [text]; runs [count]; io_seconds: I/O time [seconds]; share: of run time [ratio]; "
        "lost: beyond similar runs [seconds]"
    )
    title = "Programs with the most time beyond similar runs"
    return ResultTable.of("waiting", columns, rows[:_MOST_PROGRAMS], title)


def actions(lake: Lake, now: Found) -> list[str]:
    """What to do: the unhealthy components that delayed runs most, a file system near its peak, programs where a change
    saves most."""
    found = []
    with suppress(DataUnavailable):
        unhealthy = cast("HealthOutcome", ask("health", lake, {}, period_ns=now.period).result).unhealthy
        costliest = sorted(unhealthy, key=lambda each: -(each.lost_seconds or 0.0))
        found = [_describe_unhealthy(each, now.period[1]) for each in costliest if each.component][:_MOST_ACTIONS]
    found += [
        f"{state.filesystem} is at {format_value(state.load_ratio, 'ratio')} of its nominal peak: plan for more "
        "capacity, or spread the load."
        for state in now.states
        if state.load_ratio is not None and state.load_ratio >= _FULL
    ]
    found += _changes(lake, now)
    return found[: 2 * _MOST_ACTIONS]


def _describe_unhealthy(each: Unhealthy, end_ns: int) -> str:
    """Say which component to look at; of one that recovered, when it did."""
    what = without_name(each.cause, each.component)
    cost = f", and delayed runs by {format_value(each.lost_seconds, 'seconds')}" if each.lost_seconds else ""
    if each.end_ns is None or each.end_ns >= end_ns:
        return f"Look at {each.component}: {what} since {format_time_ns(each.start_ns)}{cost}."
    return f"Find the cause at {each.component}: {what}; it ended {format_time_ns(each.end_ns)}{cost}."


def _changes(lake: Lake, now: Found) -> list[str]:
    """Whom to ask about which program, in the order of `triage`; only programs with a run in the period that storage
    did not slow."""
    in_period = {run.job_id for run in now.runs}
    try:
        newest = cast("RunsOutcome", ask("runs", lake, {"most": 1}).result).runs
        newest_ns = max((run.end_ns or run.start_ns for run in newest), default=now.period[1])
        result = ask("triage", lake, {"since": f"{max(newest_ns - now.period[0], NS)}ns"}).result
    except DataUnavailable:
        return []
    found: list[str] = []
    for item in cast("TriageOutcome", result).programs:
        if len(found) == _MOST_ACTIONS:
            break
        if item.job_id not in in_period or _was_slowed_by_storage(lake, item.job_id):
            continue
        found.append(
            f"Ask {item.project or item.user} about {item.program}: {item.headline} "
            f"(a change could save {format_value(item.seconds, 'seconds')}; see job {item.job_id})."
        )
    return found


def _was_slowed_by_storage(lake: Lake, job_id: int) -> bool:
    """Whether the verdict of `why` on a job is storage, alone or with the program."""
    try:
        result = ask("why", lake, {"job": str(job_id)}).result
    except IoweatherError:
        return False
    return isinstance(result, WhyOutcome) and result.kind in ("system", "both")


def operator_sheet(now: Found) -> Sheet:
    """The state of each file system, the strongest events and the slowest runs."""
    sentences = [
        f"{state.filesystem}: {format_value(state.read_bytes, 'bytes')} read, "
        f"{format_value(state.write_bytes, 'bytes')} written; at the end {format_value(state.slowdown, 'factor')} "
        f"its usual time"
        + ("." if state.load_ratio is None else f", {format_value(state.load_ratio, 'ratio')} of its nominal peak.")
        for state in now.states
    ]
    tables = tuple(table for table in (_events_table(now), _runs_table(now), _unlogged_table(now)) if table.rows)
    return Sheet("For operators", tuple(sentences), charts=now.charts("slowdown"), tables=tables)


def _events_table(now: Found) -> ResultTable:
    """The strongest incidents and slow episodes."""
    strongest = sorted(now.troubles, key=lambda e: (TROUBLES.index(e.kind), -(e.strength_ratio or 0.0)))[:_MOST_EVENTS]
    rows = tuple(
        (
            e.start_ns,
            e.end_ns,
            e.kind.replace("_", " "),
            e.component or e.filesystem.removeprefix("mount:"),
            e.label,
            e.strength_ratio,
        )
        for e in strongest
    )
    return ResultTable.of(
        "events",
        "start_ns: from [time_ns]; end_ns: to [time_ns]; kind [text]; where [text]; what [text]; strength [factor]",
        rows,
        f"The strongest of {count_by_kind(now.troubles)}",
    )


def _runs_table(now: Found) -> ResultTable:
    """The runs with the most time beyond similar ones; with a column of verdicts where there are any."""
    columns = columns_of(
        "job [text]; user [text]; program [text]; io_seconds: I/O time [seconds]; lost: beyond similar [seconds]; "
        "slowness: × similar [factor]; start_ns: start [time_ns]; verdict: verdict on record [text]"
    )
    worst = sorted((run for run in now.runs if run.extra_seconds), key=lambda run: -(run.extra_seconds or 0))[
        :_MOST_RUNS
    ]
    rows = tuple(
        (str(r.job_id), r.user, r.program, r.io_seconds, r.extra_seconds, r.slowness, r.start_ns, r.verdict_words)
        for r in worst
    )
    shown = len(columns) if any(run.verdict for run in worst) else len(columns) - 1
    cells = tuple(row[:shown] for row in rows)
    return ResultTable("runs", columns[:shown], cells, "Runs with the most time beyond similar runs: ioweather why JOB")


def _unlogged_table(now: Found) -> ResultTable:
    """The jobs without a log that ran longer than similar ones."""
    return ResultTable.of(
        "unlogged",
        "job [text]; cluster [text]; user [text]; name [text]; start_ns: start [time_ns]; ran [seconds]; "
        "slowness: × similar [factor]; verdict: verdict on record [text]",
        [
            (str(r.job_id), r.cluster, r.user, r.program, r.start_ns, r.run_seconds, r.slowness, r.verdict_words)
            for r in now.slow_unlogged
            if r.slowness is not None and r.slowness > 1
        ],
        "Slowest jobs without a log, compared with similar jobs: ioweather why JOB",
    )


def _span(period: Period) -> str:
    return f"{format_time_ns(period[0])[:16]} to {format_time_ns(period[1])[:16]} UTC"
