"""Work of jobs on targets: what each job did on each target, when, and how many seconds of the target that takes.

A busy target serves one request after the other, from any client. While a run waits for a target, the work of others
there is the time it loses; without job k it would lose k's seconds less, down to its own time. A run waits for the
slowest of its targets: without k the next one may hold it up as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Floats, Frame, Ints
from ioweather.facts.job_metrics import NEVER_FIRST, NEVER_LAST, FileRecords, file_records, merge_spans
from ioweather.facts.run_targets import target_number

AMOUNTS: Final = ("read_bytes", "write_bytes", "requests")
_JOINED_BYTES: Final = 1 << 20  # the usual size of a remote request of Lustre


@dataclass(frozen=True, eq=False)
class JobLoads:
    """What jobs did: one row for each job, stretch of time [first, last) and target, `amounts` by name of AMOUNTS.

    `target` numbers the components of a file system; the target after the last is metadata, whose `requests` are
    operations.
    """

    job: Ints
    first_ns: Ints
    last_ns: Ints
    target: Ints
    amounts: Mapping[str, Floats]

    def take(self, rows: NDArray[Any]) -> JobLoads:
        """Return some rows."""
        amounts = {name: values[rows] for name, values in self.amounts.items()}
        return JobLoads(self.job[rows], self.first_ns[rows], self.last_ns[rows], self.target[rows], amounts)

    def by_target(self, values: Floats, width: int) -> Floats:
        """Sum `values` of the rows by target; `width` is the number of targets."""
        return np.bincount(self.target, weights=values, minlength=width).astype(np.float64)


def concat_loads(parts: Sequence[JobLoads]) -> JobLoads:
    """Join the rows of several loads."""
    return JobLoads(
        job=np.concatenate([part.job for part in parts]),
        first_ns=np.concatenate([part.first_ns for part in parts]),
        last_ns=np.concatenate([part.last_ns for part in parts]),
        target=np.concatenate([part.target for part in parts]),
        amounts={name: np.concatenate([part.amounts[name] for part in parts]) for name in AMOUNTS},
    )


def loads_of_logs(runs: Frame, files: Frame, components: Sequence[str]) -> JobLoads:
    """Return loads from Darshan logs, with each run as a job.

    Bytes and requests of a file are spread evenly over its targets (all, if not recorded) and over the time in which
    the run used files.
    """
    records = file_records(runs, files)
    first = np.minimum.reduce([records.first(f"first_{verb}_ns") for verb in ("open", "read", "write")])
    last = np.maximum.reduce([records.last(f"last_{verb}_ns") for verb in ("read", "write")])
    last = np.maximum(last, records.last("last_close_ns"))
    there = np.flatnonzero(records.counted & (first != NEVER_FIRST) & (last != NEVER_LAST) & (last >= first))
    run, begin, end, of_record = merge_spans(records.log[there], first[there], last[there])
    stripes = records.text("osts")[there]
    moved = [records.ints(f"{verb}_bytes")[there].astype(np.float64) for verb in ("read", "write")]
    # Files have few layouts: sum by layout first.
    width = len(stripes.categories) + 1
    kinds, kind = np.unique(of_record * width + stripes.codes + 1, return_inverse=True)
    sums = [
        np.bincount(kind, weights=each, minlength=len(kinds)) for each in (*moved, _requests_at_servers(records)[there])
    ]
    place = {number: column for column, name in enumerate(components) if (number := target_number(name)) is not None}
    layouts = [_columns(text, place, len(components)) for text in ("", *stripes.categories)]
    columns = [layouts[code] for code in (kinds % width).tolist()]
    counts = np.array([len(each) for each in columns], np.int64)
    operations = sum(records.ints(name)[there] for name in ("open_count", "stat_count", "sync_count"))
    metadata = np.bincount(of_record, weights=operations, minlength=len(run))
    stretch = np.concatenate([np.repeat(kinds // width, counts), np.arange(len(run))]).astype(np.int64)
    target = np.concatenate([*columns, np.full(len(run), len(components))]).astype(np.int64)
    nothing = np.zeros(len(run))
    amounts = {
        name: np.concatenate([np.repeat(each / np.maximum(counts, 1), counts), extra])
        for name, each, extra in zip(AMOUNTS, sums, (nothing, nothing, metadata), strict=True)
    }
    return JobLoads(run[stretch], begin[stretch], end[stretch], target, amounts)


def _requests_at_servers(records: FileRecords) -> Floats:
    """Number of requests of each record at servers: clients merge consecutive requests into large ones."""
    found = np.zeros(len(records.log))
    for verb in ("read", "write"):
        count = records.ints(f"{verb}_count").astype(np.float64)
        joined = np.minimum(records.ints(f"consecutive_{verb}_count"), count)
        found += count - joined + np.minimum(joined, records.ints(f"{verb}_bytes") / _JOINED_BYTES)
    return found


def _columns(layout: str, place: Mapping[int, int], components: int) -> Ints:
    """Columns of the targets of a layout; all if none is known."""
    known = [place[int(word)] for word in layout.split(",") if word and int(word) in place]
    return np.array(known, np.int64) if known else np.arange(components)


def loads_of_servers(rows: Frame, components: Sequence[str], job: Ints) -> JobLoads:
    """Return loads from counts of servers; `job` is the number of each row's job.

    Columns: `start_ns`, `interval_ns`, `component` (null: metadata), `read_bytes`, `write_bytes`, `requests`.
    """
    place = {name: column for column, name in enumerate(components)}
    text = rows.text("component")
    target = np.array([place.get(name, -1) for name in text.categories] + [len(components)], np.int64)[text.codes]
    start = rows.ints("start_ns")
    amounts = {name: np.nan_to_num(rows.floats(name)) for name in AMOUNTS}
    return JobLoads(job, start, start + rows.ints("interval_ns"), target, amounts).take(target >= 0)


def intersect_spans(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """(first, last) of the times in spans of both; spans of one side may overlap."""
    low, high = (
        np.concatenate([limit(other[side], edge) for edge in one[side].tolist()] or [other[side][:0]])
        for side, limit in ((0, np.maximum), (1, np.minimum))
    )
    inside = low < high
    _, first, last, _ = merge_spans(np.zeros(int(inside.sum()), np.int64), low[inside], high[inside])
    return first, last


def share_inside(loads: JobLoads, windows: tuple[Ints, Ints]) -> Floats:
    """Share of the time of each row inside the windows [first, last), which are sorted and disjoint."""
    origin = int(windows[0][0])
    edges = np.stack(windows, axis=1).ravel() - origin
    covered = np.cumsum(np.where(np.arange(len(edges)) % 2, np.diff(edges, prepend=0), 0))
    begin, end = loads.first_ns - origin, np.maximum(loads.last_ns, loads.first_ns + 1) - origin
    inside = np.interp(end, edges, covered) - np.interp(begin, edges, covered)
    return np.asarray(inside / (end - begin))


@dataclass(frozen=True, eq=False)
class Degraded:
    """Targets (columns) with `factor` times less capacity than usual in [start, end)."""

    targets: Ints
    start_ns: int
    end_ns: int
    factor: float


@dataclass(frozen=True, eq=False)
class Capacity:
    """Highest rates of each target by name of AMOUNTS, 0 if unknown; the last column is metadata."""

    per_second: Mapping[str, Floats]
    sick: tuple[Degraded, ...] = ()

    def work(self, loads: JobLoads) -> Floats:
        """Seconds that targets need for the bytes or for the requests, whichever take longer; more if degraded."""
        parts = {}
        for name in AMOUNTS:
            most = self.per_second[name][loads.target]
            parts[name] = np.divide(loads.amounts[name], most, out=np.zeros(len(most)), where=most > 0)
        work = np.maximum(parts["read_bytes"] + parts["write_bytes"], parts["requests"])
        span = np.maximum(loads.last_ns - loads.first_ns, 1)
        slower = np.ones(len(work))
        for each in self.sick:
            during = np.minimum(loads.last_ns, each.end_ns) - np.maximum(loads.first_ns, each.start_ns)
            share = np.where(np.isin(loads.target, each.targets), np.clip(during / span, 0.0, 1.0), 0.0)
            slower = np.maximum(slower, 1.0 + (each.factor - 1.0) * share)
        return np.asarray(work * slower)


def estimate_capacity(loads: JobLoads, components: int) -> Capacity:
    """Return the highest rates of single loads, as the capacity of a file system without server samples.

    All `components` get the highest rate on any of them. The metadata column has its own.
    """
    seconds = np.maximum((loads.last_ns - loads.first_ns) / 1e9, 1.0)  # a short burst is no sustained rate
    per_second = {}
    for name in AMOUNTS:
        peak = np.zeros(components + 1)
        np.maximum.at(peak, loads.target, loads.amounts[name] / seconds)
        peak[:components] = peak[:components].max(initial=0.0)
        per_second[name] = peak
    return Capacity(per_second)
