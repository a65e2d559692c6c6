"""The part that dominates the I/O of each project, and why (car11 V.A-J, for the projects of this site)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import (
    Cell,
    Chart,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    ResultTable,
    exhibit,
    numbered,
    quantity_label,
)
from ioweather.core.units import format_bytes, format_value
from ioweather.facts.file_records import quotient
from ioweather.facts.runs import (
    MIN_SIZES,
    NEEDS,
    PROCESSES_PER_NODE,
    SIGNATURES,
    Runs,
    instances_of,
    jobs_of,
    large,
    program_of,
    signatures,
    similar_groups,
    strong_scaling,
)
from ioweather.stats.intervals import plain
from ioweather.stats.job_estimates import known, median_estimate, share_estimate
from ioweather.studies.car11.node_ceiling import PER_NODE
from ioweather.studies.car11.projects import CLOSE_IS_METADATA

# A signature is worth a sentence when so many of the project's jobs bear it.
_TYPICAL: Final = 0.5
_IDENTICAL: Final = 8
# An application counts as one of a project's from this share of its bytes on.
_WEIGHTY: Final = 0.1
_PARTS: Final = ("metadata", "reading", "writing")


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    """The case studies of car11 V.A-J, for the projects of this site."""
    every = jobs_of(data, facility, params)
    jobs = large(every, params)
    shown = [name for name in every.largest_projects() if jobs.projects.equals(name).any()]
    if shown:
        instances = instances_of(data, facility, params)
        yield _signatures([_described(name, jobs, every) for name in shown], jobs, instances)


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
        return _dominant(self.times)

    def share(self, signature: str) -> float:
        """Of the jobs that have a signature."""
        return self.zero_files if signature == "zero_files" else float(np.mean(self.marks.array(signature)))

    def median(self, name: str, source: str = "jobs") -> float | None:
        return _median(self.marks.array(name) if source == "marks" else self.jobs.floats(name))


def _described(name: str, jobs: Runs, every: Runs) -> _Project:
    """`every` has the jobs that the filter leaves out too: those without files are among them."""
    own = jobs.of_project(name)
    identical = int(np.bincount(similar_groups(own.frame)).max(initial=0))
    without_files = float(np.mean(every.of_project(name).floats("file_count") == 0))
    return _Project(name, own, signatures(own.frame), _times(own), identical, without_files)


def _times(jobs: Runs) -> list[float]:
    return [float(np.nansum(jobs.floats(f"{part}_seconds"))) for part in ("meta", "read", "write")]


def _dominant(times: list[float]) -> int | None:
    """Index into _PARTS of the part that takes most of the time."""
    return int(np.argmax(times)) if sum(times) > 0 else None


def _median(values: Any) -> float | None:
    sample = known(values)
    return float(np.median(sample)) if len(sample) else None


def _programs(jobs: Runs) -> list[tuple[str, Runs]]:
    """A project may be several applications that have nothing in common (car11 V.B); those that moved most first."""
    names = np.array([program_of(exe) if exe else "?" for exe in jobs.frame.text("exe").tolist()])
    parts = [(str(name), jobs.take(np.flatnonzero(names == name))) for name in np.unique(names)]
    return sorted(parts, key=lambda part: -_total(part[1], "moved_bytes"))


def _total(jobs: Runs, column: str) -> int:
    return int(jobs.ints(column).sum())


@exhibit("car11.projects")
def _signatures(projects: list[_Project], jobs: Runs, instances: Runs) -> Iterator[Piece]:
    overview: list[tuple[Cell, ...]] = []
    applications: list[tuple[Cell, ...]] = []
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
                _total(own, "read_bytes"),
                _total(own, "write_bytes"),
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
        whole = _total(own, "moved_bytes")
        for program, some in _programs(own):
            part, nprocs = _dominant(_times(some)), some.ints("nprocs")
            sizes = (some.rows, int(nprocs.min()), int(nprocs.max()))
            volumes = (_total(some, "read_bytes"), _total(some, "write_bytes"))
            share = _total(some, "moved_bytes") / whole if whole else None
            request = _median(signatures(some.frame).array("request_bytes"))
            dominant = None if part is None else _PARTS[part]
            applications.append((project.name, program, *sizes, *volumes, share, dominant, request))
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
    yield ResultTable.of(
        "applications",
        "project [text]; program [text]; jobs [count]; processes_low: processes from [count]; "
        "processes_high: to [count]; read [bytes]; written [bytes]; share: of the project's bytes [ratio]; "
        "dominant: most time in [text]; request: mean request, median [bytes]",
        applications,
        "Applications within each project",
    )
    marks = [
        (p.name, quantity_label(name, ""), words, p.share(name)) for p in projects for name, words in SIGNATURES.items()
    ]
    columns = "project [text]; signature [text]; meaning [text]; share: of the project's jobs [ratio]"
    listed = ResultTable.of("signatures", columns, marks)
    yield listed, Chart.of("matrix", listed, "x=signature y=project value=share", "Share of jobs with a signature")
    yield [_estimates(project, instances) for project in projects]
    yield numbered(finding for project in projects for finding in _findings(project)), CLOSE_IS_METADATA
    yield "Signatures are read off counters by stated thresholds; what a program's authors meant is not in a log."
    yield "A file shared by all processes counts as I/O of all of them, unless the log shows that one did it all."
    yield jobs.node_caveats, jobs.node_coverage


def _estimates(project: _Project, instances: Runs) -> Iterator[Estimate]:
    """Named as the paper's numbers are, so that these can be compared with them."""
    name, jobs, n = project.name, project.jobs, project.jobs.rows
    read, written = _total(jobs, "read_bytes"), _total(jobs, "write_bytes")
    files = _total(jobs, "write_only_file_count") + _total(jobs, "read_write_file_count")
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
    """Findings on one project; none if it moved no data."""
    return list(_findings(_described(name, jobs, jobs))) if _total(jobs.of_project(name), "moved_bytes") else []


def _findings(project: _Project) -> Iterator[Finding]:
    """Plain sentences: volume, the part that takes the time, why, and whether it matters."""
    jobs, n, name, median = project.jobs, project.jobs.rows, project.name, project.median
    volumes = f"read {format_bytes(_total(jobs, 'read_bytes'))} and wrote {format_bytes(_total(jobs, 'write_bytes'))}"
    text = f"{name}: {n:,} job{'s' if n > 1 else ''} {volumes}"
    if project.dominant is not None:
        share = project.times[project.dominant] / sum(project.times)
        text += f"; {share:.0%} of the I/O time of all processes is {_PARTS[project.dominant]}"
    yield Finding(f"{text}.", name="volume")
    if project.identical >= _IDENTICAL and project.identical > n / 2:
        yield Finding(f"{name} is dominated by {project.identical:,} nearly identical jobs.", name="identical_jobs")
    # Applications of weight that spend their time on different things: means over the project describe neither.
    whole = _total(jobs, "moved_bytes")
    shares = [(p, _total(some, "moved_bytes") / max(1, whole), _dominant(_times(some))) for p, some in _programs(jobs)]
    weighty = [each for each in shares if whole and each[1] >= _WEIGHTY]
    if len({part for _, _, part in weighty}) > 1:
        words = ", ".join(
            f"{program} ({share:.0%} of the bytes, most time in {_PARTS[part]})"
            for program, share, part in weighty
            if part is not None
        )
        yield Finding(f"{name} is several applications that differ: {words}.", name="applications")
    most = int(jobs.ints("instance_count").max())
    if most > 1:
        yield Finding(f"{name} runs up to {most:,} instances of its applications in one job.", name="instances")
    if project.share("rank0_io") > _TYPICAL:
        text = f"{name}: one process does all the I/O in {project.share('rank0_io'):.0%} of the jobs."
        yield Finding(text, name="one_process_io")
    elif project.share("subset_io") > _TYPICAL:
        some = f"typically {median('io_rank_count'):,.0f} of {median('nprocs'):,.0f} processes do all the I/O"
        yield Finding(f"{name} aggregates by itself: {some}, without MPI-IO collectives.", name="subset_io")
    if project.share("file_per_process") > _TYPICAL:
        files, created = (format_value(median(f"{each}_per_process"), "count") for each in ("files", "creates"))
        text = f"{name} uses {files} files per process and creates {created}: metadata grows with the job."
        yield Finding(text, name="file_per_process")
    if project.share("seek_per_operation") > _TYPICAL:
        yield Finding(f"{name} seeks with every read or write.", name="seek_per_operation")
    if project.share("small_requests") > _TYPICAL:
        request = format_value(median("request_bytes", "marks"), "bytes")
        yield Finding(f"{name} moves its data in small requests, {request} on average.", name="small_requests")
    if project.zero_files > 0:
        yield Finding(f"{name}: {project.zero_files:.0%} of all its jobs access no file.", name="no_files")
    sizes = strong_scaling(jobs.ints("nprocs"), jobs.ints("moved_bytes"))
    if sizes is not None:
        text = f"from {sizes[0]:,} to {sizes[1]:,} processes its jobs move about the same bytes"
        text = f"{name} scales strongly: {text}, so that each process moves less the larger the job is."
        yield Finding(text, name="strong_scaling")
    if project.share("negligible_io") > _TYPICAL:
        text = f"{name}: I/O takes less than 1% of the run in most jobs, so none of this is likely to matter."
        yield Finding(text, name="negligible_io")


STUDY = Study(
    name="project_signatures",
    exhibits=("car11.projects",),
    needs=NEEDS,
    run=run,
    params=(*MIN_SIZES, PROCESSES_PER_NODE),
    too_few="no job of the period is as large as the least that is looked at (see --params)",
)
