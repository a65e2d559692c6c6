"""Rollups on their grid: missing, partial and one-sided steps are counted, and gaps are found."""

from __future__ import annotations

import numpy as np

from ioweather.core.contracts import StudyData
from ioweather.core.facility import Facility, FileSystem
from ioweather.core.frames import Frame, Text
from ioweather.stats.rollup_steps import gaps, steps_of, traffic_steps

STEP = 60 * 10**9


def rollup(rows: list[tuple[int, str, float, float]]) -> Frame:
    names = ("read_bytes", "write_bytes")
    return Frame(
        {
            "start_ns": np.array([r[0] for r in rows], np.int64) * STEP,
            "metric": Text(np.array([names.index(r[1]) for r in rows], np.int32), names),
            "value": np.array([r[2] for r in rows], float),
            "coverage": np.array([r[3] for r in rows], float),
        }
    )


def test_steps_are_used_only_where_all_is_there() -> None:
    frame = rollup(
        [
            (10, "read_bytes", 1, 1.0), (10, "write_bytes", 2, 1.0),
            (11, "read_bytes", 1, 0.9), (11, "write_bytes", 2, 0.95),
            (12, "read_bytes", 1, 0.5), (12, "write_bytes", 2, 1.0),
            (14, "read_bytes", 1, 1.0),
            (15, "read_bytes", 7, 1.0), (15, "write_bytes", 8, 1.0),
        ]
    )  # fmt: skip
    steps = steps_of(frame, ("read_bytes", "write_bytes"), STEP, (0, 0))
    assert steps.count == 6
    assert steps.usable.tolist() == [True, True, False, False, False, True]
    assert dict(steps.excluded) == {"not recorded": 1, "less than 90% recorded": 1, "one direction missing": 1}
    assert gaps(steps.usable) == [(2, 5)]
    coverage = steps.coverage()
    assert (coverage.expected, coverage.present) == (6, 3)


def test_the_period_asked_for_counts_as_expected() -> None:
    frame = rollup([(10, "read_bytes", 1, 1.0), (11, "read_bytes", 1, 1.0)])
    wide = steps_of(frame, ("read_bytes",), STEP, (5 * STEP, 20 * STEP))
    assert (wide.start_ns, wide.count, int(wide.usable.sum())) == (5 * STEP, 15, 2)
    everything = steps_of(frame, ("read_bytes",), STEP, (0, 2**62))
    assert everything.count == 2
    daily = steps_of(frame, ("read_bytes",), 60 * STEP, (0, 2**62))
    assert daily.count == 1
    left = steps_of(frame, ("read_bytes",), STEP, (5 * STEP, 2**62))
    assert (left.start_ns, left.count) == (5 * STEP, 7)


def test_an_empty_rollup_has_no_steps() -> None:
    assert steps_of(rollup([]), ("read_bytes",), STEP, (0, 0)).count == 0
    assert gaps(np.array([], bool)) == []


def test_steps_above_the_peak_of_the_file_system_are_not_real() -> None:
    values = [(i, metric, 60.0, 1.0) for i in range(4) for metric in ("read_bytes", "write_bytes")]
    values[3] = (1, "write_bytes", 660.0, 1.0)
    data = StudyData({"traffic": rollup(values)}, {}, (0, 0), STEP)
    scratch = FileSystem("scratch", peak_bytes_per_s=10.0)
    steps = traffic_steps(data, Facility(filesystems=(scratch,)), "scratch")
    assert steps.usable.tolist() == [True, False, True, True]
    assert dict(steps.excluded) == {"above the peak of the system": 1}
    assert traffic_steps(data, Facility(), "scratch").usable.all(), "nobody said what the peak is"
