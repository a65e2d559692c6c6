"""The series of a chart: which colour, dash and shape each has, and the legend."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.results import Cell, Chart
from ioweather.core.words import names_of
from ioweather.ui.charts import reading
from ioweather.ui.charts.axes import text_px
from ioweather.ui.charts.theme import HUES, SERIES, Spec

# These two stand in most pictures; they keep their colours whatever the order of the rows.
_FIXED: Final = {"read": 0, "write": 1}
_SHAPES: Final = names_of("circle square triangle-up diamond cross triangle-down triangle-right triangle-left")


# A line that nine tenths of the points of another lie on, to half a percent of the axis, hides it.
_SAME_POINTS, _SAME_PLACE = 0.9, 0.005
_CURVES: Final = ("timeline", "band", "cdf")


@dataclass(frozen=True)
class Series:
    """`names` is empty for a chart without series. More than two rounds of colours cannot be told apart: such a
    bundle is drawn in one thin colour, without a legend. `hiding` are lines that lie on one drawn before: dashed, both
    are seen."""

    names: tuple[str, ...] = ()
    heading: str = ""
    hiding: frozenset[str] = frozenset()

    @property
    def bundled(self) -> bool:
        return len(self.names) > len(SERIES)

    @property
    def order(self) -> list[int]:
        """The place of each series in the palette."""
        taken = {_FIXED[n.casefold()] for n in self.names if n.casefold() in _FIXED}
        free = (index for index in range(len(SERIES) + len(taken)) if index not in taken)
        return [
            _FIXED[n.casefold()] if n.casefold() in _FIXED else next(free) % len(SERIES)
            for n in self.names[: len(SERIES)]
        ]

    def legend(self, width: int, offset: int = 6) -> Spec | None:
        if not self.names or self.bundled:
            return None
        widest = max(text_px(name) for name in self.names)
        columns = max(1, min(len(self.names), int((width + 14) // (min(widest, 220) + 36))))
        legend = {"title": None, "orient": "top", "direction": "horizontal", "columns": columns}
        return legend | {"offset": offset, "labelLimit": 220, "symbolOpacity": 1}

    def colour(self, legend: Spec | None) -> Spec:
        """The colour channel of the field `s`."""
        if not self.names or self.bundled:
            return {"value": SERIES[0]}
        scale = {"domain": list(self.names), "range": [SERIES[i] for i in self.order]}
        return {"field": "s", "type": "nominal", "scale": scale, "legend": legend}

    def dash(self, legend: Spec | None) -> Spec:
        """Channels that tell the lines of the second round of colours from the first, and lines on each other."""
        if self.bundled:
            return {}
        if len(self.names) <= HUES:
            # By a test instead of a scale, which the legend would show: dashes tear its round symbols.
            listed = json.dumps([name for name in self.names if name in self.hiding])
            dashed = {"condition": {"test": f"indexof({listed}, datum.s) >= 0", "value": [7, 7]}, "value": [1, 0]}
            return {"strokeDash": dashed} if self.hiding else {}
        dashes = [[1, 0] if i < HUES else [5, 3] for i in self.order]
        scale = {"domain": list(self.names), "range": dashes}
        return {"strokeDash": {"field": "s", "type": "nominal", "scale": scale, "legend": legend}}

    def shape(self, legend: Spec | None) -> Spec:
        if self.bundled or len(self.names) < 2:
            return {}
        scale = {"domain": list(self.names), "range": [_SHAPES[i % len(_SHAPES)] for i in self.order]}
        return {"shape": {"field": "s", "type": "nominal", "scale": scale, "legend": legend}}


def series_of(chart: Chart) -> Series:
    if "series" not in chart.encoding:
        return Series()
    names = reading.distinct(reading.names(chart, "series"))
    return Series(names, reading.column(chart, "series").heading, _hiding(chart, names))


def _hiding(chart: Chart, names: tuple[str, ...]) -> frozenset[str]:
    """Series whose points are those of an earlier one, in all panels together."""
    if chart.kind not in _CURVES or not 1 < len(names) <= len(SERIES):
        return frozenset()
    x, y = (reading.numbers(chart, channel) for channel in ("x", "y"))
    log = chart.scales.get("y") == "log"
    with np.errstate(invalid="ignore", divide="ignore"):
        height = np.log(y) if log else y
    known = np.isfinite(height) & np.isfinite(x)
    near = _SAME_PLACE * float(np.ptp(height[known])) if known.any() else 0.0
    facet = next((i for i, column in enumerate(chart.table.columns) if column.name == chart.facet), None)
    panels = [None if facet is None else row[facet] for row in chart.table.rows]
    points: dict[str, dict[tuple[Cell, float], float]] = {name: {} for name in names}
    rows = zip(reading.names(chart, "series"), panels, x.tolist(), height.tolist(), known.tolist(), strict=True)
    for name, panel, at, value, there in rows:
        if there:
            points[name][panel, at] = value

    def same(one: str, other: str) -> bool:
        mine, theirs = points[one], points[other]
        both = [abs(value - theirs[place]) <= near for place, value in mine.items() if place in theirs]
        return bool(mine) and sum(both) >= _SAME_POINTS * len(mine)

    return frozenset(b for i, b in enumerate(names) if any(same(b, a) for a in names[:i]))
