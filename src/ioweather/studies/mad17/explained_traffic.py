"""How much of the system's traffic the instrumented runs explain (mad17 fig. 13)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from ioweather.core import choices
from ioweather.core.contracts import Param, Params, Study
from ioweather.core.errors import UsageError
from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.results import Chart, Coverage, Exhibit, Finding, Piece, exhibit
from ioweather.core.units import format_bytes, format_seconds, names_of
from ioweather.facts.accounting import match_jobs
from ioweather.facts.job_metrics import SPAN_COLUMNS, IoSpans, io_spans, spread_over_steps
from ioweather.facts.runs import (
    JOB_COLUMNS,
    LEAST_RUNS,
    Groups,
    Runs,
    best_grouping,
    fetch_runs,
    group_runs,
    instances_of,
)
from ioweather.facts.runs import NEEDS as RUN_NEEDS
from ioweather.facts.system_activity import OPERATIONS, STATES, job_system, monitored_mounts
from ioweather.facts.system_grid import SERVER_TRAFFIC, Steps, steps_of
from ioweather.stats.estimates import Intervals, plain, share_estimate
from ioweather.stats.series import correlation
from ioweather.stats.summary_tables import timeline_table
from ioweather.studies.traffic import TRAFFIC_NEEDS, traffic_steps
from ioweather.topics.source import DataSource

# As axes and legends name them.
MEASURES: Final = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "distance_correlation": "distance corr.",
    "mutual_information": "mutual inf.",
}
TIME: Final = "time with I/O (D_D)"
VOLUME: Final = "system volume during run I/O (PsiD)"
NEEDS: Final = f"{RUN_NEEDS} files {TRAFFIC_NEEDS} series:{','.join(OPERATIONS)}?"
PARAMS: Final = (
    *choices.TRAFFIC_PARAMS,
    Param("group", "group to show, by its name in mad17.table1; default: the largest"),
    Param("job", "run to show, by job ID or digest; default: the slowest run of the group"),
)
SHOWN_GROUPS: Final = 3
NO_STEPS_OR_RUNS: Final = "no interval in the period has usable samples from all servers, or no run has a log"
HALF_WIDTH_SD: Final = 1.645  # 90% of a normal distribution, as mad17 draws it
SHARED_STEPS: Final = (
    "D_D and PsiD use the same steps, so they correlate even without contention. For comparison, PsiD/D_D and the "
    "coefficients of time-shifted runs are shown too."
)
IN_TIME_ORDER: Final = "Runs that are close in time share the system state, so intervals use block resampling."


@dataclass(frozen=True, eq=False)
class AssociationData:
    """Every run with its group and the system's activity during it; rows of all frames correspond."""

    runs: Runs
    grid: Steps
    spans: IoSpans
    system: Frame
    groups: Groups
    asked: int
    params: Params
    mounts_known: bool

    @cached_property
    def complete(self) -> Bools:
        """Runs that were monitored from start to end and did I/O in monitored steps."""
        return np.asarray((self.system.text("state").codes == 0) & np.isfinite(self.of("psid_read_bytes")))

    def of(self, name: str) -> Floats:
        """A column of the runs or of the system during them, null as NaN."""
        return self.system.floats(name) if name in self.system else self.runs.floats(name)

    def members(self, group: int) -> Ints:
        """Complete runs of a group in order of time."""
        rows = np.flatnonzero((self.groups.of_run == group) & self.complete)
        return np.asarray(rows[np.argsort(self.runs.ints("start_ns")[rows], kind="stable")], np.int64)

    @cached_property
    def shown(self) -> list[int]:
        """The chosen group, then the largest others."""
        sizes = np.bincount(self.groups.of_run[self.complete], minlength=len(self.groups.names))
        large = [int(g) for g in np.argsort(-sizes, kind="stable") if sizes[g] >= LEAST_RUNS]
        return list(dict.fromkeys([self.asked, *large]))[:SHOWN_GROUPS]

    def name(self, group: int) -> str:
        """Return the name of a group."""
        return self.groups.names[group]

    @property
    def coverage(self) -> tuple[Coverage, ...]:
        """Logs, runs with samples of the system, and steps used."""
        codes = self.system.text("state").codes
        left_out = {
            f"touch a {STATES[1]} in the samples": int((codes == 1).sum()),
            f"extend {STATES[2]} the monitored period": int((codes == 2).sum()),
            "no reads or writes recorded": int(((codes == 0) & ~self.complete).sum()),
        }
        left_out, detail = {k: n for k, n in left_out.items() if n}, "runs with system samples from start to end"
        runs = Coverage(self.runs.rows, int(self.complete.sum()), "runs", left_out, detail)
        return (*self.runs.coverage, runs, self.grid.coverage("sampling intervals"))

    @property
    def caveats(self) -> tuple[str, ...]:
        """How runs were grouped, and caveats of the runs."""
        words = {
            "exact": "Runs are grouped by user, number of processes, number of files and amount of data.",
            "similar": (
                "Runs are grouped by user, program and number of processes, with amounts of data within 25%. A "
                "run's own volume varies within the group and is part of Psi."
            ),
        }[self.groups.grouping]
        return (words, *self.runs.caveats)

    def span_caveat(self, rows: Ints) -> tuple[str, ...]:
        """Spans much longer than the interval make D_D uninformative."""
        chosen = np.zeros(self.runs.rows, np.bool_)
        chosen[rows] = True
        span = self.spans.median_span_seconds(chosen)
        if not span > 2 * self.grid.step_seconds:
            return ()
        return (
            f"The median file is read or written over {format_seconds(span)}, which is "
            f"{span / self.grid.step_seconds:.0f} intervals. D_D then shows when files were in use, not how long "
            "I/O took.",
        )


def association_data(source: DataSource, params: Params) -> AssociationData | None:
    """Return the runs and the system during each; None without any run or sample."""
    facility, filesystem = source.facility, str(params["filesystem"])
    runs = instances_of(fetch_runs(source), facility, params)
    steps = traffic_steps(source, params)
    if not runs.rows or not steps.count:
        return None
    # Bytes of the rollup, and operations where they were sampled, on one grid.
    values = dict(steps.values)
    frame = source.rollup(filesystem, params["component_kind"], OPERATIONS, steps.step_ns, optional=True)
    if frame.rows:
        names = [name for name in OPERATIONS if frame.text("metric").equals(name).any()]
        counts = steps_of(frame, names, steps.step_ns, source.period_ns)
        offset = (counts.start_ns - steps.start_ns) // steps.step_ns
        for name in names:
            # On the grid of the bytes, which may begin and end elsewhere.
            values[name] = placed = np.full(steps.count, np.nan)
            first = max(0, offset)
            last = max(first, min(steps.count, offset + counts.count))
            placed[first:last] = counts.values[name][first - offset : last - offset]
    grid = replace(steps, values=values, needed=choices.TRAFFIC)
    files = source.frame("files", SPAN_COLUMNS)
    mounts = monitored_mounts(files, facility, filesystem)
    spans = io_spans(runs.frame, files, mounts)
    system = job_system(grid, runs.ints("start_ns"), runs.ints("end_ns"), spans)
    groups = group_runs(runs.frame, best_grouping(runs.frame))
    sizes = np.bincount(groups.of_run[system.text("state").codes == 0], minlength=len(groups.names))
    asked = groups.number(str(params["group"])) if params.get("group") else int(sizes.argmax())
    if asked is None:
        few = ", ".join(groups.names[:8])
        raise UsageError(f"No unique group matches {params['group']!r}.", hint=f"The largest are: {few}.")
    return AssociationData(runs, grid, spans, system, groups, asked, params, mounts is not None)


def logged_bytes(runs: Frame, files: Frame, steps: Steps) -> Floats:
    """Return the bytes of runs per step, by span of each file; other bytes of a run over its run time."""
    start, end = (runs.ints(name) for name in ("start_ns", "end_ns"))
    rest = np.nan_to_num(runs.floats("read_bytes")) + np.nan_to_num(runs.floats("write_bytes"))
    spans = io_spans(runs, files)
    rest = np.maximum(rest - np.bincount(spans.run, spans.moved, minlength=runs.rows), 0.0)
    left = rest > 0
    first = np.concatenate([spans.first_ns, start[left]])
    last = np.concatenate([spans.last_ns, end[left]])
    moved = np.concatenate([spans.moved.astype(np.float64), rest[left]])
    return spread_over_steps(first, last, moved, start_ns=steps.start_ns, step_ns=steps.step_ns, count=steps.count)


def run(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make fig. 13."""
    steps = traffic_steps(source, params)
    if steps.usable.any():
        yield _explained_traffic(source, steps, params)


@exhibit("mad17.fig13")
def _explained_traffic(source: DataSource, steps: Steps, params: Params) -> Iterator[Piece]:
    """Ratio of logged data to the data that servers counted, and both over time."""
    facility, filesystem, usable = source.facility, str(params["filesystem"]), steps.usable
    runs = source.frame("job_io", names_of("log_digest start_ns end_ns nprocs read_bytes write_bytes main_mount"))
    known = facility.filesystem(filesystem)
    where = "Data on other file systems are included."
    whose: list[Coverage] = []
    if known is not None and known.mounts:
        mounts = runs.text("main_mount")
        on = [facility.filesystem_of_path(mount) is known for mount in mounts.categories]
        here = np.array([*on, True], np.bool_)[mounts.codes]  # a run without a recorded mount counts
        elsewhere = {"mostly on other file systems": int((~here).sum())} if not here.all() else {}
        where = f"Runs that moved most of their data on {filesystem} are included with all their data."
        whose = [Coverage(runs.rows, int(here.sum()), "runs", elsewhere)]
        runs = runs.take(here)
    own = logged_bytes(runs, source.frame("files", SPAN_COLUMNS, optional=True), steps)
    system = np.asarray(sum(steps.values[metric] for metric in choices.TRAFFIC), np.float64)
    total = float(np.nansum(system))
    intervals = Intervals(usable, steps.step_ns)
    sums = intervals.sums(np.where(usable, own, 0.0), np.where(usable, system, 0.0))
    n = int(usable.sum())
    share = intervals.estimate("covered_ratio", "ratio", sums, lambda s: s[:, 0] / s[:, 1], n=n, scale="log")
    moved, lost = float(own[usable].sum()), float((~usable).sum()) * steps.step_seconds
    yield share, plain("system_volume", total, "bytes", n=n, method="sum of monitored steps")
    yield plain("runs_volume", moved, "bytes", n=runs.rows, method="sum over logs, in these steps")
    yield plain("lost", lost, "seconds", method="steps without samples")
    jobs = source.frame("jobs", JOB_COLUMNS, optional=True)
    allocations = int(jobs.text("step").equals("").sum())
    if allocations:
        applications = source.frame("applications", ("log_digest", "job_id", "uid", "start_ns"), optional=True)
        matches = match_jobs(applications, jobs)
        matched = len(np.unique(matches.ints("job_row")[matches.known("job_row")]))
        yield share_estimate("jobs_instrumented_ratio", matched, allocations)
    width = max(1, steps.count // 400)
    lines = {
        "system": _mean_in_bins(system, width),
        "instrumented runs": _mean_in_bins(np.where(usable, own, np.nan), width),
    }
    scaled = {name: line / np.nanmax(line) if np.nanmax(line) > 0 else line for name, line in lines.items()}
    times = steps.times_ns[::width][: len(lines["system"])]
    drawn = timeline_table("volumes", times, scaled, "share of maximum", "ratio")
    yield Chart.of("timeline", drawn, "x=time y=value series", "Volume per interval, relative to its maximum")
    if share.value is None:
        yield Finding("The system moved no data.", "undecided", name="nothing_moved")
    else:
        of_all = f"{share.value:.0%} of the {format_bytes(total)} that the system moved"
        yield Finding(f"The instrumented runs account for {of_all}.", name="covered_bytes")
        if share.value > 1.2:
            text = "This is more than 100%: the logs include other file systems or cached data."
            yield Finding(text, name="more_than_all")
    # In shares of the greatest step: squares of bytes would lose digits.
    shown = [np.where(usable, line, 0.0) for line in (own, system)]
    x, y = (line / max(float(np.nanmax(line, initial=0.0)), 1.0) for line in shown)
    sums = intervals.sums(np.asarray(usable, np.float64), x, y, x * x, y * y, x * y)
    together = intervals.estimate("correlation", "", sums, correlation, n=n, scale="fisher")
    yield together
    if together.value is not None:
        text = f"Server traffic and logged traffic are correlated: {together.value:.2f} (n {together.n})."
        yield Finding(text, name="correlation")
    yield (
        "The data of a file are spread evenly from its first to its last read or write. If the files have no times, "
        f"the data of a run are spread over its run time. {where}"
    )
    yield SERVER_TRAFFIC, steps.coverage("sampling intervals"), whose


def _mean_in_bins(values: Floats, width: int) -> Floats:
    """Sum `width` steps in one."""
    count = len(values) // width
    table = values[: count * width].reshape(count, width)
    known = np.isfinite(table).sum(axis=1)
    # Scaled up for missing steps within a bin; a bin without any is missing.
    return np.where(known > 0, np.nansum(table, axis=1) * width / np.maximum(known, 1), np.nan)


STUDY = Study(
    name="association_coverage",
    exhibits=("mad17.fig13",),
    needs=f"{TRAFFIC_NEEDS} job_io files? applications? jobs?",
    run=run,
    params=choices.TRAFFIC_PARAMS,
    too_few=NO_STEPS_OR_RUNS,
)
