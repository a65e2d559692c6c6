"""Responses reduced per interval, and roll-ups reduced to longer ones: parts always equal the whole."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Frame, Text
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.stats.loghistogram import Histograms
from ioweather.tables import concat
from ioweather.tables.responses import RESPONSE_ROLLUPS

INTERVALS_NS: Final = (MINUTE_NS, 10 * MINUTE_NS, HOUR_NS)
RESPONSE_COLUMNS: Final = (
    "start_ns", "system", "target", "host", "op", "request_bytes", "mode", "duration_ns", "cached", "status",
)  # fmt: skip
_LABELS: Final = ("system", "target", "host", "op", "request_bytes", "mode")


def roll_up(responses: Frame, interval_ns: int) -> Frame:
    """One row per interval and label. `pending` rows are not counted: they come again when they end."""
    start = np.asarray(responses.array("start_ns"), np.int64)
    group, first = _groups(responses, start // interval_ns)
    groups = len(first)
    ok = responses.text("status").equals("ok")
    cached = np.asarray(np.ma.filled(np.ma.masked_array(responses.array("cached")), False), np.bool_)
    duration = np.ma.masked_array(responses.array("duration_ns"))
    timed = ok & ~cached & ~np.ma.getmaskarray(duration)
    seconds = np.ma.getdata(duration)[timed] / NS
    histograms = Histograms.of_values(group[timed], seconds, groups)
    return RESPONSE_ROLLUPS.frame(
        {name: responses[name][first] for name in _LABELS},
        start_ns=start[first] // interval_ns * interval_ns,
        interval_ns=interval_ns,
        count=histograms.totals(),
        cached_count=_count(group, ok & cached, groups),
        error_count=_count(group, responses.text("status").equals("error"), groups),
        missed_count=_count(group, responses.text("status").equals("missed"), groups),
        sum_seconds=np.bincount(group[timed], weights=seconds, minlength=groups),
        min_seconds=_extreme(np.minimum, group[timed], seconds, groups, np.inf),
        max_seconds=_extreme(np.maximum, group[timed], seconds, groups, -np.inf),
        histogram=histograms.texts(),
        rows=groups,
    )


def coarsen(rollups: Frame, interval_ns: int) -> Frame:
    """Roll-ups of one interval into longer ones."""
    start = np.asarray(rollups.array("start_ns"), np.int64)
    group, first = _groups(rollups, start // interval_ns)
    groups = len(first)
    texts = [text or "" for text in rollups.text("histogram").tolist()]
    histograms = Histograms.of_texts(texts).merged(group, groups)
    totals = {
        name: np.bincount(group, weights=np.asarray(rollups.array(name), np.float64), minlength=groups)
        for name in ("cached_count", "error_count", "missed_count", "sum_seconds")
    }
    there = np.asarray(rollups.array("count")) > 0
    return RESPONSE_ROLLUPS.frame(
        {name: rollups[name][first] for name in _LABELS},
        start_ns=start[first] // interval_ns * interval_ns,
        interval_ns=interval_ns,
        count=histograms.totals(),
        **{name: totals[name].astype(np.int64) for name in ("cached_count", "error_count", "missed_count")},
        sum_seconds=totals["sum_seconds"],
        min_seconds=_extreme(np.minimum, group[there], rollups.array("min_seconds")[there], groups, np.inf),
        max_seconds=_extreme(np.maximum, group[there], rollups.array("max_seconds")[there], groups, -np.inf),
        histogram=histograms.texts(),
        rows=groups,
    )


def all_intervals(responses: Frame) -> Frame:
    return concat([roll_up(responses, interval) for interval in INTERVALS_NS])


def _groups(frame: Frame, interval: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of each row's (interval, labels), in order of time; and a row of each."""
    key = np.zeros(frame.rows, np.int64)
    for name in _LABELS:
        column = frame[name]
        codes = column.codes.astype(np.int64) + 1 if isinstance(column, Text) else _dense(np.asarray(column))
        key = _dense(key * (int(codes.max(initial=0)) + 1) + codes)
    steps = interval - int(interval.min(initial=0)) if len(interval) else interval
    combined = steps * (int(key.max(initial=0)) + 1) + key
    _, first, group = np.unique(combined, return_index=True, return_inverse=True)
    return group.astype(np.int64), first.astype(np.int64)


def _dense(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _count(group: NDArray[np.int64], mask: NDArray[np.bool_], groups: int) -> NDArray[np.int64]:
    return np.bincount(group[mask], minlength=groups).astype(np.int64)


def _extreme(
    function: np.ufunc, group: NDArray[np.int64], values: NDArray[Any], groups: int, start: float
) -> NDArray[np.float64]:
    result = np.full(groups, start)
    function.at(result, group, values)
    return np.where(np.isinf(result), np.nan, result)
