"""Everything that one job's log tells, for a page: job and modules, activity, cost, each interface, mounts, files.

POSIX, MPI-IO and STDIO come from file rows, the libraries from their own records; `Usage` is one form for all of them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Bools, Floats, Ints
from ioweather.core.results import Cell, Chart, Exhibit, Fact, FactGroup, ResultTable, columns_of
from ioweather.core.tables import READ_BINS, SIZE_BINS, STRATEGIES, WRITE_BINS
from ioweather.core.units import NS, format_bytes, format_seconds, format_time_ns, names_of
from ioweather.facts.job_metrics import (
    NEVER_LAST,
    FileRecords,
    file_records,
    maximum,
    processes_of_files,
    strategy_of_files,
    sums,
    times,
)
from ioweather.facts.server_io import ServerIo
from ioweather.job_io.heat_map import HeatMap, draw_heat_map, make_heat_maps
from ioweather.job_io.summary import bin_labels, format_run_time
from ioweather.job_io.view import JobView, printable
from ioweather.readers.darshan.log import DarshanLog

MOST_FILES: Final = 20
NOT_SHOWN: Final = "(path not shown)"
INTERFACES: Final[Mapping[str, dict[str, Any]]] = tomllib.loads(
    files("ioweather.job_io").joinpath("interfaces.toml").read_text("utf-8")
)


@dataclass(frozen=True)
class Usage:
    """What one interface did. `io_seconds` is D of its records alone."""

    name: str
    noun: str
    files: int
    io_seconds: float | None
    read_bytes: int
    write_bytes: int
    read_sizes: tuple[int, ...]
    write_sizes: tuple[int, ...]
    common_sizes: tuple[tuple[int, int], ...]
    operations: Mapping[str, int]

    @property
    def bytes_per_s(self) -> float | None:
        return (self.read_bytes + self.write_bytes) / self.io_seconds if self.io_seconds else None


def page_exhibits(view: JobView, log: DarshanLog | None) -> Iterator[Exhibit]:
    """The exhibits of a job in the order of a page; `log` has its activity. What is not recorded has no section."""
    records = file_records(view.applications, view.files)
    used = usages(records, view.log)
    yield _tabulate_job(view)
    if heat_maps := make_heat_maps(log) if log is not None else ():
        yield _draw_activity(heat_maps)
    if used:
        yield _compare_interfaces(view, used)
    for usage in used:
        yield _describe_interface(usage)
    if records.counted.any() and not view.has_only_sums:
        yield _tabulate_mounts(view, records)
        yield _tabulate_largest_files(records)


def _tabulate_job(view: JobView) -> Exhibit:
    """Return job, user, times and versions as a table, and the modules of its logs."""
    row = view.row()
    pairs: list[tuple[str, Cell]] = [
        ("job id", str(row["job_id"])),
        ("user", row.get("user") or f"uid {row['uid']}"),
        ("account", row.get("account")),
        ("processes", f"{row['nprocs']:,}"),
        ("nodes", None if row["node_count"] is None else f"{row['node_count']:,} ({row['node_source']})"),
        ("start", format_time_ns(row["start_ns"])),
        ("end", format_time_ns(row["end_ns"])),
        ("run time", format_run_time(view, row)),
        ("command", row["exe"]),
        ("run", view.run_words),
        ("logs", f"{view.logs_of_job:,}" if view.logs_of_job > 1 else None),
        ("log", view.label if view.log else None),
        ("log version", ", ".join(sorted({str(log["log_version"]) for log in view.applications.records()}))),
    ]
    if view.log is not None:
        pairs += [("Darshan library", view.log.job.metadata.get("lib_ver"))]
        run_seconds = format_seconds(view.log.job.run_seconds)
        pairs += [("run time in whole seconds", run_seconds)] if view.whole_seconds else []
    shown = tuple((name, value) for name, value in pairs if value not in (None, ""))
    about = ResultTable.of("job", "what [text]; value [text]", shown)
    return Exhibit("job.about", "Job and log", tables=(about, _tabulate_modules(view)))


def _tabulate_modules(view: JobView) -> ResultTable:
    """Return the modules of the log, their records, and whether Darshan ran out of memory for them."""
    columns = columns_of("module [text]; version [count]; records [count]; state [text]")
    states = {True: "partial: out of memory", False: "complete"}
    rows: list[tuple[Cell, ...]]
    if view.log is not None:
        rows = [(m.name, m.version, len(m.records), states[m.partial]) for m in view.log.modules.values()]
        rows += [(name, None, None, "not read: unknown module") for name in view.log.unknown_modules]
        return ResultTable("modules", columns, tuple(rows), "Modules in the log")
    known, partial = view.listed("modules"), view.listed("partial_modules")
    rows = [(name, states[name in partial]) for name in known]
    return ResultTable("modules", (columns[0], columns[-1]), tuple(rows), "Modules in the log")


def _draw_activity(heat_maps: Sequence[HeatMap]) -> Exhibit:
    """Return a heat map for each module: bytes by rank and time."""
    charts = tuple(
        draw_heat_map(heat, heat.module if heat.origin == "heat map" else f"{heat.module} trace") for heat in heat_maps
    )
    title = "Bytes over time" if heat_maps[0].nprocs == 1 else "Bytes by rank and time"
    caveats = [
        f"{heat.module}: the data of each traced operation are spread evenly over its duration."
        for heat in heat_maps
        if heat.origin == "trace"
    ]
    return Exhibit("job.activity", title, charts=charts, caveats=tuple(caveats))


def _compare_interfaces(view: JobView, used: list[Usage]) -> Exhibit:
    """Return the bytes and the time of each interface."""
    overview = ResultTable.of(
        "interfaces",
        "interface [text]; files [count]; read [bytes]; written [bytes]; "
        "io_seconds: I/O time (slowest process) [seconds]; bandwidth: bandwidth estimate [bytes_per_s]",
        (
            (u.name, None if view.has_only_sums else u.files, u.read_bytes, u.write_bytes, u.io_seconds, u.bytes_per_s)
            for u in used
        ),
        "Bytes by interface",
    )
    note = "The time of an interface includes the layers below it: HDF5 calls MPI-IO, which calls POSIX."
    return Exhibit("job.interfaces", "Interfaces", tables=(overview,), caveats=(note,))


def _describe_interface(usage: Usage) -> Exhibit:
    """Return sizes of accesses and operations of one interface."""
    tables: list[ResultTable] = []
    if usage.common_sizes:
        columns = "size: access size [bytes]; bytes: exactly [count]; count: accesses [count]"
        common = ((size, size, count) for size, count in usage.common_sizes)
        tables.append(ResultTable.of("common_sizes", columns, common, "Most common access sizes"))
    # Accesses by size, from the first to the last bin that is not empty.
    bins = list(zip(bin_labels(), usage.read_sizes, usage.write_sizes, strict=True))
    filled = [i for i, (_, read, write) in enumerate(bins) if read + write]
    bins = bins[filled[0] : filled[-1] + 1] if filled else []
    used = [(name, place) for name, place in (("read", 1), ("written", 2)) if any(row[place] for row in bins)]
    sizes = [(row[0], name, row[place]) for name, place in used for row in bins]
    operations = [(label, count) for label, count in usage.operations.items() if count > 0]
    charts = []
    for name, title, columns, encoding, rows in (
        (
            "access_sizes",
            "Access sizes",
            "size: access size [text]; operation [text]; accesses [count]",
            "x=size y=accesses series=operation",
            sizes,
        ),
        ("operations", "Operations", "operation [text]; calls [count]", "x=operation y=calls", operations),
    ):
        # One bar alone says nothing: its number is enough.
        if len({row[0] for row in rows}) > 1:
            charts.append(Chart.of("bars", ResultTable.of(name, columns, rows), encoding, title))
        elif rows:
            tables.append(ResultTable.of(name, columns, rows, title))
    caveats = []
    if usage.name == "STDIO":
        caveats.append("Darshan records no STDIO access sizes. Standard input, output and error are excluded.")
    if usage.name == "MPI-IO" and bins:
        caveats.append("MPI-IO access sizes refer to whole datatypes.")
    slug = usage.name.lower().replace("-", "")
    return Exhibit(f"job.{slug}", usage.name, tables=tuple(tables), charts=tuple(charts), caveats=tuple(caveats))


def _tabulate_mounts(view: JobView, records: FileRecords) -> Exhibit:
    """Return bytes and files by the mount point that holds them, each byte once."""
    kinds: dict[str, str] = {}
    for text in view.applications.text("mounts").tolist():
        kinds |= json.loads(text) if text else {}
    mount = records.text("mount")
    names = [*mount.categories, "unknown mount point"]
    code = np.where(mount.codes < 0, len(names) - 1, mount.codes).astype(np.int64)
    read, written = (
        sums(records.ints(name), code, len(names), records.counted) for name in ("read_bytes", "write_bytes")
    )
    files = np.bincount(code[_find_first_rows(records)], minlength=len(names))
    order = [i for i in np.argsort(-(read + written), kind="stable").tolist() if files[i]]
    rows = tuple((names[i], kinds.get(names[i]), int(files[i]), int(read[i]), int(written[i])) for i in order)
    table = ResultTable.of(
        "mounts", "mount [text]; type: file system [text]; files [count]; read [bytes]; written [bytes]", rows
    )
    return Exhibit("job.mounts", "Data by mount point", tables=(table,))


def _find_first_rows(records: FileRecords) -> Ints:
    """Return the first row of each file."""
    return np.asarray(np.unique(records.file, return_index=True)[1], np.int64)


def _tabulate_largest_files(records: FileRecords) -> Exhibit:
    """Return the files with most bytes, and those with most time if they are others."""
    moved = records.per_file(records.ints("read_bytes") + records.ints("write_bytes"), records.counted)
    seconds = np.zeros(records.files)
    for part in ("meta", "read", "write"):
        seconds += records.per_file(records.seconds(f"{part}_seconds"), records.counted)
    by_bytes = np.lexsort((-seconds, -moved))[:MOST_FILES]
    by_time = np.lexsort((-moved, -seconds))[:MOST_FILES]
    tables = [_tabulate_files(records, by_bytes, seconds, "largest", "Most data moved")]
    if by_time.tolist() != by_bytes.tolist() and seconds.max(initial=0.0) > 0:
        tables.append(_tabulate_files(records, by_time, seconds, "slowest", "Most time spent"))
    more = records.files - MOST_FILES
    caveats = (f"{more:,} more files are not listed.",) if more > 0 else ()
    return Exhibit("job.files", "Largest files", tables=tuple(tables), caveats=caveats)


def _tabulate_files(records: FileRecords, chosen: NDArray[Any], seconds: Floats, name: str, title: str) -> ResultTable:
    """Return one table row for each of the `chosen` file indices; `seconds` is I/O time per file."""
    first = _find_first_rows(records)[chosen]
    paths, rank = records.text("path")[first].tolist(), records.rank[first].tolist()
    stripes = np.zeros(records.files, np.int64)  # 0 where the layout is not recorded
    np.maximum.at(stripes, records.file, records.ints("stripe_count"))
    strategy, processes, size = strategy_of_files(records), processes_of_files(records), file_sizes(records)
    read, written = (
        records.per_file(records.ints(column), records.counted) for column in ("read_bytes", "write_bytes")
    )
    operations = records.per_file(records.ints("read_count") + records.ints("write_count"), records.counted)
    rows: list[tuple[Cell, ...]] = []
    for position, file in enumerate(chosen.tolist()):
        kind = STRATEGIES[int(strategy[file])].replace("_", " ")
        used_by = f"{kind}, {processes[file]:,} processes"
        if kind == "unique":
            used_by = f"rank {rank[position]}" if rank[position] >= 0 else kind
        totals = (None if size[file] == NEVER_LAST else int(size[file]), int(operations[file]), float(seconds[file]))
        moved = (int(read[file]), int(written[file]))
        rows.append((paths[position] or NOT_SHOWN, used_by, *moved, *totals, int(stripes[file]) or None))
    columns = columns_of(
        "file [text]; of: used by [text]; read [bytes]; written [bytes]; size: highest byte [bytes]; "
        "operations: reads and writes [count]; seconds: time of all processes [seconds]; stripes [count]"
    )
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return ResultTable(name, columns, tuple(rows), title)


def usages(records: FileRecords, log: DarshanLog | None) -> list[Usage]:
    """Return every interface with records, the one nearest to the application first."""
    rows = {"MPI-IO": records.mpiio, "POSIX": records.posix, "STDIO": records.stdio}
    found = [
        _sum_file_module(records, name, rows[name], entry) if name in rows else _sum_library(log, name, entry)
        for name, entry in INTERFACES.items()
    ]
    return [usage for usage in found if usage is not None]


def _sum_file_module(records: FileRecords, name: str, rows: Bools, entry: Mapping[str, Any]) -> Usage | None:
    """Return the use of POSIX, MPI-IO or STDIO from its file records; None without any."""
    if not rows.any():
        return None

    def total(columns: str) -> int:
        first, *others = (int(records.ints(column)[rows].sum()) for column in columns.split("-"))
        return first - sum(others)

    spent = np.asarray(times(records, rows)["io_seconds"])
    known = spent[np.isfinite(spent)]
    accesses = [(records.ints(f"access{i}_bytes")[rows], records.ints(f"access{i}_count")[rows]) for i in range(1, 5)]
    return Usage(
        name=name,
        noun="files",
        files=len(np.unique(records.file[rows])),
        io_seconds=float(known.sum()) if len(known) else None,
        read_bytes=total("read_bytes"),
        write_bytes=total("write_bytes"),
        read_sizes=tuple(map(total, READ_BINS)),
        write_sizes=tuple(map(total, WRITE_BINS)),
        common_sizes=_count_common_sizes(accesses),
        operations={label: total(columns) for label, columns in entry["operations"].items()},
    )


def file_sizes(records: FileRecords) -> Ints:
    """Return the highest byte read or written, plus one, of each file; NEVER_LAST where none is recorded."""
    read, written = (
        maximum(records.ints(name), records.file, records.files, records.known(name))
        for name in ("read_extent_bytes", "write_extent_bytes")
    )
    return np.asarray(np.maximum(read, written), np.int64)


def _count_common_sizes(accesses: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[tuple[int, int], ...]:
    """Return (size, accesses) of the four most common sizes over all records, from the sizes and counts of each
    record."""
    size, count = (np.concatenate(values).astype(np.int64) for values in zip(*accesses, strict=True))
    distinct, place = np.unique(size[count > 0], return_inverse=True)
    totals = sums(count[count > 0], place, len(distinct))
    return tuple((int(distinct[i]), int(totals[i])) for i in np.lexsort((-distinct, -totals))[:4])


def counters_of(name: str, entry: Mapping[str, Any]) -> dict[str, str]:
    """Return label and counter of each operation of a library."""
    counters = names_of(entry.get("counters", ""))
    return entry.get("operations") or {each.lower().replace("_", " "): f"{name}_{each}" for each in counters}


def _sum_library(log: DarshanLog | None, name: str, entry: Mapping[str, Any]) -> Usage | None:
    """Return the use of a library from its own records; None without any."""
    files, data = (None if log is None else log.records(entry[part]) for part in ("files", "data"))
    if not any(records is not None and len(records) for records in (files, data)):
        return None
    prefix = entry["data"]

    def total(counter: str) -> Any:
        """Sum of a counter of the first module that has it, negative and missing values as 0."""
        values = (each[counter] for each in (files, data) if each is not None and counter in (each.dtype.names or ()))
        return np.maximum(np.nan_to_num(next(values, np.zeros(0, np.int64))), 0).sum().item()

    file_count, slowest = 0, None
    common: tuple[tuple[int, int], ...] = ()
    if files is not None and len(files):
        file_count = len(np.unique(files["id"]))
    elif data is not None and "file_id" in (data.dtype.names or ()):
        file_count = len(np.unique(data["file_id"]))  # newer datasets name the file that holds them
    if data is not None and len(data):
        ways = [(data[f"{prefix}_ACCESS{i}_ACCESS"], data[f"{prefix}_ACCESS{i}_COUNT"]) for i in range(1, 5)]
        common, slowest = _count_common_sizes(ways), _find_slowest_rank_seconds(data, prefix)
    sizes = [f"{entry.get('sizes', '')}_{size.upper()}" for size in SIZE_BINS]
    return Usage(
        name=name,
        noun=entry.get("noun", "files"),
        files=file_count,
        io_seconds=slowest,
        read_bytes=int(total(f"{prefix}_BYTES_READ")),
        write_bytes=int(total(f"{prefix}_BYTES_WRITTEN")),
        read_sizes=tuple(int(total(f"{prefix}_SIZE_READ{size}")) for size in sizes),
        write_sizes=tuple(int(total(f"{prefix}_SIZE_WRITE{size}")) for size in sizes),
        common_sizes=common,
        operations={label: count for label, key in counters_of(name, entry).items() if (count := int(total(key)))},
    )


def _find_slowest_rank_seconds(data: NDArray[Any], prefix: str) -> float | None:
    """Return D of a library's records: the slowest rank on its own records, and the slowest rank's time of each
    shared one."""
    own = data["rank"] >= 0
    spent = sum(np.maximum(np.nan_to_num(data[f"{prefix}_F_{part}_TIME"]), 0.0) for part in ("READ", "WRITE", "META"))
    _, place = np.unique(data["rank"][own], return_inverse=True)
    by_rank = np.bincount(place, weights=np.asarray(spent)[own])
    shared = float(np.maximum(data[f"{prefix}_F_SLOWEST_RANK_TIME"][~own], 0.0).sum())
    return (float(by_rank.max(initial=0.0)) + shared) or None


_MOST_TARGETS: Final = 10
# Maximum intervals of a chart; neighbours are added up if there are more.
_MOST_TIMES: Final = 400


def server_headline(job: str, found: ServerIo) -> str:
    """Return how much the servers counted, where and when."""
    targets = f"{len(found.targets)} target{'s' if len(found.targets) > 1 else ''}"
    where = ", ".join(printable(name) for name in found.systems)
    return (
        f"Job {job} read {format_bytes(found.read_bytes)} and wrote {format_bytes(found.write_bytes)} on {targets} of "
        f"{where}, {format_time_ns(found.start_ns)} to {format_time_ns(found.end_ns)}, by server counters."
    )


def server_caveats(found: ServerIo) -> Iterator[str]:
    """Yield that amounts are lower bounds, if counters were reset."""
    if found.restarted_rows:
        intervals = f"{found.restarted_rows} interval{'s' if found.restarted_rows > 1 else ''}"
        yield f"The server counters were reset in {intervals}, so the amounts are lower bounds."


def server_facts(found: ServerIo) -> tuple[FactGroup, ...]:
    """Return volume, operations, sizes of requests and targets. The servers' counters do not include files or the time
    that the job waited."""
    groups = (
        (
            "server_volume",
            "Volume",
            [
                Fact("read_bytes", "read", found.read_bytes, "bytes"),
                Fact("write_bytes", "written", found.write_bytes, "bytes"),
            ],
        ),
        (
            "server_operations",
            "Operations",
            [Fact(f"{name}_count", printable(name), done.count, "count") for name, done in found.operations.items()],
        ),
        (
            "server_targets",
            f"Targets ({len(found.targets)})",
            [
                Fact(f"target_{number}", printable(name), done.bytes, "bytes", note=f"{done.count:,} operations")
                for number, (name, done) in enumerate(islice(found.targets.items(), _MOST_TARGETS), 1)
            ],
        ),
    )
    return tuple(FactGroup(name, title, tuple(facts)) for name, title, facts in groups if facts)


def draw_server_traffic(found: ServerIo) -> Exhibit:
    """Return the traffic of the job over time, as the servers counted it."""
    step = -(-len(found.times) // _MOST_TIMES)
    rows: list[tuple[Cell, ...]] = []
    for first in range(0, len(found.times), step):
        starts, ends, read, written = zip(*found.times[first : first + step], strict=True)
        seconds = max((max(ends) - starts[0]) / NS, 1e-9)
        rows += [(starts[0], "read", sum(read) / seconds), (starts[0], "written", sum(written) / seconds)]
    table = ResultTable.of("over_time", "time [time_ns]; direction [text]; bytes_per_s [bytes_per_s]", rows)
    chart = Chart.of("timeline", table, "x=time y=bytes_per_s series=direction", "Bytes per second")
    return Exhibit("job.server_timeline", "Server traffic of this job", charts=(chart,))
