"""Building small lakes for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from ioweather.core.frames import Frame, Text
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS

DAY = 20_000 * DAY_NS  # 2024-10-04


def series_frame(
    values: Any,
    *,
    start_ns: int = DAY,
    step_ns: int = MINUTE_NS,
    system: str = "scratch",
    kind: str = "ost",
    metric: str = "read_bytes",
    quality: Any = 0,
) -> Frame:
    """A grid time x component as long rows; NaN cells are left out."""
    grid = np.atleast_2d(np.asarray(values, float))
    steps, components = grid.shape
    frame = TABLES["series"].frame(
        rows=grid.size,
        start_ns=np.repeat(start_ns + np.arange(steps) * step_ns, components),
        interval_ns=step_ns,
        system=system,
        component_kind=kind,
        component=Text(
            np.tile(np.arange(components, dtype=np.int32), steps), tuple(f"OST{i:04x}" for i in range(components))
        ),
        metric=metric,
        value=grid.ravel(),
        quality=quality,
    )
    return frame.take(~np.isnan(frame.array("value")))
