"""The runs that a verdict is made from: the run, those similar to it, and groups of other programs.

Similar runs say what is usual. Runs of other groups say what a change of the pattern costs and what a state of the
system does where the run's own group has seen too little of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.run_outcomes import Change
from ioweather.core.units import DAY_NS, format_bytes
from ioweather.core.words import names_of
from ioweather.facts.file_records import file_records, quotient
from ioweather.facts.runs import SIMILAR_FACTOR, Groups, find_similar_runs, group_runs, program_names

# The size of requests after the change matters too: from 16 MiB to 4 MiB is not as from 64 KiB to 16 KiB. In the scale
# of logarithms of sizes. [ours]
_ABSOLUTE_SCALE: Final = 2.8
_REQUEST: Final = 0
_SAME_KIND: Final = 0.5


@dataclass(frozen=True, eq=False)
class Changes:
    """`changed` runs differ from their group's usual pattern in `columns`. `alike` is 1 for runs that changed the same,
    falling to 0 for those that did something else, and 0 for runs that changed nothing; `steps` is how far each measure
    went in the way that costs time."""

    changed: Bools
    columns: Bools
    alike: Floats
    steps: Floats

    def seen(self, row: int) -> int:
        """How many other runs there are with the same kind of change."""
        return int((self.alike[row] >= _SAME_KIND).sum()) - int(self.changed[row])


def find_changes(pattern: Floats, group: Ints, row: int) -> Changes:
    """The usual pattern of group 0 is that of the runs but `row`."""
    difference = np.zeros(pattern.shape)
    for number in np.unique(group).tolist():
        members = np.flatnonzero(group == number)
        known = members[members != row]
        difference[members] = pattern[members] - usual_pattern(pattern[known] if len(known) else pattern[members])
    columns = np.abs(difference) > FACTORS + 1e-9
    changed = columns.any(axis=1)
    difference = np.where(changed[:, None], difference, 0.0)
    places = np.column_stack([difference / SCALES, pattern[:, _REQUEST] / _ABSOLUTE_SCALE])
    length = (places**2).sum(axis=1)
    distance = np.maximum(length[:, None] + length[None] - 2.0 * places @ places.T, 0.0)
    both = changed[:, None] & changed[None]
    return Changes(changed, columns, np.where(both, np.exp(-0.5 * distance), 0.0), np.maximum(difference * COSTS, 0.0))


BYTES: Final = "others_bytes_per_s"
TARGETS: Final = "others_bytes_per_s_on_targets"
OPERATIONS: Final = "others_ops_per_s"
# How slow it was for others, by the columns of what was found about the runs.
SLOWDOWNS: Final = ("probe_data", "probe_targets", "probe_metadata", "neighbours")
# Runs of one pattern that make a usual time.
_LEAST_RUNS: Final = 8


@dataclass(frozen=True, eq=False)
class GroupRuns:
    """Runs of a group. `states` are measures of the load during each (higher is busier), by name; `slowdowns` are
    logarithms of how much longer others took than they usually do, NaN where nobody knows."""

    io_seconds: Floats
    states: Mapping[str, Floats]
    slowdowns: Mapping[str, Floats] = field(default_factory=dict)


def group_states(job_io: Frame, system: Frame | None) -> GroupRuns:
    """`job_io` rows and what the system did meanwhile, of the same runs, in one order.

    Where the targets of all runs are known, others' bytes are those on the busiest of them.

    Others' bytes are those of all whole steps with the run's I/O, less its own, which all lie in them; trimmed at the
    ends they would not be: where samples are coarse, a run's bytes are not evenly spread over its first step.
    Operations of servers are not the run's calls one for one, so its own are taken off only in the mean.
    """
    if system is None:
        return GroupRuns(job_io.floats("io_seconds"), {})
    during, inside = system.floats("d_d_seconds"), system.floats("inside_seconds")
    moved = system.floats("others_io_high_read_bytes") + system.floats("others_io_high_write_bytes")
    states = {BYTES: quotient(moved, during)}
    if "target_bytes_per_s" in system:
        targets = system.floats("target_bytes_per_s")
        if np.isfinite(targets[np.isfinite(states[BYTES])]).all():
            states = {TARGETS: targets}
    operations = system.floats("psid_read_ops_count") + system.floats("psid_write_ops_count")
    if np.isfinite(operations).any():
        own = job_io.floats("fs_read_count") + job_io.floats("fs_write_count")
        states[OPERATIONS] = quotient(operations - own, inside)
    slowdowns = {name: system.floats(name) for name in SLOWDOWNS if name in system}
    return GroupRuns(job_io.floats("io_seconds"), states, slowdowns)


def run_slowdowns(job_io: Frame, groups: Groups, least: int = _LEAST_RUNS) -> Floats:
    """Logarithm of each run's I/O time over the median of its group; NaN for runs with another pattern than their
    group's, and for those with fewer than `least` like them."""
    seconds, patterns = job_io.floats("io_seconds"), patterns_of(job_io)
    found = np.full(job_io.rows, np.nan)
    for group in np.flatnonzero(groups.sizes >= least).tolist():
        rows = groups.members(group)
        rows = rows[np.isfinite(seconds[rows]) & (seconds[rows] > 0)]
        rows = rows[alike_patterns(patterns[rows], usual_pattern(patterns[rows]))] if len(rows) else rows
        if len(rows) >= least:
            found[rows] = np.log(seconds[rows] / np.median(seconds[rows]))
    return found


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


# Similar runs to compare with: those nearest in time. More would not sharpen the verdict.
MOST_SIMILAR: Final = 64
# Similar runs are looked for in so many days around the run; farther away only where that gives too few.
REACH_DAYS: Final = (10, 45, None)
# With fewer similar runs there is no slowdown to state.
LEAST_SIMILAR: Final = 3
_NO_MOUNT: Final = -1
_UNKNOWN: Final = -2
# Of one day at most so many, where there are others: an incident that lasts a day is not what is usual. [ours]
_MOST_OF_DAY: Final = 16
# Of runs of other groups the nearest in time; a group of fewer runs has no usual time.
MOST_OTHERS: Final = 200
LEAST_OF_GROUP: Final = 4
# Logarithms of how slow it was, by the columns of what was found about the runs.
SLOWNESS: Final = ("service", "contrast", "probe_data", "probe_targets", "probe_metadata", "neighbours")


@dataclass(frozen=True, eq=False)
class Load:
    """What the servers did during each run, what of it the run asked for by its own count, and the most they could have
    done in that time. Amounts of one kind."""

    amount: Floats
    own: Floats
    peak: Floats

    def take(self, rows: NDArray[np.generic]) -> Load:
        return Load(self.amount[rows], self.own[rows], self.peak[rows])


@dataclass(frozen=True, eq=False)
class Pool:
    """One row per run. Group 0 is that of the run to be judged. `slowness` are logarithms of how much longer something
    took than it usually does, NaN where nobody knows. `coverage_ratio` is how much of each run was monitored,
    `inside_ratio` how much of its sampling intervals with I/O lies between its first and its last I/O; `split` the
    logarithm of its time in metadata over that in data, NaN where it has no such."""

    io_seconds: Floats
    group: Ints
    pattern: Floats
    loads: Mapping[str, Load] = field(default_factory=dict)
    slowness: Mapping[str, Floats] = field(default_factory=dict)
    coverage_ratio: Floats = field(default_factory=lambda: np.zeros(0))
    inside_ratio: Floats = field(default_factory=lambda: np.zeros(0))
    split: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def rows(self) -> int:
        return len(self.io_seconds)

    @property
    def sampled(self) -> Bools:
        """Runs of which the system was seen throughout."""
        if not len(self.coverage_ratio):
            return np.zeros(self.rows, np.bool_)
        known = np.isfinite(self.coverage_ratio)
        if "bytes" in self.loads:
            known = known & np.isfinite(self.loads["bytes"].amount)
        return np.asarray(known)

    def take(self, rows: NDArray[np.generic]) -> Pool:
        return Pool(
            self.io_seconds[rows], self.group[rows], self.pattern[rows],
            {name: load.take(rows) for name, load in self.loads.items()},
            {name: column[rows] for name, column in self.slowness.items()},
            *(each[rows] if len(each) else each for each in (self.coverage_ratio, self.inside_ratio, self.split)),
        )  # fmt: skip


def compared_rows(runs: Frame, row: int) -> tuple[Ints, Ints]:
    """Rows to compare run `row` with, itself the first, and the group of each: 0 are those similar to it, the rest are
    groups of other programs."""
    start = runs.ints("start_ns")
    away = np.abs(start - start[row])
    similar = find_similar_runs(runs, row)
    similar = _nearest(start, similar[similar != row], row)
    rest = np.setdiff1d(np.arange(runs.rows), np.append(find_similar_runs(runs, row), row))
    rest = rest[np.argsort(away[rest], kind="stable")[: 4 * MOST_OTHERS]]
    chosen, group = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(rest):
        groups = group_runs(runs.take(rest), "similar")
        large = groups.sizes[groups.of_run] >= LEAST_OF_GROUP
        chosen, group = rest[large][:MOST_OTHERS], groups.of_run[large][:MOST_OTHERS] + 1
    rows = np.concatenate([[row], similar, chosen]).astype(np.int64)
    return rows, np.concatenate([np.zeros(1 + len(similar), np.int64), group])


def _nearest(start_ns: Ints, similar: Ints, row: int) -> Ints:
    """Of the similar runs the nearest in time to run `row`, the nearest first within the limit per day."""
    similar = similar[np.argsort(np.abs(start_ns[similar] - start_ns[row]), kind="stable")]
    return similar[np.argsort(_beyond_day(start_ns[similar]), kind="stable")[:MOST_SIMILAR]]


def slowdowns(runs: Frame, rows: Ints, facility: Facility) -> tuple[Floats, Ints]:
    """I/O time of the runs in `rows` over the median of their similar runs, and how many of these have a time; NaN
    where fewer than LEAST_SIMILAR have. Similar runs are those that a verdict compares with: of the same user, program,
    processes and file system, bytes within 25%, the nearest in time."""
    seconds, moved = runs.floats("io_seconds"), runs.floats("read_bytes") + runs.floats("write_bytes")
    start, place = runs.ints("start_ns"), _filesystems(runs, facility)
    day = start // DAY_NS
    _, program = np.unique(np.array(program_names(runs)), return_inverse=True)
    _, group = np.unique(
        np.stack([runs.ints("uid"), runs.ints("nprocs"), program], axis=1), axis=0, return_inverse=True
    )
    group = np.where(np.isfinite(seconds) & (seconds > 0), np.reshape(group, -1), -1)
    order = np.argsort(group, kind="stable")
    first, last = (np.searchsorted(group[order], group[rows], side=side) for side in ("left", "right"))
    ratio, count = np.full(len(rows), np.nan), np.zeros(len(rows), np.int64)
    for at, row in enumerate(rows.tolist()):
        near = order[first[at] : last[at]] if group[row] >= 0 else order[:0]
        within = (moved[near] <= moved[row] * SIMILAR_FACTOR) & (moved[near] * SIMILAR_FACTOR >= moved[row])
        if place[row] >= 0:
            within &= (place[near] == place[row]) | (place[near] == _NO_MOUNT)
        near = near[within & (near != row)]
        away = np.abs(day[near] - day[row])
        reach = next((days for days in REACH_DAYS[:-1] if (away <= days).sum() >= MOST_SIMILAR), None)
        near = _nearest(start, near if reach is None else near[away <= reach], row)
        count[at] = len(near)
        if len(near) >= LEAST_SIMILAR:
            ratio[at] = seconds[row] / np.median(seconds[near])
    return ratio, count


def _filesystems(runs: Frame, facility: Facility) -> Ints:
    """Number of the file system of each run's main mount; negative where it is not known."""
    mounts = runs.text("main_mount")
    found = [facility.filesystem_of_path(mount) if mount else None for mount in mounts.categories]
    known = list(dict.fromkeys(each.name for each in found if each is not None))
    codes = [_UNKNOWN if each is None else known.index(each.name) for each in found]
    return np.array([*codes, _NO_MOUNT], np.int64)[mounts.codes]


def _beyond_day(start_ns: Ints) -> Bools:
    """Of runs in order: whether so many of the same day come before that it has enough."""
    day = start_ns // DAY_NS
    order = np.argsort(day, kind="stable")
    first = np.searchsorted(day[order], day[order], side="left")
    place = np.empty(len(day), np.int64)
    place[order] = np.arange(len(day)) - first
    return np.asarray(place >= _MOST_OF_DAY)


def pool_of(job_io: Frame, system: Frame | None, group: Ints) -> Pool:
    """`job_io` rows, and what is known of the system meanwhile, of the same runs in the same order."""
    seconds, pattern = job_io.floats("io_seconds"), patterns_of(job_io)
    metadata = job_io.floats("metadata_ratio")
    with np.errstate(divide="ignore"):
        split = np.where((metadata > 0) & (metadata < 1), np.log(metadata) - np.log1p(-metadata), np.nan)
    if system is None:
        return Pool(seconds, group, pattern, split=split)
    bytes_moved = job_io.floats("read_bytes") + job_io.floats("write_bytes")
    calls = job_io.floats("fs_read_count") + job_io.floats("fs_write_count")
    owns = {"bytes": bytes_moved, "ops": calls}
    if "own_busiest" in system:
        owns["busiest"] = system.floats("own_busiest")
    loads = {
        name: Load(system.floats(f"device_{name}"), own, system.floats(f"peak_{name}"))
        for name, own in owns.items()
        if f"device_{name}" in system and np.isfinite(system.floats(f"device_{name}")).any()
    }
    slowness = {name: system.floats(name) for name in SLOWNESS if name in system}
    return Pool(
        seconds, group, pattern, loads, {n: c for n, c in slowness.items() if np.isfinite(c).any()},
        system.floats("coverage_ratio"), quotient(system.floats("inside_seconds"), system.floats("d_d_seconds")), split,
    )  # fmt: skip
