"""What a run did, apart from how long it took: a few measures, the group's usual ones, and where a run differs."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.frames import Frame
from ioweather.core.outcomes import Change
from ioweather.core.units import format_bytes

# Name, what a person reads, and from which factor on two runs differ.
MEASURES: Final = (
    ("request_bytes", "mean request size", 1.5),
    ("file_count", "files", 1.5),
    ("io_rank_count", "ranks that move data", 1.5),
    ("moved_bytes", "bytes moved", 1.25),
    ("seek_share", "seeks per operation", 2.0),
    ("collective_share", "share of collective operations", 2.0),
)
# The columns of a run in which nothing but the number of files differs.
FILES_ALONE: Final = (1,)
# Which way a measure costs time: small requests, many files, few ranks, more bytes, more seeks, fewer collectives.
_COSTS: Final = np.array([-1.0, 1.0, -1.0, 1.0, 1.0, -1.0])
_FACTORS: Final = np.log(np.array([factor for _, _, factor in MEASURES]))


def patterns_of(job_io: Frame) -> Floats:
    """One row per run, one column per measure of MEASURES, in logarithms (of 1 + share for shares)."""
    column = {name: job_io.floats(name) for name in (
        "read_bytes", "write_bytes", "read_count", "write_count", "file_count", "io_rank_count", "seek_count",
        "collective_count", "independent_count",
    )}  # fmt: skip
    moved = column["read_bytes"] + column["write_bytes"]
    operations = np.maximum(column["read_count"] + column["write_count"], 1.0)
    mpi = np.maximum(column["collective_count"] + column["independent_count"], 1.0)
    table = np.stack([
        np.maximum(moved / operations, 1.0), np.maximum(column["file_count"], 1.0),
        np.maximum(column["io_rank_count"], 1.0), np.maximum(moved, 1.0), 1.0 + column["seek_count"] / operations,
        1.0 + column["collective_count"] / mpi,
    ], axis=1)  # fmt: skip
    return np.asarray(np.log(table))


def alike_patterns(patterns: Floats, usual: Floats, *, each: bool = False) -> Bools:
    """Runs within the factors of the usual pattern; `each`: column by column."""
    factors = _FACTORS[: patterns.shape[1]] if patterns.shape[1] <= len(_FACTORS) else np.full(patterns.shape[1], 0.4)
    close = np.abs(patterns - usual) <= factors + 1e-9
    return np.asarray(close if each else close.all(axis=1))


def costs_more(run: Floats, usual: Floats, columns: tuple[int, ...]) -> bool:
    """Whether one of the measures that differ does so in the way that costs time."""
    return any((run[c] - usual[c]) * _COSTS[c] > 0 for c in columns if c < len(_COSTS))


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
