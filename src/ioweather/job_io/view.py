"""A job as plain frames, and the run by which it is judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import StudyData
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import AllRuns
from ioweather.core.results import Coverage, Exhibit, ResultTable, columns_of
from ioweather.core.tables import encode_text
from ioweather.core.units import NS
from ioweather.facts.file_records import file_records, rows_of
from ioweather.facts.job_metrics import job_io
from ioweather.facts.runs import Runs, instances_of, jobs_of
from ioweather.job_io.heat_map import HeatMap


def printable(text: str) -> str:
    """Return a name from a log for the terminal: characters that could control it become question marks."""
    return "".join(character if character.isprintable() else "?" for character in text)


def recorded_whole(partial: Sequence[bool], what: str = "logs") -> tuple[Coverage, ...]:
    """Return the coverage of logs or runs for which Darshan had enough memory."""
    return (Coverage(len(partial), len(partial) - sum(partial), what, detail="recorded whole"),)


@dataclass(frozen=True, eq=False)
class ModuleRecords:
    """One module of a log: a structured array with Darshan's counters."""

    name: str
    version: int
    partial: bool
    records: NDArray[Any]


@dataclass(frozen=True, eq=False)
class LogFacts:
    """Contents of a log besides its file records.

    `run_seconds` is the run time shown by Darshan's tools. `unrecorded_file_count` counts files of the name map without
    a record in any module: Darshan ran out of memory, or the log was trimmed.
    """

    name: str
    library_version: str
    run_seconds: float
    modules: tuple[ModuleRecords, ...]
    unknown_modules: tuple[str, ...] = ()
    unrecorded_file_count: int = 0
    name_count: int = 0
    name_bytes: int = 0

    def records(self, name: str) -> NDArray[Any] | None:
        return next((module.records for module in self.modules if module.name == name), None)


@dataclass(frozen=True, eq=False)
class JobView:
    """A job: `applications`, `files` and `job_io` of its logs, and `jobs` if there is accounting.

    `log` is set for a log that was read itself; the lake stores neither it nor heat maps. For a job in the lake,
    `log_paths` are the logs that still exist, `heat_map_logs` the number of those with heat maps, `target_count` the
    storage targets sampled on its day, and `target_bytes_per_s` the highest rate of one of them. `separate`: logs of
    processes without MPI, seen as one run (`as_one_run`). `of_job` is set if the job has several runs and this view is
    of one of them (`main_run_of`).
    """

    label: str
    applications: Frame
    files: Frame
    job_io: Frame
    jobs: Frame | None = None
    facility: Facility = field(default_factory=Facility)
    processes_per_node: int | None = None
    log: LogFacts | None = None
    heat_maps: tuple[HeatMap, ...] = ()
    heat_map_logs: int = 1
    log_paths: tuple[str, ...] = ()
    target_count: int | None = None
    target_bytes_per_s: float | None = None
    separate: bool = False
    of_job: AllRuns | None = None
    run_number: int = 1

    @cached_property
    def runs(self) -> Runs:
        """The jobs that these logs are: normally one row."""
        return jobs_of(self._data(), self.facility, {"processes_per_node": self.processes_per_node})

    def node_count(self, run: int) -> int | None:
        """Return the nodes of the run in this row, if known."""
        runs = instances_of(self._data(), self.facility, {"processes_per_node": self.processes_per_node})
        return int(runs.ints("node_count")[run]) or None

    def _data(self) -> StudyData:
        frames = {"job_io": self.job_io, "applications": self.applications}
        return StudyData(frames=frames if self.jobs is None else {**frames, "jobs": self.jobs})

    def row(self) -> dict[str, Any]:
        """Return the job's metrics by name; null is None. `process_seconds` is processes x run time over all logs."""
        row: dict[str, Any] = self.runs.frame.records()[0]
        length = self.applications.ints("end_ns") - self.applications.array("start_ns")
        seconds = float((self.applications.ints("nprocs") * np.maximum(length, 0)).sum() / NS)
        run = row["run_seconds"] if row["run_seconds"] and row["run_seconds"] > 0 else None
        return row | {"process_seconds": seconds or None, "run_seconds": run, "wait_seconds": _wait_seconds(self.log)}

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
        return self.applications.rows

    @property
    def logs_of_job(self) -> int:
        if self.of_job is not None:
            return self.of_job.count
        return int(self.applications.ints("nprocs")[0]) if self.separate else self.logs

    def listed(self, column: str) -> list[str]:
        """Names in a comma-separated column of its logs, each once."""
        texts = self.applications.text(column).tolist()
        return sorted({name for text in texts for name in (text or "").split(",") if name})

    @property
    def forms(self) -> frozenset[str]:
        """Other forms of logs that it was read from (`applications.form`)."""
        return frozenset(form for form in self.applications.text("form").tolist() if form is not None)

    @property
    def sums_only(self) -> bool:
        """Only sums over all files are known."""
        return self.forms == {"totals"}

    @property
    def overlapping(self) -> bool:
        return overlapping(self.applications)

    @property
    def whole_seconds(self) -> bool:
        """Before log version 3.41 start and end are cut to whole seconds."""
        return any(
            version is not None and version < "3.41" for version in self.applications.text("log_version").tolist()
        )


def overlapping(runs: Frame) -> bool:
    """Whether some of the runs overlap in time."""
    start, end = (runs.ints(name) for name in ("start_ns", "end_ns"))
    order = np.argsort(start, kind="stable")
    return bool((start[order][1:] < np.maximum.accumulate(end[order])[:-1]).any())


def _wait_seconds(log: LogFacts | None) -> float | None:
    """Time in waits for non-blocking PnetCDF calls, the only waits that Darshan measures."""
    records = log.records("PNETCDF_FILE") if log else None
    if records is None or "PNETCDF_FILE_F_WAIT_TIME" not in (records.dtype.names or ()):
        return None
    return float(np.maximum(records["PNETCDF_FILE_F_WAIT_TIME"], 0.0).sum())


_MOST_TARGETS: Final = 1000
_COLUMNS: Final = columns_of(
    "target [text]; files [count]; read_bytes: read [bytes]; write_bytes: written [bytes]; "
    "seconds: time of all processes [seconds]"
)


def only_files(view: JobView, pattern: str) -> JobView:
    """Restrict the job to files that fit a pattern: of names, or of whole paths if it contains a slash."""
    path = view.files.text("path")
    wanted = [
        category is not None and fnmatchcase(category if "/" in pattern else category.rsplit("/", 1)[-1], pattern)
        for category in path.categories
    ]
    rows = np.array([*wanted, False], np.bool_)[path.codes]
    if not rows.any():
        raise DataUnavailable(f"No file of this job matches {pattern!r}. Hashed or dropped paths cannot match.")
    files = view.files.take(rows)
    # A heat map is of all files.
    return replace(view, files=files, job_io=job_io(view.applications, files), heat_maps=())


def target_exhibit(view: JobView) -> Iterator[Exhibit]:
    """Yield bytes and time by storage target, if layouts are recorded. A file's are divided evenly over its targets."""
    records = file_records(view.applications, view.files)
    osts = records.text("osts")
    read, written = records.ints("read_bytes"), records.ints("write_bytes")
    spent = sum(records.seconds(f"{name}_seconds") for name in ("meta", "read", "write"))
    totals: dict[str, list[float]] = {}
    for code, category in enumerate(osts.categories):
        targets = [name for name in (category or "").split(",") if name]
        rows = records.counted & (osts.codes == code)
        if not targets or not rows.any():
            continue
        amounts = [float(values[rows].sum()) / len(targets) for values in (read, written, np.asarray(spent))]
        count = len(np.unique(records.file[rows]))
        for target in targets:
            mine = totals.setdefault(target, [0.0, 0.0, 0.0, 0.0])
            for place, amount in enumerate((count, *amounts)):
                mine[place] += amount
    if not totals:
        return
    ordered = sorted(totals.items(), key=lambda item: -item[1][1] - item[1][2])[:_MOST_TARGETS]
    rows_shown = tuple((name, int(v[0]), int(v[1]), int(v[2]), v[3]) for name, v in ordered)
    title = f"{len(totals):,} storage targets, the busiest first"
    table = ResultTable("targets", _COLUMNS, rows_shown, title)
    caveat = "A file's bytes and time are divided evenly over its targets."
    yield Exhibit("job_targets", "By storage target", tables=(table,), caveats=(caveat,))


# Processes without MPI (data loaders, tasks of a task farm) write a log each. Each log alone shows little; together
# they read the same files again and again, in small pieces. So each log becomes a process of one run. Darshan's id of a
# file is a hash of its path, which identifies files that several processes opened.

# Two overlapping processes may be a pipe; more are a pattern.
FEWEST_LOGS: Final = 4


def are_one_run(runs: Frame) -> bool:
    """Whether these are several logs of single processes that overlap in time."""
    return runs.rows >= FEWEST_LOGS and bool((runs.ints("nprocs") == 1).all()) and overlapping(runs)


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
    return replace(view, applications=one, files=files, job_io=job_io(one, files), separate=True)
