"""A chart in words, for readers who cannot see it."""

from __future__ import annotations

import numpy as np

from ioweather.core.results import Chart, Reference
from ioweather.core.units import format_value
from ioweather.ui.charts import reading

_KIND = {
    "timeline": "Timeline", "cdf": "Cumulative distribution", "histogram": "Histogram", "box": "Box plot",
    "band": "Curve with interval", "scatter": "Scatter plot", "heatmap": "Heat map", "bars": "Bar chart",
    "matrix": "Matrix", "umami": "History of a job's metrics",
}  # fmt: skip
_MOST_NAMES = 12


def describe(chart: Chart) -> str:
    """Kind, title, what is on the axes and how far it reaches, the series, the references."""
    parts = [_KIND[chart.kind] + (f": {chart.title}" if chart.title else "")]
    ranges = [_range(chart, channel) for channel in chart.encoding if channel not in ("series", "label", "this")]
    known = [text for text in ranges if text]
    parts += ["; ".join(known) if known and chart.table.rows else "no data"]
    for channel, word in (("series", "Series"), ("metric", "Metrics")):
        if channel in chart.encoding and chart.table.rows:
            parts.append(f"{word}: {_listed(reading.distinct(reading.names(chart, channel)))}")
    marked = reading.distinct(_reference(chart, r) for r in chart.references if r.label)
    parts += [f"Marked: {_listed(marked)}"] if marked else []
    return ". ".join(parts) + "."


def _range(chart: Chart, channel: str) -> str:
    column = reading.column(chart, channel)
    if not (reading.is_time(chart, channel) or reading.is_numeric(chart, channel)):
        if channel not in ("x", "y"):
            return ""
        return f"{column.heading}: {_listed(reading.distinct(reading.names(chart, channel)))}"
    values = reading.numbers(chart, channel)
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return ""
    scale = 1_000_000 if reading.is_time(chart, channel) else 1
    unit = "time_ns" if reading.is_time(chart, channel) else column.unit
    low, high = (format_value(float(v) * scale, unit) for v in (known.min(), known.max()))
    return f"{column.heading} {low} to {high}" if low != high else f"{column.heading} {low}"


def _reference(chart: Chart, reference: Reference) -> str:
    channel = reference.axis if reference.axis in chart.encoding else ""
    unit = reading.column(chart, channel).unit if channel else ""
    text = f"{reference.label} ({reading.name_of(reference.value, unit)}"
    return text + (")" if reference.end is None else f" to {reading.name_of(reference.end, unit)})")


def _listed(labels: tuple[str, ...]) -> str:
    more = len(labels) - _MOST_NAMES
    return ", ".join(labels[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
