"""The ledger of the lake: what became of each file, as rows of the table `ingests`. Loads no library of tables, so that
processes that read files start fast."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ioweather._version import __version__
from ioweather.core.tables import TABLES
from ioweather.core.units import now_ns

if TYPE_CHECKING:
    from ioweather.lake.lake import Lake


class FileOutcome(NamedTuple):  # a data class takes four times as long to make, and there is one per log
    """The outcome of reading one file, which is its entry in the ledger. `digest` is that of the content."""

    file: str
    digest: str
    bytes: int
    source: str | None
    status: Literal["ok", "partial", "quarantined"]
    rows: Mapping[str, int] = {}
    reason: str | None = None
    message: str | None = None
    # Rows left out because they are impossible, and rows stored with a complaint; the message says why.
    refused_rows: int = 0
    flagged_rows: int = 0

    @property
    def path(self) -> Path:
        return Path(self.file)


def record(lake: Lake, outcomes: Collection[FileOutcome], rows_ingest_ids: str | None = None) -> None:
    """Write to the ledger, always after the rows. `rows_ingest_ids`: the ids of the rows of all these files."""
    by_source: dict[str, list[FileOutcome]] = {}
    for outcome in outcomes:
        by_source.setdefault(outcome.source or "unknown", []).append(outcome)
    for source, group in by_source.items():
        values = dict(zip(FileOutcome._fields, zip(*group, strict=True), strict=True))
        rows = TABLES["ingests"].frame(
            {
                **{name: values[name] for name in ("digest", "bytes", "status", "reason", "message")},
                "path": values["file"],
                "rows_ingest_ids": [rows_ingest_ids] * len(group),
                "rows": [json.dumps(dict(rows), sort_keys=True) for rows in values["rows"]],
                "refused_count": values["refused_rows"],
                "flagged_count": values["flagged_rows"],
                "ingested_ns": now_ns(),
                "software_version": __version__,
            },
        )
        lake.append("ingests", rows, source=source)
