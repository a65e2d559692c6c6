"""Two or more runs compared, before and after tuning (car11 VI)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import Inventory, Param, Params, Study, StudyData
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, ResultColumn, ResultTable
from ioweather.core.units import MIB, format_bytes, format_seconds, format_value
from ioweather.derive.signatures import program_of
from ioweather.studies.intervals import plain
from ioweather.studies.runs import NEEDS, PROCESSES_PER_NODE, instances_of

_ONE_RUN: Final = "one run: no interval"
# The most repeated program at one size; of its runs the slowest and the fastest by bandwidth.
_REPEATED: Final = """
    WITH runs AS (
        SELECT a.exe AS exe, a.nprocs AS nprocs, j.log_digest AS log, j.bytes_per_s AS rate
        FROM job_io j JOIN applications a ON a.log_digest = j.log_digest
        WHERE j.bytes_per_s IS NOT NULL AND a.exe IS NOT NULL
    ), most AS (
        SELECT exe, nprocs FROM runs GROUP BY exe, nprocs HAVING count(*) > 1
        ORDER BY count(*) DESC, max(rate) / min(rate) DESC, exe, nprocs LIMIT 1
    )
    SELECT arg_min(log, rate) || ',' || arg_max(log, rate)
    FROM runs JOIN most ON runs.exe = most.exe AND runs.nprocs = most.nprocs
"""


def _slowest_and_fastest(inventory: Inventory) -> Cell:
    return inventory.scalar(_REPEATED)


LOGS: Final = Param(
    "logs",
    "comma-separated digests of the logs to compare, the original first (8 characters are enough); else the slowest "
    "and the fastest run of the program that ran most often at one size",
    choose=_slowest_and_fastest,
)


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    if not params["logs"]:
        raise DataUnavailable(
            "No program ran twice at the same size, so there is nothing to compare by itself.",
            hint="Name the runs with logs=DIGEST,DIGEST.",
        )
    runs = instances_of(data, facility, params)
    rows = _chosen(runs.frame, str(params["logs"]))
    labels = _labels(rows)
    comparison = _comparison(rows, labels)
    unit = "mib_per_s_per_node" if all(row["mib_per_s_per_node"] is not None for row in rows) else "mib_per_s"
    bars = ResultTable(
        "rates",
        (ResultColumn("run", "", "text"), ResultColumn("rate", "", unit)),
        tuple((label, _rate(row, unit)) for label, row in zip(labels, rows, strict=True)),
    )
    yield Exhibit(
        "car11.fig11", "Before and after tuning", tables=(comparison,),
        charts=(Chart("bars", bars, {"x": "run", "y": "rate"}, "Performance of each run"),),
        estimates=tuple(_estimates(rows, labels)), findings=tuple(_findings(rows, labels)),
        caveats=(
            "One run each: what else the storage did at the time is in the difference too.",
            "Operations of the file system are POSIX calls; those of the application MPI-IO calls where it made any.",
            *runs.node_caveats,
        ),
        coverage=runs.node_coverage,
    )  # fmt: skip


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


def _labels(rows: list[dict[str, Any]]) -> list[str]:
    """Short, and different from each other."""
    return [f"{chr(ord('A') + i)} {program_of(row['exe'] or '')}".strip() for i, row in enumerate(rows)]


def _rate(row: Mapping[str, Any], unit: str) -> float | None:
    if unit == "mib_per_s_per_node":
        return float(row[unit])
    return None if row["bytes_per_s"] is None else row["bytes_per_s"] / MIB


def _improvement(row: Mapping[str, Any], first: Mapping[str, Any]) -> float | None:
    """How many times the bandwidth of the first run: the ratio of I/O times where both moved the same bytes."""
    if not row["bytes_per_s"] or not first["bytes_per_s"]:
        return None
    return float(row["bytes_per_s"] / first["bytes_per_s"])


def _mean_size(row: Mapping[str, Any], layer: str, verb: str) -> float | None:
    count = row[f"{layer}{verb}_count"]
    return row[f"{layer}{verb}_bytes"] / count if count else None


def _comparison(rows: list[dict[str, Any]], labels: list[str]) -> ResultTable:
    columns = (
        ResultColumn("run", "", "text"), ResultColumn("log", "", "text"), ResultColumn("processes", "", "count"),
        ResultColumn("nodes", "", "count"), ResultColumn("interfaces", "", "text"), ResultColumn("files", "", "count"),
        ResultColumn("moved", "", "bytes"), ResultColumn("io_seconds", "I/O time", "seconds"),
        ResultColumn("rate", "", "bytes_per_s"), ResultColumn("improvement", "", "factor"),
        ResultColumn("per_node", "per node", "mib_per_s_per_node"), ResultColumn("metadata_ratio", "metadata", "ratio"),
        ResultColumn("write_size", "write of the application, mean", "bytes"),
        ResultColumn("fs_write_size", "write of the file system, mean", "bytes"),
        ResultColumn("fs_writes", "writes of the file system", "count"),
        ResultColumn("fs_reads", "reads of the file system", "count"),
    )  # fmt: skip
    return ResultTable(
        "runs",
        columns,
        tuple(
            (
                label, row["log_digest"][:12], row["nprocs"], row["node_count"], row["interfaces"], row["file_count"],
                row["moved_bytes"], row["io_seconds"], row["bytes_per_s"], _improvement(row, rows[0]),
                row["mib_per_s_per_node"], row["metadata_ratio"], _mean_size(row, "", "write"),
                _mean_size(row, "fs_", "write"), row["fs_write_count"], row["fs_read_count"],
            )
            for label, row in zip(labels, rows, strict=True)
        ),
    )  # fmt: skip


def _estimates(rows: list[dict[str, Any]], labels: list[str]) -> Iterator[Estimate]:
    for label, row in zip(labels, rows, strict=True):
        yield plain(f"io_time[{label}]", row["io_seconds"], "seconds", n=1, method=_ONE_RUN)
        yield plain(f"improvement[{label}]", _improvement(row, rows[0]), "factor", n=1, method=_ONE_RUN)
        yield plain(f"write_operations[{label}]", row["fs_write_count"], "count", n=1, method="exact count")


def _findings(rows: list[dict[str, Any]], labels: list[str]) -> Iterator[Finding]:
    first = rows[0]
    for label, row in zip(labels[1:], rows[1:], strict=True):
        factor = _improvement(row, first)
        if factor is None:
            continue
        faster = format_value(factor, "factor")
        yield Finding(f"{label} is {faster} as fast as {labels[0]}: {_amount(row)} against {_amount(first)}.")
        yield from _changes(label, row, first)


def _amount(row: Mapping[str, Any]) -> str:
    return f"{format_bytes(row['moved_bytes'])} in {format_seconds(row['io_seconds'])}"


def _changes(label: str, row: Mapping[str, Any], first: Mapping[str, Any]) -> Iterator[Finding]:
    """What else changed, by at least a quarter."""
    before, after = first["metadata_ratio"], row["metadata_ratio"]
    if before is not None and after is not None and abs(before - after) > 0.25:
        yield Finding(f"{label}: metadata takes {after:.0%} of the I/O time, before {before:.0%}.")
    for name, words in (("fs_write_count", "writes"), ("fs_read_count", "reads"), ("file_count", "files")):
        old, new = first[name], row[name]
        if old and new and not 0.8 <= new / old <= 1.25:
            yield Finding(f"{label}: {words} at the file system went from {old:,} to {new:,}.")
    if row["interfaces"] != first["interfaces"]:
        yield Finding(f"{label} uses {row['interfaces'] or 'no interface'}, before {first['interfaces'] or 'none'}.")
    sizes = _mean_size(first, "", "write"), _mean_size(row, "", "write")
    if sizes[0] and sizes[1] and not 0.8 <= sizes[1] / sizes[0] <= 1.25:
        yield Finding(f"{label} writes {format_bytes(sizes[1])} at a time, before {format_bytes(sizes[0])}.")


STUDY = Study(name="tuning", exhibits=("car11.fig11",), needs=NEEDS, run=run, params=(LOGS, PROCESSES_PER_NODE))
