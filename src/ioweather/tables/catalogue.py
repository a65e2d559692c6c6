"""All tables of the lake, by name."""

from __future__ import annotations

from ioweather.tables.applications import APPLICATIONS, FILES, JOB_IO
from ioweather.tables.benchmarks import BENCHMARKS
from ioweather.tables.contents import SCAN_BINS, SCAN_ENTRIES, SCANS
from ioweather.tables.jobs import EVENTS, JOB_OPERATIONS, JOBS
from ioweather.tables.ledger import INGESTS
from ioweather.tables.responses import RESPONSE_ROLLUPS, RESPONSES
from ioweather.tables.schema import TableSpec
from ioweather.tables.series import COMPONENTS, SERIES
from ioweather.tables.verdicts import VERDICTS

TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        APPLICATIONS, BENCHMARKS, COMPONENTS, EVENTS, FILES, INGESTS, JOB_IO, JOB_OPERATIONS, JOBS,
        RESPONSE_ROLLUPS, RESPONSES, SCAN_BINS, SCAN_ENTRIES, SCANS, SERIES,
        VERDICTS,
    )
}  # fmt: skip
