"""Sums of sealed days: over all components, step by step, and of each component, hour by hour. They are written beside
the seal, so that nobody adds them up again.

Of each group that lies on its grid there are the sums of the values, and the time that its rows cover. Other steps,
other metrics together and shares of coverage are made of them when they are asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import day_start_ns
from ioweather.core.contracts import SeriesGroup
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.core.whole_files import write_whole
from ioweather.store import layout
from ioweather.store.array_files import packed, unpacked
from ioweather.tables import METRICS

T = TypeVar("T")
# No metric is below zero. Lakes of before rows were checked may hold such values: they count as missing.
POSSIBLE: Final = "value >= 0"
# What makes a group of a day.
_NAME: Final = ("source", "system", "component_kind", "metric", "selection")
_VERSION: Final = 2  # 1 had no hours of components
_HOURS: Final = DAY_NS // HOUR_NS
_LONGEST_NAME: Final = 1000


@dataclass(frozen=True, eq=False)
class Sums:
    """Of one group: by step the sum over components and the covered nanoseconds; by hour and component the same, None
    where its rows do not lie within hours."""

    total: Floats
    weight: Floats
    names: tuple[str, ...] = ()
    hours: Floats | None = None  # (2, 24, components)


def sums_of_rows(
    con: duckdb.DuckDBPyConnection, rows: str, groups: Sequence[SeriesGroup], names: Sequence[Sequence[str]]
) -> dict[str, Sums]:
    """By name, of the groups whose rows lie on a grid. `rows` are `inventory.numbered_rows`, `names` the components of
    each group, sorted."""
    good = f"FROM ({rows}) WHERE group_regular AND {POSSIBLE}"
    steps = _by_group(
        con,
        "SELECT number, (start_ns - group_first_ns) // group_interval_ns AS place, sum(value) AS total, "
        f"count(*) AS n {good} GROUP BY number, place",
        len(groups),
    )
    hours = _by_group(
        con,
        f"SELECT number, start_ns % {DAY_NS} // {HOUR_NS} AS hour, component, sum(value) AS total, count(*) AS n "
        f"{good} AND {HOUR_NS} % group_interval_ns = 0 GROUP BY number, hour, component",
        len(groups),
    )
    made: dict[str, Sums] = {}
    for group, own, step, hour in zip(groups, names, steps, hours, strict=True):
        if not group.regular:
            continue
        total, weight = np.zeros((2, (group.end_ns - group.first_ns) // group.interval_ns))
        place = np.asarray(step["place"], np.int64)
        total[place], weight[place] = step["total"], np.asarray(step["n"], np.float64) * group.interval_ns
        made[name_of(group)] = Sums(total, weight)
        if HOUR_NS % group.interval_ns == 0:
            held = np.zeros((2, _HOURS, len(own)))
            cell = (
                np.asarray(hour["hour"], np.int64),
                np.searchsorted(np.array(own), np.asarray(hour["component"], np.str_)),
            )
            held[0][cell], held[1][cell] = hour["total"], np.asarray(hour["n"], np.float64) * group.interval_ns
            made[name_of(group)] = Sums(total, weight, tuple(own), held)
    return made


def _by_group(con: duckdb.DuckDBPyConnection, query: str, count: int) -> list[dict[str, Any]]:
    """The columns of the query, apart for each number."""
    found = con.execute(f"{query} ORDER BY number").fetchnumpy()
    bounds = np.searchsorted(found["number"], np.arange(count + 1))
    return [{name: column[first:end] for name, column in found.items()} for first, end in pairwise(bounds.tolist())]


def write_sums(root: Path, day: str, files: Iterable[str], sums: Mapping[str, Sums]) -> None:
    """By the names of the groups (see `name_of`). They are whole or not there, and say of which files they are."""
    arrays: dict[str, Any] = {"files": np.array([*files], np.str_), "version": np.array(_VERSION)}
    for name, found in sums.items():
        arrays[f"total/{name}"], arrays[f"weight/{name}"] = found.total, found.weight
        if found.hours is not None:
            arrays[f"hours/{name}"], arrays[f"names/{name}"] = found.hours, np.array(found.names, np.str_)
    write_whole(_file(root, day), packed(arrays), 0o644)


def has_sums(root: Path, day: str, uris: Iterable[str]) -> bool:
    """All that this version writes."""
    return _opened(root, day, uris, lambda held: int(held["version"])) == _VERSION


def name_of(group: SeriesGroup) -> str:
    """Short enough for the name of an array in a zip file."""
    name = " ".join(str(getattr(group, name)) for name in _NAME)
    return name if len(name) < _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def _file(root: Path, day: str) -> Path:
    return layout.seals_dir(root) / f"{day}.npz"


def _opened(root: Path, day: str, uris: Iterable[str], take: Callable[[Mapping[str, Any]], T]) -> T | None:
    """What `take` makes of the arrays, if they are of exactly these files."""
    files = [uri.rsplit("/", 1)[1] for uri in uris]
    return unpacked(_file(root, day), lambda held: take(held) if held["files"].tolist() == files else None)


def component_hours(
    root: Path, day: str, uris: Iterable[str], groups: Sequence[SeriesGroup]
) -> list[tuple[tuple[str, ...], Floats]] | None:
    """Names and hours (see `Sums`) of each group; None where one is not known."""

    def chosen(held: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Floats]]:
        names = [name_of(group) for group in groups]
        found = [(tuple(held[f"names/{name}"].tolist()), held[f"hours/{name}"]) for name in names]
        if any(hours.shape != (2, _HOURS, len(components)) for components, hours in found):
            raise ValueError("the arrays do not fit")
        return found

    return _opened(root, day, uris, chosen)


@dataclass(frozen=True, eq=False)
class DayTotals:
    """A day on a grid: (steps, metrics) of value and coverage, and where there is anything."""

    start_ns: Ints
    value: Floats
    coverage: Floats
    there: Bools


def day_totals(
    root: Path, day: str, uris: Iterable[str], groups: Sequence[SeriesGroup], metrics: Sequence[str], step_ns: int
) -> DayTotals | None:
    """Of the groups of a whole day; None where they are not known. Steps are those of the day."""
    names = [name_of(group) for group in groups]
    held = _opened(root, day, uris, lambda held: {n: (held[f"total/{n}"], held[f"weight/{n}"]) for n in names})
    if held is None:
        return None
    low = day_start_ns(day)
    shape = DAY_NS // step_ns, len(metrics)
    total, weight, components = np.zeros(shape), np.zeros(shape), np.zeros(len(metrics))
    for group in groups:
        sums, covered = held[name_of(group)]
        if len(sums) != (group.end_ns - group.first_ns) // group.interval_ns:
            return None
        cell = (group.first_ns - low + np.arange(len(sums)) * group.interval_ns) // step_ns
        column = metrics.index(group.metric)
        mean = not METRICS[group.metric].extensive
        total[:, column] += np.bincount(cell, sums * group.interval_ns if mean else sums, shape[0])
        weight[:, column] += np.bincount(cell, covered, shape[0])
        components[column] += group.components
    there = weight > 0
    means = np.array([not METRICS[name].extensive for name in metrics])
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(means, total / weight, total)
        coverage = np.minimum(1.0, weight / (step_ns * components))
    return DayTotals(low + np.arange(shape[0], dtype=np.int64) * step_ns, value, coverage, there)
