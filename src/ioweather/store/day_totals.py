"""Sums over all components, step by step, of sealed days: written beside the seal, so that nobody adds them up again.

Of each group that lies on its grid there are two arrays: the sum of the values of each step, and the time that its rows
cover. Other steps, other metrics together and shares of coverage are made of them when they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import day_start_ns
from ioweather.core.contracts import SeriesGroup
from ioweather.core.units import DAY_NS
from ioweather.store import layout
from ioweather.store.array_files import packed, unpacked
from ioweather.tables import METRICS

if TYPE_CHECKING:
    import duckdb

# No metric is below zero. Lakes of before rows were checked may hold such values: they count as missing.
POSSIBLE: Final = "value >= 0"
# What makes a group of a day.
_NAME: Final = ("source", "system", "component_kind", "metric", "selection")


def totals_of_rows(con: duckdb.DuckDBPyConnection, rows: str, group: SeriesGroup) -> tuple[Floats, Floats] | None:
    """Sum and covered nanoseconds of each step of the group; None where its rows lie on no grid."""
    if not group.regular:
        return None
    found = con.execute(
        f"SELECT (start_ns - {group.first_ns}) // {group.interval_ns} AS place, sum(value) AS total, count(*) AS n "
        f"FROM ({rows}) WHERE {POSSIBLE} GROUP BY place"
    ).fetchnumpy()
    place = np.asarray(found["place"], np.int64)
    total, weight = np.zeros((2, (group.end_ns - group.first_ns) // group.interval_ns))
    total[place], weight[place] = found["total"], np.asarray(found["n"], np.float64) * group.interval_ns
    return total, weight


def write_totals(
    root: Path, day: str, files: Iterable[str], totals: Mapping[str, tuple[Floats, Floats] | None]
) -> None:
    """By the names of the groups (see `name_of`). They are whole or not there, and say of which files they are."""
    arrays: dict[str, Any] = {"files": np.array([*files], np.str_)}
    for name, found in totals.items():
        if found is not None:
            arrays[f"total/{name}"], arrays[f"weight/{name}"] = found
    draft = layout.seals_dir(root) / f".{day}.npz.{os.getpid()}"
    draft.write_bytes(packed(arrays))
    draft.replace(_file(root, day))


def has_totals(root: Path, day: str, uris: Iterable[str]) -> bool:
    return _opened(root, day, uris, ()) is not None


def name_of(group: SeriesGroup) -> str:
    return " ".join(str(getattr(group, name)) for name in _NAME)


def _file(root: Path, day: str) -> Path:
    return layout.seals_dir(root) / f"{day}.npz"


def _opened(root: Path, day: str, uris: Iterable[str], names: Sequence[str]) -> dict[str, tuple[Floats, Floats]] | None:
    """The groups of these names, if they are of exactly these files."""
    files = [uri.rsplit("/", 1)[1] for uri in uris]

    def chosen(held: Mapping[str, Any]) -> dict[str, tuple[Floats, Floats]] | None:
        if held["files"].tolist() != files:
            return None
        return {name: (held[f"total/{name}"], held[f"weight/{name}"]) for name in names}

    return unpacked(_file(root, day), chosen)


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
    held = _opened(root, day, uris, [name_of(group) for group in groups])
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
