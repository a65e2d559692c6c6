"""`ioweather project`: the question put to a lake."""

from __future__ import annotations

from collections.abc import Mapping

from ioweather.core.errors import DataUnavailable
from ioweather.core.results import Answer
from ioweather.store.lake import Lake
from ioweather.studies.applications.project import PROJECT_QUESTION, project_answer
from ioweather.workflows.analyse import ALL_TIME, Period, fetch
from ioweather.workflows.params import check_names, resolve_params


def ask_project(
    lake: Lake, name: str, *, params: Mapping[str, str] | None = None, period_ns: Period = ALL_TIME
) -> Answer:
    check_names([PROJECT_QUESTION], params or {})
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["job_io"].uris:
            raise DataUnavailable("The lake has no Darshan logs.", hint="Ingest some: ioweather ingest LOGS")
        values = resolve_params(PROJECT_QUESTION, params or {}, snapshot)
        return project_answer(name, fetch(snapshot, PROJECT_QUESTION, values, period_ns), snapshot.facility, values)
