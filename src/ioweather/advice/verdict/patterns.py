"""What a run did, apart from how long it took: a few measures, the group's usual ones, and where a run differs."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.frames import Frame
from ioweather.core.run_outcomes import Change
from ioweather.core.units import format_bytes
from ioweather.core.words import names_of
from ioweather.derive.jobs.file_records import file_records

# Name, what a person reads, and from which factor on two runs differ.
MEASURES: Final = (
    ("request_bytes", "mean request size", 1.5),
    ("file_count", "files", 1.5),
    ("io_rank_count", "ranks that move data", 1.5),
    ("moved_bytes", "bytes moved", 1.25),
    ("seek_share", "seeks per operation", 2.0),
    ("collective_share", "share of collective operations", 2.0),
    ("random_share", "share of requests out of order", 1.2),
    ("sync_share", "syncs per file", 1.5),
)
BYTES_MOVED: Final = [name for name, _, _ in MEASURES].index("moved_bytes")
FACTORS: Final = np.log(np.array([factor for _, _, factor in MEASURES]))
# Over this distance changes stop being of one kind (logarithms, as the measures). [ours]
SCALES: Final = np.array([1.0, 0.7, 0.7, 0.7, 0.7, 0.35, 0.2, 0.35])
# Which way a measure costs time: small requests, many files, few ranks, more bytes, more seeks, fewer collectives, out
# of order, more syncs.
COSTS: Final = np.array([-1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0])


def patterns_of(job_io: Frame) -> Floats:
    """One row per run, one column per measure of MEASURES, in logarithms (of 1 + share for shares)."""
    column = {
        name: job_io.floats(name)
        for name in names_of("""
        read_bytes write_bytes read_count write_count file_count io_rank_count seek_count collective_count
        independent_count sequential_ratio
    """)
    }
    moved = column["read_bytes"] + column["write_bytes"]
    operations = np.maximum(column["read_count"] + column["write_count"], 1.0)
    mpi = np.maximum(column["collective_count"] + column["independent_count"], 1.0)
    files = np.maximum(column["file_count"], 1.0)
    # Logs of before 3.0 and streams do not tell the order, and few tables the syncs: not known is as usual.
    out_of_order = 1.0 - np.nan_to_num(column["sequential_ratio"], nan=1.0)
    syncs = np.nan_to_num(job_io.floats("sync_count")) if "sync_count" in job_io else np.zeros(job_io.rows)
    table = np.stack([
        np.maximum(moved / operations, 1.0), files,
        np.maximum(column["io_rank_count"], 1.0), np.maximum(moved, 1.0), 1.0 + column["seek_count"] / operations,
        1.0 + column["collective_count"] / mpi, 1.0 + out_of_order, 1.0 + syncs / files,
    ], axis=1)  # fmt: skip
    return _as_usual(np.asarray(np.log(table)))


def _as_usual(patterns: Floats) -> Floats:
    """What text of a log does not tell is taken to be as with the other runs."""
    unknown = np.isnan(patterns)
    if not unknown.any():
        return patterns
    usual = [
        np.median(column[known]) if known.any() else 0.0 for column, known in zip(patterns.T, ~unknown.T, strict=True)
    ]
    return np.where(unknown, np.array(usual), patterns)


def sync_counts(runs: Frame, files: Frame) -> Ints:
    """Calls of each run that force its data to the servers."""
    records = file_records(runs, files)
    return np.asarray(records.per_log(records.ints("sync_count"), records.posix | records.stdio), np.int64)


def alike_patterns(patterns: Floats, usual: Floats) -> Bools:
    """Runs within the factors of the usual pattern."""
    return np.asarray((np.abs(patterns - usual) <= FACTORS + 1e-9).all(axis=1))


def usual_pattern(patterns: Floats) -> Floats:
    """That of the run which most others are alike to; of ties the first."""
    distinct, counts = np.unique(np.round(patterns, 6), axis=0, return_counts=True)
    # Ten thousand runs of one group have few distinct patterns; of more than 500 the most frequent are candidates.
    candidates = distinct[np.argsort(-counts, kind="stable")[:500]]
    support = [int(alike_patterns(patterns, candidate).sum()) for candidate in candidates]
    return np.asarray(candidates[int(np.argmax(support))])


def differences(run: Floats, usual: Floats, columns: tuple[int, ...]) -> tuple[Change, ...]:
    """What changed, in the units of the measures."""
    offsets = [1.0 if MEASURES[c][0].endswith("_share") else 0.0 for c in columns]
    return tuple(
        Change(MEASURES[c][0], float(np.exp(run[c])) - offset, float(np.exp(usual[c])) - offset)
        for c, offset in zip(columns, offsets, strict=True)
    )


def difference_words(changes: tuple[Change, ...]) -> list[str]:
    """The same in words: 'mean request size 16 KiB, usually 1 MiB'."""
    labels = {name: label for name, label, _ in MEASURES}
    said = []
    for change in changes:
        if change.name.endswith("_bytes"):
            here, there = format_bytes(round(change.value)), format_bytes(round(change.usual))
        elif change.name.endswith("_share"):
            here, there = f"{change.value:.2g}", f"{change.usual:.2g}"
        else:
            here, there = f"{change.value:,.0f}", f"{change.usual:,.0f}"
        said.append(f"{labels[change.name]} {here}, usually {there}")
    return said
