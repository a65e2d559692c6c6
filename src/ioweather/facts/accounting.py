"""Darshan logs matched with scheduler jobs, and application runs (instances) merged into jobs.

Darshan's job id is the scheduler's raw id, or a pid outside a scheduler. A log matches an allocation with that id, with
the same user if both are known, during which (with 60 s of grace at each end) the log starts. No match and several
matches are named states; nothing is guessed.

A job is an allocation, an instance one run of an application in it. Amounts and times add up, even of instances at the
same time. Files of instances are assumed to differ, as their names are not compared.

The last part reads quotas of users and groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import UsageError
from ioweather.core.frames import Bools, Column, Floats, Frame, Ints, Text
from ioweather.core.tables import JOB_IO
from ioweather.core.units import HOUR_NS, NS, names_of
from ioweather.facts.job_metrics import (
    INTERFACE_SETS,
    NEVER_FIRST,
    NEVER_LAST,
    maximum,
    merge_spans,
    minimum,
    ratio_columns,
    rows_of_largest,
    sums,
)
from ioweather.facts.server_io import ServerIo, server_io

if TYPE_CHECKING:
    from ioweather.core.results import Cell
    from ioweather.lake.lake import Snapshot

GRACE_NS: Final = 60 * NS
STATES: Final = ("matched", "no_accounting", "outside_window", "uid_differs", "ambiguous")
_MATCHED, _NO_ACCOUNTING, _OUTSIDE, _UID_DIFFERS, _AMBIGUOUS = range(5)
_TEXTS: Final = ("cluster", "account", "user")
_NUMBERS: Final = ("raw_job_id", "restart", "node_count", "cpu_count")
_FAR: Final = 1 << 62


def match_jobs(applications: Frame, jobs: Frame | None) -> Frame:
    """Return one row per application, in order: `log_digest`, `state` (one of STATES), and of the matched allocation
    `job_row` (its row in `jobs`), cluster, raw_job_id, restart, account, user, node_count, cpu_count; else null."""
    rows = applications.rows
    if jobs is None or not jobs.rows:
        state, job_row = np.full(rows, _NO_ACCOUNTING), np.full(rows, -1)
    else:
        state, job_row = _match_allocations(applications, jobs)
    columns: dict[str, Any] = {
        "log_digest": applications.text("log_digest"),
        "state": Text(state.astype(np.int32), STATES),
        "job_row": np.ma.MaskedArray(np.maximum(job_row, 0), mask=job_row < 0),
        **{name: Text(np.full(rows, -1, np.int32), ()) for name in _TEXTS},
        **{name: np.ma.MaskedArray(np.zeros(rows, np.int64), mask=True) for name in _NUMBERS},
    }
    if jobs is not None and jobs.rows:
        for name in _TEXTS:
            text = jobs.text(name)
            columns[name] = Text(np.where(job_row >= 0, text.codes[job_row], -1).astype(np.int32), text.categories)
        for name in _NUMBERS:
            unknown = ~jobs.known(name)[job_row] | (job_row < 0)
            columns[name] = np.ma.MaskedArray(jobs.ints(name)[job_row], mask=unknown)
    return Frame(columns)


def state_counts(matches: Frame) -> dict[str, int]:
    """Count the logs in each state other than matched, for coverage."""
    counts = np.bincount(matches.text("state").codes, minlength=len(STATES))
    return {name: int(n) for name, n in zip(STATES, counts, strict=True) if n and name != "matched"}


def _match_allocations(applications: Frame, jobs: Frame) -> tuple[Ints, Ints]:
    """Return the state of each log (index into STATES), and the row in `jobs` of its allocation; -1 for none."""
    # Steps share the id of their allocation, but only the allocation has the nodes of the job.
    allocations = np.flatnonzero(jobs.text("step").equals("") & jobs.known("raw_job_id"))
    raw_id = jobs.ints("raw_job_id")[allocations]
    order = np.argsort(raw_id, kind="stable")
    allocations, raw_id = allocations[order], raw_id[order]
    job_id = applications.ints("job_id")
    low, high = np.searchsorted(raw_id, job_id, "left"), np.searchsorted(raw_id, job_id, "right")
    state = np.where(high > low, _OUTSIDE, _NO_ACCOUNTING)

    # Every (log, allocation) pair of one id.
    log = np.repeat(np.arange(len(job_id)), high - low)
    within = np.arange(len(log)) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
    candidate = allocations[np.repeat(low, high - low) + within]
    log_start = applications.ints("start_ns")[log]
    start, end = jobs.ints("start_ns", missing=_FAR)[candidate], jobs.ints("end_ns", missing=_FAR)[candidate]
    in_time = (log_start >= start - GRACE_NS) & (log_start <= end + GRACE_NS)
    same_user = ~jobs.known("uid")[candidate] | (jobs.ints("uid")[candidate] == applications.ints("uid")[log])

    state[log[in_time]] = _UID_DIFFERS
    fits = in_time & same_user
    log, candidate, exact = log[fits], candidate[fits], ((log_start >= start) & (log_start <= end))[fits]
    # Of several runs of a requeued job keep the one that includes the log's start without grace, if there is one.
    cluster = jobs.text("cluster").codes[candidate].astype(np.int64)
    _, job = np.unique(log * (int(cluster.max(initial=0)) + 2) + cluster, return_inverse=True)
    has_exact = np.bincount(job[exact], minlength=int(job.max(initial=-1)) + 1) > 0
    keep = exact | ~has_exact[job]
    log, candidate = log[keep], candidate[keep]
    found = np.bincount(log, minlength=len(job_id))
    state[found == 1] = _MATCHED
    state[found > 1] = _AMBIGUOUS
    job_row = np.full(len(job_id), -1, np.int64)
    job_row[log] = candidate
    job_row[found != 1] = -1
    return state, job_row


# Without accounting, runs of one user and job id are one job if the pauses are not longer: a pid used as job id is
# reused later. [ours]
PAUSE_NS: Final = 24 * HOUR_NS

_LARGEST: Final = ("nprocs", "io_rank_count", "d_f_r_seconds", "d_f_w_seconds")


def job_numbers(applications: Frame, matches: Frame) -> Ints:
    """Return the number of each log's job: 0, 1, ... in order of first start."""
    start, end = applications.ints("start_ns"), applications.ints("end_ns")
    uid, job_id = (applications.ints(name) for name in ("uid", "job_id"))
    row = matches.ints("job_row", missing=-1)
    unmatched = row < 0
    # Logs of one matched allocation are one job, whatever their own user, id and time.
    keys = np.stack([row, *(np.where(unmatched, each, 0) for each in (uid, job_id))])
    key = np.reshape(np.unique(keys, axis=1, return_inverse=True)[1], -1)
    first, last = (np.where(unmatched, each, 0) for each in (start, np.maximum(start, end) + PAUSE_NS))
    *_, group = merge_spans(key, first, last, unit=NS)
    groups = int(group.max(initial=-1)) + 1
    first = minimum(start, group, groups)
    place = np.empty(groups, np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(groups)
    return place[group]


def merge_instances(job_io: Frame, applications: Frame, matches: Frame) -> Frame:
    """Merge `job_io` rows into jobs. `log_digest` is the first instance's, `run_seconds` the sum of all.

    Also `instance_count`, `job_id`, `uid`, `exe` (of the instance that moved most), and from `matches` `state`,
    `account`, `user`, `node_count`. All three frames have the same logs in the same order.
    """
    group = job_numbers(applications, matches)
    jobs = int(group.max(initial=-1)) + 1
    start = job_io.ints("start_ns")
    moved = job_io.ints("read_bytes") + job_io.ints("write_bytes")
    # Representatives: the first instance, and the one that moved most.
    accesses, row = job_io.ints("common_access_count", missing=-1), np.arange(len(group))
    first, busiest, most_common = (rows_of_largest(group, each, -row) for each in (-start, moved, accesses))
    # The interfaces of all instances: a set has a bit for each.
    interfaces, union = job_io.text("interfaces"), np.zeros(jobs, np.int64)
    bits = np.array([*map(INTERFACE_SETS.index, interfaces.categories), 0], np.int64)
    np.bitwise_or.at(union, group, bits[interfaces.codes])
    columns: dict[str, Column] = {
        "log_digest": job_io.text("log_digest")[first],
        "start_ns": minimum(start, group, jobs),
        "end_ns": maximum(job_io.ints("end_ns"), group, jobs),
        "partial": np.bincount(group[job_io.bools("partial")], minlength=jobs) > 0,
        "d_s_definition": _common_text(job_io.text("d_s_definition"), group, jobs),
        "create_rule": _common_text(job_io.text("create_rule"), group, jobs),
        "interfaces": Text(union.astype(np.int32), INTERFACE_SETS),
        "main_mount": job_io.text("main_mount")[busiest],
        **{name: job_io.array(name)[most_common] for name in ("common_access_bytes", "common_access_count")},
    }
    ratios = set(ratio_columns(job_io.take(slice(0, 0))))
    for spec in JOB_IO.columns:
        if spec.name not in columns and spec.name not in ratios:
            columns[spec.name] = _merge_column(spec.name, job_io.array(spec.name), group, jobs)
    columns |= ratio_columns(Frame(columns))
    columns["instance_count"] = np.bincount(group, minlength=jobs).astype(np.int64)
    for name in ("job_id", "uid"):
        columns[name] = applications.ints(name)[first]
    columns["exe"] = applications.text("exe")[busiest]
    return Frame(columns | {name: matches[name][first] for name in ("state", "account", "user", "node_count")})


def _merge_column(name: str, values: NDArray[Any], group: Ints, jobs: int) -> Column:
    """Merge a column of instances: earliest of first times, latest of other times, largest of _LARGEST, else the
    sum."""
    known = ~np.ma.getmaskarray(values)
    plain = np.ma.getdata(values)
    if plain.dtype.kind == "f":
        known &= np.isfinite(plain)
    there = np.bincount(group[known], minlength=jobs) > 0
    if name.startswith("first_") and name.endswith("_ns"):
        merged = minimum(np.asarray(plain, np.int64), group, jobs, known)
        missing_value: float = NEVER_FIRST
    elif name in _LARGEST or name.endswith("_ns"):
        merged = maximum(np.asarray(plain), group, jobs, known)
        missing_value = NEVER_LAST
    else:
        merged = sums(np.asarray(plain), group, jobs, known)
        missing_value = 0
    if plain.dtype.kind == "f":
        return np.where(there, merged, np.nan)
    if there.all():
        return merged
    return np.ma.MaskedArray(np.where(merged == missing_value, 0, merged), mask=~there)


def _common_text(text: Text, group: Ints, groups: int) -> Text:
    """Return the common value of all instances that have one; 'mixed' if they differ."""
    codes = text.codes.astype(np.int64)
    known = codes >= 0
    low, high = minimum(codes, group, groups, known), maximum(codes, group, groups, known)
    merged = np.where(low == NEVER_FIRST, -1, np.where(low == high, low, len(text.categories)))
    return Text(merged.astype(np.int32), (*text.categories, "mixed"))


JOB_COLUMNS: Final = names_of("""
    cluster raw_job_id step restart job_id uid user account name state submit_ns start_ns end_ns node_count cpu_count
""")
_LOG_COLUMNS: Final = ("log_digest", "job_id", "uid", "start_ns", "end_ns")
# Similar jobs in a comparison, nearest in time; fewer than LEAST_SIMILAR make no usual time. [ours]
MOST_SIMILAR: Final = 64
LEAST_SIMILAR: Final = 4
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")
# Hint where several jobs have one id, which follows.
WHICH_JOB: Final = "Select one with --cluster, --uid, --from or --to. List them with: ioweather jobs --words "
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
    since = int(jobs.ints("start_ns").min(initial=_STILL_RUNNING)) - GRACE_NS
    return jobs.take(~with_log(jobs, snapshot.frame("applications", _LOG_COLUMNS, {"start_ns >=": since})))


def one_job(jobs: Frame, named: str) -> Frame:
    """Return the only job of one id: of a requeued one the run with the longest time.

    Raises UsageError if they are of several users or clusters.
    """
    owners = {*zip(jobs.text("cluster").tolist(), jobs.array("uid").tolist(), strict=True)}
    if len(owners) > 1:
        raise UsageError(f"Job ID {named} matches {jobs.rows} jobs in accounting.", hint=f"{WHICH_JOB}{named}")
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
        self._start, self._end = jobs.ints("start_ns"), ends(jobs)
        order = np.lexsort((self._start, self.group))
        self._order = order[(self.group[order] >= 0) & jobs.text("state").equals("COMPLETED")[order]]
        self._groups = self.group[self._order]

    def of(self, row: int, as_of_ns: int | None = None) -> Ints:
        """Return the completed similar jobs without the job itself, the nearest in time first.

        With `as_of_ns`, only jobs that had ended by then.
        """
        if self.group[row] < 0:
            return np.zeros(0, np.int64)
        start = self._start
        first, last = (int(np.searchsorted(self._groups, self.group[row], side=side)) for side in _SIDES)
        members = self._order[first:last]
        if as_of_ns is not None:
            members = members[self._end[members] <= as_of_ns]
        place = int(np.searchsorted(start[members], start[row]))
        near = members[max(0, place - MOST_SIMILAR) : place + MOST_SIMILAR + 1]
        near = near[near != row]
        return np.asarray(near[np.argsort(np.abs(start[near] - start[row]), kind="stable")[:MOST_SIMILAR]], np.int64)

    def ratios(self, rows: Ints) -> tuple[Floats, Ints]:
        """Return (run time over the median of similar jobs, number of similar jobs) of some jobs; NaN with too few."""
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


# Quotas, as last recorded.


@dataclass(frozen=True)
class Quota:
    """Use and limits of one owner on a file system; a limit is None where there is none.

    `full_ratio` is the larger of the used shares of space and files, of the hard limit or else the soft one; None
    without limits. `fileset` is empty if the limits hold in the whole file system.
    """

    filesystem: str
    owner_kind: str
    owner: str
    fileset: str
    recorded_ns: int
    used_bytes: int
    soft_bytes: int | None
    hard_bytes: int | None
    used_files: int | None
    soft_files: int | None
    hard_files: int | None
    full_ratio: float | None


def latest_quotas(snapshot: Snapshot, condition: str = "TRUE", values: tuple[Cell, ...] = ()) -> list[Quota]:
    """Return the newest row of each owner and file system that meets an SQL condition, the fullest first.

    A person's snapshot has the person's own user quotas, and those of all groups, projects and filesets.
    """
    if not snapshot.pinned["quotas"].uris:
        return []
    sql = f"""SELECT system, owner_kind, owner, fileset, start_ns, used_bytes, soft_bytes, hard_bytes, used_files,
            soft_files, hard_files, greatest(used_bytes / coalesce(hard_bytes, soft_bytes),
            used_files / coalesce(hard_files, soft_files)) AS full_ratio
        FROM quotas WHERE {condition}
        QUALIFY start_ns = max(start_ns) OVER (PARTITION BY system, owner_kind, owner, fileset)
        ORDER BY full_ratio DESC NULLS LAST, system, owner_kind, owner, fileset"""
    rows = snapshot.query(sql, values).fetchall()
    return [Quota(snapshot.facility.filesystem_of(system).removeprefix("mount:"), *rest) for system, *rest in rows]


def quotas_of_user(snapshot: Snapshot, user: str, uid: int | None = None) -> list[Quota]:
    """Return the newest quotas of a user by name or number, the fullest first."""
    return latest_quotas(snapshot, "owner_kind = 'user' AND (owner = ? OR uid = ?)", (user, uid))
