"""What the agent keeps of an operation."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from ioweather.agent.live_baseline import ObservedOperation, RunningMedian
from ioweather.agent.sensor import Operation

KIND = Operation("read", 1 << 20, "nocache")
S = 10**9


def row(start=0, duration=None, status="ok", number=None):
    return {"start_ns": start, "scheduled_ns": start, "duration_ns": duration, "status": status, "errno": number,
            "cached": False}  # fmt: skip


def test_counts_errors_and_the_last_result():
    seen = ObservedOperation(KIND, RunningMedian())
    for entry in (row(1, 500), row(2, 9, "error", errno.EIO), row(3, 9, "error", None), row(4, None, "missed"),
                  row(5, 9, "error", errno.EIO)):  # fmt: skip
        seen.add(entry, S)
    status = seen.status(S)
    assert (status.ok_count, status.error_count, status.missed_count) == (1, 3, 1)
    assert status.errors == {"EIO": 2, "short": 1}
    assert (status.last.status, status.last.errno) == ("error", errno.EIO)
    assert status.last_success_ns == 501


def test_the_last_minute_forgets():
    seen = ObservedOperation(KIND, RunningMedian())
    durations = [7, 100, 3, 50, 20, 9]
    for n, duration in enumerate(durations):
        seen.add(row(n, duration), n * 15 * S)
    recent = seen.status(75 * S).recent
    kept = durations[1:]
    assert recent.count == 5
    assert recent.median_ns == np.median(kept)
    assert recent.q90_ns == pytest.approx(np.quantile(kept, 0.9), abs=0.5)
    assert recent.max_ns == 100
    assert seen.status(1000 * S).recent.median_ns is None
