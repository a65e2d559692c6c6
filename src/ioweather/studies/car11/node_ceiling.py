"""MiB/s per node: the most that network and file system allow, by job size, and the jobs above it (car11 II-D)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Coverage, Exhibit, Finding, Piece, ResultTable, exhibit
from ioweather.core.units import MIB
from ioweather.facts.bandwidth import ceiling_mib_per_s_per_node
from ioweather.facts.runs import NEEDS, PROCESSES_PER_NODE, Runs, jobs_of
from ioweather.stats.intervals import plain
from ioweather.stats.job_estimates import known, share_estimate

_MOST_POINTS: Final = 1500
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


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    jobs = jobs_of(data, facility, params)
    if jobs.rows:
        yield _ceiling(jobs, facility)


@exhibit("car11.ceiling")
def _ceiling(jobs: Runs, facility: Facility) -> Iterator[Piece]:
    """All jobs, not only the large ones."""
    rates, nodes, limits = jobs.floats(PER_NODE), jobs.floats("node_count"), ceilings(jobs, facility)
    there, above = np.isfinite(rates), above_ceiling(jobs, facility)
    decided = bool(np.isfinite(limits).any())
    n, outliers = int((there & np.isfinite(limits)).sum()), int(above.sum())
    yield plain("outlier_jobs", outliers if decided else None, "count", n=n, method="jobs above their ceiling")
    if facility.node_limit_bytes_per_s is not None:
        yield plain("ceiling[node]", facility.node_limit_bytes_per_s / MIB, PER_NODE, method="facility file")
        yield plain("node_network", facility.node_limit_bytes_per_s, "bytes_per_s", method="facility file")
    peaks = [fs.peak_bytes_per_s for fs in facility.filesystems if fs.peak_bytes_per_s is not None]
    if peaks:
        yield plain("storage_peak", max(peaks), "bytes_per_s", method="facility file")
    if there.any():
        yield plain("largest_job_nodes", float(np.nanmax(nodes[there])), "count", n=int(there.sum()))
    else:
        yield NO_NODES
    if decided:
        widest = int(np.nanmax(nodes[np.isfinite(limits)]))
        lowest = float(np.nanmin(limits[nodes == widest]))
        yield plain("ceiling[largest job]", lowest, PER_NODE, method=f"facility file, {widest:,} nodes")
        yield share_estimate("outlier_jobs_ratio", outliers, n)
        text = f"None of {n:,} jobs is above its ceiling."
        if outliers:
            text = f"{outliers:,} of {n:,} jobs are above their ceiling: their I/O is sparse or comes from a cache."
        yield Finding(text, name="above_ceiling")
        share = rates[there] / limits[there]
        close = f"{int(np.sum((share > 0.5) & (share <= 1))):,} jobs reach more than half of their ceiling"
        yield Finding(f"{close}; the median job reaches {np.nanmedian(share):.1%} of it.", name="near_ceiling")
    else:
        text = "Whether jobs reach the ceiling cannot be said without the limits of this facility."
        yield Finding(text, "undecided", name="ceiling_unknown")
    rows: list[tuple[Cell, ...]] = []
    points: list[tuple[Cell, ...]] = []
    shown = np.flatnonzero(there & (rates > 0))
    if len(shown) > _MOST_POINTS:  # jobs above the ceiling, then an even sample of the rest
        rest = shown[~above[shown]]
        shown = np.concatenate([shown[above[shown]][:500], rest[:: max(1, len(rest) // (_MOST_POINTS - 500))]])
    points += [(int(nodes[i]), float(rates[i]), "above the ceiling" if above[i] else "job") for i in shown]
    for size in np.unique(nodes[there]):
        same = nodes == size
        limit, highest = (float(known(values[same]).max(initial=-np.inf)) for values in (limits, rates))
        ceiling = limit if np.isfinite(limit) else None
        rows.append((int(size), int((there & same).sum()), ceiling, highest, int(above[same].sum())))
        if ceiling is not None:
            points.append((int(size), ceiling, "ceiling"))
    yield ResultTable.of(
        "ceiling_by_size",
        f"nodes [count]; jobs [count]; ceiling [{PER_NODE}]; highest: highest seen [{PER_NODE}]; "
        "above: jobs above [count]",
        rows[-200:],
    )
    found = np.flatnonzero(above)[:50]
    names = ("project", "nprocs", "node_count", "moved_bytes", "io_seconds", PER_NODE)
    chosen = zip(found, jobs.frame.take(found).records(), strict=True)
    yield ResultTable.of(
        "above",
        "job_id: job [text]; project [text]; processes [count]; nodes [count]; moved [bytes]; "
        f"io_seconds: I/O time [seconds]; per_node [{PER_NODE}]; ceiling [{PER_NODE}]",
        [(str(row["job_id"]), *(row[name] for name in names), float(limits[i])) for i, row in chosen],
        "Jobs above their ceiling",
    )
    if len(shown):
        drawn = ResultTable.of("points", f"nodes [count]; per_node: performance [{PER_NODE}]; what [text]", points)
        yield Chart.of("scatter", drawn, "x=nodes y=per_node series=what", "Jobs against their ceiling", log="xy")
    yield "Reads from a cache can exceed what network and servers deliver.", () if decided else (NO_CEILING,)
    yield jobs.node_caveats, jobs.node_coverage


STUDY = Study(name="node_ceiling", exhibits=("car11.ceiling",), needs=NEEDS, run=run, params=(PROCESSES_PER_NODE,))
