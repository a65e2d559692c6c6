"""Runs beside their usual times, with the jobs that were at work meanwhile: what `who` and `why` judge by.

The same of a run whoever asks, about it alone or about a month: similar runs are those of ten days before and after,
what targets can do is that of its calendar month (`diagnosis/similar_runs.py`), and so is how far work explains
slowness. That is learned when rows arrive and kept among the lake's records.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ioweather.core import choices
from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import day_start_ns, utc_day
from ioweather.core.contracts import Period
from ioweather.core.errors import DataUnavailable, SearchIncomplete
from ioweather.core.frames import Frame
from ioweather.core.run_outcomes import Amount
from ioweather.core.tables import concat
from ioweather.core.units import DAY_NS
from ioweather.diagnosis.blame import Slowed, Slowness, learned
from ioweather.diagnosis.comparison_pool import alike_patterns, patterns_of
from ioweather.diagnosis.competing_jobs import run_beside, suspects_of
from ioweather.diagnosis.job_records import FILES, files_of, records_of, samples_beside
from ioweather.diagnosis.masking import hide
from ioweather.diagnosis.similar_runs import SimilarRuns, runs_in
from ioweather.diagnosis.verdict import HARM_MADS, HARM_SHARE
from ioweather.diagnosis.work_in_time import united
from ioweather.facts.runs import program_names
from ioweather.lake.caches import LakeRecords
from ioweather.lake.lake import Lake
from ioweather.lake.snapshot import Snapshot

# Similar runs are looked for so many days before and after.
REACH_DAYS: Final = 10
# Where a question is about more samples than these, what targets did beyond all records is not looked up. [ours]
MOST_SAMPLES: Final = 3_000_000
# Of more slowed runs than these, those that lost most. [ours]
_MOST_SLOWED: Final = 400
# So many runs of a month say how far work explains slowness; they are looked at again when there are so many times
# more. [ours]
_MOST_COMPARED: Final = 200
_MOST_ASKED: Final = 10 * _MOST_COMPARED
_GROWN: Final = 1.5
_MAD_TO_SD: Final = 1.4826
# With fewer similar runs nothing is usual.
_LEAST_SIMILAR: Final = 4
_CHANCE_SPREAD: Final = 0.4
_TO_90: Final = 1.645


@dataclass(frozen=True, eq=False)
class UsualTimes:
    """Of some runs: their I/O seconds, the usual ones, the spread of the logarithm of similar runs' times, and the
    least that counts as slower. NaN where too few are similar."""

    seconds: Floats
    usual: Floats
    spread: Floats

    def of(self, rows: Ints) -> UsualTimes:
        return UsualTimes(self.seconds[rows], self.usual[rows], self.spread[rows])

    @property
    def harm(self) -> Floats:
        return np.asarray(np.maximum(HARM_SHARE, HARM_MADS / _MAD_TO_SD * self.spread) * self.usual)

    @property
    def slow(self) -> Bools:
        with np.errstate(invalid="ignore"):
            return np.asarray(self.seconds - self.usual >= self.harm)


def usual_times(runs: Frame, rows: Ints) -> UsualTimes:
    """Of the runs in `rows`, by those of the same user, program, processes and file system that did alike about then,
    themselves among them."""
    seconds, patterns, day = runs.floats("io_seconds"), patterns_of(runs), runs.ints("start_ns") // DAY_NS
    _, program = np.unique(np.array(program_names(runs)), return_inverse=True)
    keys = np.stack([runs.ints("uid"), runs.ints("nprocs"), program, runs.text("main_mount").codes], axis=1)
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = np.where(np.isfinite(seconds) & (seconds > 0), np.reshape(group, -1), -1)
    order = np.argsort(group, kind="stable")
    first, last = (np.searchsorted(group[order], group[rows], side=side) for side in ("left", "right"))
    usual, spread = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for at, row in enumerate(rows.tolist()):
        near = order[first[at] : last[at]]
        if group[row] < 0 or len(near) < _LEAST_SIMILAR:
            continue
        near = near[(np.abs(day[near] - day[row]) <= REACH_DAYS) & alike_patterns(patterns[near], patterns[row])]
        if len(near) >= _LEAST_SIMILAR:
            middle, half = shortest_half(np.log(seconds[near]))
            usual[at] = np.exp(middle)
            spread[at] = max(_MAD_TO_SD * half, _CHANCE_SPREAD / len(near))  # few may agree by chance
    return UsualTimes(seconds[rows], usual, spread)


def shortest_half(values: Floats) -> tuple[float, float]:
    """Median and half the length of the shortest interval that holds more than half of the values. Where many runs were
    slowed the median of all is not what is usual; else these are the median and its median deviation."""
    ordered = np.sort(values)
    count = len(ordered) // 2 + 1
    lengths = ordered[count - 1 :] - ordered[: len(ordered) - count + 1]
    at = int(np.argmin(lengths))
    return float(np.median(ordered[at : at + count])), float(lengths[at]) / 2


def slowed_runs(snapshot: Snapshot, filesystem: str, everybody: Frame, period: Period) -> dict[int, Slowed]:
    """Runs of the period that took longer than similar ones, with the jobs beside them, by row of `everybody`; the run
    that lost most is the first."""
    start, end = everybody.ints("start_ns"), everybody.ints("end_ns")
    rows = np.flatnonzero((start < period[1]) & (end > period[0]))
    times = usual_times(everybody, rows)
    slow = np.flatnonzero(times.slow)
    slow = slow[np.argsort((times.usual - times.seconds)[slow], kind="stable")[:_MOST_SLOWED]]
    found = beside_usual(snapshot, filesystem, everybody, rows[slow], times.of(slow))
    return {row: found[row] for row in rows[slow].tolist() if row in found}


def beside_usual(
    snapshot: Snapshot, filesystem: str, runs: Frame, rows: Ints, times: UsualTimes, *, here: Slowness | None = None
) -> dict[int, Slowed]:
    """The runs in `rows`, with the jobs beside each of all `runs`; those of which no I/O is known are left out."""
    found: dict[int, Slowed] = {}
    months = [utc_day(start)[:7] for start in runs.ints("start_ns")[rows].tolist()]
    sampled = any(g.filesystem == filesystem and g.metric in choices.TRAFFIC for g in snapshot.series())
    for month in sorted(set(months)):
        at = np.array([place for place, each in enumerate(months) if each == month], np.int64)
        asked = rows[at]
        start, end = runs.ints("start_ns")[asked], runs.ints("end_ns")[asked]
        windows = united(zip(start.tolist(), np.maximum(end, start + 1).tolist(), strict=True))
        near = np.flatnonzero(_that_count(snapshot, runs, windows)) if sampled else np.arange(runs.rows)
        # Without samples all logs say what targets can do.
        place = np.searchsorted(near, asked)
        chosen = runs.take(near)
        files = files_of(snapshot.whole, chosen)
        slowed = of_records(snapshot, filesystem, chosen, files, windows, place, times.of(at), here)
        found |= {int(asked[number]): each for number, each in slowed.items()}
    return found


def of_records(
    snapshot: Snapshot, filesystem: str, runs: Frame, files: Frame, windows: Sequence[tuple[int, int]], rows: Ints,
    times: UsualTimes, here: Slowness | None = None, most_rows: int | None = MOST_SAMPLES,
) -> dict[int, Slowed]:  # fmt: skip
    """By number in `rows`, of runs of one month."""
    whole = snapshot.whole
    records = records_of(whole, filesystem, runs, files, windows)
    parties = hide(records.parties, snapshot)
    samples = samples_beside(whole, records, rows, most_rows=most_rows)
    here = slowness_about(whole, filesystem, windows[0][0]) if here is None else here
    start, metadata = runs.ints("start_ns"), np.nan_to_num(runs.floats("metadata_ratio"))
    found = {}
    for number, row in enumerate(rows.tolist()):
        seconds, usual, spread, harm = (
            float(each[number]) for each in (times.seconds, times.usual, times.spread, times.harm)
        )
        low, high = (usual * float(np.exp(sign * _TO_90 * spread)) for sign in (-1, 1))
        known = Amount(usual, low, high) if np.isfinite(usual) else Amount(None)
        with suppress(DataUnavailable):
            beside = run_beside(records, row, samples, usual if np.isfinite(usual) else np.inf)
            suspects = suspects_of(beside, parties, float(metadata[row]))
            party = parties[int(records.run_job[row])]
            found[number] = Slowed(party, seconds, known, None, harm, suspects, int(start[row]), here)
    return found


def slowed_run(snapshot: Snapshot, similar: SimilarRuns, filesystem: str) -> Slowed:
    """The first of `similar`."""
    if not filesystem:
        raise DataUnavailable("no system data")
    whole, everybody = snapshot.whole, similar.everybody
    run = similar.runs.take([0]).select(tuple(everybody))
    times = usual_times(concat([run, everybody]), np.zeros(1, np.int64))
    low, high = (int(run.ints(name)[0]) for name in ("start_ns", "end_ns"))
    window = [(low, max(high, low + 1))]
    others = runs_in(whole, str(run.text("log_digest").tolist()[0]), days_about(whole, low, high, 3))
    others = others.take(_that_count(whole, others, window))
    files = concat([similar.view.files.select(FILES), files_of(whole, others)])
    runs = concat([run, others])
    found = of_records(snapshot, filesystem, runs, files, window, np.zeros(1, np.int64), times, most_rows=None)
    if not found:
        raise DataUnavailable("the log does not say when it did I/O")
    return found[0]


# How far work explains slowness.


def slowness_about(snapshot: Snapshot, filesystem: str, moment_ns: int) -> Slowness:
    """As learned of the runs of that month."""
    month = utc_day(moment_ns)[:7]
    kept = _kept(snapshot, filesystem, month) or _compared(snapshot, filesystem, month)
    return learned(kept["work"], kept["slow"])


def learn_slowness(lake: Lake, since_ns: int, most_seconds: float = math.inf) -> None:
    """When rows have come: of months from the first new row on that hold half as many runs again as when they were
    looked at. Of the facility's file systems and the busiest: where none is described, each disk counts as one, and who
    asks about such a one waits."""
    end = time.monotonic() + most_seconds
    with lake.snapshot() as snapshot:
        sampled = {group.filesystem for group in snapshot.series() if group.metric in choices.TRAFFIC}
        sampled &= {each.name for each in snapshot.facility.filesystems} | {choices.busiest_filesystem(snapshot)}
        days = snapshot.pinned["job_io"].days()
        for month in sorted({day[:7] for day in days if day[:7] >= utc_day(max(since_ns, 0))[:7]}):
            rows = snapshot.rows("job_io", days={day for day in days if day[:7] == month})
            ((there,),) = snapshot.bare.execute(f"SELECT count(*) FROM ({rows})").fetchall()
            for filesystem in sorted(sampled):
                if time.monotonic() > end:
                    raise SearchIncomplete(f"months from {month} on were left out after {most_seconds:.0f} s")
                kept = _kept(snapshot, filesystem, month)
                if kept is None or there > _GROWN * int(kept["runs"]):
                    _compared(snapshot, filesystem, month)


def _kept(snapshot: Snapshot, filesystem: str, month: str) -> Mapping[str, Any] | None:
    place, key = _place(snapshot, filesystem, month)
    return LakeRecords(snapshot.root).get(
        place, key, lambda held: {name: held[name] for name in ("work", "slow", "runs")}
    )


def _place(snapshot: Snapshot, filesystem: str, month: str) -> tuple[str, str]:
    name = hashlib.sha256(filesystem.encode()).hexdigest()[:12]
    return f"slowness-{month}-{name}", "servers" if snapshot.pinned["job_operations"].uris else "logs"


def _compared(snapshot: Snapshot, filesystem: str, month: str) -> Mapping[str, Any]:
    """Of runs evenly over the month: the work that each met, and whether it was slow; kept. What was on a target that
    was found sick had its reason."""
    inside = [day_start_ns(day) for day in snapshot.pinned["job_io"].days() if day[:7] == month] or [0]
    everybody = runs_in(snapshot, "", days_about(snapshot, min(inside), max(inside), REACH_DAYS))
    rows = np.flatnonzero([utc_day(start)[:7] == month for start in everybody.ints("start_ns").tolist()])
    count = len(rows)
    rows = _evenly(rows, _MOST_ASKED)
    times = usual_times(everybody, rows)
    known = _evenly(np.flatnonzero(np.isfinite(times.usual)), _MOST_COMPARED)
    beside = beside_usual(snapshot, filesystem, everybody, rows[known], times.of(known), here=Slowness())
    found = [run for run in beside.values() if not run.suspects.on_sick]
    record = {
        "work": np.array([run.met_work for run in found], np.float64),
        "slow": np.array([run.is_slow for run in found], np.bool_),
        "runs": np.array(count),
    }
    LakeRecords(snapshot.root).put(*_place(snapshot, filesystem, month), record)
    return record


def _evenly(rows: Ints, most: int) -> Ints:
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64))]


# Runs and times.


def days_about(snapshot: Snapshot, low: int, high: int, reach: int) -> set[str]:
    known = set(snapshot.pinned["job_io"].days())
    begin, end = max(low - reach * DAY_NS, 0), high + reach * DAY_NS
    if end - begin > 4000 * DAY_NS:
        return known
    return {utc_day(moment) for moment in (*range(begin, end, DAY_NS), end)} & known


def active(runs: Frame, low: int, high: int) -> Frame:
    return runs.take((runs.ints("start_ns") < high) & (runs.ints("end_ns") > low))


def _that_count(snapshot: Snapshot, runs: Frame, windows: Sequence[tuple[int, int]]) -> Bools:
    """Runs of jobs at work in the windows. Where no server counted jobs, also of those beside these runs: samples of
    targets tell when each was at work, if it is known who else was."""
    if not snapshot.pinned["job_operations"].uris:
        start, end = runs.ints("start_ns"), runs.ints("end_ns")
        beside = [touching(runs, [window]) for window in windows]
        windows = united((int(start[each].min()), int(end[each].max())) for each in beside if each.any()) or windows
    return of_jobs_at_work(runs, windows)


def of_jobs_at_work(runs: Frame, windows: Sequence[tuple[int, int]]) -> Bools:
    """All runs of jobs of which one reaches into one of the windows."""
    job = runs.ints("job_id")
    return np.asarray(np.isin(job, job[touching(runs, windows)]))


def touching(runs: Frame, windows: Sequence[tuple[int, int]]) -> Bools:
    """Runs that reach into one of the windows, which are in order and apart."""
    first, last = (np.array(edge, np.int64) for edge in zip(*windows, strict=True))
    following = np.searchsorted(last, runs.ints("start_ns"), side="right")
    return np.asarray(
        (following < len(last)) & (first[np.minimum(following, len(last) - 1)] < runs.ints("end_ns")), np.bool_
    )
