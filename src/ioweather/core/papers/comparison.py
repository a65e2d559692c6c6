"""Every number that a paper prints, in a row with what is here: the difference, and whether the interval holds it.

A published quantity stands beside the estimate of its name, or of the name that `beside` in the paper's file gives. Of
a quantity with a key (a project, a group, a system) all that are here of the same quantity stand beside it, from
estimates or a table's column: their median and their range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from statistics import median
from typing import Any, Final

from ioweather.core.papers.catalogue import PAPERS, as_printed, document
from ioweather.core.results import Cell, Estimate, Exhibit, Published, ResultTable, columns_of, quantity_label
from ioweather.core.units import format_value

# Differences of these are in their own unit: half of a share is no sensible half.
_ADDITIVE: Final = frozenset({"", "ratio", "percent"})
_COLUMNS: Final = columns_of(
    "quantity [text]; published [text]; here [text]; range: interval, or range here [text]; difference [text]; "
    "holds: range holds it [text]; place [text]"
)


@dataclass(frozen=True)
class Compared:
    """One printed value and what stands beside it: one estimate, or those of all groups, projects or sizes here."""

    published: Published
    ours: tuple[Estimate, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def value(self) -> float | None:
        known = [e.value for e in self.ours if e.value is not None]
        return median(known) if known else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval of one estimate, or the least and the greatest of several."""
        if len(self.ours) == 1:
            low, high = self.ours[0].low, self.ours[0].high
            return None if low is None or high is None else (low, high)
        known = [e.value for e in self.ours if e.value is not None]
        return (min(known), max(known)) if known else None

    @property
    def holds(self) -> bool | None:
        printed, bounds = self.published.value, self.bounds
        if bounds is None or not isinstance(printed, (int, float)) or isinstance(printed, bool):
            return None
        return bounds[0] <= printed <= bounds[1]


def compare(exhibit: Exhibit) -> tuple[Compared, ...]:
    """In the order of the paper."""
    names = {estimate.name: estimate for estimate in exhibit.estimates}
    other = _beside(exhibit.id)
    found = []
    for value in exhibit.published:
        asked = value.quantity
        if asked not in names:
            asked = other.get(asked) or other.get(_base(asked)) or asked
        if asked in names:
            found.append(Compared(value, (names[asked],)))
            continue
        # A threshold ('>=25') is no row of a table that others could stand for.
        threshold = "[>" in value.quantity
        keyed = tuple(e for e in exhibit.estimates if "[" in e.name and _base(e.name) == _base(asked) and not threshold)
        cells = () if keyed or threshold else tuple(_column(exhibit.tables, _base(asked)))
        numbers = keyed or tuple(cell for cell in cells if isinstance(cell, Estimate))
        found.append(Compared(value, numbers, tuple(cell for cell in cells if isinstance(cell, str))))
    return tuple(found)


def _base(name: str) -> str:
    return name.partition("[")[0]


def _column(tables: Sequence[ResultTable], name: str) -> Iterator[Estimate | str]:
    """Of the first table that has it: another one's column of that name is of other things."""
    places = ((table, place) for table in tables for place, column in enumerate(table.columns) if column.name == name)
    for table, place in islice(places, 1):
        for row in table.rows:
            cell = row[place]
            if isinstance(cell, str):
                yield cell
            elif isinstance(cell, (int, float)):
                yield Estimate(f"{name}[{row[0]}]", float(cell), table.columns[place].unit, method="row of a table")


@cache
def _beside(exhibit: str) -> Mapping[str, str]:
    """Published quantities that have another name here."""
    key = exhibit.partition(".")[0]
    if key not in PAPERS:
        return {}
    blocks: list[dict[str, Any]] = document(key)["exhibit"]
    return next((block.get("beside", {}) for block in blocks if block["id"] == exhibit), {})


def comparison_table(exhibit: Exhibit, *, places: bool = True) -> ResultTable | None:
    """What is shown; None where the paper prints nothing."""
    rows = tuple(_row(item) for item in compare(exhibit))
    if not rows:
        return None
    kept = len(_COLUMNS) if places else len(_COLUMNS) - 1
    return ResultTable("published", _COLUMNS[:kept], tuple(row[:kept] for row in rows), "Published, and here")


def _row(item: Compared) -> tuple[Cell, ...]:
    printed, unit = item.published, item.ours[0].unit if item.ours else ""
    value, bounds = item.value, item.bounds
    here = format_value(value, unit) if item.ours else "; ".join(dict.fromkeys(item.words)) or "not here"
    if len(item.ours) > 1 and value is not None:
        here = f"{here} (median of {len(item.ours)})"
    shown = "" if bounds is None else " to ".join(format_value(bound, unit) for bound in bounds)
    holds = "" if item.holds is None else "yes" if item.holds else "no"
    label, note = quantity_label(printed.quantity, printed.unit), filter(None, [printed.place, printed.note])
    return label, as_printed(printed), here, shown, _difference(printed, value, unit), holds, "; ".join(note)


def _difference(printed: Published, value: float | None, unit: str) -> str:
    theirs = printed.value
    if value is None or not isinstance(theirs, (int, float)) or isinstance(theirs, bool) or printed.unit != unit:
        return ""
    if unit in _ADDITIVE:
        return f"{100 * (value - theirs):+.3g} points" if unit == "ratio" else f"{value - theirs:+.3g}"
    return f"{value / theirs:.3g}x" if theirs else ""
