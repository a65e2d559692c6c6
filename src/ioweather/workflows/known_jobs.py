"""What jobs moved in each window of a load, and which of them wait or run: what a forecast may know beside the load."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ioweather.advice.forecast.horizons import AHEAD_NS, History, KnownJobs
from ioweather.core.frames import Frame
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.stats.climatology import MEMORY_DAYS
from ioweather.stats.job_load import Jobs, laid_out
from ioweather.store.convert import fetch_frame
from ioweather.store.snapshot import Snapshot
from ioweather.studies.association.data import monitored_mounts
from ioweather.tables import ColumnSpec, Quality

_MOVED: Final = (
    ColumnSpec("key", "text", ""), ColumnSpec("exe", "text", "", nullable=True), ColumnSpec("slot", "int64", ""),
    ColumnSpec("bytes", "float64", ""),
)  # fmt: skip
# [ours] Minutes of all jobs together: more take seconds, and hundreds of megabytes.
_MOST_MINUTES: Final = 2_000_000
_ACCOUNTED: Final = ("raw_job_id", "user", "uid", "name", "submit_ns", "start_ns", "end_ns")


def known_jobs(snapshot: Snapshot, filesystem: str, operations: tuple[str, ...], seen: History) -> KnownJobs | None:
    """By what servers count of each job, else by accounting and the logs of jobs that ended. None where neither tells.
    The jobs are everybody's, since the load is."""
    whole = snapshot.whole
    period = max(seen.start_ns, seen.end_ns - MEMORY_DAYS * DAY_NS), seen.end_ns
    accounts = whole.frame("jobs", _ACCOUNTED, {"step": "", "submit_ns <": period[1]}).records()
    accounts = [row for row in accounts if row["raw_job_id"] is not None and (row["end_ns"] or 2**62) > period[0]]
    where: dict[str, Any] = {"filesystem": filesystem, "operation": operations, "interval_ns <=": seen.window_ns}
    counts = whole.rows("job_operations", where, period) if whole.filled(["job_operations"]) else ""
    step, moved = _counted(whole, counts, _minutes(accounts, seen), seen) if counts else (seen.window_ns, None)
    live = moved is not None and moved.rows > 0
    if not live:
        step, moved = seen.window_ns, _logged(whole, filesystem, operations, seen, period) if accounts else None
    if moved is None or not moved.rows:
        return None
    numbers = {str(row["raw_job_id"]): place for place, row in enumerate(accounts)}
    programs = [(row["user"] or row["uid"], row["name"] or "") for row in accounts]
    for key, exe in zip(moved.text("key").tolist(), moved.text("exe").tolist(), strict=True):
        if str(key) not in numbers and live:
            numbers[str(key)] = len(programs)
            programs.append((None, exe or ""))
    codes = {program: code for code, program in enumerate(dict.fromkeys(programs))}
    job = np.array([numbers.get(str(key), -1) for key in moved.text("key").tolist()], np.int64)
    rows = np.flatnonzero(job >= 0)
    unaccounted = [float("nan")] * (len(programs) - len(accounts))
    submitted, began, ended = (
        np.array([*(_since(row[name], seen.start_ns) / step for row in accounts), *unaccounted])
        for name in ("submit_ns", "start_ns", "end_ns")
    )
    jobs = Jobs(submitted, began, ended, np.array([codes[program] for program in programs], np.int64))
    amounts = job[rows], moved.ints("slot")[rows], moved.floats("bytes")[rows] / (step / 1e9)
    work = laid_out(jobs, amounts, len(seen.values) * (seen.window_ns // step), AHEAD_NS // step, live=live)
    return KnownJobs(work, step)


def _since(moment_ns: int | None, start_ns: int) -> float:
    return float("inf") if moment_ns is None else float(moment_ns - start_ns)


def _minutes(accounts: list[dict[str, Any]], seen: History) -> float:
    """That jobs wait and run, and may yet move something."""
    ends = (min(row["end_ns"] or seen.end_ns, seen.end_ns) for row in accounts)
    return float(sum(end - row["submit_ns"] + AHEAD_NS for end, row in zip(ends, accounts, strict=True))) / MINUTE_NS


def _counted(snapshot: Snapshot, counts: str, minutes: float, seen: History) -> tuple[int, Frame]:
    """Counts, each in the step of its middle: the minute, where they are made as often, and not too many; else the
    window."""
    usual = snapshot.bare.execute(f"SELECT median(interval_ns) FROM ({counts})").fetchall()[0][0]
    often = usual is not None and usual <= MINUTE_NS and seen.window_ns % MINUTE_NS == 0
    step = MINUTE_NS if often and minutes <= _MOST_MINUTES else seen.window_ns
    sql = f"""SELECT coalesce(job_id::VARCHAR, job_key) AS key, any_value(exe) AS exe,
            (start_ns + interval_ns // 2 - {seen.start_ns}) // {step} AS slot, sum(bytes)::DOUBLE AS bytes
        FROM ({counts})
        WHERE quality & {int(Quality.WHOLE_LIFE)} = 0 AND bytes > 0 GROUP BY 1, 3 ORDER BY 1, 3"""
    return step, fetch_frame(snapshot.bare, sql, _MOVED)


def _logged(
    snapshot: Snapshot, filesystem: str, operations: tuple[str, ...], seen: History, period: tuple[int, int]
) -> Frame | None:
    """Bytes of files that system calls moved, spread evenly from the first to the last; files of a run that were read,
    or written, in the same windows together."""
    if not snapshot.filled(["files"]):
        return None
    where: dict[str, Any] = {"module": ("POSIX", "STDIO"), "standard_stream": False}
    mounts = monitored_mounts(snapshot.frame("files", ("mount",), period_ns=period), snapshot.facility, filesystem)
    if mounts is not None:
        where["mount"] = tuple(sorted(mounts))
    files = snapshot.rows("files", where, period)
    spans = " UNION ALL ".join(
        f"""SELECT log_digest, min(first_{op}_ns) AS first_ns, max(last_{op}_ns) + 1 AS last_ns,
            sum({op}_bytes) AS moved
        FROM ({files}) WHERE {op}_bytes > 0 AND last_{op}_ns >= first_{op}_ns
        GROUP BY log_digest, (first_{op}_ns - {seen.start_ns}) // {seen.window_ns},
            (last_{op}_ns - {seen.start_ns}) // {seen.window_ns}"""
        for op in operations
    )
    begin = f"({seen.start_ns} + slot * {seen.window_ns})"
    sql = f"""SELECT job_id::VARCHAR AS key, NULL::VARCHAR AS exe, slot, sum(moved / (last_ns - first_ns)::DOUBLE
            * (least(last_ns, {begin} + {seen.window_ns}) - greatest(first_ns, {begin})))::DOUBLE AS bytes
        FROM (SELECT *, unnest(range((first_ns - {seen.start_ns}) // {seen.window_ns},
            (last_ns - 1 - {seen.start_ns}) // {seen.window_ns} + 1)) AS slot FROM ({spans}))
        JOIN ({snapshot.rows("applications", period_ns=period)}) USING (log_digest) GROUP BY 1, 3 ORDER BY 1, 3"""
    return fetch_frame(snapshot.bare, sql, _MOVED)
