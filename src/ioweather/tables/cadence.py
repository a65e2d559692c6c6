"""Samples that cover far more time than those of their source usually do: the clock was set, or nothing was recorded.

What happened in such a time is known badly (of a rate: not at all), so that these rows are left out and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ioweather.core.units import MINUTE_NS, NS, format_seconds, format_time_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ioweather.core.frames import Frame

# Times the median interval of the same metric of the same kind of component; at least a minute: raw rows and those of
# minutes come together.
MOST_INTERVALS: Final = 10
LEAST_BOUND_NS: Final = MINUTE_NS
_LEARNED_FROM: Final = 10_000  # intervals of a metric


class Cadence:
    """Of the rows of `series` in one file, frame by frame."""

    def __init__(self) -> None:
        self._intervals: dict[tuple[str, str], NDArray[Any]] = {}
        self._left_out = 0
        self._first = ""

    def regular(self, frame: Frame) -> Frame:
        """The rows that are not longer than their bound."""
        if not frame.rows:
            return frame
        intervals, kinds, metrics = frame.array("interval_ns"), frame.text("component_kind"), frame.text("metric")
        groups = kinds.codes.astype(np.int64) * len(metrics.categories) + metrics.codes
        bounds = np.zeros(frame.rows, np.int64)
        for group in np.unique(groups).tolist():
            chosen = groups == group
            name = (
                kinds.categories[group // len(metrics.categories)],
                metrics.categories[group % len(metrics.categories)],
            )
            bounds[chosen] = self._bound_ns(name, intervals[chosen])
        good = intervals <= bounds
        if good.all():
            return frame
        self._left_out += int((~good).sum())
        if not self._first:
            first = int(np.flatnonzero(~good)[0])
            length = format_seconds(int(intervals[first]) / NS)
            self._first = f"the first begins {format_time_ns(int(frame.array('start_ns')[first]))} and lasts {length}"
        return frame.take(good)

    def _bound_ns(self, name: tuple[str, str], intervals: NDArray[Any]) -> int:
        known = np.concatenate([self._intervals.get(name, intervals[:0]), intervals])
        self._intervals[name] = known[:_LEARNED_FROM]
        middle = (len(known) - 1) // 2
        return max(MOST_INTERVALS * int(np.partition(known, middle)[middle]), LEAST_BOUND_NS)

    def __str__(self) -> str:
        """What was left out; empty where nothing was."""
        if not self._left_out:
            return ""
        return (
            f"{self._left_out:,} row(s) of series left out that last more than {MOST_INTERVALS} times the usual "
            f"interval: the clock was set, or nothing was recorded ({self._first})."
        )
