"""The tables of the lake, for packages that add readers, studies or questions."""

from ioweather.core.tables import LAKE_COLUMNS, METRICS, TABLES, Quality, concat, encode_text

__all__ = ["LAKE_COLUMNS", "METRICS", "TABLES", "Quality", "concat", "encode_text"]
