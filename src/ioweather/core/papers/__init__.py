"""The five papers as data: who wrote them, what can be made again from a site's own data, and what they print.

A published number is named so that a study can pick it: `below_ratio[1 MiB]`, `mean_rate_read`, `pearson_write[ESB]`.
What is in brackets is a row of a table, a project, a system or a threshold; `_read` and `_write` tell directions apart.
"""

from ioweather.core.papers.catalogue import (
    PAPERS,
    ExhibitEntry,
    Paper,
    as_printed,
    context,
    exhibit_entry,
    exhibits,
    published,
)

__all__ = ["PAPERS", "ExhibitEntry", "Paper", "as_printed", "context", "exhibit_entry", "exhibits", "published"]
