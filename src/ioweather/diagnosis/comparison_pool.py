"""The runs that a run is compared with: their patterns, changes of pattern, and the pool of a verdict.

Similar runs say what is usual. Runs of other groups say what a change of pattern costs and what a state of the system
does where the run's own group has seen too little of either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.units import DAY_NS, format_bytes
from ioweather.facts.job_metrics import file_records, quotient
from ioweather.facts.runs import SIMILAR_FACTOR, find_similar_runs, group_runs, program_names
from ioweather.job_io.outcomes import Change

# Measures of a run's pattern: name, label, and the factor from which two runs differ.
MEASURES: Final = (
    ("request_bytes", "mean request size", 1.5),
    ("file_count", "files", 1.5),
    ("io_rank_count", "ranks that move data", 1.5),
    ("moved_bytes", "bytes moved", 1.25),
    ("seek_share", "seeks per operation", 2.0),
    ("collective_share", "share of collective operations", 2.0),
    ("random_share", "share of out-of-order requests", 1.2),
    ("sync_share", "syncs per file", 1.5),
)
FILES, BYTES_MOVED = 1, 3  # columns
FACTORS: Final = np.log(np.array([factor for _, _, factor in MEASURES]))
# Length scale of each measure, in logarithms: changes that are farther from each other are of different kinds. [ours]
SCALES: Final = np.array([1.0, 0.7, 0.7, 0.7, 0.7, 0.35, 0.2, 0.35])
SAME_KIND: Final = 0.5
# Most frequent patterns that may be the usual one: ten thousand runs of a group have few distinct patterns.
_MOST_CANDIDATES: Final = 500


def find_patterns(job_io: Frame) -> Floats:
    """(run, measure) logarithms of MEASURES; of 1 + share for shares. Unknown values are those of the median run."""
    moved = job_io.floats("read_bytes") + job_io.floats("write_bytes")
    operations = np.maximum(job_io.floats("read_count") + job_io.floats("write_count"), 1.0)
    collective = job_io.floats("collective_count")
    mpi_operations = np.maximum(collective + job_io.floats("independent_count"), 1.0)
    files = np.maximum(job_io.floats("file_count"), 1.0)
    # Logs before 3.0 and streams do not record the order, and few tables the syncs: unknown counts as usual.
    out_of_order = 1.0 - np.nan_to_num(job_io.floats("sequential_ratio"), nan=1.0)
    syncs = np.nan_to_num(job_io.floats("sync_count")) if "sync_count" in job_io else np.zeros(job_io.rows)
    columns = [
        np.maximum(moved / operations, 1.0),
        files,
        np.maximum(job_io.floats("io_rank_count"), 1.0),
        np.maximum(moved, 1.0),
        1.0 + job_io.floats("seek_count") / operations,
        1.0 + collective / mpi_operations,
        1.0 + out_of_order,
        1.0 + syncs / files,
    ]
    patterns = np.log(np.stack(columns, axis=1))
    for column in patterns.T:  # a log as text lacks some counts
        unknown = np.isnan(column)
        if unknown.any():
            column[unknown] = 0.0 if unknown.all() else np.median(column[~unknown])
    return np.asarray(patterns)


def sync_counts(runs: Frame, files: Frame) -> Ints:
    """Calls of each run that force its data to the servers."""
    records = file_records(runs, files)
    return np.asarray(records.per_log(records.ints("sync_count"), records.posix | records.stdio), np.int64)


def match_pattern(patterns: Floats, usual: Floats) -> Bools:
    """Runs within the factors of the usual pattern."""
    return np.asarray((np.abs(patterns - usual) <= FACTORS + 1e-9).all(axis=1))


def usual_pattern(patterns: Floats) -> Floats:
    """The pattern that most runs match; of ties the first."""
    distinct, counts = np.unique(np.round(patterns, 6), axis=0, return_counts=True)
    candidates = distinct[np.argsort(-counts, kind="stable")[:_MOST_CANDIDATES]]
    support = [int(match_pattern(patterns, candidate).sum()) for candidate in candidates]
    return np.asarray(candidates[int(np.argmax(support))])


def list_changes(pattern: Floats, usual: Floats, columns: Sequence[int]) -> tuple[Change, ...]:
    """The changed measures of a run, in their units."""
    offsets = [1.0 if MEASURES[c][0].endswith("_share") else 0.0 for c in columns]
    return tuple(
        Change(MEASURES[c][0], float(np.exp(pattern[c])) - offset, float(np.exp(usual[c])) - offset)
        for c, offset in zip(columns, offsets, strict=True)
    )


def describe_changes(changes: Sequence[Change]) -> list[str]:
    """The changed measures in words, such as: mean request size 16 KiB, usually 1 MiB."""
    labels = {name: label for name, label, _ in MEASURES}

    def show(name: str, value: float) -> str:
        if name.endswith("_bytes"):
            return format_bytes(round(value))
        return f"{value:.2g}" if name.endswith("_share") else f"{value:,.0f}"

    return [
        f"{labels[each.name]} {show(each.name, each.value)}, usually {show(each.name, each.usual)}" for each in changes
    ]


@dataclass(frozen=True, eq=False)
class Changes:
    """Changes of pattern: which runs `changed`, and in which `columns`.

    `similarity` is a (run, run) kernel: 1 for the same change, towards 0 for different ones, 0 for unchanged runs.
    """

    changed: Bools
    columns: Bools
    similarity: Floats

    def count_similar(self, row: int) -> int:
        """Number of other runs with the same kind of change."""
        return int((self.similarity[row] >= SAME_KIND).sum()) - int(self.changed[row])


def find_changes(pattern: Floats, group: Ints, row: int) -> Changes:
    """Compare runs with the usual pattern of their group; run `row` does not enter it."""
    difference = np.zeros(pattern.shape)
    for number in np.unique(group).tolist():
        members = np.flatnonzero(group == number)
        known = members[members != row]
        difference[members] = pattern[members] - usual_pattern(pattern[known] if len(known) else pattern[members])
    # Bytes are not a change but growth, and as many more files as bytes belong to it.
    growth = difference[:, BYTES_MOVED].copy()
    difference[:, FILES] -= np.clip(difference[:, FILES], np.minimum(growth, 0.0), np.maximum(growth, 0.0))
    difference[:, BYTES_MOVED] = 0.0
    columns = np.abs(difference) > FACTORS + 1e-9
    changed = columns.any(axis=1)
    difference = np.where(changed[:, None], difference, 0.0)
    points = difference / SCALES
    length = (points**2).sum(axis=1)
    distance = np.maximum(length[:, None] + length[None] - 2.0 * points @ points.T, 0.0)
    both = changed[:, None] & changed[None]
    return Changes(changed, columns, np.where(both, np.exp(-0.5 * distance), 0.0))


# Similar runs in a pool, nearest in time; more would not sharpen the verdict.
MOST_SIMILAR: Final = 64
# Similar runs are searched in this many days around the run, and farther away only if these are too few.
REACH_DAYS: Final = (10, 45, None)
# With fewer similar runs no slowdown is stated.
LEAST_SIMILAR: Final = 3
# Maximum runs per day if there are others: an incident of one day is not the usual state. [ours]
_MOST_PER_DAY: Final = 16
# Maximum runs of other groups, nearest in time, and the smallest group with a usual time.
_MOST_OTHERS: Final = 200
_LEAST_GROUP: Final = 4
_NO_MOUNT, _UNKNOWN = -1, -2
# Logarithms of slowdowns in `conditions`.
SLOWNESS: Final = ("service", "queue", "contrast", "probe_data", "probe_targets", "probe_metadata")


@dataclass(frozen=True, eq=False)
class Load:
    """Amounts per run: done by the servers, requested by the run itself, and possible at most in that time."""

    amount: Floats
    own: Floats
    peak: Floats

    def take(self, rows: NDArray[np.generic]) -> Load:
        """The load of some runs."""
        return Load(self.amount[rows], self.own[rows], self.peak[rows])


@dataclass(frozen=True, eq=False)
class Pool:
    """Runs of a verdict, one row each. Group 0 is that of the run to judge.

    `pattern` has the logarithms of MEASURES. `split` is the logarithm of metadata over data time. Of the system:
    `coverage_ratio` is the sampled share of each run, `inside_ratio` the share of its sampling intervals with I/O
    between its first and last I/O, `slowness` are logarithms of slowdowns. Unknown values are NaN.
    """

    io_seconds: Floats
    group: Ints
    start_ns: Ints
    user: Ints
    pattern: Floats
    split: Floats
    coverage_ratio: Floats
    inside_ratio: Floats
    loads: Mapping[str, Load]
    slowness: Mapping[str, Floats]

    @property
    def rows(self) -> int:
        """Number of runs."""
        return len(self.io_seconds)

    @property
    def sampled(self) -> Bools:
        """Runs with samples of the system throughout."""
        known = np.isfinite(self.coverage_ratio)
        return np.asarray(known & np.isfinite(self.loads["bytes"].amount) if "bytes" in self.loads else known)

    def take(self, rows: NDArray[np.generic]) -> Pool:
        """The pool of some runs."""
        columns: dict[str, Any] = {
            name: each[rows] for name, each in vars(self).items() if isinstance(each, np.ndarray)
        }
        loads = {name: load.take(rows) for name, load in self.loads.items()}
        slowness = {name: column[rows] for name, column in self.slowness.items()}
        return replace(self, **columns, loads=loads, slowness=slowness)


def make_pool(job_io: Frame, system: Frame | None, group: Ints) -> Pool:
    """Pool of `job_io` rows; `system` is the state during the same runs, in the same order."""
    seconds, pattern = job_io.floats("io_seconds"), find_patterns(job_io)
    start, user = job_io.ints("start_ns"), job_io.ints("uid")
    metadata = job_io.floats("metadata_ratio")
    with np.errstate(divide="ignore"):
        split = np.where((metadata > 0) & (metadata < 1), np.log(metadata) - np.log1p(-metadata), np.nan)
    unknown = np.full(job_io.rows, np.nan)
    if system is None:
        return Pool(seconds, group, start, user, pattern, split, unknown, unknown, {}, {})
    own = {
        "bytes": job_io.floats("read_bytes") + job_io.floats("write_bytes"),
        "ops": job_io.floats("fs_read_count") + job_io.floats("fs_write_count"),
    }
    if "own_busiest" in system:
        own["busiest"] = system.floats("own_busiest")
    loads = {
        name: Load(system.floats(f"device_{name}"), amount, system.floats(f"peak_{name}"))
        for name, amount in own.items()
        if f"device_{name}" in system and np.isfinite(system.floats(f"device_{name}")).any()
    }
    slowness = {name: system.floats(name) for name in SLOWNESS if name in system}
    return Pool(
        io_seconds=seconds,
        group=group,
        start_ns=start,
        user=user,
        pattern=pattern,
        split=split,
        coverage_ratio=system.floats("coverage_ratio"),
        inside_ratio=quotient(system.floats("inside_seconds"), system.floats("d_d_seconds")),
        loads=loads,
        slowness={name: column for name, column in slowness.items() if np.isfinite(column).any()},
    )


def select_runs(runs: Frame, row: int) -> tuple[Ints, Ints]:
    """(rows, group of each) of the pool for run `row`, which comes first; group 0 are its similar runs."""
    start = runs.ints("start_ns")
    distance = np.abs(start - start[row])
    similar = find_similar_runs(runs, row)
    if len(similar) <= LEAST_SIMILAR:  # runs of its program with other bytes say what is usual for its size
        ((_, similar),) = find_peers(runs, np.array([row]))
    nearest = _nearest(start, similar[similar != row], row)
    rest = np.setdiff1d(np.arange(runs.rows), np.append(similar, row))
    rest = rest[np.argsort(distance[rest], kind="stable")[: 4 * _MOST_OTHERS]]
    others, group = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(rest):
        groups = group_runs(runs.take(rest), "similar")
        large = groups.sizes[groups.of_run] >= _LEAST_GROUP
        others, group = rest[large][:_MOST_OTHERS], groups.of_run[large][:_MOST_OTHERS] + 1
    rows = np.concatenate([[row], nearest, others]).astype(np.int64)
    return rows, np.concatenate([np.zeros(1 + len(nearest), np.int64), group])


def _nearest(start_ns: Ints, similar: Ints, row: int) -> Ints:
    """The similar runs nearest in time to run `row`; those within the limit per day come first."""
    similar = similar[np.argsort(np.abs(start_ns[similar] - start_ns[row]), kind="stable")]
    return similar[np.argsort(_exceeds_day_limit(start_ns[similar]), kind="stable")[:MOST_SIMILAR]]


def _exceeds_day_limit(start_ns: Ints) -> Bools:
    """Runs after the first `_MOST_PER_DAY` of their day, in the given order."""
    day = start_ns // DAY_NS
    order = np.argsort(day, kind="stable")
    first = np.searchsorted(day[order], day[order], side="left")
    rank = np.empty(len(day), np.int64)
    rank[order] = np.arange(len(day)) - first
    return np.asarray(rank >= _MOST_PER_DAY)


def find_peers(runs: Frame, rows: Ints, *more_keys: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each row with the runs of the same user, processes, program and further keys that have an I/O time.

    No runs for a row that has no I/O time itself.
    """
    seconds = runs.floats("io_seconds")
    _, program = np.unique(np.array(program_names(runs)), return_inverse=True)
    keys = np.stack([runs.ints("uid"), runs.ints("nprocs"), program, *more_keys], axis=1)
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = np.where(np.isfinite(seconds) & (seconds > 0), np.reshape(group, -1), -1)
    order = np.argsort(group, kind="stable")
    first, last = (np.searchsorted(group[order], group[rows], side=side) for side in ("left", "right"))
    for row, begin, end in zip(rows.tolist(), first.tolist(), last.tolist(), strict=True):
        yield row, order[begin:end] if group[row] >= 0 else order[:0]


def slowdowns(runs: Frame, rows: Ints, facility: Facility) -> tuple[Floats, Ints]:
    """(I/O time over the median of the similar runs, number of similar runs with a time) for the runs in `rows`.

    NaN with fewer than LEAST_SIMILAR. Similar runs are those of a verdict: same user, program, processes and file
    system, bytes within 25%, nearest in time.
    """
    seconds, moved = runs.floats("io_seconds"), runs.floats("read_bytes") + runs.floats("write_bytes")
    start, filesystem = runs.ints("start_ns"), _filesystems(runs, facility)
    day = start // DAY_NS
    ratio, count = np.full(len(rows), np.nan), np.zeros(len(rows), np.int64)
    for index, (row, peers) in enumerate(find_peers(runs, rows)):
        within = (moved[peers] <= moved[row] * SIMILAR_FACTOR) & (moved[peers] * SIMILAR_FACTOR >= moved[row])
        if filesystem[row] >= 0:
            within &= (filesystem[peers] == filesystem[row]) | (filesystem[peers] == _NO_MOUNT)
        similar = peers[within & (peers != row)]
        distance = np.abs(day[similar] - day[row])
        reach = next((days for days in REACH_DAYS[:-1] if (distance <= days).sum() >= MOST_SIMILAR), None)
        similar = _nearest(start, similar if reach is None else similar[distance <= reach], row)
        count[index] = len(similar)
        if len(similar) >= LEAST_SIMILAR:
            ratio[index] = seconds[row] / np.median(seconds[similar])
    return ratio, count


def _filesystems(runs: Frame, facility: Facility) -> Ints:
    """Code of the file system of each run's main mount; negative if unknown."""
    mounts = runs.text("main_mount")
    found = [facility.filesystem_of_path(mount) if mount else None for mount in mounts.categories]
    known = list(dict.fromkeys(each.name for each in found if each is not None))
    codes = [_UNKNOWN if each is None else known.index(each.name) for each in found]
    return np.array([*codes, _NO_MOUNT], np.int64)[mounts.codes]
