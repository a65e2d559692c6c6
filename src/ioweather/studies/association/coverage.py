"""How much of the system's traffic the instrumented runs explain (mad17 fig. 13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.contracts import Need, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Chart, Coverage, Estimate, Exhibit, Finding
from ioweather.core.units import format_bytes
from ioweather.derive.jobs.io_spans import SPAN_COLUMNS
from ioweather.derive.jobs.matching import match_jobs
from ioweather.studies.association.finer import FINE, SPREAD, finer, logged_bytes
from ioweather.studies.shared import choices
from ioweather.studies.shared.intervals import INTERVALS, Intervals, plain
from ioweather.studies.shared.job_estimates import share_estimate
from ioweather.studies.shared.presenting import timeline_table
from ioweather.studies.shared.rollup_steps import SERVER_TRAFFIC, traffic_steps

_RUN_COLUMNS: Final = ("log_digest", "start_ns", "end_ns", "nprocs", "read_bytes", "write_bytes", "main_mount")


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    steps = traffic_steps(data, facility, str(params["filesystem"]))
    if not steps.usable.any():
        return
    here, where, whose = _runs_here(data.frames["runs"], facility, str(params["filesystem"]))
    runs = data.frames["runs"].take(here)
    logged = logged_bytes(data, runs)
    own = logged.on_grid(steps.start_ns, steps.step_ns, steps.count)
    system = np.asarray(sum(steps.values[metric] for metric in choices.TRAFFIC), np.float64)
    usable = steps.usable
    intervals = Intervals(usable, steps.step_ns, on=bool(params["intervals"]))
    sums = intervals.sums(np.where(usable, own, 0.0), np.where(usable, system, 0.0))
    share = intervals.estimate("covered_ratio", "ratio", sums, lambda s: s[:, 0] / s[:, 1], n=int(usable.sum()))
    width = max(1, steps.count // 400)
    lines = {"system": _binned(system, width), "instrumented runs": _binned(np.where(usable, own, np.nan), width)}
    scaled = {name: line / np.nanmax(line) if np.nanmax(line) > 0 else line for name, line in lines.items()}
    chart = Chart(
        "timeline",
        timeline_table("volumes", steps.times_ns[::width][: len(lines["system"])], scaled, "share of maximum", "ratio"),
        {"x": "time", "y": "value", "series": "series"},
        "Volume per interval, each by its maximum",
    )
    total = float(np.nansum(system))
    lost = float((~usable).sum()) * steps.step_seconds
    jobs = _instrumented(data)
    estimates = (
        share,
        plain("system_volume", total, "bytes", n=int(usable.sum()), method="sum of monitored steps"),
        plain("runs_volume", float(own[usable].sum()), "bytes", n=runs.rows, method="sum over logs, in these steps"),
        plain("lost", lost, "seconds", method="steps without samples"),
        *jobs,
    )
    fine = finer(logged, runs, steps, system, intervals, int(params["fine"]))
    yield Exhibit(
        "mad17.fig13", charts=(chart, *fine.charts), estimates=(*estimates, *fine.estimates),
        findings=(*_findings(share.value, total), *fine.findings),
        caveats=(f"{SPREAD} {where}", SERVER_TRAFFIC),
        coverage=(steps.coverage("sampling intervals"), *whose),
    )  # fmt: skip


def _runs_here(runs: Frame, facility: Facility, filesystem: str) -> tuple[Bools, str, tuple[Coverage, ...]]:
    """Runs that moved most of their bytes on the file system, as far as mounts are known; and what to say of it."""
    known = facility.filesystem(filesystem)
    if known is None or not known.mounts:
        return np.ones(runs.rows, np.bool_), "Bytes it moved to other file systems count too.", ()
    mounts = runs.text("main_mount")
    on = [facility.filesystem_of_path(mount) is known for mount in mounts.categories]
    here = np.array([*on, True], np.bool_)[mounts.codes]  # a run whose mount nobody recorded counts
    elsewhere = {"mostly on other file systems": int((~here).sum())} if not here.all() else {}
    words = f"Runs that moved most of their bytes on {filesystem} count, with all their bytes."
    return here, words, (Coverage(runs.rows, int(here.sum()), "runs", elsewhere),)


def _binned(values: Floats, width: int) -> Floats:
    count = len(values) // width
    table = values[: count * width].reshape(count, width)
    known = np.isfinite(table).sum(axis=1)
    # Scaled up for missing steps within a bin; a bin without any is missing.
    return np.where(known > 0, np.nansum(table, axis=1) * width / np.maximum(known, 1), np.nan)


def _instrumented(data: StudyData) -> tuple[Estimate, ...]:
    jobs, applications = data.frames.get("jobs"), data.frames.get("applications")
    if jobs is None or applications is None:
        return ()
    allocations = int(jobs.text("step").equals("").sum())
    if not allocations:
        return ()
    matches = match_jobs(applications, jobs)
    matched = len(np.unique(matches.ints("job_row")[matches.known("job_row")]))
    return (share_estimate("jobs_instrumented_ratio", matched, allocations),)


def _findings(share: float | None, total: float) -> Iterator[Finding]:
    if share is None:
        yield Finding("The system moved nothing.", "undecided", name="nothing_moved")
        return
    yield Finding(
        f"The instrumented runs account for {share:.0%} of the {format_bytes(total)} that the system moved.",
        name="covered_bytes",
    )
    if share > 1.2:
        yield Finding(
            "That is more than all: the logs hold bytes of other file systems, or caches served them.",
            name="more_than_all",
        )


STUDY = Study(
    name="association_coverage",
    exhibits=("mad17.fig13",),
    needs=(
        Need(
            "traffic", "series", metrics=choices.TRAFFIC, shape="rollup",
            where={"component_kind": "$component_kind", "filesystem": "$filesystem"},
            exclude_flags=("over_limit", "reset"),
        ),
        Need("runs", "job_io", columns=_RUN_COLUMNS),
        Need("files", "files", columns=SPAN_COLUMNS, optional=True),
        Need("applications", "applications", columns=("log_digest", "job_id", "uid", "start_ns"), optional=True),
        Need(
            "jobs", "jobs", columns=("cluster", "raw_job_id", "step", "restart", "uid", "user", "account", "start_ns",
                                     "end_ns", "node_count", "cpu_count"), optional=True,
        ),
    ),
    run=run,
    params=(*choices.TRAFFIC_PARAMS, INTERVALS, FINE),
    too_few="no interval of the period has samples of all servers that can be used, or no run has a log",
)  # fmt: skip
