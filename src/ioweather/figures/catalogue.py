"""Every chart kind, by name: one line adds one."""

from __future__ import annotations

from ioweather.core.registry import Catalogue
from ioweather.figures.compose import Kind

KINDS: Catalogue[Kind] = Catalogue(
    "chart kind",
    {
        "band": "ioweather.figures.kinds.band:KIND",
        "bars": "ioweather.figures.kinds.bars:KIND",
        "box": "ioweather.figures.kinds.box:KIND",
        "cdf": "ioweather.figures.kinds.cdf:KIND",
        "heatmap": "ioweather.figures.kinds.heatmap:KIND",
        "histogram": "ioweather.figures.kinds.histogram:KIND",
        "matrix": "ioweather.figures.kinds.matrix:KIND",
        "scatter": "ioweather.figures.kinds.scatter:KIND",
        "timeline": "ioweather.figures.kinds.timeline:KIND",
        "umami": "ioweather.figures.kinds.umami:KIND",
    },
)
