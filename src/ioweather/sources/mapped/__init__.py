"""Anybody's CSV or Parquet as rows of a table, by a mapping that a person writes."""
