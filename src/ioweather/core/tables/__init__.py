"""The tables of the lake: columns, units in their names, natural keys, and how their frames are built."""

from ioweather.core.tables.catalogue import TABLES
from ioweather.core.tables.checks import Checked, Complaints
from ioweather.core.tables.schema import LAKE_COLUMNS, SCHEMA_VERSION, ColumnSpec, TableSpec, concat, encode_text
from ioweather.core.tables.series import METRICS, Metric, Quality

__all__ = [
    "LAKE_COLUMNS", "METRICS", "SCHEMA_VERSION", "TABLES", "Checked", "ColumnSpec", "Complaints", "Metric", "Quality",
    "TableSpec", "concat", "encode_text",
]  # fmt: skip
