"""What jobs did on targets, written down in seconds and bytes."""

from __future__ import annotations

import numpy as np

from ioweather.core.frames import Ints
from ioweather.diagnosis.job_loads import JobLoads

S = 10**9


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def loads(*rows: tuple[int, int, int, int, float]) -> JobLoads:
    """(job, first, last in seconds, target, bytes written) of each row."""
    job, first, last, target, written = (np.array(column) for column in zip(*rows, strict=True))
    zero = np.zeros(len(rows))
    amounts = {"read_bytes": zero, "write_bytes": written.astype(np.float64), "requests": zero}
    return JobLoads(job, first * S, last * S, target, amounts)
