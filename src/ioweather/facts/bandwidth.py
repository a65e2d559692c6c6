"""Why a bandwidth derived from a log may differ from what a benchmark prints of the same run.

D is the time of the slowest process (car11 II-D), which is the time that passed only where all processes work at the
same time. The causes below are read off the log itself, so that a deviation is explained and not excused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ioweather.core.units import GIB, NS, format_bytes, format_seconds

Verb = Literal["read", "write"]

# car11 Table I: "deviated by less than 3%".
TOLERANCE: Final = 0.03
# Faster than this per process, within the calls themselves, is memory, not storage. [ours]
CACHE_BYTES_PER_S: Final = 2 * GIB


@dataclass(frozen=True)
class Cause:
    """`name` is one of ranks, cache, layer, spans, partial, metadata."""

    name: str
    text: str


def passed_seconds(row: Mapping[str, Any], verb: Verb) -> float | None:
    """Time from the first to the last moment of a job's reads (or writes). With one kind of I/O alone that is first
    open to last close, which holds the flush at the end too; with both it is first to last operation."""
    other = "write" if verb == "read" else "read"
    alone = not row[f"{other}_bytes"] or row[f"{other}_bytes"] < TOLERANCE * row[f"{verb}_bytes"]
    first = row["first_open_ns"] if alone and row["first_open_ns"] else row[f"first_{verb}_ns"]
    last = row["last_close_ns"] if alone and row["last_close_ns"] else row[f"last_{verb}_ns"]
    return None if first is None or last is None else max(0, last - first) / NS


def bandwidth_caveats(row: Mapping[str, Any], verb: Verb) -> tuple[Cause, ...]:
    """What in this row of `job_io` can set its read (or write) bandwidth apart from the time that passed."""
    spent = row[f"d_{verb}_seconds"]
    moved = row[f"{verb}_bytes"]
    if not spent or not moved:
        return ()
    causes = []
    passed = passed_seconds(row, verb)
    if passed is not None and passed > (1 + TOLERANCE) * spent:
        causes.append(
            Cause(
                "ranks",
                f"the processes did not {verb} at the same time: {format_seconds(passed)} passed from the first to the "
                f"last, the slowest process spent {format_seconds(spent)}",
            )
        )
    within = row[f"{verb}_seconds"]
    if within and moved / within > CACHE_BYTES_PER_S:
        causes.append(
            Cause(
                "cache", f"{format_bytes(moved / within)}/s per process within the calls is the page cache, not storage"
            )
        )
    below = row["posix_io_seconds"]
    if below and row["io_seconds"] > (1 + TOLERANCE) * below:
        factor = row["io_seconds"] / below
        causes.append(
            Cause(
                "layer",
                f"the time is that of MPI-IO; the POSIX calls below it alone would give {factor:.1f} times as much",
            )
        )
    if row["d_s_definition"] == "per_file":
        causes.append(Cause("spans", "no slowest rank is recorded: the time on shared files is first open to last I/O"))
    if row["partial"]:
        causes.append(Cause("partial", "not all was recorded or read: bytes and times are lower bounds"))
    if row["read_bytes"] and row["write_bytes"] and (row["metadata_ratio"] or 0) > 0.5:
        causes.append(
            Cause("metadata", "most of the time is metadata, divided between reading and writing by operations")
        )
    return tuple(causes)
