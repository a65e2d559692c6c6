"""The most that network and file system allow a node, by job size, and the jobs above it (car11 II-D)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats
from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Exhibit, Finding, Piece, ResultTable, exhibit
from ioweather.core.units import MIB
from ioweather.studies.applications.node_rates import NO_CEILING, NO_NODES, PER_NODE, above_ceiling, ceilings
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import known, share_estimate
from ioweather.studies.shared.runs import NEEDS, PROCESSES_PER_NODE, Runs, jobs_of

_MOST_POINTS: Final = 1500


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    jobs = jobs_of(data, facility, params)
    if jobs.rows:
        yield _ceiling(jobs, facility)


@exhibit("car11.ceiling")
def _ceiling(jobs: Runs, facility: Facility) -> Iterator[Piece]:
    """All jobs, not only the large ones."""
    rates, nodes, limits = jobs.floats(PER_NODE), jobs.floats("node_count"), ceilings(jobs, facility)
    there = np.isfinite(rates)
    above = above_ceiling(jobs, facility)
    sizes = np.unique(nodes[there])
    by_size = tuple(
        (
            int(size),
            int((there & (nodes == size)).sum()),
            _highest(limits[nodes == size]),
            _highest(rates[nodes == size]),
            int(above[nodes == size].sum()),
        )
        for size in sizes
    )
    listed = ResultTable.of(
        "ceiling_by_size",
        f"nodes [count]; jobs [count]; ceiling [{PER_NODE}]; highest: highest seen [{PER_NODE}]; "
        "above: jobs above [count]",
        by_size[-200:],
    )
    decided = bool(np.isfinite(limits).any())
    n = int((there & np.isfinite(limits)).sum())
    yield plain("outlier_jobs", int(above.sum()) if decided else None, "count", n=n, method="jobs above their ceiling")
    if facility.node_limit_bytes_per_s is not None:
        yield plain("ceiling[node]", facility.node_limit_bytes_per_s / MIB, PER_NODE, method="facility file")
        yield plain("node_network", facility.node_limit_bytes_per_s, "bytes_per_s", method="facility file")
    peaks = [fs.peak_bytes_per_s for fs in facility.filesystems if fs.peak_bytes_per_s is not None]
    if peaks:
        yield plain("storage_peak", max(peaks), "bytes_per_s", method="facility file")
    if there.any():
        yield plain("largest_job_nodes", float(np.nanmax(nodes[there])), "count", n=int(there.sum()))
    if decided:
        widest = int(np.nanmax(nodes[np.isfinite(limits)]))
        lowest = float(np.nanmin(limits[nodes == widest]))
        yield plain("ceiling[largest job]", lowest, PER_NODE, method=f"facility file, {widest:,} nodes")
    if decided:
        yield share_estimate("outlier_jobs_ratio", int(above.sum()), n)
    yield listed, _outliers(jobs, above, limits), _ceiling_charts(nodes, rates, limits, above, there)
    yield _ceiling_findings(decided, n, above, rates, limits, there)
    yield "Reads from a cache can exceed what network and servers deliver.", () if decided else (NO_CEILING,)
    yield jobs.node_caveats, jobs.node_coverage


def _highest(values: Floats) -> float | None:
    there = known(values)
    return float(there.max()) if len(there) else None


def _outliers(jobs: Runs, above: Bools, limits: Floats) -> ResultTable:
    found = np.flatnonzero(above)[:50]
    names = ("project", "nprocs", "node_count", "moved_bytes", "io_seconds", PER_NODE)
    chosen = zip(found, jobs.frame.take(found).records(), strict=True)
    rows = [(str(row["job_id"]), *(row[name] for name in names), float(limits[i])) for i, row in chosen]
    return ResultTable.of(
        "above",
        "job_id: job [text]; project [text]; processes [count]; nodes [count]; moved [bytes]; "
        f"io_seconds: I/O time [seconds]; per_node [{PER_NODE}]; ceiling [{PER_NODE}]",
        rows,
        "Jobs above their ceiling",
    )


def _ceiling_charts(
    nodes: NDArray[Any], rates: NDArray[Any], limits: NDArray[Any], above: Bools, there: Bools
) -> tuple[Chart, ...]:
    shown = np.flatnonzero(there & (rates > 0))
    if not len(shown):
        return ()
    if len(shown) > _MOST_POINTS:  # jobs above the ceiling, then an even sample of the rest
        rest = shown[~above[shown]]
        shown = np.concatenate([shown[above[shown]][:500], rest[:: max(1, len(rest) // (_MOST_POINTS - 500))]])
    points: list[tuple[Cell, ...]] = [
        (int(nodes[i]), float(rates[i]), "above the ceiling" if above[i] else "job") for i in shown
    ]
    for size in np.unique(nodes[there]):
        limit = _highest(limits[nodes == size])
        if limit is not None:
            points.append((int(size), limit, "ceiling"))
    table = ResultTable.of("points", f"nodes [count]; per_node: performance [{PER_NODE}]; what [text]", points)
    return (Chart.of("scatter", table, "x=nodes y=per_node series=what", "Jobs against their ceiling", log="xy"),)


def _ceiling_findings(
    decided: bool, n: int, above: Bools, rates: NDArray[Any], limits: NDArray[Any], there: Bools
) -> Iterator[Finding]:
    if not there.any():
        yield NO_NODES
    if not decided:
        yield Finding(
            "Whether jobs reach the ceiling cannot be said without the limits of this facility.",
            "undecided",
            name="ceiling_unknown",
        )
        return
    if above.any():
        yield Finding(
            f"{int(above.sum()):,} of {n:,} jobs are above their ceiling: their I/O is sparse or comes from a cache.",
            name="above_ceiling",
        )
    else:
        yield Finding(f"None of {n:,} jobs is above its ceiling.", name="above_ceiling")
    share = rates[there] / limits[there]
    close = int(np.sum((share > 0.5) & (share <= 1)))
    yield Finding(
        f"{close:,} jobs reach more than half of their ceiling; the median job reaches {np.nanmedian(share):.1%} of "
        "it.",
        name="near_ceiling",
    )


STUDY = Study(name="node_ceiling", exhibits=("car11.ceiling",), needs=NEEDS, run=run, params=(PROCESSES_PER_NODE,))
