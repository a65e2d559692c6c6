"""Samples that cover far more time than those of their source usually do: the clock was set, or nothing was recorded.

What happened in such a time is known badly (of a rate: not at all), so that these rows are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    """Of the rows of `series` in one file, frame by frame: first learned from, then judged."""

    def __init__(self) -> None:
        self._intervals: dict[tuple[str, str], NDArray[Any]] = {}
        self._left_out = 0
        self._first = ""
        self.rows = 0  # learned from

    def learn(self, frame: Frame) -> None:
        self.rows += frame.rows
        for name, chosen in _groups(frame):
            known = self._intervals.get(name, np.zeros(0, np.int64))
            new = frame.array("interval_ns")[chosen][: _LEARNED_FROM - len(known)]
            self._intervals[name] = np.concatenate([known, new])

    def regular(self, frame: Frame) -> Frame:
        """The rows that are not longer than their bound."""
        intervals = frame.array("interval_ns")
        good = np.ones(frame.rows, np.bool_)
        for name, chosen in _groups(frame):
            good[chosen] = intervals[chosen] <= self._bound_ns(self._intervals[name])
        if good.all():
            return frame
        self._left_out += int((~good).sum())
        if not self._first:
            first = int(np.flatnonzero(~good)[0])
            length = format_seconds(int(intervals[first]) / NS)
            self._first = f"the first begins {format_time_ns(int(frame.array('start_ns')[first]))} and lasts {length}"
        return frame.take(good)

    @staticmethod
    def _bound_ns(intervals: NDArray[Any]) -> int:
        middle = (len(intervals) - 1) // 2
        return max(MOST_INTERVALS * int(np.partition(intervals, middle)[middle]), LEAST_BOUND_NS)

    def __str__(self) -> str:
        """What was left out; empty where nothing was."""
        if not self._left_out:
            return ""
        return (
            f"{self._left_out:,} row(s) of series left out that last more than {MOST_INTERVALS} times the usual "
            f"interval: the clock was set, or nothing was recorded ({self._first})."
        )


def _groups(frame: Frame) -> Iterator[tuple[tuple[str, str], NDArray[np.bool_]]]:
    """(kind of component, metric) and their rows."""
    kinds, metrics = frame.text("component_kind"), frame.text("metric")
    count = max(1, len(metrics.categories))
    groups = kinds.codes.astype(np.int64) * count + metrics.codes
    for group in np.unique(groups).tolist():
        yield (kinds.categories[group // count], metrics.categories[group % count]), groups == group
