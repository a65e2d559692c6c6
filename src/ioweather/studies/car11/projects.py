"""Projects (car11 III-B and V): volumes, access sizes, characteristics, performance and signatures of I/O.

The signatures say which part dominates the I/O of each project, and why (V.A-J, for the projects of this site).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.special import stdtrit

from ioweather.core.contracts import Params, Study
from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
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
    number_names,
    quantity_label,
)
from ioweather.core.tables import READ_BINS, SIZE_BIN_UPPER_BYTES, WRITE_BINS
from ioweather.core.units import format_bytes, format_value, names_of
from ioweather.facts.job_metrics import quotient
from ioweather.facts.runs import (
    MIN_SIZES,
    NEEDS,
    PROCESSES_PER_NODE,
    PROJECT,
    SIGNATURES,
    Runs,
    fetch_runs,
    instances_of,
    jobs_of,
    large,
    program_of,
    signatures,
    similar_groups,
    strong_scaling,
)
from ioweather.stats.dependence import rank_correlation_within
from ioweather.stats.estimates import (
    LEVEL,
    known,
    mean_estimate,
    median,
    median_estimate,
    plain,
    quantiles,
    rank_estimate,
    share_estimate,
)
from ioweather.stats.summary_tables import relabelled, table
from ioweather.studies.car11.benchmark_check import NO_NODES, PER_NODE, below_ceiling
from ioweather.topics.source import DataSource

MEANS_OF_JOBS: Final = "Project values are means of the job values, not ratios of sums."
CLOSE_IS_METADATA: Final = (
    "Metadata time includes close(), where file systems flush small files, so it overstates metadata cost."
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
_LEAST_PROGRAMS: Final = 4  # with fewer Student's t says nothing


def run_io(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make fig. 4, fig. 9 and Table IV of the largest projects."""
    facility = source.facility
    jobs = jobs_of(fetch_runs(source), facility, params)
    shown = jobs.largest_projects()
    if shown:
        yield _volumes(jobs, shown)
        big = large(jobs, params)
        yield _access_sizes(big, shown)
        yield _characteristics(big, shown, facility)


@exhibit("car11.fig4")
def _volumes(jobs: Runs, shown: list[str]) -> Iterator[Piece]:
    """Data read and written by each of the largest projects."""
    parts = [jobs.of_project(name) for name in shown]
    read, written = (np.array([int(part.ints(f"{way}_bytes").sum()) for part in parts]) for way in ("read", "write"))
    moved = read + written
    ratio = moved / int(jobs.ints("moved_bytes").sum())
    for name, amount, part in zip(shown, moved, parts, strict=True):
        yield plain(f"moved[{name}]", int(amount), "bytes", n=part.rows, method="sum of jobs")
    more = int((read > written).sum())
    yield plain("projects_reading_more", more, "count", n=len(shown))
    yield share_estimate("projects_reading_more_ratio", more, len(shown))
    yield plain("projects", len(set(jobs.projects.tolist())), "count")
    most = f"{shown[0]} moved most: {format_bytes(float(moved[0]))}, {format_value(float(ratio[0]), 'ratio')}"
    yield Finding(f"{most} of all data.", name="largest_project")
    columns = (
        "project [text]; jobs [count]; read: read [bytes]; written: written [bytes]; moved: together [bytes]; "
        "ratio: of all bytes [ratio]"
    )
    yield table("projects", columns, shown, [part.rows for part in parts], read, written, moved, ratio)
    ways = ["read"] * len(shown) + ["written"] * len(shown)
    columns = "project [text]; direction [text]; bytes [bytes]"
    bars = table("volumes", columns, [*shown, *shown], ways, np.concatenate([read, written]))
    yield Chart.of("bars", bars, "x=project y=bytes series=direction", "Data read and written")
    yield jobs.caveats, jobs.coverage


@exhibit("car11.fig9")
def _access_sizes(jobs: Runs, shown: list[str]) -> Iterator[Piece]:
    """Read and write shares by request size, as means over the jobs of each project."""
    rows: list[tuple[Cell, ...]] = []
    for name in shown:
        part = jobs.of_project(name)
        for direction, bins in (("read", READ_BINS), ("write", WRITE_BINS)):
            counts = np.stack([part.ints(column) for column in bins], axis=1).astype(np.float64)
            counts = counts[counts.sum(axis=1) > 0]
            if len(counts):
                mean = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
                pooled = counts.sum(axis=0) / counts.sum()
                shares = zip(BIN_LABELS, mean.tolist(), pooled.tolist(), strict=True)
                rows += [(name, direction, label, m, p, len(counts)) for label, m, p in shares]
    sizes = ResultTable.of(
        "access_sizes",
        "project [text]; direction [text]; size: bytes [text]; share: share of accesses, mean over jobs [ratio]; "
        "pooled: of all accesses [ratio]; jobs [count]",
        rows,
    )
    yield sizes, Chart.of("bars", sizes, "x=size y=share series=direction", "Access sizes", facet="project")
    yield MEANS_OF_JOBS
    yield (
        "Sizes are application request sizes: MPI-IO sizes if it was used, otherwise POSIX sizes. Darshan records "
        "no sizes of stream (stdio) accesses."
    )
    yield jobs.caveats, jobs.coverage


@exhibit("car11.table4")
def _characteristics(jobs: Runs, shown: list[str], facility: Facility) -> Iterator[Piece]:
    """Job means of seven measures by project (Table IV), and the share of projects beyond thresholds."""
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
        text = f"Projects with mostly unaligned accesses: {listed}."
        yield Finding(text, name="unaligned_projects")
    yield MEANS_OF_JOBS, CLOSE_IS_METADATA, above
    rules = set(jobs.frame.text("create_rule").tolist())
    if rules & {"written_whole", "mixed"}:
        yield (
            "Darshan 3 does not record whether a file was new. A file counts as created if the job wrote all of it, "
            "up to the highest byte used, before reading it."
        )
    if rules & {"size_at_open", "mixed"}:
        yield "In Darshan 2 logs, a file counts as created if it was empty when opened and then written."
    yield jobs.node_caveats, jobs.node_coverage


def run_performance(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make fig. 10, Table V and Table VI of the large jobs of the largest projects."""
    facility = source.facility
    jobs = jobs_of(fetch_runs(source), facility, params)
    shown = jobs.largest_projects()
    if shown:
        big, above = below_ceiling(large(jobs, params), facility)
        yield _boxes(big, shown, above, params)

        def by_sizes(own: Runs) -> tuple[int, int]:
            """The largest number of node counts of one program, and that of the project."""
            nodes, programs = own.floats("node_count"), own.programs
            sizes = (len(np.unique(known(nodes[programs == each]))) for each in np.unique(programs))
            return max(sizes, default=0), len(np.unique(known(nodes)))

        # Projects with enough jobs for a table first, then those whose jobs differ most.
        varied = _project(big, params, lambda own: (own.rows >= _JOBS_SHOWN, by_spread(own)))
        scaled = _project(big, params, by_sizes)
        yield replace(_by_job(big, varied, above), title=f"Performance by job: {varied or 'no project'}")
        yield replace(_by_size(big, scaled, above), title=f"Performance by node count: {scaled or 'no project'}")


def _project(jobs: Runs, params: Params, fitting: Callable[[Runs], Any]) -> str | None:
    """Return the project of the parameters, else the one among the largest that fits the exhibit best."""
    asked = params.get("project")
    names = set(jobs.projects.tolist())
    if asked:
        if asked not in names:
            there = ", ".join(sorted(map(str, names)))
            raise UsageError(f"Project {asked!r} has no large jobs.", hint=f"There are: {there}.")
        return str(asked)
    candidates = jobs.largest_projects()
    return max(candidates, key=lambda name: (fitting(jobs.of_project(name)), -candidates.index(name)), default=None)


def by_spread(jobs: Runs) -> float:
    """Return the ratio of the best to the worst rate of the jobs of a project."""
    rates = known(jobs.floats(PER_NODE))
    return float(rates.max() / rates.min()) if len(rates) > 1 and rates.min() > 0 else 0.0


@exhibit("car11.fig10")
def _boxes(jobs: Runs, shown: list[str], caveats: tuple[str, ...], params: Params) -> Iterator[Piece]:
    """Figure 10: quartiles of the rate per node of each project's large jobs, [PER_NODE].

    `jobs` are filtered already; `params` has the filters, which are shown. Projects without a known rate are skipped.
    """
    rows: list[tuple[Any, ...]] = []
    for name in shown:
        rates = known(jobs.of_project(name).floats(PER_NODE))
        if len(rates):
            q05, q25, q50, q75, q95 = quantiles(rates)
            rows.append((name, len(rates), float(rates.min()), q05, q25, q50, q75, q95, float(rates.max())))
            yield median_estimate(f"median[{name}]", rates, PER_NODE)
            spread = (q75 or 0.0) - (q25 or 0.0)
            yield plain(f"interquartile_range[{name}]", spread, PER_NODE, n=len(rates), method="Q3 - Q1")
    unit = PER_NODE
    boxes = ResultTable.of(
        "boxes",
        f"project [text]; jobs [count]; min [{unit}]; q05: 5% [{unit}]; q25: Q1 [{unit}]; q50: median [{unit}]; "
        f"q75: Q3 [{unit}]; q95: 95% [{unit}]; max [{unit}]",
        rows,
    )
    yield boxes
    if rows:
        title = "Performance per node of large jobs: minimum, quartiles, maximum"
        drawn = relabelled(boxes, q50="performance")
        yield Chart.of("box", drawn, "x=project q05=min q25 q50 q75 q95=max", title)
        yield _posix_advantage(jobs)
    else:
        yield NO_NODES
    yield caveats, jobs.node_caveats, jobs.node_coverage


def _posix_advantage(jobs: Runs) -> Estimate:
    """Return the rate per node of programs with POSIX alone over that of MPI-IO programs (geometric means).

    Programs are what varies: the jobs of one resemble each other, so each program counts once.
    """
    rates, sets = jobs.floats(PER_NODE), np.array(jobs.frame.text("interfaces").tolist(), object)
    logs: dict[bool, list[float]] = {True: [], False: []}
    for program in np.unique(jobs.programs).tolist():
        own = (jobs.programs == program) & (rates > 0)
        if own.any():
            used = {name for each in set(sets[own].tolist()) if each for name in each.split(",")}
            logs[bool(used & {"MPI-IO", "HDF5", "PnetCDF"})].append(float(np.mean(np.log(rates[own]))))
    name, first, second = "posix_over_mpiio", np.array(logs[False]), np.array(logs[True])
    n = len(first) + len(second)
    if min(len(first), len(second)) < _LEAST_PROGRAMS:
        return Estimate(name, None, "factor", n=n, method=f"fewer than {_LEAST_PROGRAMS} programs of one kind")
    # Welch's interval of a difference of logarithms.
    parts = np.array([each.var(ddof=1) / len(each) for each in (first, second)])
    freedom = parts.sum() ** 2 / (parts**2 / np.array([len(first) - 1, len(second) - 1])).sum()
    difference = float(first.mean() - second.mean())
    reach = -float(stdtrit(freedom, (1 - LEVEL) / 2)) * math.sqrt(parts.sum())
    value, low, high = (math.exp(difference + sign * reach) for sign in (0, -1, 1))
    return Estimate(name, value, "factor", low, high, LEVEL, n, "geometric means of programs, Welch")


def key_access(row: dict[str, Any]) -> str:
    """Return the most common access size with its direction, as in car11 Table V: '74 KiB', '20 B (w)', '4 B (r)'.

    Darshan's most common sizes do not distinguish reads from writes; the histogram bins of that size do.
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


@exhibit("car11.table5")
def _by_job(jobs: Runs, project: str | None, above: tuple[str, ...]) -> Iterator[Piece]:
    """Jobs of one project, sorted by speed per node."""
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
    yield ResultTable.of(
        "jobs",
        f"job [text]; job_id: id [text]; processes [count]; nodes [count]; per_node [{PER_NODE}]; "
        "metadata_ratio: metadata [ratio]; key_access [text]; interfaces [text]",
        rows,
    )
    spread = by_spread(own)
    yield plain("jobs", own.rows, "count")
    yield plain("fastest_over_slowest", spread or None, "factor", n=len(ranked), method="maximum / minimum")
    if not len(ranked):
        yield NO_NODES
    elif not spread:
        yield Finding(f"{project} has only one job with a known rate, so there is nothing to compare.", name="one_job")
    else:
        text = f"The fastest job of {project} is {format_value(spread, 'factor')} as fast per node as its slowest job."
        yield Finding(text, name="fastest_job")
    yield "Jobs are sampled in even steps from the fastest to the slowest.", CLOSE_IS_METADATA, above
    yield jobs.node_caveats, jobs.node_coverage


@exhibit("car11.table6")
def _by_size(jobs: Runs, project: str | None, above: tuple[str, ...]) -> Iterator[Piece]:
    """Mean rate per node of one project, by node count."""
    own = jobs.of_project(project) if project else jobs.take(slice(0, 0))
    nodes, rates = own.floats("node_count"), own.floats(PER_NODE)
    there = np.isfinite(nodes) & np.isfinite(rates)
    rows: list[tuple[Cell, ...]] = []
    for size in np.unique(nodes[there]):
        mask = there & (nodes == size)
        mean = mean_estimate(f"per_node[{int(size)}]", rates[mask], PER_NODE)
        yield plain(f"jobs[{int(size)}]", int(mask.sum()), "count"), mean
        metadata = known(own.floats("metadata_ratio")[mask])
        shares = known(quotient(own.floats("io_seconds")[mask], own.floats("run_seconds")[mask]))
        averages = [float(values.mean()) if len(values) else None for values in (metadata, shares)]
        moved = int(np.median(own.ints("moved_bytes")[mask]))
        rows.append((int(size), int(mask.sum()), len(np.unique(own.programs[mask])), mean.value, *averages, moved))
    if not rows:
        yield NO_NODES
    elif len(rows) == 1:
        yield Finding(f"All jobs of {project} ran on {rows[0][0]:,} nodes.", name="one_size")
    else:
        # Sizes of different programs, or of reading and writing, do not compare.
        kind = own.programs * 2 + (own.ints("read_bytes") > own.ints("write_bytes"))
        rho, n = rank_correlation_within(nodes[there], rates[there], kind[there])
        if n:
            yield rank_estimate("size_trend", rho, n, "Spearman within programs, pooled")
        else:
            text = f"No program of {project} ran at two sizes, and different programs cannot be compared."
            yield Finding(text, "undecided", name="one_size_per_program")
    sizes = ResultTable.of(
        "sizes",
        "nodes [count]; jobs [count]; programs [count]; "
        f"per_node: per node, mean [{PER_NODE}]; metadata_ratio: metadata [ratio]; "
        "io_ratio: I/O of run time [ratio]; moved: moved, median [bytes]",
        rows,
    )
    yield sizes
    yield MEANS_OF_JOBS, CLOSE_IS_METADATA, above, jobs.node_caveats, jobs.node_coverage


IO = Study(
    name="project_io",
    exhibits=names_of("car11.fig4 car11.fig9 car11.table4"),
    needs=NEEDS,
    run=run_io,
    params=(*MIN_SIZES, PROCESSES_PER_NODE),
    too_few="no job in the period moved data",
)
PERFORMANCE = Study(
    name="project_performance",
    exhibits=names_of("car11.fig10 car11.table5 car11.table6"),
    needs=NEEDS,
    run=run_performance,
    params=(PROJECT, *MIN_SIZES, PROCESSES_PER_NODE),
    too_few="no job in the period moved data",
)


# Least share of the project's jobs with a signature for a sentence about it.
_TYPICAL: Final = 0.5
_IDENTICAL: Final = 8
# An application counts as one of a project's from this share of its bytes on.
_WEIGHTY: Final = 0.1
_PARTS: Final = ("metadata", "reading", "writing")


def run_signatures(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """The case studies of car11 V.A-J, for the projects of this site."""
    frames, facility = fetch_runs(source), source.facility
    every = jobs_of(frames, facility, params)
    jobs = large(every, params)
    shown = [name for name in every.largest_projects() if jobs.projects.equals(name).any()]
    if shown:
        instances = instances_of(frames, facility, params)
        yield _signatures([_describe_project(name, jobs, every) for name in shown], jobs, instances)


@dataclass(frozen=True, eq=False)
class _Project:
    name: str
    jobs: Runs
    marks: Frame
    times: list[float]  # of _PARTS, over all processes
    identical: int
    zero_files: float

    @property
    def dominant(self) -> int | None:
        """Index into _PARTS of the part that takes most of the I/O time."""
        return _dominant_part(self.times)

    def share(self, signature: str) -> float:
        """Return the share of the jobs that have a signature."""
        return self.zero_files if signature == "zero_files" else float(np.mean(self.marks.array(signature)))

    def median(self, name: str, source: str = "jobs") -> float | None:
        """Return the median of a column of the jobs, or of their `marks`."""
        return median(self.marks.array(name) if source == "marks" else self.jobs.floats(name))


def _describe_project(name: str, jobs: Runs, every: Runs) -> _Project:
    """Return a project's jobs with their signatures.

    `every` also has the jobs that the filter leaves out: those without files are among them.
    """
    own = jobs.of_project(name)
    identical = int(np.bincount(similar_groups(own.frame)).max(initial=0))
    without_files = float(np.mean(every.of_project(name).floats("file_count") == 0))
    return _Project(name, own, signatures(own.frame), _part_seconds(own), identical, without_files)


def _part_seconds(jobs: Runs) -> list[float]:
    """Seconds of metadata, reads and writes over all processes, in the order of _PARTS."""
    return [float(np.nansum(jobs.floats(f"{part}_seconds"))) for part in ("meta", "read", "write")]


def _dominant_part(times: list[float]) -> int | None:
    """Index into _PARTS of the part that takes most of the time."""
    return int(np.argmax(times)) if sum(times) > 0 else None


def _programs(jobs: Runs) -> list[tuple[str, Runs]]:
    """Return the applications of a project (car11 V.B), those that moved most bytes first."""
    names = np.array([program_of(exe) if exe else "?" for exe in jobs.frame.text("exe").tolist()])
    parts = [(str(name), jobs.take(np.flatnonzero(names == name))) for name in np.unique(names)]
    return sorted(parts, key=lambda part: -_sum_of(part[1], "moved_bytes"))


def _sum_of(jobs: Runs, column: str) -> int:
    """Return the sum of an integer column."""
    return int(jobs.ints(column).sum())


@exhibit("car11.projects")
def _signatures(projects: list[_Project], jobs: Runs, instances: Runs) -> Iterator[Piece]:
    """Volumes, dominant activities and signatures of each project and its applications."""
    overview: list[tuple[Cell, ...]] = []
    for project in projects:
        own, part, nprocs = project.jobs, project.dominant, project.jobs.ints("nprocs")
        overview.append(
            (
                project.name,
                own.rows,
                len(set(own.ints("uid").tolist())),
                len({program_of(exe) for exe in own.frame.text("exe").tolist() if exe}),
                int(nprocs.min()),
                int(nprocs.max()),
                _sum_of(own, "read_bytes"),
                _sum_of(own, "write_bytes"),
                None if part is None else _PARTS[part],
                None if part is None else project.times[part] / sum(project.times),
                project.median("io_ratio", "marks"),
                project.median("request_bytes", "marks"),
                project.median("io_rank_count"),
                int(own.ints("instance_count").max()),
                project.identical,
                project.median(PER_NODE),
            )
        )
    yield ResultTable.of(
        "projects",
        "project [text]; jobs [count]; users [count]; programs [count]; processes_low: processes from [count]; "
        "processes_high: to [count]; read [bytes]; written [bytes]; dominant: most time in [text]; "
        "dominant_ratio: of I/O time [ratio]; io_ratio: I/O of run time, median [ratio]; "
        "request: mean request, median [bytes]; io_ranks: processes doing I/O, median [count]; "
        "instances: runs per job, most [count]; identical: largest group of near-identical jobs [count]; "
        "per_node: per node, median [mib_per_s_per_node]",
        overview,
    )
    marks = [
        (p.name, quantity_label(name, ""), words, p.share(name)) for p in projects for name, words in SIGNATURES.items()
    ]
    columns = "project [text]; signature [text]; meaning [text]; share: of the project's jobs [ratio]"
    listed = ResultTable.of("signatures", columns, marks)
    yield listed, Chart.of("matrix", listed, "x=signature y=project value=share", "Share of jobs with a signature")
    yield [_estimates(project, instances) for project in projects]
    yield number_names(finding for project in projects for finding in _findings(project)), CLOSE_IS_METADATA
    yield "Signatures follow from counters and thresholds. A log does not show the authors' intent."
    yield (
        "A file shared by all processes counts as I/O of all processes, unless the log shows that one process did "
        "it all."
    )
    yield jobs.node_caveats, jobs.node_coverage


def _estimates(project: _Project, instances: Runs) -> Iterator[Estimate]:
    """Yield estimates named as the paper's numbers, so that they can be compared."""
    name, jobs, n = project.name, project.jobs, project.jobs.rows
    read, written = _sum_of(jobs, "read_bytes"), _sum_of(jobs, "write_bytes")
    files = _sum_of(jobs, "write_only_file_count") + _sum_of(jobs, "read_write_file_count")
    metadata = known(jobs.floats("metadata_ratio"))
    nprocs, most = jobs.ints("nprocs"), int(jobs.ints("instance_count").max())
    yield plain(f"jobs[{name}]", n, "count")
    yield plain(f"users[{name}]", len(set(jobs.ints("uid").tolist())), "count", n=n)
    yield plain(f"processes_low[{name}]", int(nprocs.min()), "count", n=n, method="minimum")
    yield plain(f"processes_high[{name}]", int(nprocs.max()), "count", n=n, method="maximum")
    yield plain(f"identical_jobs[{name}]", project.identical, "count", n=n, method="largest group")
    yield plain(f"instances_per_job[{name}]", most, "count", n=n, method="maximum")
    yield median_estimate(f"files_per_instance[{name}]", instances.of_project(name).floats("file_count"), "count")
    yield plain(f"written[{name}]", written, "bytes", n=n, method="sum")
    ratio, size = read / written if written else None, written / files if files else None
    yield plain(f"read_over_written[{name}]", ratio, "factor", n=n, method="ratio of sums")
    yield plain(f"file_size_mean[{name}]", size, "bytes", n=files, method="written / files")
    yield median_estimate(f"io_time_ratio[{name}]", project.marks.array("io_ratio"), "ratio")
    for each in ("files_per_process", "creates_per_process"):
        yield median_estimate(f"{each}[{name}]", jobs.floats(each), "count")
    yield median_estimate(f"io_ranks[{name}]", jobs.floats("io_rank_count"), "count")
    yield median_estimate(f"seeks_per_operation[{name}]", project.marks.array("seeks_per_operation"), "count")
    for direction in ("read", "write"):
        sizes = quotient(jobs.floats(f"{direction}_bytes"), jobs.floats(f"{direction}_count"))
        yield median_estimate(f"{direction}_size[{name}]", sizes, "bytes")
    highest = metadata.max() if len(metadata) else None
    yield plain(f"metadata_ratio_max[{name}]", highest, "ratio", n=n, method="maximum")
    yield share_estimate(f"rank0_jobs_ratio[{name}]", int(np.sum(project.marks.array("rank0_io"))), n)


def project_findings(name: str, jobs: Runs) -> list[Finding]:
    """Return the findings on one project; empty if it moved no data."""
    return list(_findings(_describe_project(name, jobs, jobs))) if _sum_of(jobs.of_project(name), "moved_bytes") else []


def _findings(project: _Project) -> Iterator[Finding]:
    """Plain sentences: volume, the part that takes the time, why, and whether it matters."""
    jobs, n, name, median = project.jobs, project.jobs.rows, project.name, project.median
    volumes = f"read {format_bytes(_sum_of(jobs, 'read_bytes'))} and wrote {format_bytes(_sum_of(jobs, 'write_bytes'))}"
    text = f"{name}: {n:,} job{'s' if n > 1 else ''} {volumes}"
    if project.dominant is not None:
        share = project.times[project.dominant] / sum(project.times)
        text += f"; {share:.0%} of the I/O time of all processes is {_PARTS[project.dominant]}"
    yield Finding(f"{text}.", name="volume")
    if project.identical >= _IDENTICAL and project.identical > n / 2:
        yield Finding(f"{name} is dominated by {project.identical:,} nearly identical jobs.", name="identical_jobs")
    # Applications of weight that spend their time on different things: means over the project describe neither.
    whole = _sum_of(jobs, "moved_bytes")
    shares = [
        (p, _sum_of(some, "moved_bytes") / max(1, whole), _dominant_part(_part_seconds(some)))
        for p, some in _programs(jobs)
    ]
    weighty = [each for each in shares if whole and each[1] >= _WEIGHTY]
    if len({part for _, _, part in weighty}) > 1:
        words = ", ".join(
            f"{program} ({share:.0%} of the data, most time in {_PARTS[part]})"
            for program, share, part in weighty
            if part is not None
        )
        yield Finding(f"{name} consists of several different applications: {words}.", name="applications")
    most = int(jobs.ints("instance_count").max())
    if most > 1:
        yield Finding(f"{name} runs up to {most:,} instances of its applications in one job.", name="instances")
    if project.share("rank0_io") > _TYPICAL:
        text = f"{name}: one process does all I/O in {project.share('rank0_io'):.0%} of the jobs."
        yield Finding(text, name="one_process_io")
    elif project.share("subset_io") > _TYPICAL:
        some = f"typically, {median('io_rank_count'):,.0f} of {median('nprocs'):,.0f} processes do all I/O"
        yield Finding(f"{name} aggregates I/O itself, without MPI-IO collectives: {some}.", name="subset_io")
    if project.share("file_per_process") > _TYPICAL:
        files, created = (format_value(median(f"{each}_per_process"), "count") for each in ("files", "creates"))
        text = f"{name} uses {files} files per process and creates {created}, so metadata grows with job size."
        yield Finding(text, name="file_per_process")
    if project.share("seek_per_operation") > _TYPICAL:
        yield Finding(f"{name} seeks with every read or write.", name="seek_per_operation")
    if project.share("small_requests") > _TYPICAL:
        request = format_value(median("request_bytes", "marks"), "bytes")
        yield Finding(f"{name} makes small requests, {request} on average.", name="small_requests")
    if project.zero_files > 0:
        yield Finding(f"{name}: {project.zero_files:.0%} of its jobs access no files.", name="no_files")
    sizes = strong_scaling(jobs.ints("nprocs"), jobs.ints("moved_bytes"))
    if sizes is not None:
        text = f"from {sizes[0]:,} to {sizes[1]:,} processes, its jobs move about the same amount of data"
        text = f"{name} scales strongly: {text}, so each process moves less data in larger jobs."
        yield Finding(text, name="strong_scaling")
    if project.share("negligible_io") > _TYPICAL:
        text = f"{name}: I/O takes less than 1% of the run time in most jobs, so these patterns probably do not matter."
        yield Finding(text, name="negligible_io")


SIGNATURES_OF_PROJECTS = Study(
    name="project_signatures",
    exhibits=("car11.projects",),
    needs=NEEDS,
    run=run_signatures,
    params=(*MIN_SIZES, PROCESSES_PER_NODE),
    too_few="no job in the period has the minimum size (see --params)",
)
