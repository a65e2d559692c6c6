"""Bandwidth of a run: compared with a benchmark's own figures, and with the limit of a compute node.

D is the time of the slowest process (car11 II-D). It equals wall-clock time only if all processes do I/O at the same
time. `bandwidth_caveats` finds the causes of a deviation in the log itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Frame, Text
from ioweather.core.units import GIB, MIB, NS, format_bytes, format_seconds

Verb = Literal["read", "write"]

# car11 Table I: "deviated by less than 3%".
TOLERANCE: Final = 0.03
# Faster than this per process, within the calls themselves, is memory, not storage. [ours]
CACHE_BYTES_PER_S: Final = 2 * GIB


def passed_seconds(row: Mapping[str, Any], verb: Verb) -> float | None:
    """Return the time from the first to the last read (or write) of a job.

    With one kind of I/O that is first open to last close, which includes the flush at the end; with both it is first to
    last operation.
    """
    other = "write" if verb == "read" else "read"
    alone = not row[f"{other}_bytes"] or row[f"{other}_bytes"] < TOLERANCE * row[f"{verb}_bytes"]
    first = row["first_open_ns"] if alone and row["first_open_ns"] else row[f"first_{verb}_ns"]
    last = row["last_close_ns"] if alone and row["last_close_ns"] else row[f"last_{verb}_ns"]
    return None if first is None or last is None else max(0, last - first) / NS


def bandwidth_caveats(row: Mapping[str, Any], verb: Verb) -> dict[str, str]:
    """Return reasons why the read (or write) bandwidth of this row of `job_io` differs from that by wall-clock time.

    The keys are ranks, cache, layer, spans, partial, metadata; the values sentences.
    """
    spent = row[f"d_{verb}_seconds"]
    moved = row[f"{verb}_bytes"]
    if not spent or not moved:
        return {}
    causes = {}
    passed = passed_seconds(row, verb)
    if passed is not None and passed > (1 + TOLERANCE) * spent:
        causes["ranks"] = (
            f"the processes did not {verb} at the same time: {format_seconds(passed)} from first to last operation, "
            f"but only {format_seconds(spent)} in the slowest process"
        )
    within = row[f"{verb}_seconds"]
    if within and moved / within > CACHE_BYTES_PER_S:
        rate = format_bytes(moved / within)
        causes["cache"] = f"{rate}/s per process within the calls is page cache speed, not storage speed"
    below = row["posix_io_seconds"]
    if below and row["io_seconds"] > (1 + TOLERANCE) * below:
        factor = row["io_seconds"] / below
        causes["layer"] = f"the time is MPI-IO time; with POSIX time, the rate is {factor:.1f} times as high"
    if row["d_s_definition"] == "per_file":
        causes["spans"] = (
            "the slowest rank is not recorded: time on shared files is measured from first open to last I/O"
        )
    if row["partial"]:
        causes["partial"] = "the record is incomplete: bytes and times are lower bounds"
    if row["read_bytes"] and row["write_bytes"] and (row["metadata_ratio"] or 0) > 0.5:
        causes["metadata"] = (
            "most of the time is metadata time, which is split between reads and writes by operation count"
        )
    return causes


# Benchmarks print whole seconds, and their processes start shortly before.
SLACK_NS: Final = 3 * NS


@dataclass(frozen=True)
class Measured:
    """One operation of a benchmark run over all iterations. `bytes_per_s` is total bytes over total time: the harmonic
    mean, since all iterations move the same bytes."""

    digest: str
    tool: str
    operation: str
    bytes_per_s: float
    iterations: int
    start_ns: int | None
    end_ns: int | None
    parameters: Mapping[str, Any]


def measured_operations(benchmarks: Frame) -> list[Measured]:
    """Return read and write bandwidths of benchmark outputs, without a tool's own summary ([max])."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in benchmarks.records():
        if row["operation"] in ("read", "write") and row["bytes_per_s"] and not row["phase"].endswith("[max]"):
            groups.setdefault((row["digest"], row["operation"]), []).append(row)
    return [
        Measured(
            digest=digest,
            tool=rows[0]["tool"],
            operation=operation,
            bytes_per_s=len(rows) / sum(1 / row["bytes_per_s"] for row in rows),
            iterations=len(rows),
            start_ns=min((row["start_ns"] for row in rows if row["start_ns"] is not None), default=None),
            end_ns=max((row["end_ns"] for row in rows if row["end_ns"] is not None), default=None),
            parameters=json.loads(rows[0]["parameters"] or "{}"),
        )
        for (digest, operation), rows in groups.items()
    ]


def find_log(applications: Frame, measured: Measured) -> tuple[int | None, str]:
    """Return the row of the log that a benchmark run wrote, and the state: matched, no_log or ambiguous.

    A log fits if it has the same number of processes, the same command line if both are known, and overlaps in time.
    Without times, the command line must be known and unique.
    """
    begin, start, tasks = applications.ints("start_ns"), measured.start_ns, measured.parameters.get("tasks")
    fits = np.ones(len(begin), np.bool_)
    if tasks is not None:
        fits &= applications.ints("nprocs") == int(tasks)
    if start is not None:
        end = measured.end_ns if measured.end_ns is not None else start
        fits &= (begin - SLACK_NS <= end) & (applications.ints("end_ns") + SLACK_NS >= start)
    commands, wanted = applications.text("exe"), normal(str(measured.parameters.get("command") or ""))
    rows = []
    for row in np.flatnonzero(fits).tolist():
        code = int(commands.codes[row])
        command = normal(commands.categories[code]) if code >= 0 else ""
        # Darshan cuts long command lines: one begins with the other.
        same = command.startswith(wanted) or wanted.startswith(command)
        if same if command and wanted else start is not None:
            rows.append(row)
    if not rows:
        return None, "no_log"
    if start is None:
        return (rows[0], "matched") if len(rows) == 1 else (None, "ambiguous")
    distances = sorted((abs(int(begin[row]) - start), row) for row in rows)
    # Two logs at the same distance in time are ambiguous.
    if len(distances) > 1 and distances[1][0] - distances[0][0] < NS // 10:
        return None, "ambiguous"
    return distances[0][1], "matched"


def normal(command: str) -> str:
    """Return a command line with single spaces, and the program without its folder."""
    words = command.split()
    return " ".join([words[0].rpartition("/")[2], *words[1:]]) if words else ""


def peak_of(mount: str | None, facility: Facility) -> float | None:
    """Return the nominal peak of the file system at `mount`; if it is not known, the highest of all file systems."""
    own = facility.filesystem_of_path(mount) if mount else None
    if own is not None and own.peak_bytes_per_s is not None:
        return own.peak_bytes_per_s
    return max((fs.peak_bytes_per_s for fs in facility.filesystems if fs.peak_bytes_per_s is not None), default=None)


def ceiling_mib_per_s_per_node(nodes: Floats, mounts: Text, facility: Facility) -> Floats:
    """Return the most that a compute node can move, by job size (car11 II-D): its own link, or its part of the file
    system, min(limit, peak / Ncn) in MiB/s/CN; NaN if the facility file has neither."""
    peaks = [peak_of(mount, facility) for mount in (*mounts.categories, None)]
    by_filesystem = np.array([np.nan if peak is None else peak for peak in peaks])[mounts.codes] / nodes
    limit = np.nan if facility.node_limit_bytes_per_s is None else facility.node_limit_bytes_per_s
    # fmin ignores NaN: one known bound is enough.
    return np.asarray(np.fmin(by_filesystem, limit) / MIB, np.float64)
