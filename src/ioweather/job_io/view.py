"""One job, named by its log or by its id, as plain frames, and the run by which it is judged.

A log is read in place and needs no lake. A job id means all logs of that job in the lake, with its accounting, and with
the heat map of its log if that is still where it was ingested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ioweather.core.contracts import Params, PathPolicy
from ioweather.core.errors import DataUnavailable, SourceError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Frame
from ioweather.core.results import Coverage, Exhibit, ResultTable, columns_of
from ioweather.core.tables import encode_text
from ioweather.core.units import NS, shown_command, shown_path, utc_day
from ioweather.facts.accounting import WHICH_JOB, job_numbers, match_jobs
from ioweather.facts.job_metrics import file_records, job_io, rows_of
from ioweather.facts.runs import JOB_COLUMNS, Runs, jobs_of
from ioweather.job_io.heat_map import HEAT_MODULES
from ioweather.job_io.outcomes import AllRuns
from ioweather.readers.darshan.darshan_reader import read_log, rows_of_logs
from ioweather.readers.darshan.log import DarshanLog

if TYPE_CHECKING:
    # Loads DuckDB, which a log alone does not need.
    from ioweather.lake.lake import Snapshot
    from ioweather.topics.source import DataSource


def printable(text: str) -> str:
    """Return a name from a log for the terminal: characters that could control it become question marks."""
    return "".join(character if character.isprintable() else "?" for character in text)


def recorded_whole(partial: Sequence[bool], what: str = "logs") -> tuple[Coverage, ...]:
    """Return the coverage of logs or runs for which Darshan had enough memory."""
    return (Coverage(len(partial), len(partial) - sum(partial), what, detail="recorded whole"),)


@dataclass(frozen=True, eq=False)
class JobView:
    """A job: `applications`, `files` and `job_io` of its logs, and `jobs` if there is accounting.

    `log` is set for a log that was read itself; the lake stores neither it nor heat maps. For a job in the lake,
    `target_count` is the number of storage targets sampled on its day, and `target_bytes_per_s` the highest rate of one
    of them. `known_runs` are `runs`, if the caller has them. `separate`: logs of processes without MPI, seen as one run
    (`as_one_run`). `of_job` is set if the job has several runs and this view is of one of them (`main_run_of`).
    """

    label: str
    applications: Frame
    files: Frame
    job_io: Frame
    jobs: Frame | None = None
    facility: Facility = field(default_factory=Facility)
    processes_per_node: int | None = None
    log: DarshanLog | None = None
    target_count: int | None = None
    target_bytes_per_s: float | None = None
    separate: bool = False
    of_job: AllRuns | None = None
    run_number: int = 1
    known_runs: Runs | None = None

    @cached_property
    def runs(self) -> Runs:
        """The jobs that these logs are: normally one row."""
        if self.known_runs is not None:
            return self.known_runs
        frames = {"job_io": self.job_io, "applications": self.applications}
        frames |= {} if self.jobs is None else {"jobs": self.jobs}
        return jobs_of(frames, self.facility, {"processes_per_node": self.processes_per_node})

    def row(self) -> dict[str, Any]:
        """Return the job's metrics by name; null is None. `process_seconds` is processes x run time over all logs."""
        row: dict[str, Any] = self.runs.frame.records()[0]
        length = self.applications.ints("end_ns") - self.applications.array("start_ns")
        seconds = float((self.applications.ints("nprocs") * np.maximum(length, 0)).sum() / NS)
        run = row["run_seconds"] if row["run_seconds"] and row["run_seconds"] > 0 else None
        return row | {"process_seconds": seconds or None, "run_seconds": run}

    @cached_property
    def unrecorded_file_count(self) -> int:
        """Number of paths in the name map without a record in any module: Darshan ran out of memory, or the log was
        trimmed. 0 if some modules were not read."""
        log = self.log
        if log is None or log.unknown_modules or log.skipped_modules:
            return 0
        recorded = set().union(*(module.records["id"].tolist() for module in log.modules.values()))
        return sum(1 for record_id, name in log.names.items() if record_id not in recorded and name.startswith("/"))

    @property
    def main_run(self) -> int:
        """Row of the run with most I/O time."""
        return int(np.nan_to_num(self.job_io.floats("io_seconds"), nan=-1.0).argmax())

    @property
    def run_words(self) -> str:
        """The judged run, such as "run 2 of 3"; empty if the job has one run."""
        several = self.logs_of_job > 1 and not self.separate
        return f"run {self.run_number + self.main_run:,} of {self.logs_of_job:,}" if several else ""

    @property
    def logs(self) -> int:
        """Number of logs in this view."""
        return self.applications.rows

    @property
    def logs_of_job(self) -> int:
        """Number of logs of the whole job; this view may cover only one of its runs."""
        if self.of_job is not None:
            return self.of_job.count
        return int(self.applications.ints("nprocs")[0]) if self.separate else self.logs

    def listed(self, column: str) -> list[str]:
        """Return names in a comma-separated column of its logs, each once."""
        texts = self.applications.text(column).tolist()
        return sorted({name for text in texts for name in (text or "").split(",") if name})

    @property
    def has_only_sums(self) -> bool:
        """Whether version 0.2 read sums over all files, or a trace, instead of the log."""
        form = self.applications.text("form")
        return bool(form.equals("totals").any() or form.equals("trace").any())

    @property
    def incomplete(self) -> bool:
        """Whether counters are lower bounds, for lack of memory or because of the form of the log."""
        return bool(self.job_io.bools("partial").any()) or self.unrecorded_file_count > 0

    @property
    def whole_seconds(self) -> bool:
        """Before log version 3.41 start and end are cut to whole seconds."""
        versions = self.applications.text("log_version").tolist()
        return any(version is not None and version < "3.41" for version in versions)


_COLUMNS: Final = columns_of(
    "target [text]; files [count]; read_bytes: read [bytes]; write_bytes: written [bytes]; "
    "seconds: time of all processes [seconds]"
)


def target_exhibit(view: JobView) -> Iterator[Exhibit]:
    """Yield bytes and time by storage target, if layouts are recorded. A file's are divided evenly over its targets."""
    records = file_records(view.applications, view.files)
    osts = records.text("osts")
    read, written = records.ints("read_bytes"), records.ints("write_bytes")
    spent = sum(records.seconds(f"{name}_seconds") for name in ("meta", "read", "write"))
    totals: dict[str, Floats] = {}
    for code, category in enumerate(osts.categories):
        targets = [name for name in (category or "").split(",") if name]
        rows = records.counted & (osts.codes == code)
        if rows.any():
            amounts = [values[rows].sum() / max(len(targets), 1) for values in (read, written, np.asarray(spent))]
            for target in targets:
                totals[target] = totals.get(target, 0.0) + np.array([len(np.unique(records.file[rows])), *amounts])
    if not totals:
        return
    ordered = sorted(totals.items(), key=lambda item: -item[1][1] - item[1][2])
    rows_shown = tuple((name, int(v[0]), int(v[1]), int(v[2]), float(v[3])) for name, v in ordered)
    title = f"{len(totals):,} storage targets, the busiest first"
    table = ResultTable("targets", _COLUMNS, rows_shown, title)
    caveat = "The data and time of a file are divided evenly over its targets."
    yield Exhibit("job_targets", "By storage target", tables=(table,), caveats=(caveat,))


# Processes without MPI (data loaders, tasks of a task farm) write a log each. Each log alone shows little; together
# they read the same files again and again, in small pieces. So each log becomes a process of one run. Darshan's id of a
# file is a hash of its path, which identifies files that several processes opened.

# Two overlapping processes may be a pipe; more are a pattern.
FEWEST_LOGS: Final = 4


def are_one_run(runs: Frame) -> bool:
    """Whether these are several logs of single processes that overlap in time."""
    order = np.argsort(runs.ints("start_ns"), kind="stable")
    start, end = (runs.ints(name)[order] for name in ("start_ns", "end_ns"))
    overlap = (start[1:] < np.maximum.accumulate(end)[:-1]).any()
    return runs.rows >= FEWEST_LOGS and bool((runs.ints("nprocs") == 1).all() and overlap)


def main_run_of(view: JobView) -> JobView:
    """Return the run by which the job is judged, the one with the most I/O time, as a job of its own.

    Processes without MPI are one run together, so their view is returned unchanged.
    """
    if view.logs == 1 or are_one_run(view.applications):
        return view
    row = view.main_run
    digest = str(view.applications.text("log_digest").tolist()[row])
    seconds, read, write = (view.job_io.floats(name) for name in ("io_seconds", "read_bytes", "write_bytes"))
    return replace(
        view,
        applications=view.applications.take([row]),
        job_io=view.job_io.take([row]),
        files=view.files.take(view.files.text("log_digest").equals(digest)),
        run_number=row + 1,
        of_job=AllRuns(view.logs, float(np.nansum(seconds)), int(read.sum()), int(write.sum())),
    )


def as_one_run(view: JobView) -> JobView:
    """Return the logs of processes without MPI as one run: one row of `applications` and `job_io`, a rank per log.

    Other views are returned unchanged.
    """
    if not are_one_run(view.applications):
        return view
    logs = view.applications
    rank = rows_of(logs.text("log_digest"), view.files.text("log_digest"))
    mine = rank >= 0
    start = logs.ints("start_ns")
    first = int(start.argmin())
    digest = str(logs.text("log_digest").tolist()[first])
    one = logs.take([first]).with_columns(
        nprocs=np.array([view.logs], np.int64),
        end_ns=np.array([int(logs.ints("end_ns").max())], np.int64),
        partial_modules=encode_text([",".join(view.listed("partial_modules"))]),
    )
    files: Frame = view.files.take(mine)
    files = files.with_columns(
        log_digest=encode_text([digest] * files.rows),
        start_ns=np.full(files.rows, int(start.min()), np.int64),
        rank=rank[mine],
    )
    return replace(view, applications=one, files=files, job_io=job_io(one, files), separate=True, known_runs=None)


# 4711, or what schedulers show for members of arrays and of heterogeneous jobs: 22_1, 43+0.
JOB_ID: Final = re.compile(r"\d{1,18}([_+]\d{1,9})?")


# The tables that `find_job` may read.
LOG_TABLES: Final = frozenset({"applications", "files", "ingests", "job_io", "jobs", "series"})


def named_log(source: DataSource, params: Params) -> JobView:
    """Return the job that the parameter `job` names, found once for all questions that share results."""
    view = source.shared(find_named_log, params)
    note_log(source, "job", view)
    return view


def note_log(source: DataSource, param: str, view: JobView) -> None:
    """Record that the answer is about this job."""
    digests = [str(digest) for digest in view.applications.text("log_digest").tolist()]
    source.note_logs(param, digests, from_file=bool(view.log))


def find_named_log(source: DataSource, params: Params) -> JobView:
    """Return the job that the parameter `job` names."""
    return find_job(source, params, params["job"])


def find_job(source: DataSource, params: Params, target: str) -> JobView:
    """Return the job that `target` names: a log if it is a file and files may be read, else a job id.

    Accounting of a log comes from the lake, if one was named.
    """
    files = source.reads_files
    paths: PathPolicy = params.get("paths", "keep")
    path = Path(target)
    if files and path.is_file():
        view = view_of_log(path, paths)
        if source.was_named:
            lake, job_id = source.snapshot, int(view.applications.array("job_id")[0])
            jobs = lake.frame("jobs", JOB_COLUMNS, where={"raw_job_id": job_id})
            view = replace(view, jobs=jobs)
            if _is_of_facility(view, lake):
                view = replace(view, facility=lake.facility)
    elif files and path.is_dir():
        raise UsageError(f"{target} is a directory.", hint="Specify one log, or ingest all logs and specify a job ID.")
    elif JOB_ID.fullmatch(target):
        view = view_in(source, params, target, paths)
    elif files:
        raise UsageError(f"{target} is neither a file nor a job ID.")
    else:
        raise UsageError(f"{target!r} is not a job ID.", hint="Expected a number, such as 4711 or 22_1.")
    return replace(view, processes_per_node=params.get("processes_per_node"))


def _is_of_facility(view: JobView, lake: Snapshot) -> bool:
    """Return whether the facility has the file system that a log used most, or its lake has the log."""
    mount = view.job_io.records()[view.main_run]["main_mount"]
    if mount is not None and lake.facility.filesystem_of_path(mount) is not None:
        return True
    digests = tuple(map(str, view.applications.text("log_digest").tolist()))
    return lake.frame("applications", ("log_digest",), where={"log_digest": digests}).rows > 0


def view_of_log(path: Path, paths: PathPolicy) -> JobView:
    """Return the log at `path` as a job of its own. Nothing is written."""
    try:
        log = read_log(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    applications, files = rows_of_logs([log], paths)
    # The name of a log usually contains the user's and the program's: it is hidden where paths are.
    name = printable(path.name) if paths == "keep" else log.digest[:12]
    return JobView(name, applications, files, job_io(applications, files), log=log)


def view_in(source: DataSource, params: Params, job_id: str, paths: PathPolicy) -> JobView:
    """Return the run by which the job is judged, of the user and period of the question.

    Raises UsageError if there are several jobs of that id.
    """
    snapshot, uid = source.snapshot, params.get("uid")
    raw_id = raw_id_of(snapshot, job_id)
    where = {"job_id": raw_id} | ({} if uid is None else {"uid": uid})
    applications = snapshot.frame("applications", where=where, period_ns=source.period_ns)
    cluster = params.get("cluster")
    on_cluster = {} if cluster is None else {"cluster": cluster}
    jobs = snapshot.frame("jobs", JOB_COLUMNS, where={"raw_job_id": raw_id, **on_cluster})
    if on_cluster:
        state = match_jobs(applications, jobs).text("state")
        applications = applications.take(state.equals("matched"))
    if not applications.rows:
        raise DataUnavailable(
            f"The lake has no Darshan log of job {job_id}.",
            hint="Ingest its logs or its accounting (`ioweather ingest`), or specify a log file.",
        )
    applications = applications.take(np.argsort(applications.array("start_ns"), kind="stable"))
    matches = match_jobs(applications, jobs)
    numbers = job_numbers(applications, matches)
    if numbers.max() > 0:
        raise UsageError(f"Job ID {job_id} matches {int(numbers.max()) + 1} jobs.", hint=f"{WHICH_JOB}{job_id}")
    return main_run_of(_build_view(snapshot, f"job {job_id}", applications, jobs, paths))


def log_of(source: DataSource, view: JobView) -> DarshanLog | None:
    """Return the log of a view, else read that of a view of one log, if it is still where it was ingested and has not
    changed. A server opens no logs for the asking user: the file at that path may have changed."""
    if view.log is not None or view.logs > 1 or not source.reads_files:
        return view.log
    (digest,) = view.applications.text("log_digest").tolist()
    for place in source.snapshot.frame("ingests", ("path",), where={"digest": str(digest)}).text("path").tolist():
        if not Path(str(place)).is_file():  # a pipe would be waited for
            continue
        with suppress(OSError, SourceError):
            log = read_log(Path(str(place)), modules=HEAT_MODULES)
            if log.digest == digest:
                return log
    return None


def view_of_run(snapshot: Snapshot, digest: str, day: str) -> JobView:
    """Return one run, by the digest of its log and the UTC day of its start."""
    applications = snapshot.frame("applications", where={"log_digest": digest}, days={day})
    if not applications.rows:
        raise DataUnavailable(f"The lake has no Darshan log with digest {digest} on {day}.")
    raw_id = int(applications.ints("job_id")[0])
    jobs = snapshot.frame("jobs", JOB_COLUMNS, where={"raw_job_id": raw_id})
    return _build_view(snapshot, f"job {raw_id}", applications, jobs, "keep")


def _build_view(snapshot: Snapshot, label: str, applications: Frame, jobs: Frame, paths: PathPolicy) -> JobView:
    """Return the job of these applications, with files, metrics and sampled targets from the lake."""
    digests = tuple(str(digest) for digest in applications.text("log_digest").tolist())
    days = {utc_day(int(start)) for start in applications.array("start_ns")}
    files, stored = (snapshot.frame(name, where={"log_digest": digests}, days=days) for name in ("files", "job_io"))
    place = rows_of(stored.text("log_digest"), applications.text("log_digest"))
    return JobView(
        label,
        _apply_path_policy(applications, "exe", paths),
        _apply_path_policy(files, "path", paths),
        stored.take(place) if (place >= 0).all() else job_io(applications, files),
        jobs=jobs,
        facility=snapshot.facility,
        **_measure_targets(snapshot, min(days)),
    )


def _measure_targets(snapshot: Snapshot, day: str) -> dict[str, Any]:
    """Return the number of storage targets sampled on a day, and the highest rate of one of them."""
    where = {"component_kind": "ost", "metric": ("read_bytes", "write_bytes")}
    columns = ("component", "start_ns", "interval_ns", "value")
    rows = snapshot.rows("series", where, None, {day}, columns)
    ((count, fastest),) = snapshot.bare.execute(
        "SELECT count(DISTINCT component), max(rate) FROM (SELECT component, sum(value) * 1e9 / interval_ns AS rate "
        f"FROM ({rows}) WHERE interval_ns > 0 GROUP BY component, start_ns, interval_ns)"
    ).fetchall()
    return {"target_count": int(count) or None, "target_bytes_per_s": float(fastest) if fastest else None}


def raw_id_of(snapshot: Snapshot, job_id: str) -> int:
    """Return the scheduler's raw id, the only one in Darshan logs; ids of array jobs are looked up in accounting."""
    if job_id.isdigit():
        return int(job_id)
    known = snapshot.frame("jobs", ("raw_job_id",), where={"job_id": job_id})
    ids = sorted({int(value) for value in known.array("raw_job_id").tolist() if value is not None})
    if not ids:
        raise DataUnavailable(
            f"The accounting data contain no raw ID for job {job_id}.", hint="Use the raw ID: `sacct -o JobIDRaw`."
        )
    if len(ids) > 1:
        raise UsageError(f"Job {job_id} has several raw IDs: {', '.join(map(str, ids))}.", hint="Specify one of them.")
    return ids[0]


def _apply_path_policy(frame: Frame, column: str, paths: PathPolicy) -> Frame:
    """Apply the path policy to a column."""
    if paths == "keep":
        return frame
    text = frame.text(column)
    hide = shown_path if column == "path" else shown_command
    shown = {value: hide(value, paths) for value in text.categories}
    return frame.with_columns(
        **{column: encode_text([None if each is None else shown[each] for each in text.tolist()])}
    )
