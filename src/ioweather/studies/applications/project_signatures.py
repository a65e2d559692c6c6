"""What dominates the I/O of each project, and why (the case studies of car11 V.A-J, for the projects of this site)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, ResultTable, numbered, quantity_label
from ioweather.core.units import format_bytes, format_value
from ioweather.derive.jobs.ratios import quotient
from ioweather.derive.jobs.signatures import SIGNATURES, Scaling, program_of, scaling, signatures, similar_groups
from ioweather.studies.applications.project_io import CLOSE_IS_METADATA
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import known, median_estimate, share_estimate
from ioweather.studies.shared.runs import MIN_SIZES, NEEDS, PROCESSES_PER_NODE, Runs, instances_of, jobs_of, large

# A signature is worth a sentence when so many of the project's jobs bear it.
_TYPICAL: Final = 0.5
_IDENTICAL: Final = 8
# An application counts as one of a project's from this share of its bytes on.
_WEIGHTY: Final = 0.1
_PARTS: Final = ("metadata", "reading", "writing")


@dataclass(frozen=True, eq=False)
class _Project:
    name: str
    jobs: Runs
    marks: Frame
    times: tuple[float, float, float]
    identical: int
    scaling: Scaling | None
    zero_files: float

    @property
    def dominant(self) -> int | None:
        """Index into _PARTS of what takes most of the time of all processes."""
        return int(np.argmax(self.times)) if sum(self.times) > 0 else None

    def share(self, signature: str) -> float:
        if signature == "zero_files":
            return self.zero_files
        return float(np.mean(self.marks.array(signature)))

    def median(self, name: str, source: str = "jobs") -> float | None:
        values = known(self.marks.array(name) if source == "marks" else self.jobs.floats(name))
        return float(np.median(values)) if len(values) else None


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    every = jobs_of(data, facility, params)
    jobs = large(every, params)
    shown = [name for name in every.largest_projects() if jobs.projects.equals(name).any()]
    if not shown:
        return
    per_instance = instances_of(data, facility, params)
    projects = [_project(name, jobs.of_project(name), every.of_project(name)) for name in shown]
    yield Exhibit(
        "car11.projects",
        tables=(_overview(projects), _applications(projects), _signature_table(projects)),
        charts=(_chart(projects),),
        estimates=tuple(e for project in projects for e in _estimates(project, per_instance)),
        findings=numbered(finding for project in projects for finding in _findings(project)),
        caveats=(
            CLOSE_IS_METADATA,
            "Signatures are read off counters by stated thresholds; what a program's authors meant is not in a log.",
            "A file shared by all processes counts as I/O of all of them, unless the log shows that one did it all.",
            *jobs.node_caveats,
        ),
        coverage=jobs.node_coverage,
    )


def project_findings(name: str, jobs: Runs) -> list[Finding]:
    """What there is to say of one project; nothing if it moved no data."""
    mine = jobs.of_project(name)
    return list(_findings(_project(name, mine, mine))) if int(mine.ints("moved_bytes").sum()) else []


def _project(name: str, jobs: Runs, every: Runs) -> _Project:
    """`every` has the jobs that the filter leaves out too: those without files are among them."""
    times = tuple(float(np.nansum(jobs.floats(f"{part}_seconds"))) for part in ("meta", "read", "write"))
    groups = similar_groups(jobs.frame)
    return _Project(
        name, jobs, signatures(jobs.frame), (times[0], times[1], times[2]),
        int(np.bincount(groups).max(initial=0)), scaling(jobs.ints("nprocs"), jobs.ints("moved_bytes")),
        float(np.mean(every.floats("file_count") == 0)),
    )  # fmt: skip


def _overview(projects: list[_Project]) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for project in projects:
        jobs, total = project.jobs, sum(project.times)
        programs = {program_of(exe) for exe in jobs.frame.text("exe").tolist() if exe}
        rows.append(
            (
                project.name, jobs.rows, len(set(jobs.ints("uid").tolist())), len(programs),
                int(jobs.ints("nprocs").min()), int(jobs.ints("nprocs").max()),
                int(jobs.ints("read_bytes").sum()), int(jobs.ints("write_bytes").sum()),
                None if project.dominant is None else _PARTS[project.dominant],
                None if project.dominant is None else project.times[project.dominant] / total,
                project.median("io_ratio", "marks"), project.median("request_bytes", "marks"),
                project.median("io_rank_count"), int(jobs.ints("instance_count").max()), project.identical,
                project.median("mib_per_s_per_node"),
            )
        )  # fmt: skip
    return ResultTable.of(
        "projects",
        "project [text]; jobs [count]; users [count]; programs [count]; processes_low: processes from [count]; "
        "processes_high: to [count]; read [bytes]; written [bytes]; dominant: most time in [text]; "
        "dominant_ratio: of I/O time [ratio]; io_ratio: I/O of run time, median [ratio]; "
        "request: mean request, median [bytes]; io_ranks: processes doing I/O, median [count]; "
        "instances: runs per job, most [count]; identical: largest group of near-identical jobs [count]; "
        "per_node: per node, median [mib_per_s_per_node]",
        rows,
    )


def _programs(project: _Project) -> list[tuple[str, Runs]]:
    """The project's applications, those that moved most first."""
    names = np.array([program_of(exe) if exe else "?" for exe in project.jobs.frame.text("exe").tolist()])
    parts = [(str(name), project.jobs.take(np.flatnonzero(names == name))) for name in np.unique(names)]
    return sorted(parts, key=lambda part: -int(part[1].ints("moved_bytes").sum()))


def _part_of_time(jobs: Runs) -> int | None:
    """Index into _PARTS of what takes most of the time of all processes."""
    times = [float(np.nansum(jobs.floats(f"{part}_seconds"))) for part in ("meta", "read", "write")]
    return int(np.argmax(times)) if sum(times) > 0 else None


def _applications(projects: list[_Project]) -> ResultTable:
    """A project may be several applications that have nothing in common (car11 V.B)."""
    rows: list[tuple[Cell, ...]] = []
    for project in projects:
        whole = int(project.jobs.ints("moved_bytes").sum())
        for program, jobs in _programs(project):
            part = _part_of_time(jobs)
            requests = known(signatures(jobs.frame).array("request_bytes"))
            rows.append(
                (
                    project.name, program, jobs.rows, int(jobs.ints("nprocs").min()), int(jobs.ints("nprocs").max()),
                    int(jobs.ints("read_bytes").sum()), int(jobs.ints("write_bytes").sum()),
                    int(jobs.ints("moved_bytes").sum()) / whole if whole else None,
                    None if part is None else _PARTS[part],
                    float(np.median(requests)) if len(requests) else None,
                )
            )  # fmt: skip
    return ResultTable.of(
        "applications",
        "project [text]; program [text]; jobs [count]; processes_low: processes from [count]; "
        "processes_high: to [count]; read [bytes]; written [bytes]; share: of the project's bytes [ratio]; "
        "dominant: most time in [text]; request: mean request, median [bytes]",
        rows,
        "Applications within each project",
    )


def _signature_table(projects: list[_Project]) -> ResultTable:
    rows = tuple(
        (project.name, quantity_label(name, ""), words, project.share(name))
        for project in projects
        for name, words in SIGNATURES.items()
    )
    return ResultTable.of(
        "signatures", "project [text]; signature [text]; meaning [text]; share: of the project's jobs [ratio]", rows
    )


def _chart(projects: list[_Project]) -> Chart:
    table = _signature_table(projects)
    return Chart.of("matrix", table, "x=signature y=project value=share", "Share of jobs with a signature")


def _estimates(project: _Project, per_instance: Runs) -> Iterator[Estimate]:
    """Named as the paper's numbers are, so that these stand beside them."""
    name, jobs, n = project.name, project.jobs, project.jobs.rows
    read, written = int(jobs.ints("read_bytes").sum()), int(jobs.ints("write_bytes").sum())
    yield plain(f"jobs[{name}]", n, "count")
    yield plain(f"users[{name}]", len(set(jobs.ints("uid").tolist())), "count", n=n)
    yield plain(f"processes_low[{name}]", int(jobs.ints("nprocs").min()), "count", n=n, method="minimum")
    yield plain(f"processes_high[{name}]", int(jobs.ints("nprocs").max()), "count", n=n, method="maximum")
    yield plain(f"identical_jobs[{name}]", project.identical, "count", n=n, method="largest group")
    yield plain(f"instances_per_job[{name}]", int(jobs.ints("instance_count").max()), "count", n=n, method="maximum")
    yield median_estimate(f"files_per_instance[{name}]", per_instance.of_project(name).floats("file_count"), "count")
    yield plain(f"written[{name}]", written, "bytes", n=n, method="sum")
    yield plain(
        f"read_over_written[{name}]", read / written if written else None, "factor", n=n, method="ratio of sums"
    )
    files = int(jobs.ints("write_only_file_count").sum() + jobs.ints("read_write_file_count").sum())
    yield plain(
        f"file_size_mean[{name}]", written / files if files else None, "bytes", n=files, method="written / files"
    )
    yield median_estimate(f"io_time_ratio[{name}]", project.marks.array("io_ratio"), "ratio")
    for each in ("files_per_process", "creates_per_process"):
        yield median_estimate(f"{each}[{name}]", jobs.floats(each), "count")
    yield median_estimate(f"io_ranks[{name}]", jobs.floats("io_rank_count"), "count")
    yield median_estimate(f"seeks_per_operation[{name}]", project.marks.array("seeks_per_operation"), "count")
    for direction in ("read", "write"):
        sizes = quotient(jobs.floats(f"{direction}_bytes"), jobs.floats(f"{direction}_count"))
        yield median_estimate(f"{direction}_size[{name}]", sizes, "bytes")
    metadata = known(jobs.floats("metadata_ratio"))
    yield plain(
        f"metadata_ratio_max[{name}]", metadata.max() if len(metadata) else None, "ratio", n=n, method="maximum"
    )
    rank0 = int(np.sum(project.marks.array("rank0_io")))
    yield share_estimate(f"rank0_jobs_ratio[{name}]", rank0, n)


def _findings(project: _Project) -> Iterator[Finding]:
    """Plain sentences: what there is, what takes the time, why, and whether it matters."""
    jobs, n, name = project.jobs, project.jobs.rows, project.name
    read, written = int(jobs.ints("read_bytes").sum()), int(jobs.ints("write_bytes").sum())
    text = f"{name}: {n:,} job{'s' if n > 1 else ''} read {format_bytes(read)} and wrote {format_bytes(written)}"
    if project.dominant is not None:
        share = project.times[project.dominant] / sum(project.times)
        text += f"; {share:.0%} of the I/O time of all processes is {_PARTS[project.dominant]}"
    yield Finding(f"{text}.", name="volume")
    if project.identical >= _IDENTICAL and project.identical > n / 2:
        yield Finding(f"{name} is dominated by {project.identical:,} nearly identical jobs.", name="identical_jobs")
    yield from _split(project)
    most = int(jobs.ints("instance_count").max())
    if most > 1:
        text = f"{name} runs up to {most:,} instances of its applications in one job."
        yield Finding(text, name="instances")
    yield from _causes(project)
    yield from _scale(project)
    if project.share("negligible_io") > _TYPICAL:
        text = f"{name}: I/O takes less than 1% of the run in most jobs, so none of this is likely to matter."
        yield Finding(text, name="negligible_io")


def _split(project: _Project) -> Iterator[Finding]:
    """Applications of weight that spend their time on different things: means over the project describe neither."""
    whole = int(project.jobs.ints("moved_bytes").sum())
    weighty = [
        (p, jobs, _part_of_time(jobs))
        for p, jobs in _programs(project)
        if whole and int(jobs.ints("moved_bytes").sum()) >= _WEIGHTY * whole
    ]
    if len({part for _, _, part in weighty}) < 2:
        return
    words = ", ".join(
        f"{program} ({int(jobs.ints('moved_bytes').sum()) / whole:.0%} of the bytes, most time in {_PARTS[part]})"
        for program, jobs, part in weighty
        if part is not None
    )
    yield Finding(f"{project.name} is several applications that differ: {words}.", name="applications")


def _causes(project: _Project) -> Iterator[Finding]:
    name = project.name
    if project.share("rank0_io") > _TYPICAL:
        text = f"{name}: one process does all the I/O in {project.share('rank0_io'):.0%} of the jobs."
        yield Finding(text, name="one_process_io")
    elif project.share("subset_io") > _TYPICAL:
        ranks, size = project.median("io_rank_count"), project.median("nprocs")
        yield Finding(
            f"{name} aggregates by itself: typically {ranks:,.0f} of {size:,.0f} processes do all the I/O, without "
            "MPI-IO collectives.",
            name="subset_io",
        )
    if project.share("file_per_process") > _TYPICAL:
        files, created = (
            format_value(project.median(name), "count") for name in ("files_per_process", "creates_per_process")
        )
        text = f"{project.name} uses {files} files per process and creates {created}: metadata grows with the job."
        yield Finding(text, name="file_per_process")
    if project.share("seek_per_operation") > _TYPICAL:
        yield Finding(f"{name} seeks with every read or write.", name="seek_per_operation")
    if project.share("small_requests") > _TYPICAL:
        request = project.median("request_bytes", "marks")
        text = f"{name} moves its data in small requests, {format_value(request, 'bytes')} on average."
        yield Finding(text, name="small_requests")
    if project.zero_files > 0:
        yield Finding(f"{name}: {project.zero_files:.0%} of all its jobs access no file.", name="no_files")


def _scale(project: _Project) -> Iterator[Finding]:
    if project.scaling is not None and project.scaling.strong:
        first, last = project.scaling.sizes[0], project.scaling.sizes[-1]
        yield Finding(
            f"{project.name} scales strongly: from {first:,} to {last:,} processes its jobs move about the same bytes, "
            "so that each process moves less the larger the job is.",
            name="strong_scaling",
        )


STUDY = Study(
    name="project_signatures",
    exhibits=("car11.projects",),
    needs=NEEDS,
    run=run,
    params=(*MIN_SIZES, PROCESSES_PER_NODE),
    too_few="no job of the period is as large as the least that is looked at (see --params)",
)
