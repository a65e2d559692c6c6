"""Responses reduced per interval, and user-perceived slowdown (METHODS section 4).

- A histogram has bins of constant ratio: it is small and mergeable, and its quantiles are right to within 1%. Bin i
  holds [GAMMA^i, GAMMA^(i+1)); its middle, GAMMA^(i+1/2), is off by at most sqrt(GAMMA) - 1 = 0.995% (the idea of
  DDSketch: Masson, Rim, Lee, VLDB 2019). As text it is '~' and two characters per bin: 33 + the distance from the
  previous bin (the first one from FIRST_BIN) and 33 + the count. Older texts, 'bin:count bin:count', are read too.
- Roll-ups are reduced to longer ones: parts always equal the whole.
- slowdown = t_observed / t_expected. Observed is a statistic of an interval; expected the median of all operations of
  that kind on that file system over the whole period, or another baseline. Statistics come twice: `raw`, of operations
  that ended, and `omission_corrected`, with the waits of operations that a hang delayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Bools, Column, Floats, Frame, Ints, Text
from ioweather.core.tables import RESPONSE_ROLLUPS, concat
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS, names_of

GAMMA: Final = 1.02
RELATIVE_ERROR: Final = GAMMA**0.5 - 1
# Below a nanosecond nothing was measured; zero and negative durations are put here.
_LEAST: Final = 1e-9
FIRST_BIN: Final = -1200  # below that of a nanosecond
_MARK: Final = "~"
_SHIFT: Final = 33
_MOST_PER_PAIR: Final = 50_000  # characters from 55,296 on are not characters

STATISTICS: Final = ("mean", "median", "q90", "q95", "q99", "max")
COUNTINGS: Final = ("raw", "omission_corrected")
QUANTILES: Final = {"median": 0.5, "q90": 0.9, "q95": 0.95, "q99": 0.99}
# Fewer operations than this do not say what is usual.
LEAST_BASELINE: Final = 30
# A search in which nothing but chance is at work finds an episode so often.
_CHANCE: Final = 0.05

INTERVALS_NS: Final = (MINUTE_NS, 10 * MINUTE_NS, HOUR_NS)
RESPONSE_COLUMNS: Final = names_of("start_ns system target host op request_bytes mode duration_ns cached status")
# What `reduce_rollups` reads, and what says which series a row belongs to.
ROLLUP_COLUMNS: Final = names_of("""
    start_ns system op request_bytes mode cached_count error_count missed_count sum_seconds min_seconds max_seconds
    histogram omitted_sum_seconds omitted_max_seconds omitted_histogram
""")
_LABELS: Final = ("system", "target", "host", "op", "request_bytes", "mode")


@dataclass(frozen=True, eq=False)
class _Histograms:
    """Many histograms at once: (row, bin, count) triples, sorted by row and bin, each pair once."""

    rows: int
    row: Ints
    bin: Ints
    count: Ints

    @classmethod
    def of_values(cls, row: Ints, values: Floats, rows: int) -> _Histograms:
        """Return histograms of values in seconds; `row` is the histogram of each."""
        bins = np.floor(np.log(np.maximum(values, _LEAST)) / np.log(GAMMA)).astype(np.int64)
        return cls._summed(row, bins, np.ones(len(bins), np.int64), rows)

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> _Histograms:
        """Parse the texts of `texts()`, and those of older versions."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
        marks = (np.cumsum(lengths) - lengths)[lengths > 0]
        if (codes[marks] != ord(_MARK)).any():
            older = ["" if text.startswith(_MARK) else text for text in texts]
            pairs = np.array([text.count(":") for text in older], np.int64)
            numbers = np.fromstring(" ".join(older).replace(":", " "), np.int64, sep=" ")
            made = cls(len(older), np.repeat(np.arange(len(older)), pairs), numbers[0::2], numbers[1::2])
            return made.with_those_of(cls.of_texts([text if text.startswith(_MARK) else "" for text in texts]))
        numbers = np.delete(codes, marks)
        gap, count = (np.subtract(part, _SHIFT, dtype=np.int64) for part in (numbers[0::2], numbers[1::2]))
        pairs = lengths // 2
        head = (np.cumsum(pairs) - pairs)[pairs > 0]  # the first pair of each row
        running = np.cumsum(gap)
        before = np.repeat(running[head] - gap[head] - FIRST_BIN, pairs[pairs > 0])
        row, bins = np.repeat(np.arange(len(texts)), pairs), running - before
        in_parts = np.count_nonzero(gap == 0) > np.count_nonzero(gap[head] == 0)
        return cls._summed(row, bins, count, len(texts)) if in_parts else cls(len(texts), row, bins, count)

    @classmethod
    def _summed(cls, row: Ints, bins: Ints, count: Ints, rows: int) -> _Histograms:
        """Sum triples in any order with repeated pairs."""
        if not len(row):
            nothing = np.empty(0, np.int64)
            return cls(rows, nothing, nothing, nothing)
        low = int(bins.min())
        span = int(bins.max()) - low + 1
        key = row * span + (bins - low)
        order = np.argsort(key, kind="stable")
        key, running = key[order], np.cumsum(count[order])
        last = np.flatnonzero(np.append(key[1:] != key[:-1], True))
        key, total = key[last], np.diff(running[last], prepend=0)
        return cls(rows, key // span, key % span + low, total)

    def merged(self, group: Ints, groups: int) -> _Histograms:
        """Add histogram i to group[i]."""
        if not (np.diff(group) <= 0).any():  # each into one of its own, in the same order
            return _Histograms(groups, self.row if groups == self.rows else group[self.row], self.bin, self.count)
        return self._summed(group[self.row], self.bin, self.count, groups)

    def pooled(self) -> _Histograms:
        """Return the sum of all rows as one histogram."""
        return self._summed(np.zeros(len(self.row), np.int64), self.bin, self.count, 1)

    def select(self, rows: Ints) -> _Histograms:
        """Return some of the histograms; `rows` ascending, each once."""
        mine = np.flatnonzero(np.isin(self.row, rows))
        return _Histograms(len(rows), np.searchsorted(rows, self.row[mine]), self.bin[mine], self.count[mine])

    def with_those_of(self, other: _Histograms) -> _Histograms:
        """Return the same rows with the counts of both."""
        if not len(other.row):
            return self
        row, at = np.concatenate([self.row, other.row]), np.concatenate([self.bin, other.bin])
        return self._summed(row, at, np.concatenate([self.count, other.count]), self.rows)

    @cached_property
    def values(self) -> Floats:
        """The geometric middle of each bin, in seconds."""
        return np.asarray(GAMMA ** (self.bin + 0.5), np.float64)

    @cached_property
    def _running(self) -> Ints:
        return np.asarray(np.cumsum(self.count), np.int64)

    @cached_property
    def _up_to(self) -> Ints:
        """Return the cumulative count before each row, and the total."""
        borders = np.searchsorted(self.row, np.arange(self.rows + 1))
        return np.where(borders > 0, self._running[borders - 1], 0) if len(self.row) else borders

    def totals(self) -> Ints:
        return np.diff(self._up_to)

    def counts_from(self, least: Floats) -> Ints:
        """Return how many values of each row are at least its `least`; 0 where that is NaN."""
        reach = self.values >= least[self.row]
        return np.bincount(self.row[reach], self.count[reach], self.rows).astype(np.int64)

    def quantiles(self, at: Sequence[float]) -> Floats:
        """Return the bin middle of the value of rank ceil(q n), in seconds: (rows, len(at)); NaN for an empty
        histogram."""
        result = np.full((self.rows, len(at)), np.nan)
        totals = self.totals()
        there = totals > 0
        for column, q in enumerate(at if len(self.row) else ()):
            rank = self._up_to[:-1] + np.maximum(1, np.ceil(q * totals - 1e-9)).astype(np.int64)
            result[there, column] = self.values[np.searchsorted(self._running, rank[there], side="left")]
        return result

    def texts(self) -> list[str]:
        """Return each histogram as text, for `of_texts`."""
        # A count too large for one character is split into several pairs of the same bin.
        parts = np.maximum(1, -(-self.count // _MOST_PER_PAIR))
        row, bins = np.repeat(self.row, parts), np.repeat(self.bin, parts)
        count = np.full(len(row), _MOST_PER_PAIR)
        count[np.cumsum(parts) - 1] = self.count - (parts - 1) * _MOST_PER_PAIR
        first = np.diff(row, prepend=-1) != 0
        gap = np.where(first, bins - FIRST_BIN, np.diff(bins, prepend=0))
        text = (np.stack([gap, count], axis=1).ravel() + _SHIFT).astype("<u4").tobytes().decode("utf-32-le")
        borders = [0, *(2 * np.cumsum(np.bincount(row, minlength=self.rows))).tolist()]
        return [_MARK + text[start:end] if end > start else "" for start, end in pairwise(borders)]


# Coordinated omission: an operation that hangs for 20 s hides the 19 ticks at which others would have waited too. The
# correction is HdrHistogram's (recordValueWithExpectedInterval): each hidden tick counts as a response that waited
# until the hang ended. Here the ticks are known, because each is a row with the status `missed`.
def omitted_waits(responses: Frame) -> tuple[Ints, Ints]:
    """Return rows of hidden responses (missed ticks, pending operations), and the ns each would have waited.

    A hang ends where the operation ends that was in flight at the tick; without one, where the next begins; without
    either, with the last row of that target (a lower bound). Ticks without any of these are left out.
    """
    status = responses.text("status")
    hidden = np.flatnonzero(status.equals("missed") | status.equals("pending"))
    if not len(hidden):
        return hidden, np.empty(0, np.int64)
    host, target = responses.text("host").codes, responses.text("target").codes
    start = responses.ints("start_ns")
    end = start + responses.ints("duration_ns")
    finished = np.ones(len(start), np.bool_)
    finished[hidden] = False
    waits = np.zeros(len(hidden), np.int64)
    for one, other in set(zip(host[hidden].tolist(), target[hidden].tolist(), strict=True)):
        here = (host == one) & (target == other)
        done = np.flatnonzero(here & finished)
        done = done[np.argsort(start[done], kind="stable")]
        # Operations of a target follow one another, so the latest end of all that began before is that of the last.
        in_flight_until = np.concatenate([[0], np.maximum.accumulate(end[done])])
        ticks = start[hidden[here[hidden]]]
        after = np.searchsorted(start[done], ticks, side="right")
        in_flight, resumed = in_flight_until[after], np.append(start[done], int(end[here].max()))[after]
        waits[here[hidden]] = np.where(in_flight > ticks, in_flight, resumed) - ticks
    known = waits > 0
    return hidden[known], waits[known]


# Operations by group: columns of `response_rollups` by name, with histograms. Sums, extremes and `histogram` are of
# operations that ended well and reached storage; `omitted_` is what missed and pending ones would have waited.
Reduced: TypeAlias = "dict[str, Any]"
_NUMBERS: Final = names_of("""
    cached_count error_count missed_count sum_seconds min_seconds max_seconds omitted_sum_seconds omitted_max_seconds
""")


def merge_groups(reduced: Reduced, group: Ints, groups: int) -> Reduced:
    """Merge groups: number i goes into group[i]; `group` only rises."""
    merged: Reduced = {}
    for name, values in reduced.items():
        if isinstance(values, _Histograms):
            merged[name] = values.merged(group, groups)
        elif "min_" in name or "max_" in name:
            merged[name] = _extreme(np.minimum if "min_" in name else np.maximum, group, values, groups)
        else:
            merged[name] = _sum(group, values, groups).astype(np.int64 if name.endswith("_count") else np.float64)
    return merged


def reduce_responses(responses: Frame, group: Ints, groups: int) -> Reduced:
    """Reduce rows of `responses` by group; they must have all rows of their targets."""
    status, cached = responses.text("status"), responses.bools("cached")
    ok = status.equals("ok")
    timed = ok & ~cached & responses.known("duration_ns")
    nanoseconds, place = responses.ints("duration_ns")[timed], group[timed]
    seconds = nanoseconds / NS
    hidden, waits_ns = omitted_waits(responses)

    def count(mask: Bools) -> Ints:
        return np.bincount(group[mask], minlength=groups).astype(np.int64)

    return {
        "cached_count": count(ok & cached),
        "error_count": count(status.equals("error")),
        "missed_count": count(status.equals("missed")),
        # Whole nanoseconds add up to the same in any order, so that the same rows make no revision.
        "sum_seconds": _sum(place, nanoseconds, groups) / NS,
        "min_seconds": _extreme(np.minimum, place, seconds, groups),
        "max_seconds": _extreme(np.maximum, place, seconds, groups),
        "histogram": _Histograms.of_values(place, seconds, groups),
        "omitted_sum_seconds": _sum(group[hidden], waits_ns, groups) / NS,
        "omitted_max_seconds": _extreme(np.maximum, group[hidden], waits_ns / NS, groups),
        "omitted_histogram": _Histograms.of_values(group[hidden], waits_ns / NS, groups),
    }


def reduce_rollups(rollups: Frame, group: Ints, groups: int) -> Reduced:
    """Reduce rows of `response_rollups` by group.

    Rows of an older version have no omitted requests: null counts as none.
    """
    # In order of their groups, so that histograms which need no merging need no sorting either.
    order = np.argsort(group, kind="stable")
    rollups = rollups.take(order)
    reduced: Reduced = {name: rollups.array(name) for name in _NUMBERS}
    reduced["omitted_sum_seconds"] = np.nan_to_num(reduced["omitted_sum_seconds"])
    for name in ("histogram", "omitted_histogram"):
        reduced[name] = _Histograms.of_texts([text or "" for text in rollups.text(name).tolist()])
    return merge_groups(reduced, group[order], groups)


def roll_up(responses: Frame, interval_ns: int) -> Frame:
    """Return `response_rollups`: one row per interval and label."""
    group, first = groups_of(responses, _LABELS, interval_ns)
    reduced = reduce_responses(responses, group, len(first))
    return RESPONSE_ROLLUPS.frame(
        {name: responses[name][first] for name in _LABELS},
        start_ns=responses.ints("start_ns")[first] // interval_ns * interval_ns,
        interval_ns=interval_ns,
        count=reduced["histogram"].totals(),
        **{name: each.texts() if isinstance(each, _Histograms) else each for name, each in reduced.items()},
        rows=len(first),
    )


def all_intervals(responses: Frame) -> Frame:
    """Return the roll-ups of a minute, ten minutes and an hour."""
    return concat([roll_up(responses, interval) for interval in INTERVALS_NS])


def groups_of(frame: Frame, labels: Sequence[str | Column], interval_ns: int) -> tuple[Ints, Ints]:
    """Return the group of each row by labels and interval, in order of labels and time; and one row of each group."""
    key = np.zeros(frame.rows, np.int64)
    for label in labels:
        column = frame[label] if isinstance(label, str) else label
        codes = column.codes.astype(np.int64) + 1 if isinstance(column, Text) else _distinct(np.asarray(column))[0]
        key = _distinct(key * (int(codes.max(initial=0)) + 1) + codes)[0]
    step = frame.ints("start_ns") // interval_ns
    step = step - int(step.min(initial=1 << 62)) if len(step) else step
    return _distinct(key * (int(step.max(initial=0)) + 1) + step)


def _distinct(values: NDArray[Any]) -> tuple[Ints, Ints]:
    """Return the rank of each value among the distinct ones, and the place of one of each."""
    _, first, rank = np.unique(values, return_index=True, return_inverse=True)
    return rank.astype(np.int64), first.astype(np.int64)


def _sum(group: Ints, values: NDArray[Any], groups: int) -> Floats:
    """Return the sum of the values of each group."""
    return np.asarray(np.bincount(group, weights=values, minlength=groups), np.float64)


def _extreme(function: np.ufunc, group: Ints, values: NDArray[Any], groups: int) -> Floats:
    """Return the minimum or maximum of the known values of each group; NaN without any."""
    there = np.isfinite(values)
    result = np.full(groups, np.inf if function is np.minimum else -np.inf)
    function.at(result, group[there], values[there])
    return np.where(np.isinf(result), np.nan, result)


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
    def histograms(self) -> _Histograms:
        """Of operations that ended well and reached storage, by interval."""
        return cast(_Histograms, self.reduced["histogram"])

    @property
    def count(self) -> Ints:
        """Number of these operations by interval."""
        return self.histograms.totals()

    @cached_property
    def statistics(self) -> Mapping[str, Floats]:
        """STATISTICS of finished operations, by name."""
        return _statistics(self.histograms, self.reduced["sum_seconds"], self.reduced["max_seconds"])

    @cached_property
    def omission_corrected(self) -> Mapping[str, Floats]:
        """STATISTICS that include hidden operations, by name; the raw ones where nothing was hidden."""
        reduced, omitted = self.reduced, self.reduced["omitted_histogram"]
        rows = np.unique(omitted.row)
        there = _statistics(
            self.histograms.select(rows).with_those_of(omitted.select(rows)),
            (reduced["sum_seconds"] + reduced["omitted_sum_seconds"])[rows],
            np.fmax(reduced["max_seconds"], reduced["omitted_max_seconds"])[rows],
        )
        found = {name: values.copy() for name, values in self.statistics.items()}
        for name, values in there.items():
            found[name][rows] = values
        return found

    def by(self, interval_ns: int) -> OperationSeries:
        """Return the same series by longer intervals, multiples of these."""
        if interval_ns == self.interval_ns:
            return self
        step, place = np.unique(self.start_ns // interval_ns, return_inverse=True)
        reduced = merge_groups(self.reduced, place, len(step))
        return replace(self, interval_ns=interval_ns, start_ns=step * interval_ns, reduced=reduced)

    def counted(self, how: str) -> Mapping[str, Floats]:
        """Return the statistics by how they are counted, one of COUNTINGS."""
        return self.statistics if how == "raw" else self.omission_corrected

    def expected(self, window_ns: int | None = None, before_ns: int | None = None) -> tuple[float | None, int]:
        """Return the median response time in seconds, and of how many operations; None below LEAST_BASELINE.

        It is that of the `window_ns` before `before_ns` (default: before the end), without a window that of all.
        """
        low, high = 0, 1 << 62
        if window_ns is not None:
            end = int(self.start_ns[-1]) + self.interval_ns if len(self.start_ns) else 0
            high = end if before_ns is None else before_ns
            low = high - window_ns
        first, last = (int(place) for place in np.searchsorted(self.start_ns, (low, high)))
        n = int(self.count[first:last].sum())
        if n < LEAST_BASELINE:
            return None, n
        return float(self.histograms.select(np.arange(first, last)).pooled().quantiles([0.5])[0, 0]), n

    def slowdown(self, window_ns: int | None = None) -> Floats:
        """Return the median of each interval over the usual time: that of the `window_ns` before it, else of all."""
        moments = [None] if window_ns is None else self.start_ns.tolist()
        usual = [self.expected(window_ns, moment)[0] for moment in moments]
        return self.statistics["median"] / np.array(usual, np.float64)


def _statistics(histograms: _Histograms, total: Floats, longest: Floats) -> dict[str, Floats]:
    """Return STATISTICS by name from histograms, sums of seconds and longest times."""
    quantiles = histograms.quantiles(tuple(QUANTILES.values()))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {"mean": total / histograms.totals(), "max": longest}
    found |= {name: quantiles[:, column] for column, name in enumerate(QUANTILES)}
    return {name: found[name] for name in STATISTICS}


def operation_series(rows: Frame, filesystems: Mapping[str, str], interval_ns: int) -> list[OperationSeries]:
    """Return roll-ups of one shorter or equal interval as series, by file system and operation.

    `filesystems` maps raw system names to file systems. Series are in the order of their names.
    """
    # Hosts and targets of one file system are one series: the place a probe runs is a label, not a service.
    names = [filesystems.get(name, name) for name in rows.text("system").categories]
    place = np.array([sorted(set(names)).index(name) for name in names] or [0], np.int64)
    filesystem = place[rows.text("system").codes] if rows.rows else np.empty(0, np.int64)
    group, first = groups_of(rows, (filesystem, "op", "request_bytes", "mode"), interval_ns)
    system, op, mode = (rows.text(name)[first] for name in ("system", "op", "mode"))
    size, starts = rows.ints("request_bytes")[first], rows.ints("start_ns")[first] // interval_ns * interval_ns
    changes = np.flatnonzero(np.diff(np.stack([filesystem[first], op.codes, size, mode.codes])).any(axis=0)) + 1
    found = []
    for low, high in pairwise([0, *changes.tolist(), len(first)] if len(first) else []):
        key = (names[system.codes[low]], op.categories[op.codes[low]], int(size[low]), mode.categories[mode.codes[low]])
        mine = np.flatnonzero((group >= low) & (group < high))
        reduced = reduce_rollups(rows.take(mine), group[mine] - low, high - low)
        found.append(OperationSeries(*key, interval_ns, starts[low:high], reduced))
    return sorted(found, key=lambda each: (each.filesystem, each.op, each.request_bytes, each.mode))


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
    """Return stretches of intervals at or above the threshold.

    Up to `calm` - 1 calmer intervals, or a gap as long, do not end an episode.
    """
    slow = np.flatnonzero(slowdown >= threshold)
    found: list[Episode] = []
    steps = series.start_ns // series.interval_ns
    for run in np.split(slow, np.flatnonzero(np.diff(steps[slow]) > calm) + 1) if len(slow) else ():
        peak, last = int(run[np.argmax(slowdown[run])]), int(run[-1])
        kind = (series.filesystem, series.op, series.request_bytes, series.mode, series.interval_ns)
        ends = (int(series.start_ns[run[0]]), int(series.start_ns[last]) + series.interval_ns)
        top = (int(series.start_ns[peak]), float(slowdown[peak]))
        found.append(Episode(*kind, *ends, *top, ongoing=last == len(slowdown) - 1))
    return found


def beyond_chance(series: OperationSeries, found: Sequence[Episode], slow_seconds: Floats) -> Iterator[Episode]:
    """Yield episodes with more slow operations than chance explains.

    Operations that are slow independently, as often as in the whole series, would give one of these episodes in fewer
    than one search of twenty. `slow_seconds` is the threshold of each interval. A probe with one operation per interval
    finds one slow in every hundred, about one a day at a hundred intervals. The bound is Chernoff's: P(X >= k) <=
    exp(-n KL(k/n, p)), with the Kullback-Leibler divergence of two coins.
    """
    slow, count = series.histograms.counts_from(slow_seconds), series.count
    usual = slow.sum() / max(1, count.sum())
    for episode in found:
        first, last = np.searchsorted(series.start_ns, (episode.start_ns, episode.end_ns))
        n = int(count[first:last].sum())
        share = slow[first:last].sum() / max(1, n)
        if share > usual:
            off = 0.0 if share >= 1 else (1 - share) * np.log((1 - share) / (1 - usual))
            if len(count) * np.exp(-n * (share * np.log(share / usual) + off)) <= _CHANCE:
                yield episode


def all_episodes(every: Sequence[OperationSeries], threshold: float, window_ns: int | None = None) -> list[Episode]:
    """Return the episodes of all series in order of time, without those that chance explains."""
    found: list[Episode] = []
    for series in every:
        slowdown = series.slowdown(window_ns)
        usual = series.statistics["median"] / slowdown
        found += beyond_chance(series, episodes(series, slowdown, threshold), threshold * usual)
    return sorted(found, key=lambda episode: (episode.start_ns, episode.filesystem, episode.op))


def usual_requests(every: Sequence[OperationSeries]) -> list[OperationSeries]:
    """Return, for each operation on a file system, the series of the most frequent request size and mode: the probe's.

    A sampler's requests of many sizes (don15) are in the same table, and are not what users usually wait for.
    """
    most: dict[tuple[str, str], OperationSeries] = {}
    for series in sorted(every, key=lambda s: int(s.count.sum())):
        most[series.filesystem, series.op] = series
    return [series for series in every if most[series.filesystem, series.op] is series]
