"""Two or more runs compared, before and after tuning (car11 VI)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import Inventory, Param, Params, Study, StudyData
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Cell, Exhibit
from ioweather.studies.job.before_after import before_after, default_labels
from ioweather.studies.shared.runs import NEEDS, PROCESSES_PER_NODE, instances_of

# The most repeated program at one size; of its runs the slowest and the fastest by bandwidth.
_REPEATED: Final = """
    WITH runs AS (
        SELECT a.exe AS exe, a.nprocs AS nprocs, j.log_digest AS log, j.bytes_per_s AS rate
        FROM job_io j JOIN applications a ON a.log_digest = j.log_digest
        WHERE j.bytes_per_s IS NOT NULL AND a.exe IS NOT NULL
    ), most AS (
        SELECT exe, nprocs FROM runs GROUP BY exe, nprocs HAVING count(*) > 1
        ORDER BY count(*) DESC, max(rate) / min(rate) DESC, exe, nprocs LIMIT 1
    )
    SELECT arg_min(log, rate) || ',' || arg_max(log, rate)
    FROM runs JOIN most ON runs.exe = most.exe AND runs.nprocs = most.nprocs
"""


def _slowest_and_fastest(inventory: Inventory, _: Params) -> Cell:
    return inventory.scalar(_REPEATED)


LOGS: Final = Param(
    "logs",
    "comma-separated digests of the logs to compare, the original first (8 characters are enough); else the slowest "
    "and the fastest run of the program that ran most often at one size",
    choose=_slowest_and_fastest,
)


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    if not params["logs"]:
        raise DataUnavailable(
            "No program ran twice at the same size, so there is nothing to compare by itself.",
            hint="Name the runs with logs=DIGEST,DIGEST.",
        )
    runs = instances_of(data, facility, params)
    rows = _chosen(runs.frame, str(params["logs"]))
    compared = before_after(rows, default_labels(rows))
    yield replace(compared, caveats=(*compared.caveats, *runs.node_caveats), coverage=runs.node_coverage)


def _chosen(runs: Frame, wanted: str) -> list[dict[str, Any]]:
    digests = [text.strip() for text in wanted.split(",") if text.strip()]
    if len(digests) < 2:
        raise UsageError("logs: give at least two digests to compare.")
    known = runs.text("log_digest")
    places = []
    for digest in digests:
        fitting = [code for code, full in enumerate(known.categories) if full.startswith(digest)]
        rows = np.flatnonzero(np.isin(known.codes, fitting))
        if len(rows) != 1:
            raise UsageError(
                f"logs: {len(rows) or 'no'} logs begin with {digest!r}.",
                hint="`log_digest` of the table job_io has them.",
            )
        places.append(int(rows[0]))
    return runs.take(np.array(places)).records()


STUDY = Study(name="tuning", exhibits=("car11.fig11",), needs=NEEDS, run=run, params=(LOGS, PROCESSES_PER_NODE))
