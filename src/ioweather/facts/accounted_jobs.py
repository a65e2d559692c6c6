"""Jobs of the scheduler, with or without a Darshan log, and how long similar jobs ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.errors import UsageError
from ioweather.core.foreign_text import one_line
from ioweather.core.frames import Frame
from ioweather.core.units import NS, format_time_ns
from ioweather.core.words import names_of
from ioweather.facts.accounting import match_jobs
from ioweather.facts.server_io import ServerIo, server_io

if TYPE_CHECKING:
    from ioweather.core.results import Cell
    from ioweather.lake.snapshot import Snapshot

JOB_COLUMNS: Final = names_of("""
    cluster raw_job_id step restart job_id uid user account name state submit_ns start_ns end_ns node_count cpu_count
""")
_LOG_COLUMNS: Final = ("log_digest", "job_id", "uid", "start_ns", "end_ns")
# Similar jobs in a comparison, nearest in time; fewer than LEAST_SIMILAR make no usual time. [ours]
MOST_SIMILAR: Final = 64
LEAST_SIMILAR: Final = 4
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")
_MOST_LISTED: Final = 8
_STILL_RUNNING: Final = 2**62


def started_jobs(snapshot: Snapshot, where: Mapping[str, Cell | Sequence[Cell]] | None = None) -> Frame:
    """Return the allocations that started, in order of start; steps are parts of them."""
    jobs = snapshot.frame("jobs", JOB_COLUMNS, {"step": "", **(where or {})})
    jobs = jobs.take(jobs.known("start_ns"))
    return jobs.take(np.argsort(jobs.ints("start_ns"), kind="stable"))


def with_log(jobs: Frame, applications: Frame) -> Bools:
    """Whether a log of `applications` belongs to each job."""
    rows = match_jobs(applications, jobs).ints("job_row", missing=-1)
    found = np.zeros(jobs.rows, np.bool_)
    found[rows[rows >= 0]] = True
    return found


def without_log(snapshot: Snapshot, where: Mapping[str, Cell | Sequence[Cell]] | None = None) -> Frame:
    """Return the started jobs without a Darshan log."""
    jobs = started_jobs(snapshot, where)
    return jobs.take(~with_log(jobs, snapshot.frame("applications", _LOG_COLUMNS)))


def one_job(jobs: Frame, named: str) -> Frame:
    """Return the only job of one id: of a requeued one the run with the longest time.

    Raises UsageError with a line for each if they are of several users or clusters.
    """
    owners = list(zip(jobs.text("cluster").tolist(), jobs.array("uid").tolist(), strict=True))
    if len(set(owners)) > 1:
        lines = [
            f"  {format_time_ns(row['start_ns'])}  cluster {row['cluster']}  {row['user'] or row['uid']}  "
            f"{one_line(row['name'] or '')}"
            for row in jobs.records()[:_MOST_LISTED]
        ]
        raise UsageError(
            f"Job id {named} stands for {jobs.rows} jobs in accounting:\n" + "\n".join(lines),
            hint="Say which with --cluster or --uid.",
        )
    return jobs.take([int(np.argmax(np.nan_to_num(run_seconds(jobs))))])


def run_seconds(jobs: Frame) -> Floats:
    """Return the run time of each job; NaN while it runs."""
    ended = jobs.known("end_ns")
    return np.asarray(np.where(ended, (jobs.ints("end_ns") - jobs.ints("start_ns")) / NS, np.nan), np.float64)


def ends(jobs: Frame) -> Ints:
    """Return the end of each job, in the far future while it runs."""
    return jobs.ints("end_ns", missing=_STILL_RUNNING)


class SimilarJobs:
    """Similar jobs: same cluster, user, name and number of nodes. `group` numbers them; -1 without a name or end.

    A cancelled or failed job is compared with others, but its time is no measure for them.
    """

    def __init__(self, jobs: Frame) -> None:
        self.seconds = run_seconds(jobs)
        comparable = np.isfinite(self.seconds) & (jobs.text("name").codes >= 0)
        user = jobs.text("user").codes.astype(np.int64)
        user = np.where(user >= 0, user, -2 - jobs.ints("uid", missing=-1))
        texts = [jobs.text(name).codes.astype(np.int64) for name in ("cluster", "name")]
        keys = np.stack([*texts, user, jobs.ints("node_count", missing=-1)], axis=1)
        _, group = np.unique(keys, axis=0, return_inverse=True)
        self.group: Ints = np.where(comparable, np.reshape(group, -1), -1).astype(np.int64)
        self._start = jobs.ints("start_ns")
        order = np.lexsort((self._start, self.group))
        self._order = order[(self.group[order] >= 0) & jobs.text("state").equals("COMPLETED")[order]]
        self._groups = self.group[self._order]

    def of(self, row: int) -> Ints:
        """Return the completed similar jobs without the job itself, the nearest in time first."""
        if self.group[row] < 0:
            return np.zeros(0, np.int64)
        start = self._start
        first, last = (int(np.searchsorted(self._groups, self.group[row], side=side)) for side in _SIDES)
        place = first + int(np.searchsorted(start[self._order[first:last]], start[row]))
        near = self._order[max(first, place - MOST_SIMILAR) : min(last, place + MOST_SIMILAR + 1)]
        near = near[near != row]
        return np.asarray(near[np.argsort(np.abs(start[near] - start[row]), kind="stable")[:MOST_SIMILAR]], np.int64)

    def ratios(self, rows: Ints) -> tuple[Floats, Ints]:
        """(run time over the median of similar jobs, number of similar jobs) of some jobs; NaN with too few."""
        ratio, count = np.full(len(rows), np.nan), np.zeros(len(rows), np.int64)
        for at, row in enumerate(rows.tolist()):
            similar = self.of(row)
            count[at] = len(similar)
            if len(similar) >= LEAST_SIMILAR:
                ratio[at] = self.seconds[row] / max(float(np.median(self.seconds[similar])), 1e-9)
        return ratio, count


def counted_on_servers(snapshot: Snapshot, jobs: Frame) -> list[ServerIo | None]:
    """Return what the servers counted (job_stats) of each job: rows of its id, cluster and user that overlap it."""
    if not jobs.rows or not snapshot.pinned["job_operations"].uris:
        return [None] * jobs.rows
    rows = snapshot.frame("job_operations", where={"job_id": tuple(sorted({*jobs.ints("raw_job_id").tolist()}))})
    start, job_id = rows.ints("start_ns"), rows.ints("job_id", missing=-1)
    end = start + rows.ints("interval_ns")
    cluster, uid = rows.text("cluster"), rows.ints("uid", missing=-1)
    found = []
    for job in jobs.records():
        until = job["end_ns"] if job["end_ns"] is not None else _STILL_RUNNING
        mine = (job_id == job["raw_job_id"]) & (end >= job["start_ns"]) & (start <= until)
        mine &= (cluster.codes < 0) | cluster.equals(job["cluster"])
        mine &= (uid < 0) | (uid == (-1 if job["uid"] is None else job["uid"]))
        found.append(server_io(rows.take(mine)))
    return found
