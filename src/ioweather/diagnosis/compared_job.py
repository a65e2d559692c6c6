"""Runs similar to the job of a question, and the state of the system during them; `job` and `why` share both."""

from __future__ import annotations

from typing import Final

from ioweather.core.contracts import Params
from ioweather.core.errors import DataUnavailable
from ioweather.diagnosis.masking import judged_on
from ioweather.diagnosis.similar_runs import SimilarRuns, conditions, similar_runs
from ioweather.diagnosis.verdict_wording import Explained
from ioweather.job_io.job_source import find_named_log
from ioweather.topics.source import DataSource

COMPARED_TABLES: Final = frozenset({"applications", "events", "files", "job_io", "responses", "series"})


def similar_to_job(source: DataSource, params: Params) -> SimilarRuns:
    """Runs similar to the job of the parameter `job`. Raises DataUnavailable without a lake."""
    similar, own_rows = source.shared(_find_similar, params)
    source.own_rows |= own_rows
    source.is_compared = True
    return similar


def conditions_of_job(source: DataSource, params: Params) -> Explained:
    """What the system did during the job and runs similar to it."""
    return source.shared(_find_conditions, params)


def _find_similar(source: DataSource, params: Params) -> tuple[SimilarRuns, bool]:
    """The similar runs, and whether they are of the asking user alone."""
    snapshot = source.place.snapshot_if_there()
    if snapshot is None:
        raise DataUnavailable("there is no lake")
    view = source.shared(find_named_log, params)
    rows = judged_on(snapshot, view)
    return similar_runs(view, rows, params.get("as_of")), rows.owner is not None


def _find_conditions(source: DataSource, params: Params) -> Explained:
    similar, _ = source.shared(_find_similar, params)
    rows = judged_on(source.snapshot, similar.view)
    return conditions(similar, rows, filesystem=params.get("filesystem"), step_ns=params.get("resolution"))
