"""From the tables of a group's runs to what the verdict weighs: times, the system's state, patterns."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ioweather.advice.patterns import patterns_of
from ioweather.advice.verdict import GroupRuns
from ioweather.core.frames import Frame
from ioweather.derive.job_ratios import quotient

BYTES: Final = "others_bytes_per_s"
OPERATIONS: Final = "others_ops_per_s"


def group_states(job_io: Frame, system: Frame) -> GroupRuns:
    """`job_io` and `job_system` rows of the same runs, in one order.

    Others' bytes are those of all whole steps with the run's I/O, less its own, which all lie in them; trimmed at the
    ends they would not be: where samples are coarse, a run's bytes are not evenly spread over its first step.
    Operations of servers are not the run's calls one for one, so its own are taken off only in the mean.
    """
    during, inside = _floats(system, "d_d_seconds"), _floats(system, "inside_seconds")
    moved = _floats(system, "others_io_high_read_bytes") + _floats(system, "others_io_high_write_bytes")
    states = {BYTES: quotient(moved, during)}
    operations = _floats(system, "psid_read_ops_count") + _floats(system, "psid_write_ops_count")
    if np.isfinite(operations).any():
        own = _floats(job_io, "fs_read_count") + _floats(job_io, "fs_write_count")
        states[OPERATIONS] = quotient(operations - own, inside)
    return GroupRuns(
        _floats(job_io, "io_seconds"), states, patterns_of(job_io), _floats(system, "coverage_ratio"),
        quotient(inside, during),
    )  # fmt: skip


def _floats(frame: Frame, name: str) -> NDArray[np.float64]:
    values = np.ma.masked_array(frame.array(name))
    return np.asarray(np.ma.filled(values.astype(np.float64), np.nan), np.float64)
