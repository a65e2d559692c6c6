"""MiB/s/CN of jobs, and the jobs that are above what a node can move: flagged, not averaged in (car11 II-D)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.facility import Facility
from ioweather.core.results import Coverage, Finding
from ioweather.derive.jobs.ceiling import ceiling_mib_per_s_per_node
from ioweather.studies.shared.runs import Runs

PER_NODE: Final = "mib_per_s_per_node"
NO_NODES: Final = Finding(
    "No job has a known number of nodes, so there is no MiB/s per node: ingest accounting, or give processes_per_node.",
    "undecided",
    name="no_node_counts",
)
NO_CEILING: Final = (
    "The facility file gives no limit per node and no peak of a file system, so no job can be told to be above its "
    "ceiling: set node_limit_bytes_per_s and peak_bytes_per_s."
)


def ceilings(jobs: Runs, facility: Facility) -> Floats:
    """Ceiling of each job in MiB/s/CN; NaN where it or the job's nodes are not known."""
    return ceiling_mib_per_s_per_node(jobs.floats("node_count"), jobs.frame.text("main_mount"), facility)


def above_ceiling(jobs: Runs, facility: Facility) -> Bools:
    return np.asarray(jobs.floats(PER_NODE) > ceilings(jobs, facility))


def below_ceiling(jobs: Runs, facility: Facility) -> tuple[Runs, tuple[str, ...]]:
    """Jobs without those above their ceiling, which are counted; and what to say about it."""
    if np.isnan(ceilings(jobs, facility)).all():
        return jobs, (NO_CEILING,) if jobs.rows else ()
    above = above_ceiling(jobs, facility)
    count = int(above.sum())
    if not count:
        return jobs, ()
    coverage = Coverage(jobs.rows, jobs.rows - count, jobs.what, {"above the ceiling": count}, "below the ceiling")
    note = f"{count:,} jobs are above what their nodes can move (sparse, uncoordinated I/O) and are left out."
    return jobs.take(~above, coverage), (note,)
