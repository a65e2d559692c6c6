"""Values over time: lines with gaps, bands of `low` to `high`, shaded windows."""

from __future__ import annotations

from ioweather.figures.compose import Drawing, PanelKind, View
from ioweather.figures.decimate import thin_line
from ioweather.figures.lines import KEPT_OF_LINES, curve_axes, draw_curves


def _draw(view: View) -> Drawing:
    return draw_curves(view, thin_line, KEPT_OF_LINES)


KIND = PanelKind(("x", "y"), curve_axes, _draw, optional=("series", "low", "high"))
