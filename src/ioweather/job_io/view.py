"""A job as plain frames and arrays, and its activity by rank and time.

A heat map has the bytes of each group of ranks in each stretch of the run. It comes from Darshan's heat map module,
which counts bytes in bins of time, or from its traces (DXT), where the bytes of an operation are spread evenly over its
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Ints
from ioweather.core.contracts import StudyData
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import AllRuns
from ioweather.core.results import Cell, Chart, Coverage, Exhibit, ResultColumn, ResultTable, columns_of
from ioweather.core.tables import encode_text
from ioweather.core.units import NS
from ioweather.facts.file_records import file_records, rows_of
from ioweather.facts.job_metrics import job_io
from ioweather.facts.runs import Runs, instances_of, jobs_of


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


Origin: TypeAlias = Literal["heat map", "trace"]
# Operations of a trace per chunk: each may cover every column.
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Resolution:
    """Maximum number of rows (groups of ranks) and columns (stretches of time)."""

    rows: int
    columns: int


SCREEN = Resolution(rows=8, columns=66)
# A drawn cell takes some 130 bytes, and a page has up to twelve drawings: two modules, two operations, two widths.
PAGE = Resolution(rows=24, columns=48)


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Row i has ranks [i * rank_step, (i + 1) * rank_step), column j the time [j, j + 1) * column_seconds since the
    start. `unrecorded_ranks` have no record of it although Darshan ran out of memory for it."""

    module: str
    origin: Origin
    nprocs: int
    rank_step: int
    column_seconds: float
    read_bytes: Floats
    write_bytes: Floats
    unrecorded_ranks: tuple[int, ...] = ()

    @property
    def total_bytes(self) -> float:
        return float(self.read_bytes.sum() + self.write_bytes.sum())

    @property
    def rows(self) -> int:
        return int(self.read_bytes.shape[0])


def from_bins(
    module: str,
    nprocs: int,
    bin_seconds: float,
    ranks: NDArray[Any],
    lengths: NDArray[Any],
    read_values: NDArray[Any],
    write_values: NDArray[Any],
    wanted: Resolution,
) -> HeatMap | None:
    """Make a heat map from bins of equal width: record i is of rank `ranks[i]` and has the next `lengths[i]` values.

    None with fewer than two bins.
    """
    bins = int(lengths.max(initial=0))
    if bins < 2 or not (np.isfinite(bin_seconds) and bin_seconds > 0):
        return None
    rank_step, rows = _grouping(nprocs, wanted.rows)
    column_step, columns = _grouping(bins, wanted.columns)
    starts = np.cumsum(lengths) - lengths
    column = (np.arange(len(read_values)) - np.repeat(starts, lengths)) // column_step
    rank = np.repeat(np.asarray(ranks, np.int64), lengths)
    inside = (rank >= 0) & (rank < nprocs)
    cell = (rank // rank_step * columns + column)[inside]
    read, write = (_summed(cell, values[inside], rows, columns) for values in (read_values, write_values))
    return HeatMap(module, "heat map", nprocs, rank_step, column_step * bin_seconds, read, write)


def _summed(cell: Ints, values: NDArray[Any], rows: int, columns: int) -> Floats:
    weights = np.maximum(values, 0).astype(np.float64)
    total = np.bincount(cell, weights=weights, minlength=rows * columns)
    return np.asarray(total, np.float64).reshape(rows, columns)


def from_segments(
    module: str,
    nprocs: int,
    run_seconds: float,
    ranks: NDArray[Any],
    segments: NDArray[Any],
    wanted: Resolution,
    origin: Origin = "trace",
) -> HeatMap | None:
    """Make a heat map from operations (write, length, start_seconds, end_seconds) of one rank each; None without
    any."""
    start, end = (np.asarray(segments[name], np.float64) for name in ("start_seconds", "end_seconds"))
    rank = np.asarray(ranks, np.int64)
    known = np.isfinite(start) & np.isfinite(end) & (start >= 0) & (end >= start) & (rank >= 0) & (rank < nprocs)
    if not known.any():
        return None
    start, end, rank = start[known], end[known], rank[known]
    length = np.maximum(segments["length"][known], 0).astype(np.float64)
    write = segments["write"][known]
    rank_step, rows = _grouping(nprocs, wanted.rows)
    column_seconds = max(run_seconds, float(end.max()), 1e-9) / wanted.columns
    grids = np.zeros((2, rows, wanted.columns))
    for first in range(0, len(start), _CHUNK):
        part = slice(first, first + _CHUNK)
        operation, column, amount = _spread(start[part], end[part], length[part], column_seconds, wanted.columns)
        cell = rank[part][operation] // rank_step * wanted.columns + column
        for kind in (False, True):
            mine = write[part][operation] == kind
            grids[int(kind)] += _summed(cell[mine], amount[mine], rows, wanted.columns)
    read, written = grids
    return HeatMap(module, origin, nprocs, rank_step, column_seconds, read, written)


def _spread(start: Floats, end: Floats, length: Floats, width: float, columns: int) -> tuple[Ints, Ints, Floats]:
    """Return operation, column and bytes: each operation is spread evenly over the columns of its time."""
    first = np.minimum((start / width).astype(np.int64), columns - 1)
    last = np.minimum((end / width).astype(np.int64), columns - 1)
    touched = last - first + 1
    operation = np.repeat(np.arange(len(start)), touched)
    column = np.arange(len(operation)) - np.repeat(np.cumsum(touched) - touched, touched) + first[operation]
    inside = np.minimum(end[operation], (column + 1) * width) - np.maximum(start[operation], column * width)
    duration = (end - start)[operation]
    share = np.ones(len(operation))
    np.divide(np.maximum(inside, 0.0), duration, out=share, where=touched[operation] > 1)
    return operation, column, length[operation] * share


def _grouping(count: int, most: int) -> tuple[int, int]:
    """Return members per group and number of groups."""
    step = max(1, -(-count // most))
    return step, max(1, -(-count // step))


def busiest(maps: tuple[HeatMap, ...]) -> HeatMap | None:
    """Return the map of the highest layer with nearly all of the bytes: the layer that the application called."""
    order = ("MPI-IO", "POSIX", "STDIO")
    most = max((each.total_bytes for each in maps), default=0.0)
    full = [each for each in maps if each.total_bytes >= 0.9 * most > 0]
    return min(full, key=lambda heat: order.index(heat.module) if heat.module in order else len(order), default=None)


def heat_chart(heat: HeatMap, title: str, *, split: bool) -> Chart:
    """Return the chart of a heat map; `split`: reads and writes side by side. A single process has a row for each."""
    if lost := heat.unrecorded_ranks:
        which = f"rank {lost[0]:,}" if len(lost) == 1 else f"{len(lost):,} of {heat.nprocs:,} ranks"
        title = f"{title}; not recorded: {which}"
    parts = [("read", heat.read_bytes), ("written", heat.write_bytes)]
    used = [(name, values) for name, values in parts if values.sum() > 0] or parts[:1]
    times = [column * heat.column_seconds for column in range(heat.read_bytes.shape[1])]
    if heat.nprocs == 1:
        rows = [_cell_rows(times, [name], values) for name, values in used]
        return _chart(title, ResultColumn("rank", "", "text"), [row for part in rows for row in part])
    label = "rank" if heat.rank_step == 1 else f"first of {heat.rank_step:,} ranks"
    ranks: list[Cell] = [row * heat.rank_step for row in range(heat.rows)]
    column = ResultColumn("rank", label, "count")
    if not split or len(used) == 1:
        return _chart(title, column, _cell_rows(times, ranks, heat.read_bytes + heat.write_bytes))
    faceted = [(*row, name) for name, values in used for row in _cell_rows(times, ranks, values)]
    return _chart(title, column, faceted, facet="operation")


def _cell_rows(times: list[float], ranks: list[Cell], values: Floats) -> list[tuple[Cell, ...]]:
    return [
        (time, rank, amount)
        for rank, row in zip(ranks, values.tolist(), strict=True)
        for time, amount in zip(times, row, strict=True)
    ]


def _chart(title: str, ranks: ResultColumn, rows: list[tuple[Cell, ...]], facet: str | None = None) -> Chart:
    columns = [ResultColumn("seconds", "time since the start", "seconds"), ranks, ResultColumn("moved", "", "bytes")]
    columns += [ResultColumn(facet, "", "text")] if facet else []
    encoding = {"x": "seconds", "y": "rank", "value": "moved"}
    return Chart("heatmap", ResultTable("activity", tuple(columns), tuple(rows)), encoding, title, facet=facet)
