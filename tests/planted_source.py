"""Rows for studies and questions in place of a lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any

import numpy as np

from ioweather.core.contracts import ALL_TIME, Spread, Study
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Matrix, Text
from ioweather.core.results import Exhibit
from ioweather.core.tables import TABLES

_ROLLUPS = {"read_bytes": ("traffic", "burst_buffer"), "read_ops": ("operations",), "open_ops": ("metadata",)}


@dataclass(eq=False)
class PlantedSource:
    """`frames` by table; roll-ups are called traffic, operations, metadata and burst_buffer. `matrices` by metric."""

    frames: Mapping[str, Frame] = field(default_factory=dict)
    matrices_by_metric: Mapping[str, Matrix] = field(default_factory=dict)
    period_ns: tuple[int, int] = ALL_TIME
    step_ns: int = 0
    facility: Facility = field(default_factory=Facility)
    spread: Spread = starmap
    wanted: frozenset[str] = frozenset()
    quality_notes: tuple[str, ...] = ()
    reads_files: bool = False

    def wants(self, *exhibits: str) -> bool:
        return not self.wanted or not self.wanted.isdisjoint(exhibits)

    def frame(
        self, table: str, columns: Sequence[str] = (), where: Mapping[str, Any] | None = None, **options: Any
    ) -> Frame:
        if table not in self.frames:
            return TABLES[table].frame({name: [] for name in TABLES[table].names}, rows=0)
        rows = self.frames[table]
        for name, value in (where or {}).items():
            if name in rows and name != "root" and isinstance(rows[name], Text):
                wanted = (value,) if isinstance(value, str) else value
                rows = rows.take(np.isin(np.array(rows.text(name).tolist(), object), wanted))
        return rows

    def rollup(
        self, filesystem: str, component_kind: str, metrics: Sequence[str], step_ns: int, **options: Any
    ) -> Frame:
        return next((self.frames[name] for name in _ROLLUPS[metrics[0]] if name in self.frames), Frame({}))

    def matrices(
        self, filesystem: str, component_kind: str, metrics: Sequence[str], step_ns: int, **options: Any
    ) -> dict[str, Matrix]:
        return {metric: self.matrices_by_metric[metric] for metric in metrics if metric in self.matrices_by_metric}


def run_study(
    study: Study, data: PlantedSource, facility: Facility | None = None, params: Mapping[str, Any] | None = None
) -> Iterator[Exhibit]:
    """The exhibits of planted data; a parameter that is not given is None."""
    defaults = {param.name: None for param in study.params} | {"resolution": data.step_ns}
    source: Any = data if facility is None else replace(data, facility=facility)
    return study.run(source, {**defaults, **(params or {})})
