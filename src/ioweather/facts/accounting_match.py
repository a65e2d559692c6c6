"""Which scheduler job a Darshan log belongs to.

Darshan's job id is the scheduler's raw id, or a pid outside a scheduler. A log matches an allocation with that id
whose user, where both are known, is the same, and in whose time (60 s of grace at each end) the log starts. No match,
or two, is a state with a name, never a guess.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Ints
from ioweather.core.frames import Frame, Text
from ioweather.core.units import NS

GRACE_NS: Final = 60 * NS
STATES: Final = ("matched", "no_accounting", "outside_window", "uid_differs", "ambiguous")
_MATCHED, _NO_ACCOUNTING, _OUTSIDE, _UID_DIFFERS, _AMBIGUOUS = range(5)
_TEXTS: Final = ("cluster", "account", "user")
_NUMBERS: Final = ("raw_job_id", "restart", "node_count", "cpu_count")
_FAR: Final = 1 << 62


def match_jobs(applications: Frame, jobs: Frame | None) -> Frame:
    """One row per application, in order: `log_digest`, `state` (one of STATES), and of the matched allocation
    `job_row` (its row in `jobs`), cluster, raw_job_id, restart, account, user, node_count, cpu_count; else null."""
    rows = applications.rows
    if jobs is None or not jobs.rows:
        state, job_row = np.full(rows, _NO_ACCOUNTING), np.full(rows, -1)
    else:
        state, job_row = _match(applications, jobs)
    columns: dict[str, Any] = {
        "log_digest": applications.text("log_digest"),
        "state": Text(state.astype(np.int32), STATES),
        "job_row": np.ma.MaskedArray(np.maximum(job_row, 0), mask=job_row < 0),
    }
    for name in _TEXTS:
        columns[name] = _text_of(jobs, name, job_row)
    for name in _NUMBERS:
        columns[name] = _number_of(jobs, name, job_row)
    return Frame(columns)


def state_counts(matches: Frame) -> dict[str, int]:
    """How many logs are in each state other than matched, for coverage."""
    counts = np.bincount(matches.text("state").codes, minlength=len(STATES))
    return {name: int(n) for name, n in zip(STATES, counts, strict=True) if n and name != "matched"}


def _match(applications: Frame, jobs: Frame) -> tuple[Ints, Ints]:
    # Steps run inside their allocation and share its id; the allocation alone has the nodes of the job.
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
    log, candidate = _without_requeues(log, candidate, exact, jobs)
    found = np.bincount(log, minlength=len(job_id))
    state[found == 1] = _MATCHED
    state[found > 1] = _AMBIGUOUS
    job_row = np.full(len(job_id), -1, np.int64)
    job_row[log] = candidate
    job_row[found != 1] = -1
    return state, job_row


def _without_requeues(
    log: NDArray[Any], candidate: NDArray[Any], exact: Bools, jobs: Frame
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Of several runs of one requeued job the one whose time holds the log's start without grace, where one does."""
    cluster = jobs.text("cluster").codes[candidate].astype(np.int64)
    _, job = np.unique(log * (int(cluster.max(initial=0)) + 2) + cluster, return_inverse=True)
    has_exact = np.bincount(job[exact], minlength=int(job.max(initial=-1)) + 1) > 0
    keep = exact | ~has_exact[job]
    return log[keep], candidate[keep]


def _text_of(jobs: Frame | None, name: str, rows: Ints) -> Text:
    if jobs is None or not jobs.rows:
        return Text(np.full(len(rows), -1, np.int32), ())
    text = jobs.text(name)
    return Text(np.where(rows >= 0, text.codes[rows], -1).astype(np.int32), text.categories)


def _number_of(jobs: Frame | None, name: str, rows: Ints) -> Ints:
    if jobs is None or not jobs.rows:
        return np.ma.MaskedArray(np.zeros(len(rows), np.int64), mask=True)
    return np.ma.MaskedArray(jobs.ints(name)[rows], mask=~jobs.known(name)[rows] | (rows < 0))
