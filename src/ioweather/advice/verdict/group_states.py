"""What the words beside a verdict show of similar runs: their times, how busy the system was, how slow for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ioweather.advice.verdict.patterns import alike_patterns, patterns_of, usual_pattern
from ioweather.core.arrays import Floats
from ioweather.core.frames import Frame
from ioweather.derive.jobs.groups import Groups
from ioweather.derive.jobs.ratios import quotient

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
