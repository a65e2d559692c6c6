"""`runs`: which runs there were: the newest, the slowest against similar ones, the largest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from ioweather.core.arrays import Bools, Floats, Indices, Ints
from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Text
from ioweather.core.outcomes import RunOutcome, RunsOutcome
from ioweather.core.results import Answer, Coverage, Exhibit, Fact, FactGroup, ResultColumn, ResultTable, columns_of
from ioweather.core.run_outcomes import VerdictKind
from ioweather.core.units import format_value
from ioweather.core.words import names_of
from ioweather.derive.jobs.file_records import rows_of
from ioweather.derive.jobs.signatures import program_of
from ioweather.studies.shared.runs import NEEDS, jobs_of

_FEWEST_SIMILAR: Final = 5
_ORDERS: Final = ("newest", "slowest", "largest", "longest")
_WORDS: Final = {
    "newest": "the newest first",
    "slowest": "the slowest against similar runs first",
    "largest": "the largest first",
    "longest": "the longest I/O first",
}
_READ: Final = names_of("""
    job_id user uid project exe nprocs node_count start_ns end_ns run_seconds io_seconds read_bytes write_bytes
    main_mount
""")
_COLUMNS: Final = columns_of(
    "job_id: job [text]; user [text]; project [text]; program [text]; processes [count]; start_ns: start [time_ns]; "
    "read_bytes: read [bytes]; write_bytes: written [bytes]; io_seconds: I/O time [seconds]; "
    "slowness: against similar [factor]"
)
_VERDICT: Final = ResultColumn("verdict_words", "verdict", "text")


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    every = jobs_of(data, facility, {}).frame
    slowness, similar = against_similar(every)
    mine = np.flatnonzero(_wanted(every, facility, params, data.period_ns))
    chosen = mine[_order(every, slowness, mine, params["order"])]
    first = chosen[: params["most"]]
    runs = _listed(every, first, slowness, similar, facility)
    if "verdicts" in data.frames:
        runs = _with_verdicts(runs, every.take(first).text("log_digest"), data.frames["verdicts"])
    columns = (*_COLUMNS, *([_VERDICT] if any(run.verdict for run in runs) else []))
    read, write = (int(every.ints(name)[mine].sum()) for name in ("read_bytes", "write_bytes"))
    io_seconds = float(np.nansum(every.floats("io_seconds")[mine]))
    users = len(set(every.ints("uid")[mine].tolist()))
    rows = tuple(tuple(_cell(run, column.name) for column in columns) for run in runs)
    title = f"{len(runs):,} of {len(mine):,} runs, {_WORDS[params['order']]}"
    facts = (
        Fact("runs", "runs", len(mine), "count"),
        Fact("users", "users", users, "count"),
        Fact("read_bytes", "read", read, "bytes"),
        Fact("write_bytes", "written", write, "bytes"),
        Fact("io_seconds", "I/O time, added up", io_seconds, "seconds"),
    )
    moved = format_value(read + write, "bytes")
    return Answer(
        question="Which runs were there?",
        headline=f"{len(mine):,} runs moved {moved}." if len(mine) else "No run with a Darshan log matches.",
        facts=(FactGroup("runs", "All that match", facts),),
        exhibits=(Exhibit("runs", "Runs", tables=(ResultTable("runs", columns, rows, title),)),),
        coverage=(Coverage(every.rows, len(mine), "runs in the lake, within what was asked"),),
        result=RunsOutcome(len(mine), users, read, write, io_seconds, tuple(runs)),
    )


def _cell(run: RunOutcome, name: str) -> Any:
    return str(run.job_id) if name == "job_id" else getattr(run, name)


def against_similar(runs: Frame) -> tuple[Floats, Ints]:
    """The I/O time over the median of all runs of the same user, program and number of processes, and how many these
    are; NaN where they are too few."""
    io = runs.floats("io_seconds")
    keys = np.stack([runs.ints("uid"), runs.text("exe").codes, runs.ints("nprocs")]) if runs.rows else np.zeros((3, 0))
    _, group = np.unique(keys, axis=1, return_inverse=True)
    group = group.reshape(-1)
    order = np.lexsort((io, group))  # NaN comes last in its group
    counts = np.bincount(group[np.isfinite(io)], minlength=int(group.max(initial=-1)) + 1)
    first = np.r_[0, np.cumsum(np.bincount(group))[:-1]] if len(group) else np.zeros(0, np.int64)
    usual = np.full(len(counts), np.nan)
    enough = counts >= _FEWEST_SIMILAR
    low, high = first + (counts - 1) // 2, first + counts // 2
    usual[enough] = (io[order][low[enough]] + io[order][high[enough]]) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = io / usual[group]
    return np.where(np.isfinite(ratio), ratio, np.nan), counts[group]


def _wanted(runs: Frame, facility: Facility, params: Params, period: tuple[int, int]) -> Bools:
    wanted = (runs.ints("start_ns") < period[1]) & (runs.ints("end_ns") > period[0])
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
    """As accounting names them, else by number."""
    return [user or f"uid {uid}" for user, uid in zip(_texts(runs, "user"), runs.ints("uid").tolist(), strict=True)]


def _filesystem(facility: Facility, mount: str | None) -> str | None:
    return facility.filesystem_of(f"mount:{mount}").removeprefix("mount:") if mount else None


def _order(runs: Frame, slowness: Floats, mine: Indices, by: str) -> Indices:
    """Of runs that are alike in it, the newest first; what is not known comes last."""
    value = {
        "newest": runs.ints("start_ns").astype(np.float64),
        "slowest": slowness,
        "largest": runs.ints("moved_bytes").astype(np.float64),
        "longest": runs.floats("io_seconds"),
    }[by][mine]
    return np.lexsort((-runs.ints("start_ns")[mine], -np.nan_to_num(value, nan=-np.inf)))


def _listed(runs: Frame, chosen: Indices, slowness: Floats, similar: Ints, facility: Facility) -> list[RunOutcome]:
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
        )
        for row, ratio, n in zip(
            runs.select(_READ).take(chosen).records(), slowness[chosen].tolist(), similar[chosen].tolist(), strict=True
        )
    ]


def _with_verdicts(runs: list[RunOutcome], digests: Text, verdicts: Frame) -> list[RunOutcome]:
    """The last verdict on each run that was recorded."""
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
    needs=(
        *(
            replace(need, any_time=True, missing="The lake has no Darshan logs. Ingest some: ioweather ingest LOGS")
            for need in NEEDS
        ),
        Need("verdicts", "verdicts", ("log_digest", "kind", "as_of_ns", "end_ns"), optional=True, any_time=True),
    ),
    answer=answer,
    params=(
        Param("words", "Only runs with all these words in job id, user, project or program.", metavar="TEXT"),
        Param("user", "Only runs of this user."),
        Param("project", "Only runs of this project."),
        Param("program", "Only runs of this program."),
        Param("filesystem", "Only runs whose I/O went mainly to this file system."),
        Param("order", "Which come first.", default="newest", choices=_ORDERS),
        Param("most", "How many to list.", "int", default=50, least=1),
    ),
    help="""List runs with a Darshan log: the newest, the slowest against similar runs, the largest, the longest.

    Similar runs are those of the same user, program and number of processes, whenever they were. Verdicts are those on
    record: as of the run's end, or revised a day later. `ioweather why JOB` judges from all that is known now.""",
    epilog="Example: ioweather runs --order slowest --from yesterday",
    table="runs",
)
