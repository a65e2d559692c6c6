"""What a question gets to work with, and what it gives back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import duckdb

from ioweather.core.errors import DataUnavailable
from ioweather.core.results import Exhibit
from ioweather.simulate.generate import Generated
from ioweather.store.lake import Lake
from ioweather.workflows.analyse import make_exhibits

Measure: TypeAlias = Literal["factor", "difference", "rate"]


@dataclass(frozen=True)
class Item:
    """One number: planted and recovered.

    `error` is |recovered / planted - 1| for a factor, |recovered - planted| for a difference, and what is missing to 1
    for a rate (recall, precision). `allowed` is the error up to which the answer is good.
    """

    name: str
    planted: float | None
    recovered: float | None
    allowed: float
    measure: Measure = "factor"
    unit: str = ""
    note: str = ""

    @property
    def error(self) -> float | None:
        if self.recovered is None or self.planted is None or not math.isfinite(self.recovered):
            return None
        if self.measure == "factor":
            return abs(self.recovered / self.planted - 1.0) if self.planted else None
        return abs(self.planted - self.recovered)

    @property
    def good(self) -> bool:
        return self.error is not None and self.error <= self.allowed


@dataclass(frozen=True)
class Evidence:
    """A lake made from a simulated facility, and its truth."""

    made: Generated
    lake: Lake
    # What several questions need and is made once, by name.
    kept: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def _truth(self) -> list[dict[str, Any]]:
        with duckdb.connect(":memory:") as con:
            found = con.execute("SELECT * FROM read_parquet(?)", [str(self.made.truth)])
            names = [column[0] for column in found.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        for row in rows:
            row["details"] = json.loads(row["details"]) if row["details"] else {}
        return rows

    def truth(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self._truth if row["kind"] == kind]

    @cached_property
    def planted(self) -> dict[str, float]:
        return {row["name"]: row["value"] for row in self.truth("planted")}

    def exhibit(self, exhibit_id: str, **params: str) -> Exhibit:
        return make_exhibits(self.lake, [exhibit_id], params=params)[0]

    def estimates(self, exhibit_id: str) -> dict[str, float | None]:
        return {estimate.name: estimate.value for estimate in self.exhibit(exhibit_id).estimates}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.lake.snapshot() as snapshot:
            return [tuple(row) for row in snapshot.query(sql).fetchall()]


Question: TypeAlias = Callable[[Evidence], Iterator[Item]]


def ask(question: Question, evidence: Evidence) -> tuple[list[Item], str]:
    """(answers, why there are none)."""
    try:
        return list(question(evidence)), ""
    except DataUnavailable as error:
        return [], f"the data do not allow it: {error}"
