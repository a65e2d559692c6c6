"""`runs`: which runs there were: the newest, the slowest against similar ones, the largest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from ioweather.core.arrays import Bools, Floats, Indices, Ints
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Text
from ioweather.core.outcomes import RunOutcome, RunsOutcome, VerdictKind
from ioweather.core.results import Answer, Coverage, Exhibit, Fact, FactGroup, ResultColumn, ResultTable, columns_of
from ioweather.core.units import format_value
from ioweather.core.words import names_of
from ioweather.diagnosis.comparison_pool import slowdowns
from ioweather.diagnosis.job_screens import jobs_screen
from ioweather.facts.file_records import maximum, rows_of
from ioweather.facts.runs import NEEDS, instances_of, program_of
from ioweather.job_io.view import FEWEST_LOGS, are_one_run
from ioweather.topics.source import DataSource

_NO_LOGS: Final = "The lake has no Darshan logs. Ingest some: ioweather ingest LOGS"
_ORDERS: Final = ("newest", "slowest", "largest", "longest")
_WORDS: Final = {
    "newest": "the newest first",
    "slowest": "the slowest against similar runs first",
    "largest": "the largest first",
    "longest": "the longest I/O first",
}
_READ: Final = names_of("""
    job_id user uid project exe nprocs node_count start_ns end_ns run_seconds io_seconds read_bytes write_bytes
    main_mount run_number run_count
""")
_COLUMNS: Final = columns_of(
    "job_id: job [text]; user [text]; project [text]; program [text]; processes [count]; start_ns: start [time_ns]; "
    "read_bytes: read [bytes]; write_bytes: written [bytes]; io_seconds: I/O time [seconds]; "
    "slowness: against similar [factor]"
)
_RUN: Final = ResultColumn("run_words", "run", "text")
_VERDICT: Final = ResultColumn("verdict_words", "verdict", "text")


def run(source: DataSource, params: Params) -> Answer:
    """The matching jobs in the chosen order."""
    data = source.fetch(NEEDS, any_time=True, missing=_NO_LOGS)
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
    runs = _listed(jobs.take(first), *slowdowns(every, jobs.ints("row")[first], facility), facility)
    runs = _with_verdicts(runs, jobs.take(first).text("log_digest"), verdicts)
    several, judged = (any(getattr(run, name) for run in runs) for name in ("run_words", "verdict"))
    columns = (_COLUMNS[0], *([_RUN] if several else []), *_COLUMNS[1:], *([_VERDICT] if judged else []))
    count, read, write = (int(jobs.ints(f"all_{name}")[mine].sum()) for name in ("count", "read_bytes", "write_bytes"))
    io_seconds = float(jobs.floats("all_io_seconds")[mine].sum())
    users = len(set(jobs.ints("uid")[mine].tolist()))
    rows = tuple(tuple(_cell(run, column.name) for column in columns) for run in runs)
    title = f"{len(runs):,} of {len(mine):,} jobs, {_WORDS[params['order']]}"
    if several:
        title += "; each by its run with the most I/O time"
    facts = (
        Fact("jobs", "jobs", len(mine), "count"),
        Fact("runs", "runs", count, "count"),
        Fact("users", "users", users, "count"),
        Fact("read_bytes", "read", read, "bytes"),
        Fact("write_bytes", "written", write, "bytes"),
        Fact("io_seconds", "I/O time, added up", io_seconds, "seconds"),
    )
    moved = format_value(read + write, "bytes")
    who = f"{len(mine):,} jobs ({count:,} runs)" if count > len(mine) else f"{len(mine):,} runs"
    return Answer(
        question="Which runs were there?",
        headline=f"{who} moved {moved}." if len(mine) else "No run with a Darshan log matches.",
        facts=(FactGroup("runs", "All that match", facts),),
        exhibits=(Exhibit("runs", "Runs", tables=(ResultTable("runs", columns, rows, title),)),),
        coverage=(Coverage(jobs.rows, len(mine), "jobs in the lake, within what was asked"),),
        result=RunsOutcome(len(mine), users, read, write, io_seconds, tuple(runs), count),
    )


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


def _listed(runs: Frame, slowness: Floats, similar: Ints, facility: Facility) -> list[RunOutcome]:
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
    tables=frozenset({"applications", "job_io", "jobs", "verdicts"}),
    params=(
        Param("words", "Only runs with all these words in job id, user, project or program.", metavar="TEXT"),
        Param("user", "Only runs of this user."),
        Param("project", "Only runs of this project."),
        Param("program", "Only runs of this program."),
        Param("filesystem", "Only runs whose I/O went mainly to this file system."),
        Param("order", "Which come first.", default="newest", choices=_ORDERS),
        Param("every_run", "Every run of a job, not only the one with the most I/O time.", "flag", default=False),
        Param("most", "How many to list.", "int", default=50, least=1),
    ),
    help="""List runs with a Darshan log: the newest, the slowest against similar runs, the largest, the longest.

    A job with several runs is listed by the one with the most I/O time, as in `job` and `why`. Similar runs are those
    of the same user, program, number of processes and file system, with bytes within 25%. Verdicts are those on
    record: as of the run's end, or revised a day later. `ioweather why JOB` judges from all that is known now.""",
    epilog="Example: ioweather jobs --order slowest --from yesterday",
    table="runs",
    blocks=jobs_screen,
)
