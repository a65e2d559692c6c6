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
from ioweather.core.contracts import Param, Params, Question, Study
from ioweather.core.errors import DataUnavailable, UsageError
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
    number_names,
)
from ioweather.core.units import MIB, format_bytes, format_seconds, format_time_ns, format_value, names_of
from ioweather.facts.runs import NEEDS, PROCESSES_PER_NODE, fetch_runs, instances_of, program_of
from ioweather.job_io.view import LOG_TABLES, find_job, note_log, printable, recorded_whole
from ioweather.lake.lake import Snapshot
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
class CompareOutcome:
    """The first run is the original."""

    runs: tuple[ComparedRun, ...]


def run(source: DataSource, params: Params) -> Answer:
    """Compare the runs of the parameter `runs` with the first of them."""
    views = [find_job(source, params, target) for target in params["runs"]]
    for view in views:
        note_log(source, "runs", view)
    if len(views) < 2:
        raise UsageError("Specify at least two runs to compare, the original first.")
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
    epilog="""All runs are compared with the first one. Logs are read in place and need no lake. Job IDs refer to jobs
in the lake.

\b
Example: ioweather compare before.darshan after.darshan
""",
    period=False,
    table="runs",
)


Row = Mapping[str, Any]

# Runs whose bandwidths differ by less are equally fast: storage itself varies more from run to run. [ours]
EQUAL: Final = 0.1
_REASONS: Final = 2
_NAME_CHARACTERS: Final = 24
_ONE_RUN: Final = "no interval: only one run"
CAVEATS: Final = (
    "With one run each, the difference also includes changes in storage load.",
    "File system operations are POSIX calls. Application operations are MPI-IO calls, if there are any.",
)
# Metrics side by side: label, name in a row of `_with_ratios`, and unit.
_METRICS: Final = (
    ("processes", "nprocs", "count"),
    ("nodes", "node_count", "count"),
    ("run time", "run_seconds", "seconds"),
    ("I/O time", "io_seconds", "seconds"),
    ("run I/O", "io_ratio", "ratio"),
    ("bytes read", "read_bytes", "bytes"),
    ("bytes written", "write_bytes", "bytes"),
    ("speed", "bytes_per_s", "bytes_per_s"),
    ("read speed", "read_bytes_per_s", "bytes_per_s"),
    ("write speed", "write_bytes_per_s", "bytes_per_s"),
    ("per compute node", "mib_per_s_per_node", "mib_per_s_per_node"),
    ("metadata share of I/O time", "metadata_ratio", "ratio"),
    ("files", "file_count", "count"),
    ("files shared by all", "shared_file_count", "count"),
    ("mean read", "read_size", "bytes"),
    ("mean write", "write_size", "bytes"),
    ("most common access", "common_access_bytes", "bytes"),
    ("file system reads", "fs_read_count", "count"),
    ("file system writes", "fs_write_count", "count"),
    ("collective", "collective_ratio", "ratio"),
    ("sequential", "sequential_ratio", "ratio"),
    ("interfaces", "interface_words", "text"),
)
_RUN_COLUMNS: Final = (
    "run [text]; log [text]; processes [count]; nodes [count]; interfaces [text]; files [count]; moved [bytes]; "
    "io_seconds: I/O time [seconds]; rate [bytes_per_s]; improvement [factor]; per_node [mib_per_s_per_node]; "
    "metadata_ratio: metadata [ratio]; collective_ratio: collective [ratio]; "
    "write_size: write of the application, mean [bytes]; fs_write_size: write of the file system, mean [bytes]; "
    "fs_writes: writes of the file system [count]; fs_reads: reads of the file system [count]"
)
_RUN_VALUES: Final = names_of("""
    nprocs node_count interfaces file_count moved_bytes io_seconds bytes_per_s improvement mib_per_s_per_node
    metadata_ratio collective_ratio write_size fs_write_size fs_write_count fs_read_count
""")


def _add_ratios(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Add mean requests of the application and of the file system, the collective share of the application's reads and
    writes (None without MPI-IO), and the improvement: the ratio of bandwidths to the first run."""
    found = []
    for row in rows:
        more: dict[str, Any] = {
            f"{part}_size": _divide_or_none(row[f"{part}_bytes"], row[f"{part}_count"])
            for part in ("read", "write", "fs_read", "fs_write")
        }
        collective, independent = row["collective_count"], row["independent_count"]
        calls = 0 if collective is None or independent is None else collective + independent
        operations = max(calls, row["read_count"] + row["write_count"])
        program = printable(program_of(row["exe"] or ""))
        took = "an unknown time" if row["io_seconds"] is None else format_seconds(row["io_seconds"])
        more |= {
            "collective_ratio": collective / operations if calls else None,
            "io_ratio": _divide_or_none(row["io_seconds"], row["run_seconds"]),
            "improvement": _divide_amounts(row["bytes_per_s"], rows[0]["bytes_per_s"]),
            "program": program,
            "amount": f"{format_bytes(row['moved_bytes'])} in {took}",
            "interface_words": str(row["interfaces"] or "no interface").replace(",", ", "),
        }
        found.append({**row, **more})
    return found


def _divide_or_none(part: float | None, whole: float | None) -> float | None:
    """Return part / whole; None if one is missing, or the whole is 0."""
    return part / whole if part is not None and whole else None


def _divide_amounts(value: float | None, first: float | None) -> float | None:
    """Return value / first; None if one is missing or 0, or if the ratio or its inverse overflows."""
    ratio = value / first if value and first else 0.0
    return ratio if 0 < ratio < math.inf and 1 / ratio < math.inf else None


def before_after(rows: Sequence[Row], labels: Sequence[str]) -> Exhibit:
    """Return the comparison as the exhibit car11.fig11; the first run is the original."""
    rows = _add_ratios(rows)
    per_node = all(row["mib_per_s_per_node"] is not None for row in rows)
    unit = "mib_per_s_per_node" if per_node else "mib_per_s"
    pairs = list(zip(labels, rows, strict=True))
    rates = [row["mib_per_s_per_node"] if per_node else _divide_or_none(row["bytes_per_s"], MIB) for row in rows]
    bars = ResultTable.of("rates", f"run [text]; rate [{unit}]", zip(labels, rates, strict=True))
    cells = ((label, row["log_digest"][:12], *(row[name] for name in _RUN_VALUES)) for label, row in pairs)
    estimates = []
    for label, row in pairs:
        speed, writes = row["improvement"], row["fs_write_count"]
        estimates += [
            Estimate(f"io_time[{label}]", row["io_seconds"], "seconds", n=1, method=_ONE_RUN),
            Estimate(f"improvement[{label}]", speed, "factor", n=1, method=_ONE_RUN),
            Estimate(f"write_operations[{label}]", writes, "count", n=1, method="exact count"),
        ]
    return Exhibit(
        "car11.fig11",
        tables=(ResultTable.of("runs", _RUN_COLUMNS, cells),),
        charts=(Chart.of("bars", bars, "x=run y=rate", "Performance of each run"),),
        estimates=tuple(estimates),
        findings=(Finding(headline(rows, labels), name="speed"), *number_names(_find_differences(rows, labels))),
        caveats=CAVEATS,
    )


def comparison(rows: Sequence[Row], names: Sequence[str]) -> Answer:
    """Return the answer of a comparison: headline, the runs, all metrics side by side, and the changes."""
    labels = [f"{letter(i)} {short_name(name)}" for i, name in enumerate(names)]
    compared = replace(before_after(rows, labels), findings=())
    rows = _add_ratios(rows)
    facts, runs = [], []
    for i, (row, name) in enumerate(zip(rows, names, strict=True)):
        note = f"{name}: {row['program'] or 'unnamed program'}, {row['nprocs']:,} processes"
        facts.append(Fact(f"run_{i + 1}", letter(i), "", note=f"{note}, {format_time_ns(row['start_ns'])}"))
        same = ("job_id", "program", "nprocs", "start_ns", "run_seconds", "io_seconds", "read_bytes", "write_bytes")
        values = [row[key] for key in (*same, "bytes_per_s", "improvement", "partial")]
        runs.append(ComparedRun(name, *values))
    return Answer(
        question=f"What changed from {names[0]} to {', '.join(names[1:])}?",
        headline=headline(rows, labels),
        facts=(FactGroup("runs", "Runs", tuple(facts)),),
        exhibits=(Exhibit("compare.metrics", "Side by side", tables=(side_by_side(rows),)), compared),
        findings=number_names(_find_differences(rows, labels)),
        caveats=CAVEATS[:1],
        coverage=recorded_whole([bool(row["partial"]) for row in rows], "runs"),
        name="compare",
        result=CompareOutcome(tuple(runs)),
    )


def letter(place: int) -> str:
    """Return A, B, ... for the runs, numbers beyond Z."""
    return chr(ord("A") + place) if place < 26 else f"{place + 1}"


def short_name(name: str) -> str:
    """Return the end of a file name, where names of logs differ, without the extension."""
    stem = name.removesuffix(".gz").removesuffix(".darshan")
    return stem if len(stem) <= _NAME_CHARACTERS else f"…{stem[1 - _NAME_CHARACTERS :]}"


def _find_differences(rows: Sequence[Row], labels: Sequence[str]) -> Iterator[Finding]:
    """Yield findings: first on runs that cannot be compared, then on changes."""
    first = rows[0]
    for label, row in zip(labels, rows, strict=True):
        if row["partial"]:
            text = f"{label} is incomplete: Darshan ran out of memory. Its figures are lower bounds."
            yield Finding(text, name="partial_log")
    others = list(zip(labels[1:], rows[1:], strict=True))
    for label, row in others:
        if _is_different(first["moved_bytes"], row["moved_bytes"]):
            text = f"{label} moved a different amount of data than {labels[0]}. Compare speeds, not times."
            yield Finding(text, name="other_amount")
        if row["nprocs"] != first["nprocs"]:
            text = f"{label} ran on {row['nprocs']:,} processes, {labels[0]} on {first['nprocs']:,}."
            yield Finding(text, name="other_processes")
    for label, row in others:
        factor, what = row["improvement"], list(_describe_changes(row, first))
        if len(rows) == 2 and factor is not None and abs(factor - 1) > EQUAL and len(what) <= _REASONS:
            continue  # the headline says all of it
        speed = [] if factor is None else [f"{format_value(factor, 'factor')} as fast as {labels[0]}"]
        text = f"{label}: {'; '.join([*speed, *(what or ['same I/O pattern'])])}."
        yield Finding(text, name="difference")


def headline(rows: Sequence[Row], labels: Sequence[str]) -> str:
    """Return a sentence on the run that differs most from the first, by how much, and the main reasons."""
    rows = _add_ratios(rows)
    known = [(row["improvement"], i) for i, row in enumerate(rows) if row["improvement"] is not None and i]
    if not known:
        return f"Speeds cannot be compared with {labels[0]}, because a log has no data or no I/O time."
    factor, place = max(known, key=lambda pair: max(pair[0], 1 / pair[0]))
    first, other = labels[0], labels[place]
    amounts = f"{rows[place]['amount']} against {rows[0]['amount']}"
    programs = list(dict.fromkeys(row["program"] for row in rows if row["program"]))
    warning = ""
    if len(programs) > 1:
        warning = f"These are different programs ({', '.join(programs)}): compare times only of the same work. "
    if abs(factor - 1) <= EQUAL:
        return f"{warning}{other} is as fast as {first}: {amounts}."
    times = max(factor, 1 / factor)
    speed = (
        f"{f'{times:,.0f}' if times >= 10 else f'{times:.2g}'} times {'as fast as' if factor > 1 else 'slower than'}"
    )
    reasons = list(_describe_changes(rows[place], rows[0]))[:_REASONS]
    return warning + "; ".join([f"{other} is {speed} {first}: {amounts}", *reasons]) + "."


def _describe_changes(row: Row, first: Row) -> Iterator[str]:
    """Yield changes of the pattern, the usually most important ones first."""

    def share(before: float | None, after: float | None, what: str) -> Iterator[str]:
        if before is not None and after is not None and abs(before - after) > 0.25:
            yield f"{what.format(f'{after:.0%}')} (was {before:.0%})"

    yield from share(first["metadata_ratio"], row["metadata_ratio"], "metadata takes {} of the I/O time")
    if None not in (first["collective_count"], row["collective_count"]):
        ratios = first["collective_ratio"] or 0.0, row["collective_ratio"] or 0.0
        yield from share(*ratios, "{} of accesses are collective")
    for verb in ("write", "read"):
        before, after = (each[f"{verb}_size"] for each in (first, row))
        calls = first[f"fs_{verb}_count"], row[f"fs_{verb}_count"]
        if before and after and _is_different(before, after):
            yield f"a {verb} moves {format_bytes(after)} (was {format_bytes(before)})"
        elif _is_different(*calls):
            yield f"{verb}s at the file system went from {calls[0]:,} to {calls[1]:,}"
    if _is_different(first["file_count"], row["file_count"]):
        shared = [f" ({n:,} shared by all)" if (n := each["shared_file_count"]) else "" for each in (first, row)]
        counts = f"{first['file_count']:,}{shared[0]} to {row['file_count']:,}{shared[1]}"
        yield f"files went from {counts}"
    if row["interfaces"] != first["interfaces"]:
        yield f"interfaces went from {first['interface_words']} to {row['interface_words']}"
    yield from share(first["sequential_ratio"], row["sequential_ratio"], "{} of accesses are sequential")


def _is_different(before: float | None, after: float | None) -> bool:
    """Whether the change of an amount is worth a note."""
    return bool(before and after and not 0.8 <= after / before <= 1.25)


def side_by_side(rows: Sequence[Row]) -> ResultTable:
    """Return a table with a line per metric, a column per run, and its ratio to the first run."""
    rows = _add_ratios(rows)
    columns = [ResultColumn("metric", "", "text"), ResultColumn("run_1", letter(0), "text")]
    for i in range(1, len(rows)):
        name = letter(i)
        columns += [ResultColumn(f"run_{i + 1}", name, "text"), ResultColumn(f"ratio_{i + 1}", f"{name} : A", "text")]
    lines: list[tuple[Cell, ...]] = []
    for label, name, unit in _METRICS:
        values = [row[name] for row in rows]
        if any(values):
            line: list[Cell] = [label, format_value(values[0], unit)]
            for each in values[1:]:
                line += [format_value(each, unit), "" if unit == "text" else _format_ratio(each, values[0])]
            lines.append(tuple(line))
    return ResultTable("metrics", tuple(columns), tuple(lines))


def _format_ratio(value: float | None, first: float | None) -> str:
    """Format a ratio as ×28 or ÷28; = within 2%."""
    ratio = _divide_amounts(value, first)
    if ratio is None:
        return ""
    if abs(ratio - 1) < 0.02:
        return "="
    times = max(ratio, 1 / ratio)
    digits = f"{times:,.0f}" if times >= 10 else f"{times:.2g}" if times >= 1.1 else f"{times:.2f}"
    return f"×{digits}" if ratio > 1 else f"÷{digits}"


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


def _choose_change_to_compare(snapshot: Snapshot, _: Params) -> Cell:
    """Default of `logs`: digests of runs before and after the lasting change with most runs; None without a change."""
    return snapshot.scalar(_LASTING_CHANGE)


LOGS: Final = Param(
    "logs",
    "comma-separated log digests to compare, the original first; 8 characters are enough. Default: runs before "
    "and after a lasting change of a program's I/O pattern",
    choose=_choose_change_to_compare,
)


def run_study(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Yield the exhibit car11.fig11 for the chosen logs."""
    if not params["logs"]:
        raise DataUnavailable(
            "Nothing to compare: no program changed its I/O pattern for three or more runs.",
            hint="Specify the runs with logs=DIGEST,DIGEST.",
        )
    runs = instances_of(fetch_runs(source), source.facility, params)
    digests = [text.strip() for text in str(params["logs"]).split(",") if text.strip()]
    if len(digests) < 2:
        raise UsageError("logs: give at least two digests to compare.")
    known, places = [str(digest) for digest in runs.frame.text("log_digest").tolist()], []
    for digest in digests:
        fitting = [place for place, full in enumerate(known) if full.startswith(digest)]
        if len(fitting) != 1:
            raise UsageError(
                f"logs: {len(fitting) or 'no'} digests start with {digest!r}.",
                hint="Table job_io lists digests in column `log_digest`.",
            )
        places += fitting
    rows = runs.frame.take(np.array(places)).records()
    labels = [f"{letter(i)} {printable(program_of(row['exe'] or ''))}".strip() for i, row in enumerate(rows)]
    compared = before_after(rows, labels)
    yield replace(compared, caveats=(*compared.caveats, *runs.node_caveats), coverage=runs.node_coverage)


STUDY = Study("tuning", ("car11.fig11",), NEEDS, run_study, params=(LOGS, PROCESSES_PER_NODE))
