"""Impossible rows: found in a frame, left out or flagged, and named.

The one place where values are judged, for every source, mapping and push.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ioweather.core.frames import Frame, Text
from ioweather.core.units import DAY_NS, MINUTE_NS, NS, format_seconds, format_time_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ioweather.core.frames import Frame
    from ioweather.core.tables.schema import ColumnSpec, Range, TableSpec

# 2000-01-01: no log of this software's sources is older. A clock that was never set counts from 1970.
OLDEST_NS: Final = 10_957 * DAY_NS
# series.Quality.TIME_DOUBTFUL, which is made of this module.
TIME_DOUBTFUL: Final = 128
# Pairs of times in this order, where a table has both.
_ORDERED: Final = (("start_ns", "end_ns"), ("valid_from_ns", "valid_to_ns"))
# Lengths that begin at the time of their row.
_LENGTHS: Final = ("interval_ns", "duration_ns")
_LONGEST_NAME: Final = 60


@dataclass(frozen=True)
class Fault:
    """Rows of a frame that break one rule. They are refused, unless the rule says that a row `stays`: then they have
    `becomes` in the column (NaN is null), and `flag` in their quality."""

    rows: NDArray[np.bool_]
    column: str
    why: str
    stays: bool = False
    becomes: float | None = None
    flag: int = 0


@dataclass(frozen=True)
class Complaint:
    """One rule that rows of a table break: how many rows, and a description of the first."""

    table: str
    rule: str
    stays: bool
    rows: int
    first: str


@dataclass(frozen=True)
class Checked:
    """The rows that can be, mended where a rule says so. `good` tells which those are of the rows that were given, and
    `flagged` which of those given stay with a complaint; both None: all of them, and none."""

    frame: Frame
    complaints: tuple[Complaint, ...] = ()
    good: NDArray[np.bool_] | None = None
    flagged: NDArray[np.bool_] | None = None

    @property
    def doubtful(self) -> NDArray[np.bool_] | slice:
        """Mask of the given rows that have a complaint."""
        return slice(0) if self.good is None or self.flagged is None else ~self.good | self.flagged


def check(spec: TableSpec, frame: Frame, now_ns: int) -> Checked:
    """Check every row of a frame of this table."""
    if frame.rows == 0:
        return Checked(frame)
    faults = [*_faults(spec, frame, now_ns)]
    if not faults:
        return Checked(frame)
    good, flagged = np.ones(frame.rows, np.bool_), np.zeros(frame.rows, np.bool_)
    for fault in faults:
        if fault.stays:
            flagged |= fault.rows
        else:
            good &= ~fault.rows
    complaints = tuple(_complaint(spec, frame, fault) for fault in faults)
    mended = frame
    for fault in faults:
        mended = _mended(mended, fault)
    return Checked(mended if good.all() else mended.take(good), complaints, good, flagged & good)


def _faults(spec: TableSpec, frame: Frame, now_ns: int) -> Iterator[Fault]:
    for column in spec.columns:
        yield from _text_faults(column, frame) if column.type == "text" else _number_faults(column, frame, now_ns)
    for first, last in _ORDERED:
        if first in frame and last in frame:
            early, late = np.ma.masked_array(frame.array(first)), np.ma.masked_array(frame.array(last))
            behind = np.ma.filled(late < early, False)
            if behind.any():
                yield Fault(behind, last, f"lies before {first}")
    for length in _LENGTHS:
        if length in frame and spec.time in frame:
            ends = np.ma.masked_array(frame.array(length)) + frame.array(spec.time)
            if (beyond := _outside(ends, np.iinfo(np.int64).min, now_ns + 2 * DAY_NS)) is not None:
                yield Fault(beyond, length, "leads far into the future")
    flag = TIME_DOUBTFUL if "quality" in frame else 0
    if flag and "interval_ns" in frame and (long := _outside(frame.array("interval_ns"), 0, DAY_NS)) is not None:
        yield Fault(long, "interval_ns", "is more than a day (TIME_DOUBTFUL)", stays=True, flag=flag)
    if spec.time != "valid_from_ns":  # which may well say: since ever
        old = _outside(frame.array(spec.time), OLDEST_NS, np.iinfo(np.int64).max)
        if old is not None:
            yield Fault(old, spec.time, "is before the year 2000 (a clock that was never set)", stays=True, flag=flag)
    if spec.judge is not None:
        yield from spec.judge(frame)


def _text_faults(column: ColumnSpec, frame: Frame) -> Iterator[Fault]:
    text = frame.text(column.name)
    if not column.nullable and text.codes.min() < 0:
        yield Fault(text.codes < 0, column.name, "is missing")
    if column.choices is not None and not column.choices.issuperset(text.categories):
        strange = [code for code, name in enumerate(text.categories) if name not in column.choices]
        wrong = np.isin(text.codes, strange)
        if wrong.any():
            yield Fault(wrong, column.name, f"is no {column.name} of the list")
    if column.reads is not None:
        strange = [code for code, name in enumerate(text.categories) if not column.reads(name)]
        if strange and (wrong := np.isin(text.codes, strange)).any():
            yield Fault(wrong, column.name, f"is not written as a {column.name} is")


def _number_faults(column: ColumnSpec, frame: Frame, now_ns: int) -> Iterator[Fault]:
    allowed, values = column.allowed, frame.array(column.name)
    if allowed is None:
        return
    if column.type == "float64":
        infinite = np.isinf(values)
        if infinite.any():
            yield Fault(infinite, column.name, "is not finite")
        if not column.nullable and (missing := np.isnan(values)).any():
            yield Fault(missing, column.name, "is missing")
        if not column.by_rule:
            beyond = ((values < allowed.least) | (values > allowed.most)) & ~infinite
            if beyond.any():
                yield _outside_fault(beyond, column, allowed)
    elif (wrong := _outside(values, allowed.least, allowed.most_at(now_ns))) is not None:
        yield _outside_fault(wrong, column, allowed)


def _outside(values: NDArray[Any], least: float, most: float) -> NDArray[np.bool_] | None:
    """Integers below or above; None where there is none, which two passes over the numbers tell: what lies below a
    mask is 0, and looked at only when it seems wrong."""
    plain = np.ma.getdata(values)
    if plain.min() >= least and plain.max() <= most:
        return None
    wrong = ((plain < least) | (plain > most)) & ~np.ma.getmaskarray(values)
    return wrong if wrong.any() else None


def _outside_fault(rows: NDArray[np.bool_], column: ColumnSpec, allowed: Range) -> Fault:
    why = f"is outside of what can be ({allowed.label})"
    return Fault(rows, column.name, why, column.else_null, np.nan if column.else_null else None)


def _mended(frame: Frame, fault: Fault) -> Frame:
    if not fault.stays or (fault.becomes is None and not fault.flag):
        return frame
    changed: dict[str, NDArray[Any]] = {}
    before = frame.array(fault.column)
    if fault.becomes is not None and before.dtype.kind == "i":
        changed[fault.column] = np.ma.masked_array(np.ma.getdata(before), np.ma.getmaskarray(before) | fault.rows)
    elif fault.becomes is not None:
        changed[fault.column] = np.where(fault.rows, fault.becomes, before)
    if fault.flag:
        changed["quality"] = np.where(fault.rows, frame.array("quality") | fault.flag, frame.array("quality"))
    return frame.with_columns(**changed)


def _complaint(spec: TableSpec, frame: Frame, fault: Fault) -> Complaint:
    place = int(np.flatnonzero(fault.rows)[0])
    named = ", ".join(f"{name} {_shown(frame, name, place)}" for name in spec.key if name != fault.column)
    first = f"{fault.column} = {_shown(frame, fault.column, place)}{f' at {named}' if named else ''}"
    return Complaint(spec.name, f"{fault.column} {fault.why}", fault.stays, int(fault.rows.sum()), first)


def _shown(frame: Frame, name: str, place: int) -> str:
    column = frame[name]
    if isinstance(column, Text):
        code = int(column.codes[place])
        return repr(column.categories[code])[:_LONGEST_NAME] if code >= 0 else "null"
    value = column[place]
    if value is np.ma.masked:
        return "null"
    is_time = name.endswith("_ns") and name not in ("interval_ns", "duration_ns")
    return format_time_ns(int(value)) if is_time and 0 <= value < _LAST_SHOWN_NS else str(value)


# The year 2262 ends the times of int64, and `datetime` reaches further.
_LAST_SHOWN_NS: Final = (1 << 63) - DAY_NS


@dataclass
class Complaints:
    """Complaints about the rows of one file, summed over its frames."""

    refused: Counter[str] = field(default_factory=Counter)
    flagged: Counter[str] = field(default_factory=Counter)
    _by_rule: dict[tuple[bool, str], Complaint] = field(default_factory=dict)

    def add(self, checked: Checked) -> None:
        for new in checked.complaints:
            known = self._by_rule.get((new.stays, new.rule))
            self._by_rule[new.stays, new.rule] = replace(known, rows=known.rows + new.rows) if known else new
        if checked.good is not None and checked.flagged is not None:
            table = checked.complaints[0].table
            self.refused[table] += int((~checked.good).sum())
            self.flagged[table] += int(checked.flagged.sum())

    @property
    def refused_rows(self) -> int:
        return self.refused.total()

    @property
    def flagged_rows(self) -> int:
        return self.flagged.total()

    def __str__(self) -> str:
        said = []
        for counted, stays, verb in ((self.refused, False, "left out"), (self.flagged, True, "flagged")):
            if counted.total():
                complaints = [complaint for complaint in self._by_rule.values() if complaint.stays == stays]
                rules = "; ".join(f"{c.rule} ({c.rows:,}; first: {c.first})" for c in complaints)
                said.append(f"{_rows(counted)} {verb}: {rules}.")
        return " ".join(said)


def _rows(counted: Counter[str]) -> str:
    return ", ".join(f"{n:,} row{'s' if n > 1 else ''} of {table}" for table, n in sorted(counted.items()) if n)


# Times the median interval of the same metric of the same kind of component; at least a minute: raw rows and those of
# minutes come together.
MOST_INTERVALS: Final = 10
LEAST_BOUND_NS: Final = MINUTE_NS
_LEARNED_FROM: Final = 10_000  # intervals of a metric


class Cadence:
    """Usual interval of samples in a file, learned from all frames; then longer samples are removed."""

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
        """The rows whose interval is within its bound."""
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
        """Describe what was left out; empty if nothing was."""
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
