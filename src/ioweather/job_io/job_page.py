"""Everything that one job's log tells, for a page: job and modules, activity, cost, each interface, mounts, files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Ints
from ioweather.core.results import Cell, Chart, Exhibit, ResultTable, columns_of
from ioweather.core.tables.applications import STRATEGIES
from ioweather.core.units import format_seconds, format_time_ns
from ioweather.facts.file_records import NEVER_LAST, FileRecords, file_records, sums
from ioweather.facts.files import processes_of_files, strategy_of_files
from ioweather.job_io.heat_map import heat_chart
from ioweather.job_io.interfaces import Usage, file_sizes, usages
from ioweather.job_io.summary import bin_labels, run_text
from ioweather.job_io.view import JobView

MOST_FILES: Final = 20
NOT_SHOWN: Final = "(path not shown)"
_PARTS: Final[tuple[tuple[str, str], ...]] = (
    ("reading", "read_seconds"),
    ("writing", "write_seconds"),
    ("metadata", "meta_seconds"),
    ("waiting", "wait_seconds"),
)
_TEXT: Final = "text"


def page_exhibits(view: JobView) -> Iterator[Exhibit]:
    """In the order of a page. What is not recorded has no section; the notes of the answer say so."""
    records = file_records(view.applications, view.files)
    used = usages(records, view.log)
    yield _about(view)
    if view.heat_maps:
        yield _activity(view)
    if used:
        yield _interfaces(view, used)
    for usage in used:
        yield _interface(usage)
    if records.counted.any() and not view.sums_only:
        yield _mounts(view, records)
        yield _files(records)


def _about(view: JobView) -> Exhibit:
    row = view.row()
    logs = view.applications.records()
    pairs: list[tuple[str, Cell]] = [
        ("job id", str(row["job_id"])),
        ("user", row.get("user") or f"uid {row['uid']}"),
        ("account", row.get("account")),
        ("processes", f"{row['nprocs']:,}"),
        ("nodes", None if row["node_count"] is None else f"{row['node_count']:,} ({row['node_source']})"),
        ("start", format_time_ns(row["start_ns"])),
        ("end", format_time_ns(row["end_ns"])),
        ("run time", run_text(view, row)),
        ("command", row["exe"]),
        ("run", view.run_words),
        ("logs", f"{view.logs_of_job:,}" if view.logs_of_job > 1 else None),
        ("log", view.label if view.log else None),
        ("log version", ", ".join(sorted({str(log["log_version"]) for log in logs}))),
    ]
    if view.log is not None:
        pairs += [("Darshan library", view.log.library_version or None)]
        pairs += [("run time as Darshan shows it", format_seconds(view.log.run_seconds))] if view.whole_seconds else []
    shown = tuple((name, value) for name, value in pairs if value not in (None, ""))
    about = ResultTable.of("job", "what [text]; value [text]", shown)
    return Exhibit("job.about", "Job and log", tables=(about, _module_table(view)))


def _module_table(view: JobView) -> ResultTable:
    """Which modules the log has, how many records, and whether Darshan ran out of memory for them."""
    title = "Modules of the log" if view.logs == 1 else "Modules of the logs"
    columns = columns_of("module [text]; version [count]; records [count]; state [text]")
    rows: list[tuple[Cell, ...]] = []
    if view.log is not None:
        for module in view.log.modules:
            state = "partial: memory ran out" if module.partial else "complete"
            rows.append((module.name, module.version, len(module.records), state))
        rows += [(name, None, None, "not read: private to another tool, or newer") for name in view.log.unknown_modules]
        return ResultTable("modules", columns, tuple(rows), title)
    listed = [(log["modules"] or "", log["partial_modules"] or "") for log in view.applications.records()]
    partial = {name for _, names in listed for name in names.split(",")}
    for name in sorted({name for names, _ in listed for name in names.split(",") if name}):
        rows.append((name, "partial: memory ran out" if name in partial else "complete"))
    return ResultTable("modules", (columns[0], columns[-1]), tuple(rows), title)


def _activity(view: JobView) -> Exhibit:
    charts = tuple(
        heat_chart(heat, heat.module if heat.origin == "heat map" else f"{heat.module}, from its trace", split=True)
        for heat in view.heat_maps
    )
    title = "Bytes over time" if view.heat_maps[0].nprocs == 1 else "Bytes by rank and time"
    caveats = [
        f"{heat.module}: the bytes of each traced operation are spread evenly over the time it took."
        for heat in view.heat_maps
        if heat.origin == "trace"
    ]
    return Exhibit("job.activity", title, charts=charts, caveats=tuple(caveats))


def _overview(used: list[Usage], sums_only: bool) -> ResultTable:
    return ResultTable.of(
        "interfaces",
        "interface [text]; files [count]; read [bytes]; written [bytes]; "
        "io_seconds: I/O time (slowest process) [seconds]; bandwidth: bandwidth estimate [bytes_per_s]",
        (
            (u.name, None if sums_only else u.files, u.read_bytes, u.write_bytes, u.io_seconds, u.bytes_per_s)
            for u in used
        ),
        "What each interface moved",
    )


def _interfaces(view: JobView, used: list[Usage]) -> Exhibit:
    """What each interface moved, and the mean time per process in each kind of call."""
    row = view.row()
    processes = int(view.applications.ints("nprocs").sum())
    parts = [part for part in _PARTS if part[0] != "waiting" or any(usage.wait_seconds for usage in used)]
    rows: list[tuple[Cell, ...]] = []
    for usage in used:
        for label, name in parts:
            seconds = getattr(usage, name)
            share = seconds / row["process_seconds"] if row["process_seconds"] else None
            rows.append((usage.name, label, seconds / processes, share))
    table = ResultTable.of(
        "cost",
        "interface [text]; part [text]; seconds: time per process [seconds]; share: of the run [ratio]",
        rows,
        "Mean time per process",
    )
    chart = Chart.of("bars", table, "x=interface y=seconds series=part", "I/O cost: mean time per process")
    notes = ["Time of an interface holds the time of those below it: HDF5 calls MPI-IO, which calls POSIX."]
    notes += ["Metadata includes close(), where file systems flush."]
    if len(parts) == len(_PARTS):
        notes += ["Waiting is measured in PnetCDF's waits for non-blocking operations only."]
    return Exhibit(
        "job.interfaces",
        "Interfaces",
        tables=(_overview(used, view.sums_only), table),
        charts=(chart,),
        caveats=tuple(notes),
    )


def _interface(usage: Usage) -> Exhibit:
    tables: list[ResultTable] = []
    if usage.kinds:
        tables.append(
            ResultTable.of(
                "file_kinds",
                f"kind [text]; count: {usage.noun} [count]; mean: mean highest byte [bytes]; "
                "largest: highest byte [bytes]",
                ((k.kind, k.count, k.mean_bytes, k.largest_bytes) for k in usage.kinds if k.count),
                "Files by use",
            )
        )
    if usage.common_sizes:
        rows = tuple((size, size, count) for size, count in usage.common_sizes)
        tables.append(
            ResultTable.of(
                "common_sizes",
                "size: access size [bytes]; bytes: exactly [count]; count: accesses [count]",
                rows,
                "Most common access sizes",
            )
        )
    charts = []
    for chart in (_sizes(usage), _operations(usage), _pattern(usage)):
        # One bar alone says nothing: its number is enough.
        if chart is not None and len(set(chart.table.column(chart.encoding["x"]))) > 1:
            charts.append(chart)
        elif chart is not None:
            tables.append(replace(chart.table, title=chart.title))
    caveats = []
    if usage.name == "STDIO":
        caveats.append("Darshan keeps no access sizes of STDIO. Standard input, output and error are left out.")
    if usage.name == "MPI-IO" and usage.accesses:
        caveats.append("Access sizes of MPI-IO are those of whole datatypes.")
    slug = usage.name.lower().replace("-", "")
    return Exhibit(f"job.{slug}", usage.name, tables=tuple(tables), charts=tuple(charts), caveats=tuple(caveats))


def _sizes(usage: Usage) -> Chart | None:
    """From the first to the last bin that is not empty."""
    if not usage.accesses:
        return None
    rows = list(zip(bin_labels(), usage.read_sizes, usage.write_sizes, strict=True))
    filled = [i for i, (_, read, write) in enumerate(rows) if read + write]
    inside = rows[filled[0] : filled[-1] + 1]
    cells: list[tuple[Cell, ...]] = []
    for name, place in (("read", 1), ("written", 2)):
        if any(row[place] for row in inside):
            cells += [(row[0], name, row[place]) for row in inside]
    table = ResultTable.of("access_sizes", "size: access size [text]; operation [text]; accesses [count]", cells)
    return Chart.of("bars", table, "x=size y=accesses series=operation", "Access sizes")


def _operations(usage: Usage) -> Chart | None:
    rows = tuple((label, count) for label, count in usage.operations if count > 0)
    if not rows:
        return None
    table = ResultTable.of("operations", "operation [text]; calls [count]", rows)
    return Chart.of("bars", table, "x=operation y=calls", "Operations")


def _pattern(usage: Usage) -> Chart | None:
    """Sequential (a higher offset than before) holds consecutive (where the last one ended)."""
    rows: list[tuple[Cell, ...]] = []
    for label, total, sequential, consecutive in usage.pattern:
        if total:
            rows += [(label, "all", total), (label, "sequential", sequential), (label, "consecutive", consecutive)]
    if not rows:
        return None
    table = ResultTable.of("pattern", "operation [text]; order [text]; calls [count]", rows)
    return Chart.of("bars", table, "x=operation y=calls series=order", "Access pattern")


def _mounts(view: JobView, records: FileRecords) -> Exhibit:
    """Bytes and files by the mount point that holds them, each byte once."""
    kinds: dict[str, str] = {}
    for text in view.applications.text("mounts").tolist():
        kinds |= json.loads(text) if text else {}
    mount = records.text("mount")
    codes = mount.codes.astype(np.int64)
    groups = len(mount.categories) + 1
    code = np.where(codes < 0, groups - 1, codes)
    read, written = (sums(records.ints(name), code, groups, records.counted) for name in ("read_bytes", "write_bytes"))
    first = np.zeros(len(records.file), np.bool_)
    first[np.unique(records.file, return_index=True)[1]] = True
    files = sums(first.astype(np.int64), code, groups)
    order = [i for i in np.argsort(-(read + written), kind="stable").tolist() if files[i]]
    names = [*mount.categories, "no mount point known"]
    rows = tuple((names[i], kinds.get(names[i]), int(files[i]), int(read[i]), int(written[i])) for i in order)
    table = ResultTable.of(
        "mounts", "mount [text]; type: file system [text]; files [count]; read [bytes]; written [bytes]", rows
    )
    cells = tuple((row[0], name, row[place]) for row in rows for name, place in (("read", 3), ("written", 4)))
    bars = ResultTable.of("by_mount", "mount [text]; operation [text]; moved [bytes]", cells)
    moved = any(row[2] for row in cells)
    chart = Chart.of("bars", bars, "x=mount y=moved series=operation", "Bytes by mount point")
    charts = (chart,) if moved and len(rows) > 1 else ()
    return Exhibit("job.mounts", "Data by mount point", tables=(table,), charts=charts)


def _files(records: FileRecords) -> Exhibit:
    read, written = (records.per_file(records.ints(name), records.counted) for name in ("read_bytes", "write_bytes"))
    spent = sum(
        records.per_file(records.seconds(f"{part}_seconds"), records.counted) for part in ("meta", "read", "write")
    )
    seconds = np.asarray(spent, np.float64)
    by_bytes = np.lexsort((-seconds, -(read + written)))[:MOST_FILES]
    by_time = np.lexsort((-(read + written), -seconds))[:MOST_FILES]
    tables = [_file_table(records, by_bytes, read, written, seconds, "largest", "Most bytes moved")]
    if by_time.tolist() != by_bytes.tolist() and seconds.max(initial=0.0) > 0:
        tables.append(_file_table(records, by_time, read, written, seconds, "slowest", "Most time spent"))
    more = records.files - MOST_FILES
    caveats = (f"{more:,} more files are not listed.",) if more > 0 else ()
    return Exhibit("job.files", "Largest files", tables=tuple(tables), caveats=caveats)


def _file_table(
    records: FileRecords,
    chosen: NDArray[Any],
    read: NDArray[Any],
    written: NDArray[Any],
    seconds: Floats,
    name: str,
    title: str,
) -> ResultTable:
    first = np.unique(records.file, return_index=True)[1][chosen]
    paths, rank = records.text("path")[first].tolist(), records.rank[first].tolist()
    stripes = _stripes(records)
    strategy, processes, size = strategy_of_files(records), processes_of_files(records), file_sizes(records)
    operations = records.per_file(records.ints("read_count") + records.ints("write_count"), records.counted)
    rows: list[tuple[Cell, ...]] = []
    for position, file in enumerate(chosen.tolist()):
        kind = STRATEGIES[int(strategy[file])].replace("_", " ")
        of = f"{kind}, {processes[file]:,} processes"
        if kind == "unique":
            of = f"rank {rank[position]}" if rank[position] >= 0 else kind
        sizes = (None if size[file] == NEVER_LAST else int(size[file]), int(operations[file]), float(seconds[file]))
        moved = (int(read[file]), int(written[file]))
        rows.append((paths[position] or NOT_SHOWN, of, *moved, *sizes, int(stripes[file]) or None))
    columns = columns_of(
        "file [text]; of: used by [text]; read [bytes]; written [bytes]; size: highest byte [bytes]; "
        "operations: reads and writes [count]; seconds: time of all processes [seconds]; stripes [count]"
    )
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return ResultTable(name, columns, tuple(rows), title)


def _stripes(records: FileRecords) -> Ints:
    """Lustre stripes of each file; 0 where they are not recorded."""
    widest = np.zeros(records.files, np.int64)
    np.maximum.at(widest, records.file, records.ints("stripe_count"))
    return widest
