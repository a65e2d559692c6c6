"""`ingests`: the ledger of files that came in, or did not, and why. Quarantine is a view of it."""

from __future__ import annotations

from ioweather.tables.ranges import FILE_SIZE
from ioweather.tables.schema import ColumnSpec, TableSpec

INGESTS = TableSpec(
    name="ingests",
    doc="One row per file digest: committed last, so a file that is here is in.",
    columns=(
        ColumnSpec("digest", "text", "content digest of the file (with the context that changes its meaning)"),
        ColumnSpec("path", "text", "where it was read from"),
        ColumnSpec("bytes", "int64", "size of the file", range=FILE_SIZE),
        ColumnSpec("status", "text", "ok, partial or quarantined"),
        ColumnSpec("reason", "text", "why not ok: the error's name", nullable=True),
        ColumnSpec("message", "text", "what is wrong with the file, or with some of its rows", nullable=True),
        ColumnSpec("rows", "text", "JSON: rows read per table, those that were there already too"),
        ColumnSpec("refused_count", "int64", "rows left out, because they cannot be", nullable=True),
        ColumnSpec("flagged_count", "int64", "rows kept, with a complaint", nullable=True),
        ColumnSpec(
            "rows_ingest_ids",
            "text",
            "comma-separated: the ingest_id of its rows, and of those that came in with them",
            nullable=True,
        ),
        ColumnSpec("ingested_ns", "int64", "when"),
        ColumnSpec("software_version", "text", "by which version"),
    ),
    key=("digest",),
    time="ingested_ns",
    revisable=True,
    order=("ingested_ns",),
)
