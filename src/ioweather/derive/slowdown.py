"""User-perceived slowdown (METHODS section 4): what operations took per interval, what they usually take, the ratio.

slowdown = t_observed / t_expected. Observed is a statistic of an interval; expected the median of all operations of
that kind on that file system over the whole period, or over the time before (a sliding window).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Frame
from ioweather.derive.response_rollups import coarsen
from ioweather.stats.loghistogram import Histograms

STATISTICS: Final = ("mean", "median", "q90", "q95", "q99", "max")
_QUANTILES: Final = {"median": 0.5, "q90": 0.9, "q95": 0.95, "q99": 0.99}
# Fewer operations than this do not say what is usual.
LEAST_BASELINE: Final = 30


@dataclass(frozen=True, eq=False)
class OperationSeries:
    """One operation on one file system: statistics of its intervals, in time order; all hosts together."""

    filesystem: str
    op: str
    request_bytes: int
    mode: str
    interval_ns: int
    start_ns: NDArray[np.int64]
    count: NDArray[np.int64]
    error_count: NDArray[np.int64]
    missed_count: NDArray[np.int64]
    statistics: Mapping[str, NDArray[np.float64]]
    histograms: Histograms

    @property
    def label(self) -> str:
        return f"{self.filesystem} {self.op}"

    def expected(self) -> tuple[float | None, int]:
        """Median over the whole period in seconds, and of how many; null below LEAST_BASELINE."""
        n = int(self.count.sum())
        if n < LEAST_BASELINE:
            return None, n
        whole = self.histograms.merged(np.zeros(self.histograms.rows, np.int64), 1)
        return float(whole.quantiles([0.5])[0, 0]), n

    def expected_before(self, window_ns: int) -> NDArray[np.float64]:
        """Median of the window that ends where each interval begins; NaN below LEAST_BASELINE."""
        low = np.searchsorted(self.start_ns, self.start_ns - window_ns, side="left")
        result = np.full(len(self.start_ns), np.nan)
        for position, first in enumerate(low.tolist()):
            if self.count[first:position].sum() >= LEAST_BASELINE:
                inside = (self.histograms.row >= first) & (self.histograms.row < position)
                part = Histograms(
                    1, np.zeros(int(inside.sum()), np.int64), self.histograms.bin[inside], self.histograms.count[inside]
                )
                result[position] = part.merged(np.zeros(1, np.int64), 1).quantiles([0.5])[0, 0]
        return result

    def slowdown(self, statistic: str = "median", window_ns: int | None = None) -> NDArray[np.float64]:
        if window_ns is not None:
            return self.statistics[statistic] / self.expected_before(window_ns)
        usual, _ = self.expected()
        return self.statistics[statistic] / (usual if usual is not None else np.nan)


def operation_series(rollups: Frame, filesystems: Mapping[str, str], interval_ns: int) -> list[OperationSeries]:
    """Roll-ups of one shorter or equal interval as series, one per file system and kind of operation.

    `filesystems` maps raw system names to file systems.
    """
    if not rollups.rows:
        return []
    systems = rollups.text("system")
    names = [filesystems.get(name, name) for name in systems.categories]
    kinds: dict[tuple[str, str, int, str], list[int]] = {}
    columns = zip(
        systems.codes.tolist(), rollups.text("op").tolist(), np.asarray(rollups.array("request_bytes")).tolist(),
        rollups.text("mode").tolist(), strict=True,
    )  # fmt: skip
    for row, (system, op, size, mode) in enumerate(columns):
        kinds.setdefault((names[system], str(op), int(size), str(mode)), []).append(row)
    return [_series(key, rollups.take(np.array(rows)), interval_ns) for key, rows in sorted(kinds.items())]


def _series(key: tuple[str, str, int, str], rows: Frame, interval_ns: int) -> OperationSeries:
    coarse = coarsen(rows, interval_ns)
    # Hosts and targets of one file system are one series: the place a probe runs is a label, not a service.
    starts, place = np.unique(np.asarray(coarse.array("start_ns"), np.int64), return_inverse=True)
    histograms = Histograms.of_texts([t or "" for t in coarse.text("histogram").tolist()]).merged(place, len(starts))

    def summed(name: str) -> NDArray[np.float64]:
        weights = np.asarray(coarse.array(name), np.float64)
        return np.asarray(np.bincount(place, weights=weights, minlength=len(starts)), np.float64)

    count = histograms.totals()
    longest = np.full(len(starts), -np.inf)
    np.maximum.at(longest, place, np.nan_to_num(coarse.array("max_seconds"), nan=-np.inf))
    quantiles = histograms.quantiles(tuple(_QUANTILES.values()))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = summed("sum_seconds") / count
    statistics = {"mean": mean, "max": np.where(np.isinf(longest), np.nan, longest)}
    statistics |= {name: quantiles[:, column] for column, name in enumerate(_QUANTILES)}
    return OperationSeries(
        *key, interval_ns, starts, count, summed("error_count").astype(np.int64),
        summed("missed_count").astype(np.int64), {name: statistics[name] for name in STATISTICS}, histograms,
    )  # fmt: skip


@dataclass(frozen=True)
class Episode:
    """A stretch of slow intervals; `ongoing` if the data end in it. Recovery is the time from the peak to the end."""

    filesystem: str
    op: str
    start_ns: int
    end_ns: int
    peak_ns: int
    peak_ratio: float
    ongoing: bool

    @property
    def recovery_ns(self) -> int:
        return self.end_ns - self.peak_ns


def episodes(series: OperationSeries, slowdown: NDArray[np.float64], threshold: float, calm: int = 2) -> list[Episode]:
    """Intervals at or above the threshold; up to `calm` - 1 calmer ones, or a gap as long, do not end an episode."""
    slow = np.flatnonzero(slowdown >= threshold)
    found: list[Episode] = []
    if not len(slow):
        return found
    steps = series.start_ns // series.interval_ns
    for run in np.split(slow, np.flatnonzero(np.diff(steps[slow]) > calm) + 1):
        peak = int(run[np.argmax(slowdown[run])])
        last = int(run[-1])
        found.append(
            Episode(
                series.filesystem,
                series.op,
                int(series.start_ns[run[0]]),
                int(series.start_ns[last]) + series.interval_ns,
                int(series.start_ns[peak]),
                float(slowdown[peak]),
                ongoing=last == len(slowdown) - 1,
            )
        )
    return found


def all_episodes(every: Sequence[OperationSeries], threshold: float, statistic: str = "median") -> list[Episode]:
    """Of all series, in order of time."""
    found = [episode for series in every for episode in episodes(series, series.slowdown(statistic), threshold)]
    return sorted(found, key=lambda episode: (episode.start_ns, episode.filesystem, episode.op))
