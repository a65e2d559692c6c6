"""What projects move and in what pieces (car11 III-B, V): volumes, access sizes, mean characteristics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Exhibit, Finding, Piece, ResultColumn, ResultTable, columns_of, exhibit
from ioweather.core.units import format_bytes, format_value
from ioweather.studies.applications.node_ceiling import below_ceiling
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import mean_estimate, share_estimate
from ioweather.studies.shared.presenting import table
from ioweather.studies.shared.runs import MIN_SIZES, NEEDS, PROCESSES_PER_NODE, Runs, jobs_of, large
from ioweather.tables.applications import READ_BINS, SIZE_BINS, WRITE_BINS

MEANS_OF_JOBS: Final = "Project values are means over jobs of the jobs' own values, not ratios of sums."
CLOSE_IS_METADATA: Final = (
    "Metadata time includes close(), where file systems flush small files: it overstates the cost of metadata itself."
)
BIN_LABELS: Final = (
    "0-100",
    "100-1K",
    "1K-10K",
    "10K-100K",
    "100K-1M",
    "1M-4M",
    "4M-10M",
    "10M-100M",
    "100M-1G",
    "1G+",
)
assert len(BIN_LABELS) == len(SIZE_BINS)


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    jobs = jobs_of(data, facility, params)
    shown = jobs.largest_projects()
    if not shown:
        return
    yield _volumes(jobs, shown)
    big = large(jobs, params)
    yield _access_sizes(big, shown)
    yield _characteristics(big, shown, facility)


@exhibit("car11.fig4")
def _volumes(jobs: Runs, shown: list[str]) -> Iterator[Piece]:
    parts = {name: jobs.of_project(name) for name in shown}
    read = np.array([int(parts[name].ints("read_bytes").sum()) for name in shown])
    written = np.array([int(parts[name].ints("write_bytes").sum()) for name in shown])
    everything = int(jobs.ints("moved_bytes").sum())
    volumes = table(
        "projects",
        {
            "project": ("", "text", shown),
            "jobs": ("", "count", [parts[name].rows for name in shown]),
            "read": ("read", "bytes", read),
            "written": ("written", "bytes", written),
            "moved": ("together", "bytes", read + written),
            "ratio": ("of all bytes", "ratio", (read + written) / everything),
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
    more = int((read > written).sum())
    yield (
        *(
            plain(f"moved[{name}]", int(r + w), "bytes", n=parts[name].rows, method="sum of jobs")
            for name, r, w in zip(shown, read, written, strict=True)
        ),
        plain("projects_shown", len(shown), "count"),
        plain("projects_reading_more", more, "count", n=len(shown)),
        share_estimate("projects_reading_more_ratio", more, len(shown)),
        plain("projects", len(set(jobs.projects.tolist())), "count"),
    )
    yield Finding(
        f"{shown[0]} moved most: {format_bytes(float(read[0] + written[0]))}, "
        f"{format_value(float(read[0] + written[0]) / everything, 'ratio')} of all bytes.",
        name="largest_project",
    )
    if len(shown) > 1:
        factor = float(read[0] + written[0]) / max(1.0, float(read[-1] + written[-1]))
        yield Finding(
            f"It moved {format_value(factor, 'factor')} as much as {shown[-1]}, the last of these.",
            name="largest_against_last",
        )
    yield volumes
    yield Chart.of("bars", bars, "x=project y=bytes series=direction", "Bytes read and written")
    yield jobs.caveats, jobs.coverage


def _bin_shares(jobs: Runs, bins: tuple[str, ...]) -> tuple[Floats, Floats, int]:
    """Share of accesses per bin: mean over jobs with accesses, and of all accesses together; and how many jobs."""
    counts = np.stack([jobs.ints(name) for name in bins], axis=1).astype(np.float64)
    totals = counts.sum(axis=1)
    there = totals > 0
    if not there.any():
        return np.full(len(bins), np.nan), np.full(len(bins), np.nan), 0
    shares = counts[there] / totals[there, None]
    return shares.mean(axis=0), counts.sum(axis=0) / counts.sum(), int(there.sum())


@exhibit("car11.fig9")
def _access_sizes(jobs: Runs, shown: list[str]) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    for name in shown:
        part = jobs.of_project(name)
        words = []
        for direction, bins in (("read", READ_BINS), ("write", WRITE_BINS)):
            mean, pooled, n = _bin_shares(part, bins)
            if n:
                shares = zip(BIN_LABELS, mean.tolist(), pooled.tolist(), strict=True)
                rows += [(name, direction, label, m, p, n) for label, m, p in shares]
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
    yield sizes
    yield Chart.of("bars", sizes, "x=size y=share series=direction", "Access sizes", facet="project")
    yield MEANS_OF_JOBS
    yield (
        "Sizes are those the application asked for: of MPI-IO where it was used, else of POSIX. Stream (stdio) "
        "accesses have no sizes in Darshan."
    )
    yield jobs.caveats, jobs.coverage


@dataclass(frozen=True)
class _Characteristic:
    name: str
    column: str
    label: str
    unit: str


_CHARACTERISTICS: Final = (
    _Characteristic("per_node", "mib_per_s_per_node", "per node", "mib_per_s_per_node"),
    _Characteristic("metadata_ratio", "metadata_ratio", "metadata cost", "ratio"),
    _Characteristic("files_per_process", "files_per_process", "files per process", "count"),
    _Characteristic("creates_per_process", "creates_per_process", "creates per process", "count"),
    _Characteristic("sequential_ratio", "sequential_ratio", "sequential", "ratio"),
    _Characteristic("aligned_ratio", "aligned_ratio", "aligned", "ratio"),
    _Characteristic("moved_per_process", "bytes_per_process", "moved per process", "bytes"),
)


# Shares of projects, by the column of their means: what car11 V says of most of them.
_OF_PROJECTS: Final[tuple[tuple[str, int, Callable[[float], bool]], ...]] = (
    ("metadata_projects_ratio", 3, lambda mean: mean > 0.3),
    ("sequential_projects_ratio", 6, lambda mean: mean > 0.75),
    ("unaligned_projects_ratio", 7, lambda mean: mean <= 0.5),
)


@exhibit("car11.table4")
def _characteristics(jobs: Runs, shown: list[str], facility: Facility) -> Iterator[Piece]:
    jobs, above = below_ceiling(jobs, facility)
    rows: list[tuple[Cell, ...]] = []
    for name in shown:
        part = jobs.of_project(name)
        if not part.rows:
            continue
        means = [mean_estimate(f"{c.name}[{name}]", part.floats(c.column), c.unit) for c in _CHARACTERISTICS]
        yield means
        rows.append((name, part.rows, *(mean.value for mean in means)))
    characteristics = ResultTable(
        "characteristics",
        (
            *columns_of("project [text]; jobs [count]"),
            *(ResultColumn(c.name, c.label, c.unit) for c in _CHARACTERISTICS),
        ),
        tuple(rows),
    )
    for name, column, holds in _OF_PROJECTS:
        known = [value for row in rows if isinstance(value := row[column], float)]
        yield share_estimate(name, sum(holds(value) for value in known), len(known))
    yield characteristics, _characteristic_findings(rows), MEANS_OF_JOBS, CLOSE_IS_METADATA, above
    yield _create_caveats(jobs), jobs.node_caveats, jobs.node_coverage


def _create_caveats(jobs: Runs) -> Iterator[str]:
    rules = set(jobs.frame.text("create_rule").tolist())
    if "written_whole" in rules or "mixed" in rules:
        yield (
            "Darshan 3 does not say whether a file was new. Counted as created is a file that the job wrote before it "
            "read, whole up to the highest byte it touched."
        )
    if "size_at_open" in rules or "mixed" in rules:
        yield "In Darshan 2 logs a created file is one that was written and empty when opened."


def _characteristic_findings(rows: list[tuple[Cell, ...]]) -> Iterator[Finding]:
    metadata = [(row[0], row[3]) for row in rows if isinstance(row[3], float) and row[3] > 0.5]
    if metadata:
        named = ", ".join(f"{name} {value:.0%}" for name, value in metadata)
        yield Finding(
            f"Projects that spend most of their I/O time in metadata operations: {named}.", name="metadata_projects"
        )
    unaligned = [str(row[0]) for row in rows if isinstance(row[7], float) and row[7] < 0.5]
    if unaligned:
        yield Finding(
            f"Most accesses are not aligned to the file system in: {', '.join(unaligned)}.", name="unaligned_projects"
        )


STUDY = Study(
    name="project_io",
    exhibits=("car11.fig4", "car11.fig9", "car11.table4"),
    needs=NEEDS,
    run=run,
    params=(*MIN_SIZES, PROCESSES_PER_NODE),
    too_few="no job of the period has moved any bytes",
)
