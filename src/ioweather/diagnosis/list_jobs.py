"""`runs`: which jobs there were, with or without a log: the newest, the slowest against similar ones, the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np

from ioweather.core.arrays import Bools, Floats, Indices, Ints
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Text
from ioweather.core.outcomes import RunOutcome, RunsOutcome, VerdictKind
from ioweather.core.results import Answer, Coverage, Exhibit, Fact, FactGroup, ResultColumn, ResultTable, columns_of
from ioweather.core.units import NS, format_value
from ioweather.core.words import names_of
from ioweather.diagnosis.comparison_pool import slowdowns
from ioweather.diagnosis.job_screens import jobs_screen
from ioweather.facts.accounted_jobs import SimilarJobs, counted_on_servers, ends, started_jobs, with_log
from ioweather.facts.file_records import maximum, rows_of
from ioweather.facts.runs import NEEDS, instances_of, program_of
from ioweather.facts.server_io import ServerIo
from ioweather.job_io.view import FEWEST_LOGS, are_one_run
from ioweather.topics.source import DataSource

_NO_JOBS: Final = "The lake has no jobs. Ingest accounting or Darshan logs: ioweather ingest FILES"
_ORDERS: Final = ("newest", "slowest", "largest", "longest")
_WORDS: Final = {
    "newest": "the newest first",
    "slowest": "the slowest against similar runs first",
    "largest": "the largest first",
    "longest": "the longest I/O first",
}
_READ: Final = names_of("""
    job_id user uid project exe nprocs node_count start_ns end_ns run_seconds io_seconds read_bytes write_bytes
    main_mount run_number run_count cluster
""")
_COLUMNS: Final = columns_of(
    "job_id: job [text]; user [text]; project [text]; program [text]; processes [count]; start_ns: start [time_ns]; "
    "read_bytes: read [bytes]; write_bytes: written [bytes]; io_seconds: I/O time [seconds]; "
    "slowness: against similar [factor]"
)
_RUN: Final = ResultColumn("run_words", "run", "text")
_RAN: Final = ResultColumn("run_seconds", "ran", "seconds")
_LOG: Final = ResultColumn("log_words", "log", "text")
_CLUSTER: Final = ResultColumn("cluster", "cluster", "text")
_VERDICT: Final = ResultColumn("verdict_words", "verdict", "text")


def run(source: DataSource, params: Params) -> Answer:
    """The matching jobs in the chosen order."""
    runs, totals = _logged(source, params)
    unlogged = _Unlogged(source, params)
    if not runs and not totals.jobs and not unlogged.jobs.rows:
        raise DataUnavailable(_NO_JOBS)
    runs = _first([*runs, *unlogged.listed()], params["order"])[: params["most"]]
    count = totals.wanted + len(unlogged.mine)
    several = any(run.run_words for run in runs)
    columns = _shown_columns(runs)
    rows = tuple(tuple(_cell(run, column.name) for column in columns) for run in runs)
    title = f"{len(runs):,} of {count:,} jobs, {_WORDS[params['order']]}"
    if several:
        title += "; for each job, the run with the most I/O time"
    users = len(totals.users | unlogged.users)
    facts: tuple[Fact, ...] = (
        Fact("jobs", "jobs", count, "count"),
        Fact("jobs_with_log", "with a Darshan log", totals.wanted, "count"),
        Fact("users", "users", users, "count"),
    )
    if totals.wanted or not count:
        facts = (
            *facts,
            Fact("runs", "runs", totals.runs, "count"),
            Fact("read_bytes", "read", totals.read_bytes, "bytes"),
            Fact("write_bytes", "written", totals.write_bytes, "bytes"),
            Fact("io_seconds", "I/O time, added up", totals.io_seconds, "seconds"),
        )
    return Answer(
        question="Which jobs ran?",
        headline=_headline(count, totals),
        facts=(FactGroup("runs", "All that match", facts),),
        exhibits=(Exhibit("runs", "Jobs", tables=(ResultTable("runs", columns, rows, title),)),),
        coverage=(
            Coverage(totals.jobs + unlogged.jobs.rows, count, "matching jobs in the lake"),
            Coverage(count, totals.wanted, "jobs", {}, "with a Darshan log"),
        ),
        result=RunsOutcome(
            count,
            users,
            totals.read_bytes,
            totals.write_bytes,
            totals.io_seconds,
            tuple(runs),
            totals.runs,
            totals.wanted,
        ),
    )


def _shown_columns(runs: Sequence[RunOutcome]) -> tuple[ResultColumn, ...]:
    """The columns of the table. Those that only some lists need are left out of the others."""
    unlogged = any(run.known_by for run in runs)
    shown = (
        _COLUMNS[0],
        *([_CLUSTER] if any(run.cluster for run in runs) else []),
        *([_RUN] if any(run.run_words for run in runs) else []),
        *_COLUMNS[1:],
        *([_RAN, _LOG] if unlogged else []),
        *([_VERDICT] if any(run.verdict for run in runs) else []),
    )
    if unlogged:
        shown = tuple(c for c in shown if c.name == "job_id" or any(getattr(run, c.name) is not None for run in runs))
    return shown


@dataclass(frozen=True)
class _Totals:
    """Jobs with a log in the lake, and of those that match (`wanted`): runs, users and amounts."""

    jobs: int = 0
    wanted: int = 0
    runs: int = 0
    users: frozenset[str] = frozenset()
    read_bytes: int = 0
    write_bytes: int = 0
    io_seconds: float = 0.0


def _headline(count: int, totals: _Totals) -> str:
    if not count:
        return "No job matches."
    moved = format_value(totals.read_bytes + totals.write_bytes, "bytes")
    if not totals.wanted:
        return f"{count:,} jobs, none of them with a Darshan log."
    if count > totals.wanted:
        return f"{count:,} jobs; {totals.wanted:,} of them ({totals.wanted / count:.0%}) have a Darshan log: {moved}."
    return (
        f"{count:,} jobs ({totals.runs:,} runs) moved {moved}."
        if totals.runs > count
        else f"{count:,} runs moved {moved}."
    )


def _logged(source: DataSource, params: Params) -> tuple[list[RunOutcome], _Totals]:
    """The first jobs with a log in the chosen order, and the totals of all."""
    if not source.snapshot.filled(["job_io"]):
        return [], _Totals()
    data = source.fetch(NEEDS, any_time=True)
    verdicts = source.frame("verdicts", ("log_digest", "kind", "as_of_ns", "end_ns"), optional=True, any_time=True)
    facility = source.facility
    every = instances_of(data, facility, {}).frame
    if params["every_run"]:
        every = every.with_columns(job_number=np.arange(every.rows))
    jobs = main_runs(every)
    mine = np.flatnonzero(_wanted(jobs, facility, params, source.period_ns))
    slowness = np.full(jobs.rows, np.nan)
    if params["order"] == "slowest":
        slowness[mine] = slowdowns(every, jobs.ints("row")[mine], facility)[0]
    first = mine[_order(jobs, slowness, mine, params["order"])][: params["most"]]
    ratios = slowdowns(every, jobs.ints("row")[first], facility)
    several = len(set(data.frames["jobs"].text("cluster").tolist())) > 1
    runs = _listed(jobs.take(first), *ratios, facility, several_clusters=several)
    runs = _with_verdicts(runs, jobs.take(first).text("log_digest"), verdicts)
    count, read, write = (int(jobs.ints(f"all_{name}")[mine].sum()) for name in ("count", "read_bytes", "write_bytes"))
    users = frozenset(_users(jobs.take(mine)))
    seconds = float(jobs.floats("all_io_seconds")[mine].sum())
    return runs, _Totals(jobs.rows, len(mine), count, users, read, write, seconds)


class _Unlogged:
    """The jobs of accounting without a log that match; none where only file systems or single runs are asked for."""

    def __init__(self, source: DataSource, params: Params) -> None:
        self._snapshot, self._params = source.snapshot, params
        self._clusters = 1
        self.jobs, self.mine = Frame({}), np.zeros(0, np.int64)
        self.users: frozenset[str] = frozenset()
        if params["every_run"] or params["filesystem"] or not source.snapshot.filled(["jobs"]):
            return
        source.note_tables(("jobs",))
        every = started_jobs(source.snapshot)
        self._clusters = len(set(every.text("cluster").tolist()))
        logs = source.snapshot.frame("applications", ("log_digest", "job_id", "uid", "start_ns", "end_ns"))
        self.jobs = every.take(~with_log(every, logs))
        self._alike = SimilarJobs(self.jobs)
        owners = zip(self.jobs.text("account").tolist(), self.jobs.array("uid").tolist(), strict=True)
        self._projects = [source.facility.project_of(account=account, uid=uid, exe=None) for account, uid in owners]
        self.mine = self._matching(source.period_ns)
        self.users = frozenset(_users(self.jobs.take(self.mine)))

    def _matching(self, period: tuple[int, int]) -> Ints:
        jobs, params = self.jobs, self._params
        wanted = (jobs.ints("start_ns") < period[1]) & (ends(jobs) > period[0])
        columns: dict[str, Sequence[str | None]] = {
            "user": _users(jobs),
            "project": self._projects,
            "program": _texts(jobs, "name"),
        }
        columns["cluster"] = _texts(jobs, "cluster")
        for name, column in columns.items():
            if params[name] is not None:
                wanted &= np.array([text == params[name] for text in column], np.bool_)
        words = (params["words"] or "").lower().split()[:8]
        if words:
            texts = zip(_texts(jobs, "job_id"), *columns.values(), strict=True)
            wanted &= np.array([all(w in " ".join(map(str, each)).lower() for w in words) for each in texts], np.bool_)
        return np.flatnonzero(wanted)

    def listed(self) -> list[RunOutcome]:
        """The first ones in the chosen order."""
        order, most = self._params["order"], self._params["most"]
        if not len(self.mine):
            return []
        value = self.jobs.ints("start_ns").astype(np.float64)
        if order == "slowest":
            value = np.full(self.jobs.rows, -np.inf)
            value[self.mine] = np.nan_to_num(self._alike.ratios(self.mine)[0], nan=-np.inf)
        elif order == "longest":
            value = np.nan_to_num(self._alike.seconds, nan=-np.inf)
        first = self.mine[np.lexsort((-self.jobs.ints("start_ns")[self.mine], -value[self.mine]))]
        if order != "largest":  # the servers' counts decide that
            first = first[:most]
        jobs = self.jobs.take(first)
        counted = counted_on_servers(self._snapshot, jobs)
        found = zip(jobs.records(), first.tolist(), counted, *self._alike.ratios(first), strict=True)
        return [self._outcome(row, self._projects[at], *rest) for row, at, *rest in found]

    def _outcome(
        self, row: dict[str, Any], project: str | None, counted: ServerIo | None, ratio: float, similar: int
    ) -> RunOutcome:
        ended = row["end_ns"] is not None
        return RunOutcome(
            row["raw_job_id"] if row["raw_job_id"] is not None else row["job_id"],
            row["user"] or f"uid {row['uid']}",
            project,
            row["name"] or "",
            None,
            row["node_count"],
            row["start_ns"],
            row["end_ns"],
            (row["end_ns"] - row["start_ns"]) / NS if ended else None,
            None,
            None if counted is None else counted.read_bytes,
            None if counted is None else counted.write_bytes,
            None,
            float(ratio) if np.isfinite(ratio) else None,
            int(similar),
            known_by="accounting" if counted is None else "servers",
            cluster=row["cluster"] if self._clusters > 1 else None,
        )


def _first(runs: list[RunOutcome], order: str) -> list[RunOutcome]:
    """All jobs in the chosen order; ties newest first, unknown values last."""

    def key(run: RunOutcome) -> tuple[float, int]:
        value = {
            "newest": run.start_ns,
            "slowest": run.slowness,
            "largest": None if run.read_bytes is None else run.moved_bytes,
            "longest": run.io_seconds if run.known_by is None else run.run_seconds,
        }[order]
        return (-np.inf if value is None else value), run.start_ns

    return sorted(runs, key=key, reverse=True)


def _cell(run: RunOutcome, name: str) -> Any:
    return str(run.job_id) if name == "job_id" else getattr(run, name)


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
        run_number=np.where(together, 1, number[row]),
        run_count=np.where(together, 1, count),
        nprocs=np.where(together, count, every.ints("nprocs")[row]),
        **moved,
        moved_bytes=moved["read_bytes"] + moved["write_bytes"],
        first_ns=start[by_start[begin]],
        last_ns=maximum(every.ints("end_ns"), job, groups, start >= 0),
        all_count=count,
        all_read_bytes=sums["read_bytes"],
        all_write_bytes=sums["write_bytes"],
        all_io_seconds=np.bincount(job, weights=seconds, minlength=groups),
    )


def _wanted(runs: Frame, facility: Facility, params: Params, period: tuple[int, int]) -> Bools:
    wanted = (runs.ints("first_ns") < period[1]) & (runs.ints("last_ns") > period[0])
    for name, column in (("user", _users(runs)), ("project", _texts(runs, "project"))):
        if params[name] is not None:
            wanted &= np.array([text == params[name] for text in column], np.bool_)
    if params["program"] is not None:
        wanted &= np.array([program_of(text or "") == params["program"] for text in _texts(runs, "exe")], np.bool_)
    if params["cluster"] is not None:
        wanted &= runs.text("cluster").equals(params["cluster"])
    if params["filesystem"] is not None:
        on = {mount: _filesystem(facility, mount) for mount in {*_texts(runs, "main_mount")}}
        wanted &= np.array([on[mount] == params["filesystem"] for mount in _texts(runs, "main_mount")], np.bool_)
    words = (params["words"] or "").lower().split()[:8]
    if words:
        columns = (runs.ints("job_id").tolist(), _users(runs), _texts(runs, "project"), _texts(runs, "exe"))
        texts = [" ".join(map(str, parts)).lower() for parts in zip(*columns, strict=True)]
        wanted &= np.array([all(word in text for word in words) for text in texts], np.bool_)
    return wanted


def _texts(runs: Frame, name: str) -> list[str | None]:
    return runs.text(name).tolist()


def _users(runs: Frame) -> list[str]:
    """User names from accounting, else the uid."""
    return [user or f"uid {uid}" for user, uid in zip(_texts(runs, "user"), runs.ints("uid").tolist(), strict=True)]


def _filesystem(facility: Facility, mount: str | None) -> str | None:
    return facility.filesystem_of(f"mount:{mount}").removeprefix("mount:") if mount else None


def _order(runs: Frame, slowness: Floats, mine: Indices, by: str) -> Indices:
    """Order of the runs; ties newest first, unknown values last."""
    value = {
        "newest": runs.ints("start_ns").astype(np.float64),
        "slowest": slowness,
        "largest": runs.ints("moved_bytes").astype(np.float64),
        "longest": runs.floats("io_seconds"),
    }[by][mine]
    return np.lexsort((-runs.ints("start_ns")[mine], -np.nan_to_num(value, nan=-np.inf)))


def _listed(
    runs: Frame, slowness: Floats, similar: Ints, facility: Facility, *, several_clusters: bool
) -> list[RunOutcome]:
    def known(value: float | None) -> float | None:
        return None if value is None or not np.isfinite(value) else float(value)

    on = {mount: _filesystem(facility, mount) for mount in runs.text("main_mount").categories}
    return [
        RunOutcome(
            row["job_id"],
            row["user"] or f"uid {row['uid']}",
            row["project"],
            program_of(row["exe"] or ""),
            row["nprocs"],
            row["node_count"],
            row["start_ns"],
            row["end_ns"],
            known(row["run_seconds"]),
            known(row["io_seconds"]),
            row["read_bytes"],
            row["write_bytes"],
            on.get(row["main_mount"]),
            known(ratio),
            n,
            run=row["run_number"],
            runs_of_job=row["run_count"],
            cluster=row["cluster"] if several_clusters else None,
        )
        for row, ratio, n in zip(runs.select(_READ).records(), slowness.tolist(), similar.tolist(), strict=True)
    ]


def _with_verdicts(runs: list[RunOutcome], digests: Text, verdicts: Frame) -> list[RunOutcome]:
    """The runs with their last recorded verdicts."""
    known = verdicts.take(verdicts.text("log_digest").codes >= 0)
    known = known.take(np.argsort(known.ints("as_of_ns"), kind="stable"))
    place = rows_of(known.text("log_digest"), digests)  # of several rows the last
    kinds, at_end = known.text("kind").tolist(), known.ints("as_of_ns") == known.ints("end_ns")
    return [
        run
        if row < 0
        else replace(run, verdict=cast(VerdictKind, kinds[row]), verdict_as_of="end" if at_end[row] else "later")
        for run, row in zip(runs, place.tolist(), strict=True)
    ]


QUESTION = Question(
    name="runs",
    result=RunsOutcome,
    run=run,
    tables=frozenset({"applications", "job_io", "job_operations", "jobs", "verdicts"}),
    params=(
        Param("words", "Only runs with all these words in job id, user, project or program.", metavar="TEXT"),
        Param("user", "Only runs of this user."),
        Param("project", "Only runs of this project."),
        Param("program", "Only runs of this program."),
        Param("cluster", "Only jobs of this cluster."),
        Param("filesystem", "Only runs whose I/O went mainly to this file system."),
        Param("order", "Which come first.", default="newest", choices=_ORDERS),
        Param("every_run", "Every run of a job, not only the one with the most I/O time.", "flag", default=False),
        Param("most", "How many to list.", "int", default=50, least=1),
    ),
    help="""List jobs: the newest, the slowest against similar ones, the largest, the longest.

    For a job with several runs, the one with the most I/O time is listed, as in `job` and `why`. Similar runs have the
    same user, program, number of processes and file system, and bytes within 25%. Jobs without a Darshan log come from
    accounting: their run time is compared with that of jobs with the same user, name and nodes; bytes come from server
    counters (job_stats), if available. Verdicts are as recorded at the end of the run, or revised a day later.
    `ioweather why JOB` computes the verdict again from current data.""",
    epilog="Example: ioweather jobs --order slowest --from yesterday",
    table="runs",
    blocks=jobs_screen,
)
