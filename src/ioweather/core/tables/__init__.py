"""The tables of the lake: columns, units in their names, natural keys, and how their frames are built."""

from __future__ import annotations

from ioweather.core.tables.checks import Checked, Complaints
from ioweather.core.tables.definitions import COMPONENTS, METRICS, SERIES, TABLES, Metric, Quality
from ioweather.core.tables.schema import LAKE_COLUMNS, SCHEMA_VERSION, ColumnSpec, TableSpec, concat, encode_text

__all__ = [
    "COMPONENTS",
    "LAKE_COLUMNS",
    "METRICS",
    "SCHEMA_VERSION",
    "SERIES",
    "TABLES",
    "Checked",
    "ColumnSpec",
    "Complaints",
    "Metric",
    "Quality",
    "TableSpec",
    "concat",
    "encode_text",
]
