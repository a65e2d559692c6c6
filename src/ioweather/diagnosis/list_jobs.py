"""`runs`: which jobs there were, with or without a log: the newest, the slowest against similar ones, the largest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any, Final, Literal

import numpy as np

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Frame, Indices, Ints
from ioweather.core.results import Answer, Block, Coverage, Exhibit, Next, ResultTable, columns_of
from ioweather.core.units import format_value, names_of, utc_day
from ioweather.diagnosis.comparison_pool import slowdowns
from ioweather.facts.accounting import SimilarJobs, counted_on_servers, ends, run_seconds, started_jobs, with_log
from ioweather.facts.job_metrics import maximum, rows_of
from ioweather.facts.runs import fetch_runs, instances_of, program_of
from ioweather.job_io.outcomes import VerdictKind
from ioweather.job_io.view import FEWEST_LOGS, are_one_run
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class RunOutcome:
    """A job, by its run with the most I/O time: number `run` of `runs_of_job` in the order of start. `slowness`: the
    I/O time over the median of `similar` runs of the same user, program, number of processes and bytes (within 25%).
    `verdict` is the last one that was recorded; `verdict_as_of` says whether as of the run's end, or revised later.

    A job without a log is `known_by` accounting, or also by the counts of servers: then `program` is its name,
    `slowness` its run time over the median of similar jobs (same user, name and nodes), and unknown amounts are None.
    `cluster` is set if the lake has jobs of several clusters."""

    job_id: int | str
    user: str
    project: str | None
    program: str
    processes: int | None
    nodes: int | None
    start_ns: int
    end_ns: int | None
    run_seconds: float | None
    io_seconds: float | None
    read_bytes: int | None
    write_bytes: int | None
    filesystem: str | None
    slowness: float | None
    similar: int
    verdict: VerdictKind | None = None
    verdict_as_of: Literal["end", "later"] | None = None
    run: int = 1
    runs_of_job: int = 1
    known_by: Literal["servers", "accounting"] | None = None
    cluster: str | None = None

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written; 0 if unknown."""
        return (self.read_bytes or 0) + (self.write_bytes or 0)

    @property
    def extra_seconds(self) -> float | None:
        """I/O time beyond the median of similar runs; of a job without a log its run time; None if unknown."""
        seconds = self.run_seconds if self.known_by else self.io_seconds
        return max(0.0, seconds * (1 - 1 / self.slowness)) if seconds and self.slowness else None

    @property
    def log_words(self) -> str:
        return {None: "yes", "servers": "no (servers)", "accounting": "no"}[self.known_by]

    @property
    def run_words(self) -> str:
        return f"{self.run:,} of {self.runs_of_job:,}" if self.runs_of_job > 1 else ""

    @property
    def verdict_words(self) -> str:
        return "" if self.verdict is None else VERDICT_WORDS.get(self.verdict, self.verdict)


@dataclass(frozen=True)
class RunsOutcome:
    """`count` are the jobs that match, `with_log` those of them with a Darshan log, `all_runs` their runs, and the sums
    are of all these runs; `runs` are the first of the jobs, each by its main run. `unlogged_seconds` is the run time of
    the ended jobs without a log, and `run_time_verdicts` counts them by their last recorded verdict."""

    count: int
    users: int
    read_bytes: int
    write_bytes: int
    io_seconds: float
    runs: tuple[RunOutcome, ...]
    all_runs: int = 0
    with_log: int = 0
    unlogged_seconds: float = 0.0
    run_time_verdicts: Mapping[str, int] = field(default_factory=dict)


_NO_JOBS: Final = "The lake has no jobs. Ingest accounting or Darshan logs: ioweather ingest FILES"
VERDICT_WORDS: Final = {"system": "storage", "you": "the job", "unexplained": "not explained", "unknown": "not sure"}
_ORDERS: Final = {
    "newest": "the newest first",
    "slowest": "the slowest compared with similar runs first",
    "extra": "the most time beyond similar runs first",
    "largest": "the largest first",
    "longest": "the longest I/O first",
}
_READ: Final = names_of("""
    processes nodes start_ns end_ns run_seconds io_seconds read_bytes write_bytes run runs_of_job
""")
# Columns of `job_io` that the list and its comparisons need; all runs of the lake are read.
_OF_RUNS: Final = names_of("""
    log_digest start_ns end_ns nprocs run_seconds io_seconds read_bytes write_bytes bytes_per_s partial main_mount
""")
_COLUMNS: Final = columns_of(
    "job_id: job [text]; cluster [text]; run_words: run [text]; user [text]; project [text]; program [text]; "
    "processes [count]; start_ns: start [time_ns]; read_bytes: read [bytes]; write_bytes: written [bytes]; "
    "io_seconds: I/O time [seconds]; slowness: × similar [factor]; "
    "extra_seconds: beyond similar [seconds]; run_seconds: ran [seconds]; "
    "log_words: log [text]; verdict_words: verdict [text]"
)
# With jobs that all have a log, these columns are not shown.
_IF_UNLOGGED: Final = ("run_seconds", "log_words")
_MOST_WORDS: Final = 8


@dataclass(frozen=True, eq=False)
class _Matching:
    """Jobs that match, of `every` in the lake, all with or all without a log.

    `names` are columns of RunOutcome that jobs are searched by, `order` the value that sorts them (NaN: unknown),
    `describe` reads the other fields of some of them.
    """

    every: int = 0
    names: Mapping[str, Sequence[Any]] = field(default_factory=lambda: {"user": ()})
    start_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    order: Floats = field(default_factory=lambda: np.zeros(0))
    describe: Callable[[Indices], list[dict[str, Any]]] = lambda _: []

    def outcomes(self, rows: Indices) -> dict[int, RunOutcome]:
        """The jobs in some rows, by row."""
        found = {}
        for row, more in zip(rows.tolist(), self.describe(rows), strict=True):
            fields = {name: column[row] for name, column in self.names.items()} | more
            unknown = {name: None for name, each in fields.items() if isinstance(each, float) and not np.isfinite(each)}
            found[row] = RunOutcome(**{"filesystem": None, **fields, **unknown})
        return found


def run(source: DataSource, params: Params) -> Answer:
    """The matching jobs in the chosen order."""
    logged, sums = _logged_jobs(source, params)
    unlogged, unlogged_seconds, verdicts = _unlogged_jobs(source, params)
    if params["without_log"]:
        logged, sums = _Matching(every=logged.every), dict.fromkeys(sums, 0.0)
    if not logged.every and not unlogged.every:
        raise DataUnavailable(_NO_JOBS)
    wanted, count = len(logged.start_ns), len(logged.start_ns) + len(unlogged.start_ns)
    order = np.concatenate([logged.order, unlogged.order])
    start = np.concatenate([logged.start_ns, unlogged.start_ns])
    # Ties newest first, unknown values last.
    first = np.lexsort((-start, -np.nan_to_num(order, nan=-np.inf)))[: params["most"]]
    of_logged = logged.outcomes(first[first < wanted])
    of_unlogged = unlogged.outcomes(first[first >= wanted] - wanted)
    runs = [of_logged[row] if row < wanted else of_unlogged[row - wanted] for row in first.tolist()]
    columns = tuple(column for column in _COLUMNS if _is_shown(column.name, runs))
    # Job ids are text, since they are no amounts.
    shown = [replace(run, job_id=str(run.job_id)) for run in runs]
    rows = tuple(tuple(getattr(run, column.name) for column in columns) for run in shown)
    title = f"{len(runs):,} of {count:,} jobs, {_ORDERS[params['order']]}"
    if any(run.run_words for run in runs):
        title += "; for each job, the run with the most I/O time"
    users = len({*logged.names["user"], *unlogged.names["user"]})
    return Answer(
        question="Which jobs ran?",
        headline=_headline(count, wanted, sums) + ("" if count else _say_newest(source)),
        exhibits=(Exhibit("runs", "Jobs", tables=(ResultTable("runs", columns, rows, title),)),),
        coverage=(
            Coverage(logged.every + unlogged.every, count, "matching jobs in the lake"),
            Coverage(count, wanted, "jobs", {}, "with a Darshan log"),
        ),
        result=RunsOutcome(
            count,
            users,
            int(sums["read_bytes"]),
            int(sums["write_bytes"]),
            sums["io_seconds"],
            tuple(runs),
            int(sums["count"]),
            wanted,
            unlogged_seconds,
            verdicts,
        ),
    )


def _is_shown(name: str, runs: Sequence[RunOutcome]) -> bool:
    """Whether the table has the column: if a listed job has a value."""
    if name in _IF_UNLOGGED and not any(run.known_by for run in runs):
        return False
    return not runs or any(getattr(run, name) not in (None, "") for run in runs)


def _headline(count: int, wanted: int, sums: Mapping[str, float]) -> str:
    if not count:
        return "No job matches."
    moved = format_value(sums["read_bytes"] + sums["write_bytes"], "bytes")
    runs = f" ({sums['count']:,.0f} runs)" if sums["count"] > wanted else ""
    logs = "" if count == wanted else f"; {wanted:,} of them ({wanted / count:.0%}) have a Darshan log"
    return f"{count:,} jobs{runs}{logs}; {moved} moved."


def _say_newest(source: DataSource) -> str:
    """Return the day of the newest logs and jobs, if the chosen period is later; else nothing."""
    newest = max(day for table in ("job_io", "jobs") for day in source.snapshot.pinned[table].days())
    if utc_day(source.period_ns[0]) <= newest:
        return ""
    return f" The newest data are of {newest}; `ioweather lake` lists the periods with data."


def _matching_rows(
    names: Mapping[str, Sequence[Any]], start: Ints, end: Ints, params: Params, period: tuple[int, int]
) -> tuple[Indices, dict[str, list[Any]]]:
    """(rows of the jobs in the period with the names asked for, their names)."""
    wanted = (start < period[1]) & (end > period[0])
    for name, column in names.items():
        if params.get(name) is not None:
            wanted &= np.array([text == params[name] for text in column], np.bool_)
    words = (params["words"] or "").lower().split()[:_MOST_WORDS]
    if words:
        texts = (" ".join(map(str, each)).lower() for each in zip(*names.values(), strict=True))
        wanted &= np.array([all(word in text for word in words) for text in texts], np.bool_)
    rows = np.flatnonzero(wanted)
    return rows, {name: [column[row] for row in rows.tolist()] for name, column in names.items()}


def _logged_jobs(source: DataSource, params: Params) -> tuple[_Matching, dict[str, float]]:
    """(matching jobs with a log, sums over all their runs)."""
    sums = dict.fromkeys(("count", "read_bytes", "write_bytes", "io_seconds"), 0.0)
    if not source.snapshot.filled(["job_io"]):
        return _Matching(), sums
    frames = fetch_runs(source, _OF_RUNS, any_time=True)
    verdicts = source.frame("verdicts", ("log_digest", "kind", "as_of_ns", "end_ns"), optional=True, any_time=True)
    facility = source.facility
    runs = instances_of(frames, facility, {}).frame
    if params["every_run"]:
        runs = runs.with_columns(job_number=np.arange(runs.rows))
    jobs = main_runs(runs)
    rows, names = _matching_rows(
        {
            "job_id": jobs.ints("job_id").tolist(),
            "user": _users(jobs),
            "project": jobs.text("project").tolist(),
            "program": [program_of(exe or "") for exe in jobs.text("exe").tolist()],
            "cluster": jobs.text("cluster").tolist(),
            "filesystem": [_filesystem(facility, mount) for mount in jobs.text("main_mount").tolist()],
        },
        jobs.ints("first_ns"),
        jobs.ints("last_ns"),
        params,
        source.period_ns,
    )
    mine = jobs.take(rows)
    sums = {name: float(mine.floats(f"all_{name}").sum()) for name in sums}

    def ratios() -> Floats:
        return slowdowns(runs, mine.ints("row"), facility)[0]

    orders: dict[str, Callable[[], Floats]] = {
        "newest": lambda: mine.ints("start_ns").astype(np.float64),
        "slowest": ratios,
        "extra": lambda: mine.floats("io_seconds") * (1 - 1 / ratios()),
        "largest": lambda: mine.floats("moved_bytes"),
        "longest": lambda: mine.floats("io_seconds"),
    }
    order = orders[params["order"]]()

    def describe(at: Indices) -> list[dict[str, Any]]:
        first = mine.take(at)
        ratios, similar = (column.tolist() for column in slowdowns(runs, first.ints("row"), facility))
        fields = zip(first.select(_READ).records(), ratios, similar, _last_verdicts(verdicts, first), strict=True)
        return [{**row, "slowness": ratio, "similar": count, **verdict} for row, ratio, count, verdict in fields]

    names |= _clusters_to_show(names["cluster"], frames["jobs"])
    return _Matching(jobs.rows, names, mine.ints("start_ns"), order, describe), sums


def _last_verdicts(verdicts: Frame, runs: Frame) -> list[dict[str, Any]]:
    """Kind of the last recorded verdict on each run, and whether as of its end; empty where there is none."""
    known = verdicts.take(verdicts.text("log_digest").codes >= 0)
    known = known.take(np.argsort(known.ints("as_of_ns"), kind="stable"))
    fields = [*map(_verdict_fields, known.records()), {}]
    return [fields[row] for row in rows_of(known.text("log_digest"), runs.text("log_digest")).tolist()]


def _clusters_to_show(clusters: Sequence[str | None], every_job: Frame) -> dict[str, list[Any]]:
    """The column `cluster`, without values if all jobs are of one cluster."""
    is_one = len(set(every_job.text("cluster").tolist())) < 2
    return {"cluster": [None] * len(clusters) if is_one else list(clusters)}


def _unlogged_jobs(source: DataSource, params: Params) -> tuple[_Matching, float, dict[str, int]]:
    """(matching jobs of accounting without a log, their run time in seconds, number of them by recorded verdict).

    There are none where only file systems or single runs are asked for.
    """
    snapshot = source.snapshot
    if params["every_run"] or params["filesystem"] or not snapshot.filled(["jobs"]):
        return _Matching(), 0.0, {}
    source.note_tables(("jobs",))
    started = started_jobs(snapshot)
    logs = snapshot.frame("applications", ("log_digest", "job_id", "uid", "start_ns", "end_ns"))
    jobs = started.take(~with_log(started, logs))
    owners = zip(jobs.text("account").tolist(), jobs.array("uid").tolist(), strict=True)
    ids = zip(jobs.array("raw_job_id").tolist(), jobs.text("job_id").tolist(), strict=True)
    names: dict[str, Sequence[Any]] = {
        "job_id": jobs.text("job_id").tolist(),
        "user": _users(jobs),
        "project": [source.facility.project_of(account=account, uid=uid, exe=None) for account, uid in owners],
        "program": [name or "" for name in jobs.text("name").tolist()],
        "cluster": jobs.text("cluster").tolist(),
    }
    rows, found = _matching_rows(names, jobs.ints("start_ns"), ends(jobs), params, source.period_ns)
    numbers = [job if raw is None else raw for raw, job in ids]
    found |= {"job_id": [numbers[row] for row in rows.tolist()], **_clusters_to_show(found["cluster"], started)}
    mine, groups = jobs.take(rows), SimilarJobs(jobs)
    seconds, verdicts = run_seconds(mine), _run_time_verdicts(source, mine)

    def moved_bytes() -> Floats:
        counted = counted_on_servers(snapshot, mine)
        return np.array([np.nan if each is None else each.read_bytes + each.write_bytes for each in counted])

    orders: dict[str, Callable[[], Floats]] = {
        "newest": lambda: mine.ints("start_ns").astype(np.float64),
        "slowest": lambda: groups.ratios(rows)[0],
        "extra": lambda: seconds * (1 - 1 / groups.ratios(rows)[0]),
        "largest": moved_bytes,
        "longest": lambda: seconds,
    }

    def describe(at: Indices) -> list[dict[str, Any]]:
        first = mine.take(at)
        fields = zip(
            first.select(("node_count", "start_ns", "end_ns")).records(),
            seconds[at].tolist(),
            counted_on_servers(snapshot, first),
            *(column.tolist() for column in groups.ratios(rows[at])),
            (verdicts[row] for row in at.tolist()),
            strict=True,
        )
        return [
            {
                "processes": None,
                "nodes": row["node_count"],
                "start_ns": row["start_ns"],
                "end_ns": row["end_ns"],
                "run_seconds": ran,
                "io_seconds": None,
                "read_bytes": None if counted is None else counted.read_bytes,
                "write_bytes": None if counted is None else counted.write_bytes,
                "slowness": ratio,
                "similar": similar,
                "known_by": "accounting" if counted is None else "servers",
                **verdict,
            }
            for row, ran, counted, ratio, similar, verdict in fields
        ]

    matching = _Matching(jobs.rows, found, mine.ints("start_ns"), orders[params["order"]](), describe)
    return matching, float(np.nansum(seconds)), dict(Counter(each["verdict"] for each in verdicts if each))


def _run_time_verdicts(source: DataSource, jobs: Frame) -> list[dict[str, Any]]:
    """Kind of the last recorded verdict on each job without a log, and whether as of its end; empty without one."""
    names = ("cluster", "raw_job_id", "start_ns")
    columns = ("log_digest", "kind", "as_of_ns", "end_ns", *names)
    found = source.frame("verdicts", columns, optional=True, any_time=True)
    found = found.take(found.text("log_digest").codes < 0)
    found = found.take(np.argsort(found.ints("as_of_ns"), kind="stable"))
    last = {tuple(row[name] for name in names): _verdict_fields(row) for row in found.records()}
    return [last.get(tuple(row.values()), {}) for row in jobs.select(names).records()] if last else [{}] * jobs.rows


def _verdict_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of RunOutcome from a row of `verdicts`."""
    return {"verdict": row["kind"], "verdict_as_of": "end" if row["as_of_ns"] == row["end_ns"] else "later"}


def _users(runs: Frame) -> list[str]:
    """User names from accounting, else the uid."""
    users, uids = runs.text("user").tolist(), runs.ints("uid").tolist()
    return [user or f"uid {uid}" for user, uid in zip(users, uids, strict=True)]


def _filesystem(facility: Facility, mount: str | None) -> str | None:
    """Name of the file system of a mount, else the mount itself."""
    return facility.filesystem_of(f"mount:{mount}").removeprefix("mount:") if mount else None


def main_runs(every: Frame) -> Frame:
    """One row per job: its run with the most I/O time, as in `job` and `why`.

    With its row in `every`, its number in order of start, and sums over all runs of the job. Processes without MPI that
    ran together are one run with the bytes of all.
    """
    job, start = every.ints("job_number"), every.ints("start_ns")
    seconds = np.nan_to_num(every.floats("io_seconds"))
    groups = int(job.max(initial=-1)) + 1
    count = np.bincount(job, minlength=groups)
    number = np.empty(len(job), np.int64)
    by_start = np.lexsort((start, job))
    begin = np.cumsum(count) - count
    number[by_start] = np.arange(len(job)) - begin[job[by_start]] + 1
    row = np.lexsort((start, -seconds, job))[begin]
    sums = {
        name: np.bincount(job, weights=every.floats(name), minlength=groups).astype(np.int64)
        for name in ("read_bytes", "write_bytes")
    }
    together = np.zeros(groups, np.bool_)
    single = np.bincount(job, weights=every.ints("nprocs") != 1, minlength=groups) == 0
    for each in np.flatnonzero(single & (count >= FEWEST_LOGS)).tolist():
        together[each] = are_one_run(every.take(by_start[begin[each] : begin[each] + count[each]]))
    moved = {name: np.where(together, sums[name], every.ints(name)[row]) for name in sums}
    return every.take(row).with_columns(
        row=row,
        run=np.where(together, 1, number[row]),
        runs_of_job=np.where(together, 1, count),
        processes=np.where(together, count, every.ints("nprocs")[row]),
        nodes=every["node_count"][row],
        **moved,
        moved_bytes=moved["read_bytes"] + moved["write_bytes"],
        first_ns=start[by_start[begin]],
        last_ns=maximum(every.ints("end_ns"), job, groups, start >= 0),
        all_count=count,
        all_read_bytes=sums["read_bytes"],
        all_write_bytes=sums["write_bytes"],
        all_io_seconds=np.bincount(job, weights=seconds, minlength=groups),
    )


_COLUMNS_OF_SCREEN: Final = names_of("""
    job_id cluster user program start_ns io_seconds run_seconds log_words slowness extra_seconds verdict_words
""")


def jobs_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """The columns of the list that a screen has room for."""
    table = answer.exhibits[0].tables[0]
    names = [column.name for column in table.columns]
    left_out = "slowness" if params["order"] == "extra" else "extra_seconds"
    shown = [name for name in _COLUMNS_OF_SCREEN if name != left_out]
    kept = [names.index(name) for name in shown if name in names]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows[:18])
    yield ResultTable(table.name, tuple(table.columns[i] for i in kept), rows)
    assert isinstance(answer.result, RunsOutcome)
    count = max(answer.result.count, len(table.rows))
    if count > len(rows):
        yield Next(f"ioweather jobs --most {count} --csv, or --user, --order", f"{count - len(rows):,} more")
    elif rows:
        cluster = f" --cluster {quote(str(rows[0][1]))}" if "cluster" in names and rows[0][1] else ""
        yield Next(f"ioweather why {rows[0][0]}{cluster}")


QUESTION = Question(
    name="runs",
    result=RunsOutcome,
    run=run,
    tables=frozenset({"applications", "job_io", "job_operations", "jobs", "verdicts"}),
    params=(
        Param("words", "Only runs with all these words in their job ID, user, project or program.", metavar="TEXT"),
        Param("user", "Only runs of this user."),
        Param("project", "Only runs of this project."),
        Param("program", "Only runs of this program."),
        Param("cluster", "Only jobs of this cluster."),
        Param("filesystem", "Only runs that mainly used this file system."),
        Param("order", "Sort order.", default="newest", choices=tuple(_ORDERS)),
        Param("without_log", "Only jobs without a Darshan log.", "flag", default=False),
        Param("every_run", "List every run of a job, not only the one with the most I/O time.", "flag", default=False),
        Param("most", "Maximum number of jobs to list.", "int", default=50, least=1),
    ),
    help="""List the newest, slowest, largest or longest jobs. Order `slowest` compares the I/O time with similar
    runs, and `extra` sorts by extra time.

    For a job with several runs, the run with the most I/O time is listed, as in `job` and `why`. Similar runs have the
    same user, program, number of processes and file system, and move an amount of data within 25%. Jobs without a
    Darshan log come from accounting: their run time is compared with jobs of the same user, name and nodes. Data
    amounts come from server counters (job_stats), if available. Verdicts were recorded at the end of the run or revised
    a day later. `ioweather why JOB` computes the verdict again from current data.""",
    epilog="Example: ioweather jobs --order extra --from yesterday",
    table="runs",
    blocks=jobs_screen,
)
