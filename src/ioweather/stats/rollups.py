"""Responses reduced per interval, and roll-ups reduced to longer ones: parts always equal the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.frames import Column, Frame, Text
from ioweather.core.tables import RESPONSE_ROLLUPS, concat
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.core.words import names_of
from ioweather.stats.histograms import Histograms


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
    places = [responses.text("host").codes, responses.text("target").codes]
    start = responses.ints("start_ns")
    duration = responses.ints("duration_ns")
    waits = np.zeros(len(hidden), np.int64)
    for host, target in set(zip(*(codes[hidden].tolist() for codes in places), strict=True)):
        here = (places[0] == host) & (places[1] == target)
        mine = here[hidden]
        waits[mine] = _waits(start[hidden[mine]], start[here], duration[here], ~np.isin(np.flatnonzero(here), hidden))
    known = waits > 0
    return hidden[known], waits[known]


def _waits(ticks: Ints, start: Ints, duration: Ints, finished: Bools) -> Ints:
    last_known = int((start + duration).max())
    order = np.argsort(start[finished], kind="stable")
    begun = start[finished][order]
    # Operations of a target follow one another, so the latest end of all that began before is that of the last.
    ended = np.maximum.accumulate((start + duration)[finished][order])
    after = np.searchsorted(begun, ticks, side="right")
    resumed = np.append(begun, last_known)[after]
    in_flight = np.concatenate([[0], ended])[after]
    return np.asarray(np.where(in_flight > ticks, in_flight, resumed) - ticks, np.int64)


INTERVALS_NS: Final = (MINUTE_NS, 10 * MINUTE_NS, HOUR_NS)
RESPONSE_COLUMNS: Final = names_of("start_ns system target host op request_bytes mode duration_ns cached status")
# What `reduce_rollups` reads, and what says which series a row belongs to.
ROLLUP_COLUMNS: Final = names_of("""
    start_ns system op request_bytes mode cached_count error_count missed_count sum_seconds min_seconds max_seconds
    histogram omitted_sum_seconds omitted_max_seconds omitted_histogram
""")
_LABELS: Final = ("system", "target", "host", "op", "request_bytes", "mode")


@dataclass(frozen=True, eq=False)
class Reduced:
    """Operations by group. `histograms` are of those that ended well and reached storage, as are sum, min and max;
    `omitted` is what missed and pending ones would have waited."""

    cached_count: Ints
    error_count: Ints
    missed_count: Ints
    sum_seconds: Floats
    min_seconds: Floats
    max_seconds: Floats
    histograms: Histograms
    omitted_sum_seconds: Floats
    omitted_max_seconds: Floats
    omitted: Histograms

    def merged(self, group: Ints, groups: int) -> Reduced:
        """Group i of these goes into group[i]; `group` only rises."""

        def extreme(function: np.ufunc, values: Floats, start: float) -> Floats:
            there = np.isfinite(values)
            return _extreme(function, group[there], values[there], groups, start)

        return Reduced(
            _sum(group, self.cached_count, groups).astype(np.int64),
            _sum(group, self.error_count, groups).astype(np.int64),
            _sum(group, self.missed_count, groups).astype(np.int64),
            _sum(group, self.sum_seconds, groups),
            extreme(np.minimum, self.min_seconds, np.inf),
            extreme(np.maximum, self.max_seconds, -np.inf),
            self.histograms.merged(group, groups),
            _sum(group, self.omitted_sum_seconds, groups),
            extreme(np.maximum, self.omitted_max_seconds, -np.inf),
            self.omitted.merged(group, groups),
        )


def reduce_responses(
    responses: Frame, group: Ints, groups: int, *, exact: bool = False, omitted: tuple[Ints, Ints] | None = None
) -> Reduced:
    """Of rows of `responses`; `exact` keeps every nanosecond. Who has only some of the rows gives `omitted`, as
    `omitted_waits` finds it in all of them."""
    status = responses.text("status")
    ok = status.equals("ok")
    cached = responses.bools("cached")
    timed = ok & ~cached & responses.known("duration_ns")
    nanoseconds, place = responses.ints("duration_ns")[timed], group[timed]
    seconds = nanoseconds / NS
    hidden, waits_ns = omitted_waits(responses) if omitted is None else omitted
    return Reduced(
        _count(group, ok & cached, groups),
        _count(group, status.equals("error"), groups),
        _count(group, status.equals("missed"), groups),
        # Whole nanoseconds add up to the same in any order, so that the same rows make no revision.
        _sum(place, nanoseconds, groups) / NS,
        _extreme(np.minimum, place, seconds, groups, np.inf),
        _extreme(np.maximum, place, seconds, groups, -np.inf),
        _histograms(place, nanoseconds, groups, exact),
        _sum(group[hidden], waits_ns, groups) / NS,
        _extreme(np.maximum, group[hidden], waits_ns / NS, groups, -np.inf),
        _histograms(group[hidden], waits_ns, groups, exact),
    )


def reduce_rollups(rollups: Frame, group: Ints, groups: int) -> Reduced:
    """Of rows of `response_rollups`. Rows of an older version know nothing of omission: null is nothing."""
    # In order of their groups, so that histograms which need no merging need no sorting either.
    order = np.argsort(group, kind="stable")
    rollups = rollups.take(order)

    def histograms(name: str) -> Histograms:
        return Histograms.of_texts([text or "" for text in rollups.text(name).tolist()])

    return Reduced(
        rollups.array("cached_count"),
        rollups.array("error_count"),
        rollups.array("missed_count"),
        rollups.array("sum_seconds"),
        rollups.array("min_seconds"),
        rollups.array("max_seconds"),
        histograms("histogram"),
        np.nan_to_num(rollups.array("omitted_sum_seconds")),
        rollups.array("omitted_max_seconds"),
        histograms("omitted_histogram"),
    ).merged(group[order], groups)


def roll_up(responses: Frame, interval_ns: int) -> Frame:
    """One row per interval and label."""
    group, first = groups_of(responses, _LABELS, interval_ns)
    return _frame(responses, first, interval_ns, reduce_responses(responses, group, len(first)))


def all_intervals(responses: Frame) -> Frame:
    """Return the roll-ups of a minute, ten minutes and an hour."""
    return concat([roll_up(responses, interval) for interval in INTERVALS_NS])


def _frame(rows: Frame, first: Ints, interval_ns: int, reduced: Reduced) -> Frame:
    return RESPONSE_ROLLUPS.frame(
        {name: rows[name][first] for name in _LABELS},
        start_ns=rows.ints("start_ns")[first] // interval_ns * interval_ns,
        interval_ns=interval_ns,
        count=reduced.histograms.totals(),
        cached_count=reduced.cached_count,
        error_count=reduced.error_count,
        missed_count=reduced.missed_count,
        sum_seconds=reduced.sum_seconds,
        min_seconds=reduced.min_seconds,
        max_seconds=reduced.max_seconds,
        histogram=reduced.histograms.texts(),
        omitted_sum_seconds=reduced.omitted_sum_seconds,
        omitted_max_seconds=reduced.omitted_max_seconds,
        omitted_histogram=reduced.omitted.texts(),
        rows=len(first),
    )


def groups_of(frame: Frame, labels: Sequence[str | Column], interval_ns: int) -> tuple[Ints, Ints]:
    """Number of each row's (labels, interval), labels first, then in order of time; and a row of each."""
    key = np.zeros(frame.rows, np.int64)
    for label in labels:
        column = frame[label] if isinstance(label, str) else label
        codes = column.codes.astype(np.int64) + 1 if isinstance(column, Text) else _distinct(np.asarray(column))[0]
        key = _distinct(key * (int(codes.max(initial=0)) + 1) + codes)[0]
    step = frame.ints("start_ns") // interval_ns
    step = step - int(step.min(initial=1 << 62)) if len(step) else step
    return _distinct(key * (int(step.max(initial=0)) + 1) + step)


def _distinct(values: NDArray[Any]) -> tuple[Ints, Ints]:
    """Rank of each value among the distinct ones, and a place of each. Stored rows are sorted: equal ones follow one
    another, and only the first of a run is looked at."""
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    _, first, rank = np.unique(values[starts], return_index=True, return_inverse=True)
    lengths = np.diff(np.append(starts, len(values)))
    return np.repeat(rank, lengths).astype(np.int64), starts[first].astype(np.int64)


def _histograms(group: Ints, nanoseconds: Ints, groups: int, exact: bool) -> Histograms:
    if exact:
        return Histograms.of_nanoseconds(group, nanoseconds, groups)
    return Histograms.of_values(group, nanoseconds / NS, groups)


def _sum(group: Ints, values: NDArray[Any], groups: int) -> Floats:
    return np.asarray(np.bincount(group, weights=values, minlength=groups), np.float64)


def _count(group: Ints, mask: Bools, groups: int) -> Ints:
    return np.bincount(group[mask], minlength=groups).astype(np.int64)


def _extreme(function: np.ufunc, group: Ints, values: NDArray[Any], groups: int, start: float) -> Floats:
    result = np.full(groups, start)
    function.at(result, group, values)
    return np.where(np.isinf(result), np.nan, result)
