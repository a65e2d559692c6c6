"""Projects (car11 III-B and V): volumes, access sizes and mean characteristics, and how well their jobs perform."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.results import (
    Cell,
    Chart,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    ResultColumn,
    ResultTable,
    columns_of,
    exhibit,
)
from ioweather.core.tables.applications import READ_BINS, SIZE_BIN_UPPER_BYTES, WRITE_BINS
from ioweather.core.units import format_bytes, format_value
from ioweather.core.words import names_of
from ioweather.facts.file_records import quotient
from ioweather.facts.runs import (
    MIN_SIZES,
    NEEDS,
    PROCESSES_PER_NODE,
    PROJECT,
    Runs,
    jobs_of,
    large,
    strong_scaling,
)
from ioweather.stats.imbalance import rank_correlation
from ioweather.stats.intervals import plain
from ioweather.stats.job_estimates import (
    known,
    mean_estimate,
    median_estimate,
    quantiles,
    rank_estimate,
    share_estimate,
)
from ioweather.stats.summary_tables import relabelled, table
from ioweather.studies.car11.node_ceiling import NO_NODES, PER_NODE, below_ceiling

MEANS_OF_JOBS: Final = "Project values are means over jobs of the jobs' own values, not ratios of sums."
CLOSE_IS_METADATA: Final = (
    "Metadata time includes close(), where file systems flush small files: it overstates the cost of metadata itself."
)
BIN_LABELS: Final = names_of("0-100 100-1K 1K-10K 10K-100K 100K-1M 1M-4M 4M-10M 10M-100M 100M-1G 1G+")
# Name, column, label and unit of the means that car11 Table IV has of each project.
_CHARACTERISTICS: Final = (
    ("per_node", PER_NODE, "per node", PER_NODE),
    ("metadata_ratio", "metadata_ratio", "metadata cost", "ratio"),
    ("files_per_process", "files_per_process", "files per process", "count"),
    ("creates_per_process", "creates_per_process", "creates per process", "count"),
    ("sequential_ratio", "sequential_ratio", "sequential", "ratio"),
    ("aligned_ratio", "aligned_ratio", "aligned", "ratio"),
    ("moved_per_process", "bytes_per_process", "moved per process", "bytes"),
)
# Shares of projects by one of these means: what car11 V says of most of them.
_OF_PROJECTS: Final[tuple[tuple[str, str, Callable[[float], bool]], ...]] = (
    ("metadata_projects_ratio", "metadata_ratio", lambda mean: mean > 0.3),
    ("sequential_projects_ratio", "sequential_ratio", lambda mean: mean > 0.75),
    ("unaligned_projects_ratio", "aligned_ratio", lambda mean: mean <= 0.5),
)
_JOBS_SHOWN: Final = 6


def run_io(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    jobs = jobs_of(data, facility, params)
    shown = jobs.largest_projects()
    if shown:
        yield _volumes(jobs, shown)
        big = large(jobs, params)
        yield _access_sizes(big, shown)
        yield _characteristics(big, shown, facility)


@exhibit("car11.fig4")
def _volumes(jobs: Runs, shown: list[str]) -> Iterator[Piece]:
    parts = [jobs.of_project(name) for name in shown]
    read, written = (np.array([int(part.ints(f"{way}_bytes").sum()) for part in parts]) for way in ("read", "write"))
    moved = read + written
    ratio = moved / int(jobs.ints("moved_bytes").sum())
    for name, amount, part in zip(shown, moved, parts, strict=True):
        yield plain(f"moved[{name}]", int(amount), "bytes", n=part.rows, method="sum of jobs")
    more = int((read > written).sum())
    yield plain("projects_shown", len(shown), "count")
    yield plain("projects_reading_more", more, "count", n=len(shown))
    yield share_estimate("projects_reading_more_ratio", more, len(shown))
    yield plain("projects", len(set(jobs.projects.tolist())), "count")
    most = f"{shown[0]} moved most: {format_bytes(float(moved[0]))}, {format_value(float(ratio[0]), 'ratio')}"
    yield Finding(f"{most} of all bytes.", name="largest_project")
    if len(shown) > 1:
        factor = format_value(float(moved[0]) / max(1.0, float(moved[-1])), "factor")
        text = f"It moved {factor} as much as {shown[-1]}, the last of these."
        yield Finding(text, name="largest_against_last")
    yield table(
        "projects",
        {
            "project": ("", "text", shown),
            "jobs": ("", "count", [part.rows for part in parts]),
            "read": ("read", "bytes", read),
            "written": ("written", "bytes", written),
            "moved": ("together", "bytes", moved),
            "ratio": ("of all bytes", "ratio", ratio),
        },
    )
    bars = table(
        "volumes",
        {
            "project": ("", "text", [*shown, *shown]),
            "direction": ("", "text", ["read"] * len(shown) + ["written"] * len(shown)),
            "bytes": ("", "bytes", np.concatenate([read, written])),
        },
    )
    yield Chart.of("bars", bars, "x=project y=bytes series=direction", "Bytes read and written")
    yield jobs.caveats, jobs.coverage


@exhibit("car11.fig9")
def _access_sizes(jobs: Runs, shown: list[str]) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    for name in shown:
        part = jobs.of_project(name)
        words = []
        for direction, bins in (("read", READ_BINS), ("write", WRITE_BINS)):
            counts = np.stack([part.ints(column) for column in bins], axis=1).astype(np.float64)
            counts = counts[counts.sum(axis=1) > 0]
            if len(counts):
                mean = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
                pooled = counts.sum(axis=0) / counts.sum()
                shares = zip(BIN_LABELS, mean.tolist(), pooled.tolist(), strict=True)
                rows += [(name, direction, label, m, p, len(counts)) for label, m, p in shares]
                common = int(np.argmax(mean))
                words.append(f"{mean[common]:.0%} of the {direction}s are of {BIN_LABELS[common]} bytes")
        if words:
            yield Finding(f"{name}: in the mean job {', '.join(words)}.", name="access_sizes")
    sizes = ResultTable.of(
        "access_sizes",
        "project [text]; direction [text]; size: bytes [text]; share: share of accesses, mean over jobs [ratio]; "
        "pooled: of all accesses [ratio]; jobs [count]",
        rows,
    )
    yield sizes, Chart.of("bars", sizes, "x=size y=share series=direction", "Access sizes", facet="project")
    yield MEANS_OF_JOBS
    yield (
        "Sizes are those the application asked for: of MPI-IO where it was used, else of POSIX. Stream (stdio) "
        "accesses have no sizes in Darshan."
    )
    yield jobs.caveats, jobs.coverage


@exhibit("car11.table4")
def _characteristics(jobs: Runs, shown: list[str], facility: Facility) -> Iterator[Piece]:
    jobs, above = below_ceiling(jobs, facility)
    rows: list[tuple[Cell, ...]] = []
    for project in shown:
        part = jobs.of_project(project)
        if part.rows:
            means = [mean_estimate(f"{name}[{project}]", part.floats(c), unit) for name, c, _, unit in _CHARACTERISTICS]
            yield means
            rows.append((project, part.rows, *(mean.value for mean in means)))
    columns = (ResultColumn(name, label, unit) for name, _, label, unit in _CHARACTERISTICS)
    made = ResultTable("characteristics", (*columns_of("project [text]; jobs [count]"), *columns), tuple(rows))
    for name, column, is_so in _OF_PROJECTS:
        values = [value for value in made.column(column) if isinstance(value, float)]
        yield share_estimate(name, sum(is_so(value) for value in values), len(values))
    yield made
    by_metadata = zip(made.column("project"), made.column("metadata_ratio"), strict=True)
    listed = ", ".join(f"{name} {value:.0%}" for name, value in by_metadata if isinstance(value, float) and value > 0.5)
    if listed:
        text = f"Projects that spend most of their I/O time in metadata operations: {listed}."
        yield Finding(text, name="metadata_projects")
    by_aligned = zip(made.column("project"), made.column("aligned_ratio"), strict=True)
    listed = ", ".join(str(name) for name, value in by_aligned if isinstance(value, float) and value < 0.5)
    if listed:
        text = f"Most accesses are not aligned to the file system in: {listed}."
        yield Finding(text, name="unaligned_projects")
    yield MEANS_OF_JOBS, CLOSE_IS_METADATA, above
    rules = set(jobs.frame.text("create_rule").tolist())
    if rules & {"written_whole", "mixed"}:
        yield (
            "Darshan 3 does not say whether a file was new. Counted as created is a file that the job wrote before it "
            "read, whole up to the highest byte it touched."
        )
    if rules & {"size_at_open", "mixed"}:
        yield "In Darshan 2 logs a created file is one that was written and empty when opened."
    yield jobs.node_caveats, jobs.node_coverage


def run_performance(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    jobs = jobs_of(data, facility, params)
    shown = jobs.largest_projects()
    if shown:
        big, above = below_ceiling(large(jobs, params), facility)
        yield _boxes(big, shown, above, params)
        yield _by_job(big, _project(big, params, by_variety), above)
        yield _by_size(big, _project(big, params, by_sizes), above)


def _project(jobs: Runs, params: Params, fitting: Callable[[Runs], Any]) -> str | None:
    """The project asked for, else the one among the largest that fits the exhibit best."""
    asked = params.get("project")
    names = set(jobs.projects.tolist())
    if asked:
        if asked not in names:
            there = ", ".join(sorted(map(str, names)))
            raise UsageError(f"There is no project {asked!r} with large jobs.", hint=f"There are: {there}.")
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


def _rate(value: float) -> str:
    return format_value(value, PER_NODE)


@exhibit("car11.fig10")
def _boxes(jobs: Runs, shown: list[str], above: tuple[str, ...], params: Params) -> Iterator[Piece]:
    rows: list[tuple[Any, ...]] = []
    for name in shown:
        rates = known(jobs.of_project(name).floats(PER_NODE))
        if len(rates):
            q05, q25, q50, q75, q95 = quantiles(rates)
            rows.append((name, len(rates), float(rates.min()), q05, q25, q50, q75, q95, float(rates.max())))
            yield median_estimate(f"median[{name}]", rates, PER_NODE)
            spread = (q75 or 0.0) - (q25 or 0.0)
            yield plain(f"interquartile_range[{name}]", spread, PER_NODE, n=len(rates), method="Q3 - Q1")
    yield plain("filter_processes", params["min_processes"], "count", method="as set")
    yield plain("filter_moved", params["min_bytes"], "bytes", method="as set")
    unit = PER_NODE
    boxes = ResultTable.of(
        "boxes",
        f"project [text]; jobs [count]; min [{unit}]; q05: 5% [{unit}]; q25: Q1 [{unit}]; q50: median [{unit}]; "
        f"q75: Q3 [{unit}]; q95: 95% [{unit}]; max [{unit}]",
        rows,
    )
    yield boxes
    if rows:
        title = "Performance per node of large jobs: least, quartiles, greatest"
        drawn = relabelled(boxes, q50="performance")
        yield Chart.of("box", drawn, "x=project q05=min q25 q50 q75 q95=max", title)
        best, worst = max(rows, key=lambda r: r[5]), min(rows, key=lambda r: r[5])
        text = f"{best[0]} has the highest median, {_rate(best[5])}; {worst[0]} the lowest, {_rate(worst[5])}."
        yield Finding(text, name="median_range")
    else:
        yield NO_NODES
    spreads = {r[0]: (r[6] - r[4], (r[6] - r[4]) / r[5]) for r in rows if r[1] >= 4 and r[5]}
    if spreads:
        steady, wide = (choose(spreads, key=lambda name: spreads[name][1]) for choose in (min, max))
        shown_as = {name: f"{_rate(width)}, {part:.0%} of the median" for name, (width, part) in spreads.items()}
        text = f"Jobs of {steady} perform most alike (interquartile range {shown_as[steady]})."
        yield Finding(text, name="steadiest_project")
        if wide != steady:
            text = f"Jobs of {wide} differ most (interquartile range {shown_as[wide]})."
            yield Finding(text, name="least_steady_project")
    yield above, jobs.node_caveats, jobs.node_coverage


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
    rows = [
        (letter, str(row["job_id"]), *(row[name] for name in names), key_access(row), row["interfaces"])
        for letter, row in zip("ABCDEF", own.frame.take(ranked[steps]).records(), strict=False)
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
        text = f"The fastest job of {project} is {format_value(spread, 'factor')} as fast per node as its slowest."
        finding = Finding(text, name="fastest_job")
    fastest = plain("fastest_over_slowest", spread or None, "factor", n=len(ranked), method="maximum / minimum")
    steps_caveat = "Jobs are taken from the fastest to the slowest in even steps."
    return Exhibit(
        "car11.table5",
        f"Performance by job: {project or 'no project'}",
        tables=(listed,),
        estimates=(plain("jobs", own.rows, "count"), fastest),
        findings=(finding,),
        caveats=(steps_caveat, CLOSE_IS_METADATA, *above, *jobs.node_caveats),
        coverage=jobs.node_coverage,
    )


def _by_size(jobs: Runs, project: str | None, above: tuple[str, ...]) -> Exhibit:
    """car11.table6."""
    own = jobs.of_project(project) if project else jobs.take(slice(0, 0))
    nodes, rates = own.floats("node_count"), own.floats(PER_NODE)
    there = np.isfinite(nodes) & np.isfinite(rates)
    estimates: list[Estimate] = []
    rows: list[tuple[Cell, ...]] = []
    means: list[float] = []
    for size in np.unique(nodes[there]):
        mask = there & (nodes == size)
        mean = mean_estimate(f"per_node[{int(size)}]", rates[mask], PER_NODE)
        means.append(float(rates[mask].mean()))
        estimates += [plain(f"jobs[{int(size)}]", int(mask.sum()), "count"), mean]
        metadata = known(own.floats("metadata_ratio")[mask])
        shares = known(quotient(own.floats("io_seconds")[mask], own.floats("run_seconds")[mask]))
        averages = [float(values.mean()) if len(values) else None for values in (metadata, shares)]
        moved = int(np.median(own.ints("moved_bytes")[mask]))
        rows.append((int(size), int(mask.sum()), mean.value, *averages, moved))
    findings = []
    if not rows:
        findings.append(NO_NODES)
    elif len(rows) == 1:
        findings.append(Finding(f"All jobs of {project} ran on {rows[0][0]:,} nodes.", name="one_size"))
    else:
        n = int(there.sum())
        rho = rank_correlation(nodes[there], rates[there]) if n >= 8 else math.nan
        estimates.append(rank_estimate("size_trend", rho, n, "Spearman over jobs"))
        small, big = f"{_rate(means[0])} on {rows[0][0]:,} nodes", f"{_rate(means[-1])} on {rows[-1][0]:,}"
        findings.append(Finding(f"{project} reaches {small} and {big}.", name="rate_by_size"))
        if strong_scaling(own.ints("nprocs"), own.ints("moved_bytes")) is not None:
            text = f"{project} scales strongly: its jobs move about the same bytes whatever their size."
            findings.append(Finding(text, name="strong_scaling"))
    sizes = ResultTable.of(
        "sizes",
        f"nodes [count]; jobs [count]; per_node: per node, mean [{PER_NODE}]; metadata_ratio: metadata [ratio]; "
        "io_ratio: I/O of run time [ratio]; moved: moved, median [bytes]",
        rows,
    )
    drawn = relabelled(sizes, per_node="mean performance")
    chart = Chart.of("scatter", drawn, "x=nodes y=per_node size=jobs", "Performance per node by job size", log="xy")
    return Exhibit(
        "car11.table6",
        f"Performance by node count: {project or 'no project'}",
        tables=(sizes,),
        charts=(chart,) if rows else (),
        estimates=tuple(estimates),
        findings=tuple(findings),
        caveats=(MEANS_OF_JOBS, CLOSE_IS_METADATA, *above, *jobs.node_caveats),
        coverage=jobs.node_coverage,
    )


IO = Study(
    name="project_io",
    exhibits=("car11.fig4", "car11.fig9", "car11.table4"),
    needs=NEEDS,
    run=run_io,
    params=(*MIN_SIZES, PROCESSES_PER_NODE),
    too_few="no job of the period has moved any bytes",
)
PERFORMANCE = Study(
    name="project_performance",
    exhibits=("car11.fig10", "car11.table5", "car11.table6"),
    needs=NEEDS,
    run=run_performance,
    params=(PROJECT, *MIN_SIZES, PROCESSES_PER_NODE),
    too_few="no job of the period has moved any bytes",
)
