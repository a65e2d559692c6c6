"""User-perceived slowdown (METHODS section 4): what operations took per interval, what they usually take, the ratio.

slowdown = t_observed / t_expected. Observed is a statistic of an interval; expected the median of all operations of
that kind on that file system over the whole period, or another baseline. Statistics come twice: `raw`, of operations
that ended, and `omission_corrected`, with the waits of operations that a hang delayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.facility import WHOLE, Baseline
from ioweather.core.frames import Frame
from ioweather.stats.histograms import Histograms
from ioweather.stats.rollups import Reduced, groups_of, omitted_waits, reduce_responses, reduce_rollups

STATISTICS: Final = ("mean", "median", "q90", "q95", "q99", "max")
COUNTINGS: Final = ("raw", "omission_corrected")
_QUANTILES: Final = {"median": 0.5, "q90": 0.9, "q95": 0.95, "q99": 0.99}
# Fewer operations than this do not say what is usual.
LEAST_BASELINE: Final = 30
# A search in which nothing but chance is at work finds an episode so often.
_CHANCE: Final = 0.05


@dataclass(frozen=True, eq=False)
class OperationSeries:
    """One operation on one file system: statistics of its intervals, in time order, over all hosts."""

    filesystem: str
    op: str
    request_bytes: int
    mode: str
    interval_ns: int
    start_ns: Ints
    reduced: Reduced

    @property
    def label(self) -> str:
        return f"{self.filesystem} {self.op}"

    @property
    def count(self) -> Ints:
        return self.reduced.histograms.totals()

    @property
    def error_count(self) -> Ints:
        return self.reduced.error_count

    @property
    def missed_count(self) -> Ints:
        return self.reduced.missed_count

    @cached_property
    def statistics(self) -> Mapping[str, Floats]:
        """Raw ones, by name."""
        return _statistics(self.reduced.histograms, self.reduced.sum_seconds, self.reduced.max_seconds)

    @cached_property
    def omission_corrected(self) -> Mapping[str, Floats]:
        return _corrected(self.reduced, self.statistics)

    def by(self, interval_ns: int) -> OperationSeries:
        """Return the same series by longer intervals, multiples of these."""
        if interval_ns == self.interval_ns:
            return self
        step, place = np.unique(self.start_ns // interval_ns, return_inverse=True)
        reduced = self.reduced.merged(place, len(step))
        return replace(self, interval_ns=interval_ns, start_ns=step * interval_ns, reduced=reduced)

    def counted(self, how: str) -> Mapping[str, Floats]:
        """Statistics by the name of how they are counted, one of COUNTINGS."""
        return {"raw": self.statistics, "omission_corrected": self.omission_corrected}[how]

    def expected(self, baseline: Baseline = WHOLE, before_ns: int | None = None) -> tuple[float | None, int]:
        """What is usual, in seconds, and of how many operations: null below LEAST_BASELINE.

        Of a baseline that moves it is the one at `before_ns`, by default at the end.
        """
        if baseline.seconds is not None and self.op in baseline.seconds:
            return baseline.seconds[self.op], int(self.count.sum())
        low, high = baseline.period_ns or (0, 1 << 62)
        if baseline.window_ns is not None:
            end = int(self.start_ns[-1]) + self.interval_ns if len(self.start_ns) else 0
            high = end if before_ns is None else before_ns
            low = high - baseline.window_ns
        first, last = (int(place) for place in np.searchsorted(self.start_ns, (low, high)))
        n = int(self.count[first:last].sum())
        if n < LEAST_BASELINE:
            return None, n
        return float(self.reduced.histograms.part(first, last).pooled().quantiles([baseline.quantile])[0, 0]), n

    def expected_before(self, window_ns: int, quantile: float = 0.5) -> Floats:
        """What is usual in the window that ends where each interval begins; NaN below LEAST_BASELINE."""
        first = np.searchsorted(self.start_ns, self.start_ns - window_ns, side="left")
        return self.reduced.histograms.quantiles_before(first, LEAST_BASELINE, quantile)

    def slowdown(self, statistic: str = "median", baseline: Baseline = WHOLE, counting: str = "raw") -> Floats:
        observed = self.counted(counting)[statistic]
        if baseline.window_ns is not None:
            return observed / self.expected_before(baseline.window_ns, baseline.quantile)
        usual, _ = self.expected(baseline)
        return observed / (usual if usual is not None else np.nan)


def operation_series(rows: Frame, filesystems: Mapping[str, str], interval_ns: int) -> list[OperationSeries]:
    """Roll-ups of one shorter or equal interval as series, one per file system and kind of operation.

    `filesystems` maps raw system names to file systems.
    """
    return [
        kind.series(interval_ns, reduce_rollups(rows.take(kind.rows), kind.group, len(kind.start_ns)))
        for kind in _kinds(rows, filesystems, interval_ns)
    ]


def exact_series(rows: Frame, filesystems: Mapping[str, str], interval_ns: int) -> list[OperationSeries]:
    """The same from the operations themselves, without the roll-ups' error."""
    hidden, waits_ns = omitted_waits(rows)  # of all kinds at once: what one waits for is another
    made = []
    for kind in _kinds(rows, filesystems, interval_ns):
        mine = np.isin(hidden, kind.rows, assume_unique=True)
        omitted = (np.searchsorted(kind.rows, hidden[mine]), waits_ns[mine])
        part = rows.take(kind.rows)
        reduced = reduce_responses(part, kind.group, len(kind.start_ns), exact=True, omitted=omitted)
        made.append(kind.series(interval_ns, reduced))
    return made


@dataclass(frozen=True, eq=False)
class _Kind:
    """Rows of one kind of operation; the interval of each; when these begin."""

    key: tuple[str, str, int, str]
    rows: Ints
    group: Ints
    start_ns: Ints

    def series(self, interval_ns: int, reduced: Reduced) -> OperationSeries:
        return OperationSeries(*self.key, interval_ns, self.start_ns, reduced)


def _kinds(rows: Frame, filesystems: Mapping[str, str], interval_ns: int) -> Iterator[_Kind]:
    """Yield the kinds one at a time, in order of their names, to bound memory."""
    # Hosts and targets of one file system are one series: the place a probe runs is a label, not a service.
    names = [filesystems.get(name, name) for name in rows.text("system").categories]
    place = np.array([sorted(set(names)).index(name) for name in names] or [0], np.int64)
    filesystem = place[rows.text("system").codes] if rows.rows else np.empty(0, np.int64)
    group, first = groups_of(rows, (filesystem, "op", "request_bytes", "mode"), interval_ns)
    system, op, mode = (rows.text(name)[first] for name in ("system", "op", "mode"))
    size = rows.ints("request_bytes")[first]
    labels = np.stack([filesystem[first], op.codes, size, mode.codes])
    changes = np.flatnonzero(np.diff(labels).any(axis=0)) + 1
    starts = rows.ints("start_ns")[first] // interval_ns * interval_ns
    found = []
    for low, high in pairwise([0, *changes.tolist(), len(first)] if len(first) else []):
        key = (names[system.codes[low]], op.categories[op.codes[low]], int(size[low]), mode.categories[mode.codes[low]])
        found.append((key, low, high))
    for key, low, high in sorted(found):
        mine = np.flatnonzero((group >= low) & (group < high))
        yield _Kind(key, mine, group[mine] - low, starts[low:high])


def _corrected(reduced: Reduced, raw: Mapping[str, Floats]) -> dict[str, Floats]:
    """Where something was hidden, statistics with it; elsewhere the raw ones."""
    rows = np.unique(reduced.omitted.row)
    there = _statistics(
        reduced.histograms.select(rows).with_those_of(reduced.omitted.select(rows)),
        (reduced.sum_seconds + reduced.omitted_sum_seconds)[rows],
        np.fmax(reduced.max_seconds, reduced.omitted_max_seconds)[rows],
    )
    found = {name: values.copy() for name, values in raw.items()}
    for name, values in there.items():
        found[name][rows] = values
    return found


def _statistics(histograms: Histograms, total: Floats, longest: Floats) -> dict[str, Floats]:
    quantiles = histograms.quantiles(tuple(_QUANTILES.values()))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {"mean": total / histograms.totals(), "max": longest}
    found |= {name: quantiles[:, column] for column, name in enumerate(_QUANTILES)}
    return {name: found[name] for name in STATISTICS}


@dataclass(frozen=True)
class Episode:
    """A stretch of slow intervals; `ongoing` if the data end in it. Recovery is the time from the peak to the end."""

    filesystem: str
    op: str
    request_bytes: int
    mode: str
    interval_ns: int
    start_ns: int
    end_ns: int
    peak_ns: int
    peak_ratio: float
    ongoing: bool

    @property
    def recovery_ns(self) -> int:
        return self.end_ns - self.peak_ns


def episodes(series: OperationSeries, slowdown: Floats, threshold: float, calm: int = 2) -> list[Episode]:
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
                series.request_bytes,
                series.mode,
                series.interval_ns,
                int(series.start_ns[run[0]]),
                int(series.start_ns[last]) + series.interval_ns,
                int(series.start_ns[peak]),
                float(slowdown[peak]),
                ongoing=last == len(slowdown) - 1,
            )
        )
    return found


def beyond_chance(series: OperationSeries, found: Sequence[Episode], slow_seconds: Floats) -> list[Episode]:
    """Episodes with so many slow operations (`slow_seconds` or longer, by interval) that operations which are slow each
    for itself, as often as in the whole series, would give one in less than one search of twenty.

    A probe with one operation per interval finds one slow in every hundred, about one a day at a hundred intervals. The
    bound is Chernoff's: P(X >= k) <= exp(-n KL(k/n, p)).
    """
    slow, count = series.reduced.histograms.counts_from(slow_seconds), series.count
    usual = slow.sum() / max(1, count.sum())
    significant = []
    for episode in found:
        first, last = np.searchsorted(series.start_ns, (episode.start_ns, episode.end_ns))
        n = int(count[first:last].sum())
        share = slow[first:last].sum() / max(1, n)
        if share > usual and len(count) * np.exp(-n * _divergence(share, usual)) <= _CHANCE:
            significant.append(episode)
    return significant


def _divergence(share: float, usual: float) -> float:
    """Kullback-Leibler, of one coin from another."""
    off = 0.0 if share >= 1 else (1 - share) * np.log((1 - share) / (1 - usual))
    return float(share * np.log(share / usual) + off)


def all_episodes(
    every: Sequence[OperationSeries], threshold: float, statistic: str = "median", baseline: Baseline = WHOLE
) -> list[Episode]:
    """Of all series, in order of time; without those that chance alone would give now and then."""
    found: list[Episode] = []
    for series in every:
        slowdown = series.slowdown(statistic, baseline)
        usual = series.statistics[statistic] / slowdown
        found += beyond_chance(series, episodes(series, slowdown, threshold), threshold * usual)
    return sorted(found, key=lambda episode: (episode.start_ns, episode.filesystem, episode.op))


def usual_requests(every: Sequence[OperationSeries]) -> list[OperationSeries]:
    """Of each operation on a file system, the size and mode with the most operations: the probe's. A sampler's
    requests of many sizes (don15) lie in the same table, and are no one's usual wait."""
    most: dict[tuple[str, str], OperationSeries] = {}
    for series in sorted(every, key=lambda s: int(s.count.sum())):
        most[series.filesystem, series.op] = series
    return [series for series in every if most[series.filesystem, series.op] is series]
