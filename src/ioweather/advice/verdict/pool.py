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

from ioweather.advice.verdict.patterns import patterns_of
from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.units import DAY_NS
from ioweather.derive.jobs.groups import SIMILAR_FACTOR, find_similar_runs, group_runs, program_names
from ioweather.derive.jobs.ratios import quotient

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
