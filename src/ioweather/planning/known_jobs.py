"""What running and waiting jobs are expected to move: jobs of accounting, and their bytes as the servers count them.

Each job is expected to move what followed such moments: the mean of the job itself, shrunk towards that of its program,
and this towards that of all programs. Only what was known by then counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.frames import Bools, Floats, Ints
from ioweather.core.tables import Quality
from ioweather.core.tables.schema import specs_of
from ioweather.core.units import DAY_NS
from ioweather.lake.database import fetch_frame
from ioweather.lake.snapshot import Snapshot
from ioweather.stats.forecast import MEMORY_DAYS

_ACCOUNTED: Final = ("raw_job_id", "user", "uid", "name", "submit_ns", "start_ns", "end_ns")
_MOVED: Final = specs_of("key=text exe=text? slot=int64 bytes=float64")
# [ours] How many moments the wider group counts for.
_SHRINK: Final = 2.0


@dataclass(frozen=True, eq=False)
class KnownJobs:
    """Jobs one after another, window by window: `rate` in bytes per second, `window`, `job` and `program`. `present`:
    known to wait or run when the window ends; `waits`: not begun by then. After its end each job has as many windows
    more as the longest horizon."""

    rate: Floats
    window: Ints
    job: Ints
    program: Ints
    present: Bools
    waits: Bools


def find_known_jobs(
    snapshot: Snapshot, filesystem: str, operations: tuple[str, ...], grid: tuple[int, int, int], ahead: int
) -> KnownJobs | None:
    """Return the jobs of all users on a grid of windows (start, length, count), as the servers count them; None without
    counts. A job without accounting is there until it moved nothing for `ahead` windows."""
    whole, (start_ns, window_ns, windows) = snapshot.whole, grid
    if not whole.filled(["job_operations"]):
        return None
    end_ns = start_ns + windows * window_ns
    period = max(start_ns, end_ns - MEMORY_DAYS * DAY_NS), end_ns
    where: dict[str, Any] = {"filesystem": filesystem, "operation": operations, "interval_ns <=": window_ns}
    counted = fetch_frame(
        whole.bare,
        f"""SELECT coalesce(job_id::VARCHAR, job_key) AS key, any_value(exe) AS exe,
            (start_ns + interval_ns // 2 - {start_ns}) // {window_ns} AS slot, sum(bytes)::DOUBLE AS bytes
        FROM ({whole.rows("job_operations", where, period)})
        WHERE quality & {int(Quality.WHOLE_LIFE)} = 0 AND bytes > 0 GROUP BY 1, 3 ORDER BY 1, 3""",
        _MOVED,
    )
    if not counted.rows:
        return None
    keys, slot, moved = counted.text("key").tolist(), counted.ints("slot"), counted.floats("bytes")
    # Each job: its program, and when it was submitted, began and ended, in windows.
    jobs: dict[str | None, tuple[Any, float, float, float]] = {}
    for row in whole.frame("jobs", _ACCOUNTED, {"step": "", "submit_ns <": end_ns}).records():
        if row["raw_job_id"] is not None and (row["end_ns"] or end_ns) > period[0]:
            submitted, began, ended = (
                np.inf if row[name] is None else (row[name] - start_ns) / window_ns
                for name in ("submit_ns", "start_ns", "end_ns")
            )
            jobs[str(row["raw_job_id"])] = (row["user"] or row["uid"], row["name"]), submitted, began, ended
    for key, exe, first in zip(keys, counted.text("exe").tolist(), slot.tolist(), strict=True):
        jobs.setdefault(key, ((None, exe), float(first), -np.inf, np.nan))
    numbers = {key: number for number, key in enumerate(jobs)}
    programs = {job[0]: code for code, job in enumerate(jobs.values())}
    job = np.array([numbers[key] for key in keys], np.int64)
    submitted, began, ended = np.array([each[1:] for each in jobs.values()]).T
    last_moved = np.full(len(jobs), -1)
    np.maximum.at(last_moved, job, slot)
    first = np.clip(submitted, 0, windows).astype(np.int64)
    last = np.where(np.isnan(ended), last_moved + ahead, np.clip(np.nan_to_num(ended), -1, windows - 1)).astype(
        np.int64
    )
    length = np.where(last >= first, last - first + 1 + ahead, 0)
    begins = np.cumsum(length) - length
    row_job = np.repeat(np.arange(len(jobs)), length)
    window = np.arange(len(row_job)) - begins[row_job] + first[row_job]
    inside = (slot >= first[job]) & (slot < first[job] + length[job]) & (slot < windows)
    place = (begins[job] + slot - first[job])[inside]
    rate = np.bincount(place, moved[inside], minlength=len(window)) / (window_ns / 1e9)
    end, until = window + 1, np.where(np.isnan(ended), last, ended)
    present = (end >= submitted[row_job]) & (end <= until[row_job])
    program = np.array([programs[each[0]] for each in jobs.values()], np.int64)[row_job]
    return KnownJobs(rate, window, row_job, program, present, end < began[row_job])


def expected_load(jobs: KnownJobs, windows: int, horizons: tuple[int, ...]) -> Floats:
    """Return (horizons, windows): what jobs known at the end of a window move in the one `h` later."""
    rows = np.flatnonzero(jobs.present & (jobs.window < windows))
    now, waits = jobs.window[rows], jobs.waits[rows].astype(np.int64)
    found = np.zeros((len(horizons), windows))
    for place, horizon in enumerate(horizons):
        came, mean = jobs.rate[rows + horizon], np.zeros(len(rows))
        for key in (waits, 2 * jobs.program[rows] + waits, 2 * jobs.job[rows] + waits):
            # Moments in order of their group and time: those that a moment may know lie side by side.
            order = np.lexsort((now, key))
            moments, group = (key * (windows + 1) + now)[order], key * (windows + 1)
            first = np.searchsorted(moments, group)
            last = np.maximum(np.searchsorted(moments, group + now - horizon, side="right"), first)
            total = np.concatenate([[0.0], np.cumsum(came[order])])
            mean = (total[last] - total[first] + _SHRINK * mean) / (last - first + _SHRINK)
        found[place] = np.bincount(now, mean, minlength=windows)
    return found
