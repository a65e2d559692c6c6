"""From the tables of a group's runs to what the verdict weighs: times, the system's state, patterns."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ioweather.advice.verdict.judge import LEAST_RUNS, GroupRuns
from ioweather.advice.verdict.patterns import alike_patterns, patterns_of, usual_pattern
from ioweather.core.frames import Frame
from ioweather.derive.jobs.groups import Groups
from ioweather.derive.jobs.ratios import quotient

BYTES: Final = "others_bytes_per_s"
TARGETS: Final = "others_bytes_per_s_on_targets"
OPERATIONS: Final = "others_ops_per_s"
# How slow it was for others, by the columns of what was found about the runs.
SLOWDOWNS: Final = ("probe_data", "probe_targets", "probe_metadata", "neighbours")


def group_states(job_io: Frame, system: Frame) -> GroupRuns:
    """`job_io` rows and what the system did meanwhile, of the same runs, in one order.

    Where the targets of all runs are known, others' bytes are those on the busiest of them.

    Others' bytes are those of all whole steps with the run's I/O, less its own, which all lie in them; trimmed at the
    ends they would not be: where samples are coarse, a run's bytes are not evenly spread over its first step.
    Operations of servers are not the run's calls one for one, so its own are taken off only in the mean.
    """
    during, inside = _floats(system, "d_d_seconds"), _floats(system, "inside_seconds")
    moved = _floats(system, "others_io_high_read_bytes") + _floats(system, "others_io_high_write_bytes")
    states = {BYTES: quotient(moved, during)}
    if "target_bytes_per_s" in system:
        targets = _floats(system, "target_bytes_per_s")
        if np.isfinite(targets[np.isfinite(states[BYTES])]).all():
            states = {TARGETS: targets}
    operations = _floats(system, "psid_read_ops_count") + _floats(system, "psid_write_ops_count")
    if np.isfinite(operations).any():
        own = _floats(job_io, "fs_read_count") + _floats(job_io, "fs_write_count")
        states[OPERATIONS] = quotient(operations - own, inside)
    return GroupRuns(
        _floats(job_io, "io_seconds"), states, patterns_of(job_io), _floats(system, "coverage_ratio"),
        quotient(inside, during), {name: _floats(system, name) for name in SLOWDOWNS if name in system},
        _floats(job_io, "metadata_ratio"),
    )  # fmt: skip


def run_slowdowns(job_io: Frame, groups: Groups) -> NDArray[np.float64]:
    """Logarithm of each run's I/O time over the median of its group; NaN for runs with another pattern than their
    group's, and for those with few like them."""
    seconds, patterns = _floats(job_io, "io_seconds"), patterns_of(job_io)
    found = np.full(job_io.rows, np.nan)
    for group in groups.large:
        rows = groups.members(group)
        rows = rows[np.isfinite(seconds[rows]) & (seconds[rows] > 0)]
        rows = rows[alike_patterns(patterns[rows], usual_pattern(patterns[rows]))] if len(rows) else rows
        if len(rows) >= LEAST_RUNS:
            found[rows] = np.log(seconds[rows] / np.median(seconds[rows]))
    return found


def _floats(frame: Frame, name: str) -> NDArray[np.float64]:
    values = np.ma.masked_array(frame.array(name))
    return np.asarray(np.ma.filled(values.astype(np.float64), np.nan), np.float64)
