"""How applications do their I/O (car11 section III): interfaces and strategies by job size, files by processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import Params, Study
from ioweather.core.frames import Bools, Ints
from ioweather.core.results import Cell, Chart, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.tables import INTERFACES, STRATEGIES
from ioweather.core.units import format_ratio, names_of
from ioweather.facts.runs import NEEDS, PROCESSES_PER_NODE, Runs, fetch_runs, instances_of, jobs_of
from ioweather.stats.estimates import plain
from ioweather.topics.source import DataSource

_SIZES: Final = np.array([1, 2, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768], np.int64)  # lowest process counts
_LABELS: Final = {"unique": "unique", "partially_shared": "partially shared", "shared": "shared"}
# N:1 in the manner of car11 V-H, "fewer than 10 total files regardless of job size". [ours]
_FEW_FILES: Final = 10
_MOST_POINTS: Final = 1500
_LARGE: Final = 0.1  # of the largest job
_CATEGORIES: Final = ("no files", "N:1", "N:M", "N:N", "one process")
_NO_FILES: Final = 0.3  # a logarithmic axis has no 0
_DIAGONAL: Final = "N:N, one file per process"
_STREAMS: Final = "Standard input, output and error are not counted as files."


def run(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make fig. 2, 3 and 5."""
    frames, facility = fetch_runs(source), source.facility
    jobs = jobs_of(frames, facility, params)
    if jobs.rows:
        bins = SizeBins(jobs.ints("nprocs"))
        yield _interfaces(jobs, bins)
        yield _strategies(jobs, bins)
        yield _files(instances_of(frames, facility, params))


class SizeBins:
    """Bins of job size by processes; only those that have jobs are shown."""

    def __init__(self, nprocs: Ints) -> None:
        lowest = _SIZES
        self.index = np.searchsorted(lowest, nprocs, "right") - 1
        self.shown = [int(i) for i in np.unique(self.index)]
        self.lowest = {i: int(lowest[i]) if i >= 0 else 0 for i in self.shown}
        self.labels: dict[int, str] = {}
        for i in self.shown:
            if i < 0:
                self.labels[i] = f"under {lowest[0]:,}"
            elif i + 1 == len(lowest):
                self.labels[i] = f"{lowest[i]:,} and more"
            else:
                last = int(lowest[i + 1]) - 1
                self.labels[i] = f"{lowest[i]:,}" if last == lowest[i] else f"{lowest[i]:,} to {last:,}"

    def sums(self, values: NDArray[Any]) -> dict[int, float]:
        """Return the sum of `values` over the jobs of each bin."""
        return {i: float(values[self.index == i].sum()) for i in self.shown}


def _shares_by_size(
    bins: SizeBins,
    kind: str,
    title: str,
    used: Mapping[str, Bools],
    read: Mapping[str, Ints],
    written: Mapping[str, Ints],
) -> Iterator[Piece]:
    """Counts and shares of jobs, bytes read and bytes written, as a table and a chart. What no job used has no rows."""
    jobs = {i: int((bins.index == i).sum()) for i in bins.shown}
    all_read, all_written = (bins.sums(np.sum(list(parts.values()), axis=0)) for parts in (read, written))
    rows: list[tuple[Cell, ...]] = []
    long: list[tuple[Cell, ...]] = []
    for i in bins.shown:
        for name in [name for name, flags in used.items() if flags.any()]:
            count, r, w = (float(part[name][bins.index == i].sum()) for part in (used, read, written))
            shares = (count / jobs[i], _ratio(r, all_read[i]), _ratio(w, all_written[i]))
            rows.append((bins.labels[i], name, jobs[i], int(count), shares[0], int(r), shares[1], int(w), shares[2]))
            quantities = zip(("jobs", "bytes read", "bytes written"), shares, strict=True)
            long += [(quantity, bins.labels[i], name, share) for quantity, share in quantities]
    yield ResultTable.of(
        f"{kind}_by_size",
        f"size: processes [text]; {kind} [text]; jobs [count]; using: jobs using it [count]; using_ratio: of jobs "
        "[ratio]; read_bytes: read [bytes]; read_ratio: of bytes read [ratio]; write_bytes: written [bytes]; "
        "write_ratio: of bytes written [ratio]",
        rows,
    )
    columns = f"quantity [text]; size: processes [text]; {kind} [text]; share [ratio]"
    drawn = ResultTable.of(f"{kind}_shares", columns, long)
    yield Chart.of("bars", drawn, f"x=size y=share series={kind}", title, facet="quantity")


def _ratio(part: float, whole: float) -> float | None:
    """Return part / whole; None if the whole is 0."""
    return part / whole if whole else None


@exhibit("car11.fig2")
def _interfaces(jobs: Runs, bins: SizeBins) -> Iterator[Piece]:
    """Job and data shares by interface (POSIX, MPI-IO, HDF5, ...) and job size."""
    sets = jobs.frame.text("interfaces")
    used: dict[str, Bools] = {}
    for name in INTERFACES:
        has = np.array([name in category.split(",") for category in sets.categories] + [False], np.bool_)
        used[name] = has[sets.codes]
    read, written = (
        {name: jobs.ints(f"{name.lower().replace('-', '')}_{verb}_bytes") for name in INTERFACES}
        for verb in ("read", "write")
    )
    moved = {name: int(read[name].sum()) + int(written[name].sum()) for name in INTERFACES}
    everything = sum(moved.values())
    ratios = {name: _ratio(moved[name], everything) for name in INTERFACES}
    yield [jobs.share(f"jobs_ratio[{name}]", used[name]) for name in INTERFACES]
    for name, ratio in ratios.items():
        yield plain(f"bytes_ratio[{name}]", ratio, "ratio", n=jobs.rows, method="share of data")
    moved_by_job = sum(read[name] + written[name] for name in INTERFACES)
    by_posix = sum(amount[name] for amount in (read, written) for name in ("POSIX", "STDIO"))
    libraries = used["HDF5"] | used["PnetCDF"]
    yield jobs.share("posix_jobs_ratio", used["POSIX"] | used["STDIO"])
    yield jobs.share("posix_bytes_ratio", np.asarray(by_posix), np.asarray(moved_by_job))
    yield jobs.share("library_jobs_ratio", libraries)
    yield _shares_by_size(bins, "interface", "Interfaces used by jobs of each size", used, read, written)
    if libraries.any():
        share = (ratios["HDF5"] or 0.0) + (ratios["PnetCDF"] or 0.0)
        of_jobs, of_bytes = format_ratio(libraries.mean()), format_ratio(share)
        text = f"{of_jobs} of jobs used high-level libraries, which moved {of_bytes} of the data."
        yield Finding(text, name="libraries")
    else:
        yield Finding("No job used a high-level library.", name="no_libraries")
    yield (
        "A job counts under every interface that it called directly, so job shares add up to more than 100%. Each "
        "byte counts once, at the highest layer."
    )
    yield "Small files that an MPI library opens for its own use count as POSIX.", jobs.caveats, jobs.coverage


@exhibit("car11.fig3")
def _strategies(jobs: Runs, bins: SizeBins) -> Iterator[Piece]:
    """Job and data shares by file-sharing strategy, and the job size from which shared files predominate."""
    used = {_LABELS[name]: jobs.ints(f"{name}_file_count") > 0 for name in STRATEGIES}
    read, written = (
        {_LABELS[name]: jobs.ints(f"{name}_{verb}_bytes") for name in STRATEGIES} for verb in ("read", "write")
    )
    moved = {name: read[name] + written[name] for name in used}
    sharing, shared_bytes = used["shared"] | used["partially shared"], moved["shared"] + moved["partially shared"]
    by_jobs = _predominant_from(bins, sharing, used["unique"])
    by_bytes = _predominant_from(bins, shared_bytes, moved["unique"])
    # Intrepid's 16,384 processors are a tenth of its largest job.
    nprocs = jobs.ints("nprocs")
    from_processes = _LARGE * int(nprocs.max(initial=0))
    large = nprocs >= from_processes
    yield (
        plain("shared_predominant_from_processes", by_jobs, "count", n=jobs.rows, method="lowest bin edge, by jobs"),
        plain("shared_predominant_by_bytes_from_processes", by_bytes, "count", n=jobs.rows, method="lowest bin edge"),
        *(jobs.share(f"jobs_ratio[{name}]", flags) for name, flags in used.items()),
        jobs.share("large_jobs_shared_ratio", sharing & large, large),
        jobs.share(
            "large_jobs_shared_bytes_ratio",
            np.where(large, shared_bytes, 0),
            np.where(large, shared_bytes + moved["unique"], 0),
        ),
        jobs.share("small_jobs_unique_ratio", used["unique"] & ~large, ~large),
        plain("large_job_processes", from_processes, "count", n=jobs.rows, method="a tenth of the largest job"),
    )
    yield _shares_by_size(bins, "strategy", "Files used by jobs of each size", used, read, written)
    for what, lowest in (("jobs", by_jobs), ("bytes", by_bytes)):
        where = "do not predominate among the largest jobs"
        if lowest is not None:
            where = f"predominate from {lowest:,} processes upwards"
        yield Finding(f"By {what}, shared or partially shared files {where}.", name="shared_files_predominate")
    yield (
        "A job counts under every strategy that it used. A unique file is used by one process, a shared file "
        "by all processes, and a partially shared file by some."
    )
    yield _STREAMS, jobs.caveats, jobs.coverage


def _predominant_from(bins: SizeBins, shared: NDArray[Any], unique: NDArray[Any]) -> int | None:
    """Lowest size from which shared and partially shared files outweigh unique ones in every larger bin too."""
    by_shared, by_unique = bins.sums(shared), bins.sums(unique)
    lowest: int | None = None
    for i in sorted(bins.shown, reverse=True):
        if by_shared[i] <= by_unique[i]:
            break
        lowest = bins.lowest[i]
    return lowest


def category_of(files: Ints, nprocs: Ints) -> Ints:
    """0 no files, 1 N:1 (few files, whatever the size), 2 N:M, 3 N:N (a file per process or more), 4 one process."""
    result = np.where(files >= nprocs, 3, np.where(files <= _FEW_FILES, 1, 2))
    return np.where(files == 0, 0, np.where(nprocs == 1, 4, result))


@exhibit("car11.fig5")
def _files(runs: Runs) -> Iterator[Piece]:
    """File and process counts of each application run of the ten largest projects."""
    shown = [runs.projects.categories.index(name) for name in runs.largest_projects()]
    runs = runs.take(np.isin(runs.projects.codes, shown) & runs.frame.known("file_count"))
    files, nprocs, n = runs.ints("file_count"), runs.ints("nprocs"), runs.rows
    counts = np.bincount(category_of(files, nprocs), minlength=len(_CATEGORIES)).tolist()
    most = float((files / np.maximum(nprocs, 1)).max(initial=0.0))
    kinds = sum(count > 0 for count in counts[:4])
    yield plain("files_per_process_max", most, "count", n=n, method="maximum")
    yield plain("categories", kinds, "count", n=n, method="of N:N, N:1, N:M and no files")
    yield runs.share("zero_files_ratio", files == 0)
    rows = [(name, count, _ratio(count, n)) for name, count in zip(_CATEGORIES, counts, strict=True)]
    yield ResultTable.of("categories", "category [text]; runs [count]; ratio [ratio]", rows)
    if n:
        # Equal runs are one point with a size.
        keys = np.stack([runs.projects.codes.astype(np.int64), nprocs, files])
        points, equal = np.unique(keys, axis=1, return_counts=True)
        largest = np.argsort(-equal, kind="stable")[:_MOST_POINTS]
        diagonal = sorted({int(nprocs.min()), int(nprocs.max())})
        picked = zip(*points[:, largest], equal[largest], strict=True)
        drawn = ResultTable.of(
            "points",
            "processes [count]; files: files accessed [count]; project [text]; runs [count]; curve [text]",
            [
                *(
                    (int(size), float(f) or _NO_FILES, runs.projects.categories[p], int(k), None)
                    for p, size, f, k in picked
                ),
                *((size, float(size), None, None, _DIAGONAL) for size in diagonal),
            ],
        )
        none = (Reference("y", _NO_FILES, f"no files: {counts[0]:,} runs"),) if counts[0] else ()
        yield Chart.of(
            "scatter",
            drawn,
            "x=processes y=files series=project size=runs curve",
            "Files accessed by each application run",
            log="xy",
            references=(Reference("y", float(_FEW_FILES), "N:1 below"), *none),
        )
    seen = [f"{count:,} {name}" for name, count in zip(_CATEGORIES, counts, strict=True) if count]
    yield Finding(f"Of {n:,} application runs: {', '.join(seen)}.", name="files_per_run")
    yield (
        f"N:1 means up to {_FEW_FILES} files at any size, N:N means at least one file per process, and N:M is in "
        "between."
    )
    yield "The figure shows runs of the ten projects that moved the most data.", _STREAMS, runs.caveats, runs.coverage


STUDY = Study("access_methods", names_of("car11.fig2 car11.fig3 car11.fig5"), NEEDS, run, params=(PROCESSES_PER_NODE,))
