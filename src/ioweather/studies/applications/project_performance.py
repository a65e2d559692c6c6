"""How well projects use the storage (car11 V): MiB/s/CN by project, by job and by number of nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, Piece, ResultTable, exhibit
from ioweather.core.units import format_bytes, format_value
from ioweather.derive.jobs.ratios import quotient
from ioweather.derive.jobs.signatures import scaling
from ioweather.stats.imbalance import rank_correlation
from ioweather.studies.applications.node_ceiling import NO_NODES, PER_NODE, below_ceiling
from ioweather.studies.applications.project_io import CLOSE_IS_METADATA, MEANS_OF_JOBS
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import known, mean_estimate, median_estimate, quantiles, rank_estimate
from ioweather.studies.shared.presenting import relabelled
from ioweather.studies.shared.runs import MIN_SIZES, NEEDS, PROCESSES_PER_NODE, PROJECT, Runs, jobs_of, large
from ioweather.tables.applications import READ_BINS, SIZE_BIN_UPPER_BYTES, WRITE_BINS

_JOBS_SHOWN: Final = 6


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    jobs = jobs_of(data, facility, params)
    shown = jobs.largest_projects()
    if not shown:
        return
    big, above = below_ceiling(large(jobs, params), facility)
    yield _boxes(big, shown, above, params)
    yield _by_job(big, _project(big, params, by_variety), above)
    yield _by_size(big, _project(big, params, by_sizes), above)


def _project(jobs: Runs, params: Params, fitting: Any) -> str | None:
    """The project asked for, else the one among the largest that fits the exhibit best."""
    asked = params.get("project")
    names = set(jobs.projects.tolist())
    if asked:
        if asked not in names:
            raise UsageError(
                f"There is no project {asked!r} with large jobs.",
                hint=f"There are: {', '.join(sorted(map(str, names)))}.",
            )
        return str(asked)
    candidates = jobs.largest_projects()
    return max(candidates, key=lambda name: (fitting(jobs.of_project(name)), -candidates.index(name)), default=None)


def by_variety(jobs: Runs) -> tuple[bool, float]:
    """Projects with jobs enough for a table first, then those whose jobs differ most."""
    return jobs.rows >= _JOBS_SHOWN, by_spread(jobs)


def by_spread(jobs: Runs) -> float:
    """How different the jobs of a project perform: ratio of the best to the worst."""
    rates = known(jobs.floats(PER_NODE))
    return float(rates.max() / rates.min()) if len(rates) > 1 and rates.min() > 0 else 0.0


def by_sizes(jobs: Runs) -> float:
    """On how many different node counts a project ran."""
    return float(len(np.unique(known(jobs.floats("node_count")))))


@exhibit("car11.fig10")
def _boxes(jobs: Runs, shown: list[str], above: tuple[str, ...], params: Params) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    for name in shown:
        rates = known(jobs.of_project(name).floats(PER_NODE))
        if len(rates):
            q05, q25, q50, q75, q95 = quantiles(rates)
            rows.append((name, len(rates), float(rates.min()), q05, q25, q50, q75, q95, float(rates.max())))
            yield median_estimate(f"median[{name}]", rates, PER_NODE)
            spread = (q75 or 0.0) - (q25 or 0.0)
            yield plain(f"interquartile_range[{name}]", spread, PER_NODE, n=len(rates), method="Q3 - Q1")
    yield [
        plain("filter_processes", params["min_processes"], "count", method="as set"),
        plain("filter_moved", params["min_bytes"], "bytes", method="as set"),
    ]
    unit = PER_NODE
    boxes = ResultTable.of(
        "boxes",
        f"project [text]; jobs [count]; min [{unit}]; q05: 5% [{unit}]; q25: Q1 [{unit}]; q50: median [{unit}]; "
        f"q75: Q3 [{unit}]; q95: 95% [{unit}]; max [{unit}]",
        rows,
    )
    chart = Chart.of(
        "box",
        relabelled(boxes, q50="performance"),
        "x=project q05=min q25 q50 q75 q95=max",
        "Performance per node of large jobs: least, quartiles, greatest",
    )
    yield boxes, (chart,) if rows else (), tuple(_box_findings(rows)) or (NO_NODES,), above, jobs.node_caveats
    yield jobs.node_coverage


def _box_findings(rows: list[tuple[Any, ...]]) -> Iterator[Finding]:
    if not rows:
        return
    best, worst = max(rows, key=lambda r: r[5]), min(rows, key=lambda r: r[5])
    yield Finding(
        f"{best[0]} has the highest median, {_rate(best[5])}; {worst[0]} the lowest, {_rate(worst[5])}.",
        name="median_range",
    )
    several = [r for r in rows if r[1] >= 4 and r[5]]
    if several:
        steady = min(several, key=lambda r: (r[6] - r[4]) / r[5])
        wide = max(several, key=lambda r: (r[6] - r[4]) / r[5])
        yield Finding(
            f"Jobs of {steady[0]} perform most alike (interquartile range {_spread(steady)}).", name="steadiest_project"
        )
        if wide[0] != steady[0]:
            yield Finding(
                f"Jobs of {wide[0]} differ most (interquartile range {_spread(wide)}).", name="least_steady_project"
            )


def _spread(row: tuple[Any, ...]) -> str:
    return f"{_rate(row[6] - row[4])}, {(row[6] - row[4]) / row[5]:.0%} of the median"


def _rate(value: float) -> str:
    return format_value(value, PER_NODE)


def key_access(row: dict[str, Any]) -> str:
    """Most common access size with its direction, in the manner of car11 Table V: '74 KiB', '20 B (w)', '4 B (r)'.

    Darshan's most common sizes do not tell reads from writes; the histogram bins of that size do.
    """
    size = row["common_access_bytes"]
    if size is None:
        return "–"
    place = next(i for i, upper in enumerate(SIZE_BIN_UPPER_BYTES) if upper is None or size <= upper)
    reads, writes = row[READ_BINS[place]], row[WRITE_BINS[place]]
    if not reads and not writes:
        return format_bytes(size)
    part = writes / (reads + writes)
    return f"{format_bytes(size)} ({'w' if part > 0.9 else 'r' if part < 0.1 else 'r+w'})"


def _by_job(jobs: Runs, project: str | None, above: tuple[str, ...]) -> Exhibit:
    """car11.table5."""
    own = jobs.of_project(project) if project else jobs.take(slice(0, 0))
    rates = own.floats(PER_NODE)
    ranked = np.argsort(-rates, kind="stable")[: int(np.isfinite(rates).sum())]  # NaN sorts last
    # From the fastest to the slowest in even steps.
    steps = np.linspace(0, max(0, len(ranked) - 1), min(_JOBS_SHOWN, len(ranked))).round().astype(np.int64)
    names = ("nprocs", "node_count", PER_NODE, "metadata_ratio")
    lettered = zip("ABCDEF", own.frame.take(ranked[steps]).records(), strict=False)
    rows = [
        (letter, str(row["job_id"]), *(row[name] for name in names), key_access(row), row["interfaces"])
        for letter, row in lettered
    ]
    listed = ResultTable.of(
        "jobs",
        f"job [text]; job_id: id [text]; processes [count]; nodes [count]; per_node [{PER_NODE}]; "
        "metadata_ratio: metadata [ratio]; key_access [text]; interfaces [text]",
        rows,
    )
    spread = by_spread(own)
    if not len(ranked):
        finding = NO_NODES
    elif not spread:
        finding = Finding(f"{project} has one job with a known rate, so there is nothing to compare.", name="one_job")
    else:
        faster = format_value(spread, "factor")
        finding = Finding(
            f"The fastest job of {project} is {faster} as fast per node as its slowest.", name="fastest_job"
        )
    return Exhibit(
        "car11.table5", f"Performance by job: {project or 'no project'}", tables=(listed,),
        estimates=(
            plain("jobs", own.rows, "count"),
            plain("fastest_over_slowest", spread or None, "factor", n=len(ranked), method="maximum / minimum"),
        ),
        findings=(finding,),
        caveats=(
            "Jobs are taken from the fastest to the slowest in even steps.",
            CLOSE_IS_METADATA, *above, *jobs.node_caveats,
        ),
        coverage=jobs.node_coverage,
    )  # fmt: skip


def _by_size(jobs: Runs, project: str | None, above: tuple[str, ...]) -> Exhibit:
    """car11.table6."""
    own = jobs.of_project(project) if project else jobs.take(slice(0, 0))
    nodes, rates = own.floats("node_count"), own.floats(PER_NODE)
    there = np.isfinite(nodes) & np.isfinite(rates)
    estimates: list[Estimate] = []
    rows: list[tuple[Cell, ...]] = []
    for size in np.unique(nodes[there]):
        mask = there & (nodes == size)
        mean = mean_estimate(f"per_node[{int(size)}]", rates[mask], PER_NODE)
        estimates += [plain(f"jobs[{int(size)}]", int(mask.sum()), "count"), mean]
        metadata = known(own.floats("metadata_ratio")[mask])
        shares = known(quotient(own.floats("io_seconds")[mask], own.floats("run_seconds")[mask]))
        moved = int(np.median(own.ints("moved_bytes")[mask]))
        rows.append((int(size), int(mask.sum()), mean.value, _mean(metadata), _mean(shares), moved))
    sizes = ResultTable.of(
        "sizes",
        f"nodes [count]; jobs [count]; per_node: per node, mean [{PER_NODE}]; metadata_ratio: metadata [ratio]; "
        "io_ratio: I/O of run time [ratio]; moved: moved, median [bytes]",
        rows,
    )
    if len(rows) > 1:
        estimates.append(_size_trend(nodes[there], rates[there]))
    drawn = relabelled(sizes, per_node="mean performance")
    chart = Chart.of("scatter", drawn, "x=nodes y=per_node size=jobs", "Performance per node by job size", log="xy")
    return Exhibit(
        "car11.table6", f"Performance by node count: {project or 'no project'}", tables=(sizes,),
        charts=(chart,) if rows else (), estimates=tuple(estimates),
        findings=tuple(_size_findings(str(project), own, nodes[there], rates[there])) or (NO_NODES,),
        caveats=(MEANS_OF_JOBS, CLOSE_IS_METADATA, *above, *jobs.node_caveats), coverage=jobs.node_coverage,
    )  # fmt: skip


def _size_trend(nodes: Floats, rates: Floats) -> Estimate:
    """Spearman of nodes and rate over jobs."""
    n = len(nodes)
    rho = rank_correlation(nodes, rates) if n >= 8 else math.nan
    return rank_estimate("size_trend", rho, n, "Spearman over jobs")


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _size_findings(project: str, own: Runs, nodes: Floats, rates: Floats) -> Iterator[Finding]:
    sizes = np.unique(nodes)
    if not len(sizes):
        return
    if len(sizes) == 1:
        yield Finding(f"All jobs of {project} ran on {int(sizes[0]):,} nodes.", name="one_size")
        return
    least, most = int(sizes[0]), int(sizes[-1])
    small, big = (_rate(float(rates[nodes == size].mean())) for size in (least, most))
    yield Finding(f"{project} reaches {small} on {least:,} nodes and {big} on {most:,}.", name="rate_by_size")
    scale = scaling(own.ints("nprocs"), own.ints("moved_bytes"))
    if scale and scale.strong:
        yield Finding(
            f"{project} scales strongly: its jobs move about the same bytes whatever their size.", name="strong_scaling"
        )


STUDY = Study(
    name="project_performance",
    exhibits=("car11.fig10", "car11.table5", "car11.table6"),
    needs=NEEDS,
    run=run,
    params=(PROJECT, *MIN_SIZES, PROCESSES_PER_NODE),
    too_few="no job of the period has moved any bytes",
)
