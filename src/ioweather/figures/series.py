"""The series of a chart: which colour, dash and shape each has, and the legend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.axes import text_px
from ioweather.figures.theme import HUES, SERIES, Spec

# These two stand in most pictures; they keep their colours whatever the order of the rows.
_FIXED: Final = {"read": 0, "write": 1}
_SHAPES: Final = (
    "circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left",
)  # fmt: skip


@dataclass(frozen=True)
class Series:
    """`names` is empty for a chart without series. More than two rounds of colours cannot be told apart: such a
    bundle is drawn in one thin colour, without a legend."""

    names: tuple[str, ...] = ()
    heading: str = ""

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
        return {
            "title": None, "orient": "top", "direction": "horizontal", "columns": columns, "offset": offset,
            "labelLimit": 220, "symbolOpacity": 1,
        }  # fmt: skip

    def colour(self, legend: Spec | None) -> Spec:
        """The colour channel of the field `s`."""
        if not self.names or self.bundled:
            return {"value": SERIES[0]}
        scale = {"domain": list(self.names), "range": [SERIES[i] for i in self.order]}
        return {"field": "s", "type": "nominal", "scale": scale, "legend": legend}

    def dash(self, legend: Spec | None) -> Spec:
        """Channels that tell the lines of the second round of colours from the first."""
        if self.bundled or len(self.names) <= HUES:
            return {}
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
    return Series(reading.distinct(reading.names(chart, "series")), reading.column(chart, "series").heading)
