"""The topic `compare`, and car11 VI: runs of one program before and after a change, speed and changes in I/O.

A run is a row of job metrics by name, with `exe`, `node_count`, `moved_bytes` and `mib_per_s_per_node`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ioweather.core import choices
from ioweather.core.contracts import Inventory, Param, Params, Question, Study, StudyData
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import Outcome
from ioweather.core.results import (
    Answer,
    Cell,
    Chart,
    Estimate,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    ResultColumn,
    ResultTable,
    numbered,
)
from ioweather.core.units import MIB, format_bytes, format_seconds, format_time_ns, format_value
from ioweather.core.words import names_of
from ioweather.facts.runs import NEEDS, PROCESSES_PER_NODE, instances_of, program_of
from ioweather.job_io.job_query import LOG_TABLES, find_job, note_log
from ioweather.job_io.view import printable, recorded_whole
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class ComparedRun:
    """`speed_ratio`: how many times the bandwidth of the first run."""

    label: str
    job_id: int | None
    program: str
    processes: int
    start_ns: int
    run_seconds: float | None
    io_seconds: float | None
    read_bytes: int
    write_bytes: int
    bytes_per_s: float | None
    speed_ratio: float | None
    partial: bool


@dataclass(frozen=True)
class CompareOutcome(Outcome):
    """The first run is the original."""

    runs: tuple[ComparedRun, ...]


def run(source: DataSource, params: Params) -> Answer:
    """Compare the runs of the parameter `runs` with the first of them."""
    views = [find_job(source, params, target) for target in params["runs"]]
    for view in views:
        note_log(source, "runs", view)
    if len(views) < 2:
        raise UsageError("Name at least two runs to compare, the original first.")
    return comparison([view.row() for view in views], [view.label for view in views])


QUESTION = Question(
    name="compare",
    result=CompareOutcome,
    run=run,
    tables=LOG_TABLES,
    params=(
        Param(
            "runs",
            "Darshan logs, or IDs of jobs in the lake; the original first.",
            required=True,
            many=True,
            metavar="LOG|JOBID...",
        ),
        choices.PROCESSES_PER_NODE,
        choices.PATHS,
    ),
    help="Compare runs before and after a change: how much faster, and what changed in their I/O.",
    epilog="""\b
The first is the original; the others are compared with it. Logs are read in
place and need no lake; job IDs refer to jobs in the lake.

\b
Example: ioweather compare before.darshan after.darshan
""",
    period=False,
    table="runs",
)


Row = Mapping[str, Any]

# Runs whose bandwidths differ by less are equally fast: storage itself varies more from run to run. [ours]
EQUAL: Final = 0.1
# Ratios and shares whose changes are worth a note.
_CHANGED: Final = (0.8, 1.25)
_SHARE_CHANGED: Final = 0.25
_REASONS: Final = 2
_NAME_CHARACTERS: Final = 24
_ONE_RUN: Final = "one run: no interval"
CAVEATS: Final = (
    "With one run each, the difference also includes changes in storage load.",
    "File system operations are POSIX calls. Application operations are MPI-IO calls if it made any.",
)


def before_after(rows: Sequence[Row], labels: Sequence[str]) -> Exhibit:
    """Return the comparison as the exhibit car11.fig11; the first run is the original."""
    unit = "mib_per_s_per_node" if all(row["mib_per_s_per_node"] is not None for row in rows) else "mib_per_s"
    bars = ResultTable.of(
        "rates",
        f"run [text]; rate [{unit}]",
        ((label, _rate(row, unit)) for label, row in zip(labels, rows, strict=True)),
    )
    return Exhibit(
        "car11.fig11",
        tables=(_runs(rows, labels),),
        charts=(Chart.of("bars", bars, "x=run y=rate", "Performance of each run"),),
        estimates=tuple(_estimates(rows, labels)),
        findings=tuple(findings(rows, labels)),
        caveats=CAVEATS,
    )


def comparison(rows: Sequence[Row], names: Sequence[str]) -> Answer:
    """Return the answer of a comparison: headline, the runs, all metrics side by side, and the changes."""
    labels = [f"{letter(i)} {short_name(name)}" for i, name in enumerate(names)]
    compared = before_after(rows, labels)
    runs = tuple(Fact(f"run_{i + 1}", letter(i), "", note=_about(row, names[i])) for i, row in enumerate(rows))
    return Answer(
        question=f"What changed from {names[0]} to {', '.join(names[1:])}?",
        headline=headline(rows, labels),
        facts=(FactGroup("runs", "Runs", runs),),
        exhibits=(
            Exhibit("compare.metrics", "Side by side", tables=(side_by_side(rows),)),
            replace(compared, findings=()),
        ),
        findings=numbered(_differences(rows, labels)),
        caveats=CAVEATS[:1],
        coverage=recorded_whole([bool(row["partial"]) for row in rows], "runs"),
        name="compare",
        result=CompareOutcome(tuple(_compared(row, rows[0], name) for row, name in zip(rows, names, strict=True))),
    )


def _compared(row: Row, first: Row, name: str) -> ComparedRun:
    return ComparedRun(
        label=name,
        job_id=row["job_id"],
        program=printable(program_of(row["exe"] or "")),
        processes=row["nprocs"],
        start_ns=row["start_ns"],
        run_seconds=row["run_seconds"],
        io_seconds=row["io_seconds"],
        read_bytes=row["read_bytes"],
        write_bytes=row["write_bytes"],
        bytes_per_s=row["bytes_per_s"],
        speed_ratio=improvement(row, first),
        partial=bool(row["partial"]),
    )


def short_name(name: str) -> str:
    """Return the end of a file name, where names of logs differ, without the extension."""
    stem = name.removesuffix(".gz").removesuffix(".darshan")
    return stem if len(stem) <= _NAME_CHARACTERS else f"…{stem[1 - _NAME_CHARACTERS :]}"


def _about(row: Row, name: str) -> str:
    program = printable(program_of(row["exe"] or "")) or "unnamed program"
    return f"{name}: {program}, {row['nprocs']:,} processes, {format_time_ns(row['start_ns'])}"


def _differences(rows: Sequence[Row], labels: Sequence[str]) -> Iterator[Finding]:
    """Findings: first on runs that cannot be compared, then on changes."""
    first = rows[0]
    for label, row in zip(labels, rows, strict=True):
        if row["partial"]:
            text = f"{label} is partial: Darshan ran out of memory, its figures are lower bounds."
            yield Finding(text, name="partial_log")
    for label, row in zip(labels[1:], rows[1:], strict=True):
        if _changed(first["moved_bytes"], row["moved_bytes"]):
            text = f"{label} moved a different amount of data than {labels[0]}: compare speeds, not times."
            yield Finding(text, name="other_amount")
        if row["nprocs"] != first["nprocs"]:
            text = f"{label} ran on {row['nprocs']:,} processes, {labels[0]} on {first['nprocs']:,}."
            yield Finding(text, name="other_processes")
    for label, row in zip(labels[1:], rows[1:], strict=True):
        factor, what = improvement(row, first), list(changes(row, first))
        if len(rows) == 2 and factor is not None and abs(factor - 1) > EQUAL and len(what) <= _REASONS:
            continue  # the headline says all of it
        speed = [] if factor is None else [f"{format_value(factor, 'factor')} as fast as {labels[0]}"]
        text = f"{label}: {'; '.join([*speed, *(what or ['the same pattern of I/O'])])}."
        yield Finding(text, name="difference")


def default_labels(rows: Sequence[Row]) -> list[str]:
    """Return short labels that differ."""
    return [f"{letter(i)} {printable(program_of(row['exe'] or ''))}".strip() for i, row in enumerate(rows)]


def letter(place: int) -> str:
    """Return A, B, ... for the runs, numbers beyond Z."""
    return chr(ord("A") + place) if place < 26 else f"{place + 1}"


def improvement(row: Row, first: Row) -> float | None:
    """Return the ratio of bandwidths to the first run: that of I/O times if both moved the same bytes."""
    return _quotient_of_amounts(row["bytes_per_s"], first["bytes_per_s"])


def _quotient_of_amounts(value: float | None, first: float | None) -> float | None:
    """Return value / first; None if one is missing or 0, or if the ratio or its inverse overflows."""
    ratio = value / first if value and first else 0.0
    return ratio if 0 < ratio < math.inf and 1 / ratio < math.inf else None


def headline(rows: Sequence[Row], labels: Sequence[str]) -> str:
    """Return a sentence on the run that differs most from the first, by how much, and the main reasons."""
    factors = [improvement(row, rows[0]) for row in rows]
    known = [(factor, i) for i, factor in enumerate(factors) if factor is not None and i]
    if not known:
        return f"{labels[0]} cannot be compared by speed: not all runs moved data in a known time."
    factor, place = max(known, key=lambda pair: max(pair[0], 1 / pair[0]))
    first, other = labels[0], labels[place]
    if abs(factor - 1) <= EQUAL:
        return f"{other} is as fast as {first}: {_amount(rows[place])} against {_amount(rows[0])}."
    speed = f"{_times(factor)} as fast as" if factor > 1 else f"{_times(1 / factor)} slower than"
    reasons = "; ".join(list(changes(rows[place], rows[0]))[:_REASONS])
    return f"{other} is {speed} {first}: {_amount(rows[place])} against {_amount(rows[0])}" + (
        f"; {reasons}." if reasons else "."
    )


def _times(factor: float) -> str:
    digits = f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"
    return f"{digits} times"


def findings(rows: Sequence[Row], labels: Sequence[str]) -> Iterator[Finding]:
    """Yield findings of the exhibit: the speed of each run, and its changes."""
    first = rows[0]
    for label, row in zip(labels[1:], rows[1:], strict=True):
        factor = improvement(row, first)
        if factor is not None:
            faster = format_value(factor, "factor")
            yield Finding(
                f"{label} is {faster} as fast as {labels[0]}: {_amount(row)} against {_amount(first)}.", name="speed"
            )
        yield from (Finding(f"{label}: {text}.", name="change") for text in changes(row, first))


def changes(row: Row, first: Row) -> Iterator[str]:
    """Yield changes of the pattern, the usually most important ones first."""
    ratios = first["metadata_ratio"], row["metadata_ratio"]
    yield from _share_change(*ratios, "metadata takes {after} of the I/O time, before {before}")
    if None not in (first["collective_count"], row["collective_count"]):
        ratios = collective_ratio(first) or 0.0, collective_ratio(row) or 0.0
        yield from _share_change(*ratios, "{after} of accesses are collective, before {before}")
    for verb in ("write", "read"):
        sizes = mean_size(first, "", verb), mean_size(row, "", verb)
        calls = first[f"fs_{verb}_count"], row[f"fs_{verb}_count"]
        if sizes[0] and sizes[1] and _changed(*sizes):
            yield f"a {verb} moves {format_bytes(sizes[1])}, before {format_bytes(sizes[0])}"
        elif _changed(*calls):
            yield f"{verb}s at the file system went from {calls[0]:,} to {calls[1]:,}"
    if _changed(first["file_count"], row["file_count"]):
        yield f"files went from {_files(first)} to {_files(row)}"
    if row["interfaces"] != first["interfaces"]:
        yield f"it uses {_interfaces(row)}, before {_interfaces(first)}"
    ratios = first["sequential_ratio"], row["sequential_ratio"]
    yield from _share_change(*ratios, "{after} of accesses are sequential, before {before}")


def _share_change(before: float | None, after: float | None, sentence: str) -> Iterator[str]:
    if before is not None and after is not None and abs(before - after) > _SHARE_CHANGED:
        yield sentence.format(before=f"{before:.0%}", after=f"{after:.0%}")


def collective_ratio(row: Row) -> float | None:
    """Return the collective share of the application's reads and writes; None without MPI-IO."""
    if row["collective_count"] is None or row["independent_count"] is None:
        return None
    calls = row["collective_count"] + row["independent_count"]
    operations = max(calls, row["read_count"] + row["write_count"])
    return row["collective_count"] / operations if calls else None


def _changed(before: float | None, after: float | None) -> bool:
    return bool(before and after and not _CHANGED[0] <= after / before <= _CHANGED[1])


def _files(row: Row) -> str:
    shared = row["shared_file_count"]
    return f"{row['file_count']:,}" + (f" ({shared:,} shared by all)" if shared else "")


def _interfaces(row: Row) -> str:
    return str(row["interfaces"] or "no interface").replace(",", ", ")


def mean_size(row: Row, layer: str, verb: str) -> float | None:
    """Return the mean request of the application (layer ''), or of the file system ('fs_')."""
    count = row[f"{layer}{verb}_count"]
    return row[f"{layer}{verb}_bytes"] / count if count else None


def _amount(row: Row) -> str:
    took = "an unknown time" if row["io_seconds"] is None else format_seconds(row["io_seconds"])
    return f"{format_bytes(row['moved_bytes'])} in {took}"


def _rate(row: Row, unit: str) -> float | None:
    if unit == "mib_per_s_per_node":
        return float(row[unit])
    return None if row["bytes_per_s"] is None else row["bytes_per_s"] / MIB


_SHOWN: Final = names_of("nprocs node_count interfaces file_count moved_bytes io_seconds bytes_per_s")


def _runs(rows: Sequence[Row], labels: Sequence[str]) -> ResultTable:
    return ResultTable.of(
        "runs",
        "run [text]; log [text]; processes [count]; nodes [count]; interfaces [text]; files [count]; moved [bytes]; "
        "io_seconds: I/O time [seconds]; rate [bytes_per_s]; improvement [factor]; per_node [mib_per_s_per_node]; "
        "metadata_ratio: metadata [ratio]; collective_ratio: collective [ratio]; "
        "write_size: write of the application, mean [bytes]; fs_write_size: write of the file system, mean [bytes]; "
        "fs_writes: writes of the file system [count]; fs_reads: reads of the file system [count]",
        (
            (
                label,
                row["log_digest"][:12],
                *(row[name] for name in _SHOWN),
                improvement(row, rows[0]),
                row["mib_per_s_per_node"],
                row["metadata_ratio"],
                collective_ratio(row),
                mean_size(row, "", "write"),
                mean_size(row, "fs_", "write"),
                row["fs_write_count"],
                row["fs_read_count"],
            )
            for label, row in zip(labels, rows, strict=True)
        ),
    )


def _estimates(rows: Sequence[Row], labels: Sequence[str]) -> Iterator[Estimate]:
    for label, row in zip(labels, rows, strict=True):
        yield Estimate(f"io_time[{label}]", row["io_seconds"], "seconds", n=1, method=_ONE_RUN)
        yield Estimate(f"improvement[{label}]", improvement(row, rows[0]), "factor", n=1, method=_ONE_RUN)
        yield Estimate(f"write_operations[{label}]", row["fs_write_count"], "count", n=1, method="exact count")


# Metrics shown side by side: label, unit, value of a row.
_METRICS: Final[tuple[tuple[str, str, Any], ...]] = (
    ("processes", "count", lambda r: r["nprocs"]),
    ("nodes", "count", lambda r: r["node_count"]),
    ("run time", "seconds", lambda r: r["run_seconds"]),
    ("I/O time", "seconds", lambda r: r["io_seconds"]),
    ("I/O of the run", "ratio", lambda r: _quotient(r["io_seconds"], r["run_seconds"])),
    ("bytes read", "bytes", lambda r: r["read_bytes"]),
    ("bytes written", "bytes", lambda r: r["write_bytes"]),
    ("speed", "bytes_per_s", lambda r: r["bytes_per_s"]),
    ("read speed", "bytes_per_s", lambda r: r["read_bytes_per_s"]),
    ("write speed", "bytes_per_s", lambda r: r["write_bytes_per_s"]),
    ("per compute node", "mib_per_s_per_node", lambda r: r["mib_per_s_per_node"]),
    ("metadata of I/O time", "ratio", lambda r: r["metadata_ratio"]),
    ("files", "count", lambda r: r["file_count"]),
    ("files shared by all", "count", lambda r: r["shared_file_count"]),
    ("mean read", "bytes", lambda r: mean_size(r, "", "read")),
    ("mean write", "bytes", lambda r: mean_size(r, "", "write")),
    ("most common access", "bytes", lambda r: r["common_access_bytes"]),
    ("file system reads", "count", lambda r: r["fs_read_count"]),
    ("file system writes", "count", lambda r: r["fs_write_count"]),
    ("collective", "ratio", collective_ratio),
    ("sequential", "ratio", lambda r: r["sequential_ratio"]),
    ("interfaces", "text", lambda r: _interfaces(r)),
)


def _quotient(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def side_by_side(rows: Sequence[Row]) -> ResultTable:
    """Return a table with a line per metric, a column per run, and its ratio to the first run."""
    columns = [ResultColumn("metric", "", "text"), ResultColumn("run_1", letter(0), "text")]
    for i in range(1, len(rows)):
        name = letter(i)
        columns += [ResultColumn(f"run_{i + 1}", name, "text"), ResultColumn(f"ratio_{i + 1}", f"{name} : A", "text")]
    lines: list[tuple[Cell, ...]] = []
    for name, unit, value in _METRICS:
        values = [value(row) for row in rows]
        if not any(values):
            continue
        line: list[Cell] = [name, format_value(values[0], unit)]
        for each in values[1:]:
            line += [format_value(each, unit), "" if unit == "text" else _ratio(each, values[0])]
        lines.append(tuple(line))
    return ResultTable("metrics", tuple(columns), tuple(lines))


def _ratio(value: float | None, first: float | None) -> str:
    """Format a ratio as ×28 or ÷28; = within 2%."""
    ratio = _quotient_of_amounts(value, first)
    if ratio is None:
        return ""
    if abs(ratio - 1) < 0.02:
        return "="
    return f"×{_digits(ratio)}" if ratio > 1 else f"÷{_digits(1 / ratio)}"


def _digits(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}" if ratio >= 1.1 else f"{ratio:.2f}"


# A lasting change of pattern: one user's runs of one program at one size, in order of time, have two successive
# stretches of one pattern each, of three runs or more, with the same bytes (within a fifth). The run of median
# bandwidth represents each stretch. The pattern is the way of reading and writing, not the speed.
_LASTING_CHANGE: Final = """
    WITH runs AS (
        SELECT a.exe AS exe, a.nprocs AS nprocs, a.uid AS uid, j.start_ns AS start_ns, j.log_digest AS log,
               j.bytes_per_s AS rate, j.read_bytes + j.write_bytes AS moved,
               concat_ws(' ', j.interfaces, j.collective_count > 0, j.unique_file_count > 0, j.shared_file_count > 0,
                         j.partially_shared_file_count > 0, floor(log2(greatest(j.file_count, 1))),
                         floor(log2(greatest(j.write_bytes / nullif(j.write_count, 0), 1))),
                         floor(log2(greatest(j.read_bytes / nullif(j.read_count, 0), 1)))) AS pattern
        FROM job_io j JOIN applications a ON a.log_digest = j.log_digest
        WHERE j.bytes_per_s IS NOT NULL AND a.exe IS NOT NULL
    ), marked AS (
        SELECT *, pattern IS DISTINCT FROM lag(pattern) OVER of_program AS begins FROM runs
        WINDOW of_program AS (PARTITION BY exe, nprocs, uid ORDER BY start_ns, log)
    ), parted AS (
        SELECT *, sum(begins::INT) OVER (PARTITION BY exe, nprocs, uid ORDER BY start_ns, log) AS part FROM marked
    ), parts AS (
        SELECT exe, nprocs, uid, part, count(*) AS n, median(moved) AS moved,
               list(log ORDER BY rate, log)[(count(*) + 1) // 2] AS log
        FROM parted GROUP BY exe, nprocs, uid, part
    )
    SELECT (SELECT before.log || ',' || after.log
    FROM parts AS after JOIN parts AS before ON before.exe = after.exe AND before.nprocs = after.nprocs
         AND before.uid IS NOT DISTINCT FROM after.uid AND before.part = after.part - 1
    WHERE before.n >= 3 AND after.n >= 3 AND abs(after.moved - before.moved) <= 0.2 * before.moved
    ORDER BY before.n + after.n DESC, after.log LIMIT 1)
"""


def _before_and_after(inventory: Inventory, _: Params) -> Cell:
    return inventory.scalar(_LASTING_CHANGE)


LOGS: Final = Param(
    "logs",
    "comma-separated digests of the logs to compare, the original first (8 characters are enough); else runs before "
    "and after a lasting change in how a program reads and writes",
    choose=_before_and_after,
)


def run_study(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    """Yield the exhibit car11.fig11 for the chosen logs."""
    if not params["logs"]:
        raise DataUnavailable(
            "No program changed its I/O pattern and kept the change for three runs: there is nothing to compare.",
            hint="Name the runs with logs=DIGEST,DIGEST.",
        )
    runs = instances_of(data, facility, params)
    rows = _chosen(runs.frame, str(params["logs"]))
    compared = before_after(rows, default_labels(rows))
    yield replace(compared, caveats=(*compared.caveats, *runs.node_caveats), coverage=runs.node_coverage)


def _chosen(runs: Frame, wanted: str) -> list[dict[str, Any]]:
    digests = [text.strip() for text in wanted.split(",") if text.strip()]
    if len(digests) < 2:
        raise UsageError("logs: give at least two digests to compare.")
    known = runs.text("log_digest")
    places = []
    for digest in digests:
        fitting = [code for code, full in enumerate(known.categories) if full.startswith(digest)]
        rows = np.flatnonzero(np.isin(known.codes, fitting))
        if len(rows) != 1:
            raise UsageError(
                f"logs: {len(rows) or 'no'} logs begin with {digest!r}.",
                hint="`log_digest` of the table job_io has them.",
            )
        places.append(int(rows[0]))
    return runs.take(np.array(places)).records()


STUDY = Study(name="tuning", exhibits=("car11.fig11",), needs=NEEDS, run=run_study, params=(LOGS, PROCESSES_PER_NODE))
