"""Cumulative distributions: the share of values at or below x."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.axes import number_axis
from ioweather.figures.compose import Axes, Drawing, PanelKind, View
from ioweather.figures.decimate import CDF_POINTS, thin_cdf
from ioweather.figures.lines import curve_axes, draw_curves

_STEPS_BELOW = 60  # with more points a step is no wider than the line


def _axes(chart: Chart, width: int) -> Axes:
    """Shares reach from 0 to 100%, whatever part of it the data show."""
    column = reading.column(chart, "y")
    share = replace(column, unit=column.unit or "ratio")
    log = chart.scales.get("y") == "log"
    ends = np.array([1.0]) if log else np.array([0.0, 1.0])
    y = number_axis(share, [reading.numbers(chart, "y"), ends], log=log, tight=True)
    return Axes(curve_axes(chart, width).x, y)


def _draw(view: View) -> Drawing:
    count = max(len(view.series.names), 1)
    limit = max(min(CDF_POINTS, view.points // count), 8)

    def thin(x: Floats, y: Floats, _buckets: int) -> Indices:
        return thin_cdf(x, y, limit)

    few = len(view.chart.table.rows) / count <= _STEPS_BELOW
    return draw_curves(view, thin, "thinned so that the tails stay", "step-after" if few else "linear")


KIND = PanelKind(("x", "y"), _axes, _draw, optional=("series",))
