"""How much of the system's traffic the instrumented runs explain (mad17 fig. 13)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.contracts import Inventory, Need, Param, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Cell, Chart, Coverage, Estimate, Exhibit, Finding, ResultTable
from ioweather.core.units import HOUR_NS, NS, format_bytes, format_seconds, format_value
from ioweather.core.words import names_of
from ioweather.derive.jobs.io_spans import SPAN_COLUMNS, io_spans, spread_over_steps
from ioweather.derive.jobs.matching import match_jobs
from ioweather.studies.shared import choices
from ioweather.studies.shared.intervals import INTERVALS, Intervals, number, plain
from ioweather.studies.shared.job_estimates import share_estimate
from ioweather.studies.shared.presenting import timeline_table
from ioweather.studies.shared.rollup_steps import SERVER_TRAFFIC, Steps, traffic_steps

SPREAD: Final = (
    "Bytes of a file are spread evenly from its first to its last read, or write; bytes of a run whose files have no "
    "times, over its run time."
)
_SERVERS: Final = "servers"
_LOGS: Final = "logged runs"


def _twelfth(_: Inventory, values: Params) -> int:
    """What all logged runs moved, as a measure of the system that is finer than the servers' samples (mad17 VI-B). A
    part of mad17.fig13."""
    return max(NS, int(values["resolution"]) // 12)


_STEP = "length of a step of the sum over logged runs; default: a twelfth of the interval"
FINE: Final = Param("fine", _STEP, kind="duration", choose=_twelfth)


@dataclass(frozen=True, eq=False)
class Logged:
    """What runs moved: in which span, how many bytes. `timed`: the span is that of a file."""

    first_ns: Ints
    last_ns: Ints
    moved: Floats
    timed: bool

    def on_grid(self, start_ns: int, step_ns: int, count: int) -> Floats:
        return spread_over_steps(
            self.first_ns, self.last_ns, self.moved, start_ns=start_ns, step_ns=step_ns, count=count
        )

    def shorter_ratio(self, seconds: float) -> float | None:
        """The share of bytes in spans below so many seconds."""
        short = (self.last_ns - self.first_ns) < seconds * NS
        total = float(self.moved.sum())
        return float(self.moved[short].sum()) / total if total else None


@dataclass(frozen=True)
class Finer:
    """What mad17.fig13 has of it."""

    charts: tuple[Chart, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    findings: tuple[Finding, ...] = ()


def logged_bytes(data: StudyData, runs: Frame) -> Logged:
    """Spans of files; what a run moved beside them stays spread over its run time."""
    start, end = (runs.ints(name) for name in ("start_ns", "end_ns"))
    every = np.nan_to_num(runs.floats("read_bytes")) + np.nan_to_num(runs.floats("write_bytes"))
    files = data.frames.get("files")
    if files is None or not files.rows:
        return Logged(start, end, every, timed=False)
    spans = io_spans(runs, files)
    rest = np.maximum(every - np.bincount(spans.run, spans.moved, minlength=runs.rows), 0.0)
    left = rest > 0
    parts = ((spans.first_ns, start[left]), (spans.last_ns, end[left]), (spans.moved, rest[left]))
    first, last, moved = (np.concatenate(part) for part in parts)
    return Logged(first, last, moved.astype(np.float64), timed=bool(len(spans.run)))


def finer(logged: Logged, runs: Frame, steps: Steps, system: Floats, intervals: Intervals, fine_ns: int) -> Finer:
    """The sum beside the servers: whether they go together, and what is seen in it that their interval hides."""
    usable = steps.usable
    moved = np.nan_to_num(runs.floats("read_bytes")) + np.nan_to_num(runs.floats("write_bytes"))
    whole = Logged(runs.ints("start_ns"), runs.ints("end_ns"), moved, timed=False)
    ways = {"spans": logged, "run_time": whole}
    together = {
        name: _correlation(
            f"correlation_{name}", each.on_grid(steps.start_ns, steps.step_ns, steps.count), system, usable, intervals
        )
        for name, each in ways.items()
    }
    if not logged.timed or fine_ns >= steps.step_ns:
        return Finer(estimates=(together["run_time"],), findings=tuple(_follows(together["run_time"])))
    count = steps.count * steps.step_ns // fine_ns
    sums = logged.on_grid(steps.start_ns, fine_ns, count) / (fine_ns / NS)
    shorter = logged.shorter_ratio(steps.step_seconds)
    coarse = float(np.nanmax(np.where(usable, logged.on_grid(steps.start_ns, steps.step_ns, steps.count), np.nan)))
    peak = float(sums.max(initial=0.0)) / (coarse / steps.step_seconds) if coarse > 0 else None
    seen = len(runs.array("start_ns"))
    estimates = (
        *together.values(),
        plain("finer_ratio", shorter, "ratio", n=seen, method="bytes in spans below the servers' interval"),
        plain("fine_peak", peak, "factor", n=seen, method="highest rate of fine steps over that of the interval"),
    )
    findings = (*_follows(together["spans"]), *_hidden(shorter, peak, steps, fine_ns))
    return Finer((_busiest_hour(sums, fine_ns, steps, system),), estimates, findings)


def _correlation(name: str, own: Floats, system: Floats, usable: Bools, intervals: Intervals) -> Estimate:
    """Pearson's coefficient over the servers' intervals."""
    scale = [max(float(np.nanmax(np.where(usable, line, 0.0), initial=0.0)), 1.0) for line in (own, system)]
    x, y = (np.where(usable, line, 0.0) / most for line, most in zip((own, system), scale, strict=True))
    sums = intervals.sums(np.asarray(usable, np.float64), x, y, x * x, y * y, x * y)

    def pearson(s: Floats) -> Floats:
        n, a, b, aa, bb, ab = np.moveaxis(np.asarray(s), -1, 0)
        return np.asarray((n * ab - a * b) / np.sqrt((n * aa - a * a) * (n * bb - b * b)))

    return intervals.estimate(name, "", sums, pearson, n=int(usable.sum()))


def _follows(found: Estimate) -> Iterator[Finding]:
    if found.value is None:
        return
    between = "" if found.low is None or found.high is None else f", {found.low:.2f} to {found.high:.2f}"
    yield Finding(
        f"Servers and logged runs rise and fall together: correlation {found.value:.2f}{between} (n {found.n}).",
        name="correlation",
    )


def _hidden(shorter: float | None, peak: float | None, steps: Steps, fine_ns: int) -> Iterator[Finding]:
    if shorter is None or peak is None:
        return
    interval, fine = format_seconds(steps.step_seconds), format_seconds(fine_ns / NS)
    yield Finding(
        f"{shorter:.0%} of the logged bytes moved in spans shorter than the servers' {interval}: for these the sum "
        f"over logs is the finer measure. Its highest rate over {fine} is {format_value(peak, 'factor')} that over "
        f"{interval}.",
        name="finer_than_servers",
    )


def _busiest_hour(sums: Floats, fine_ns: int, steps: Steps, system: Floats) -> Chart:
    """The hour in which logged runs moved most, by both measures in bytes per second."""
    per_hour = min(len(sums), max(1, HOUR_NS // fine_ns))
    running = np.concatenate([[0.0], np.cumsum(sums)])
    first_ns = steps.start_ns + int(np.argmax(running[per_hour:] - running[:-per_hour])) * fine_ns
    last_ns = first_ns + per_hour * fine_ns
    rows: list[tuple[Cell, ...]] = []
    low, high = ((t - steps.start_ns) // steps.step_ns for t in (first_ns, last_ns - 1))
    for step in range(int(low), min(int(high) + 1, steps.count)):
        begin = steps.start_ns + step * steps.step_ns
        rate = number(system[step] / steps.step_seconds)
        rows += [(max(begin, first_ns), _SERVERS, rate), (min(begin + steps.step_ns, last_ns) - 1, _SERVERS, rate)]
    begin = int((first_ns - steps.start_ns) // fine_ns)
    rows += [(first_ns + i * fine_ns, _LOGS, float(rate)) for i, rate in enumerate(sums[begin : begin + per_hour])]
    title = f"The busiest hour of logged runs: servers every {format_seconds(steps.step_seconds)}, logs every "
    table = ResultTable.of("finer", "time [time_ns]; series [text]; rate [bytes_per_s]", rows)
    return Chart.of("timeline", table, "x=time y=rate series", title + format_seconds(fine_ns / NS))


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
    chart = Chart.of(
        "timeline",
        timeline_table("volumes", steps.times_ns[::width][: len(lines["system"])], scaled, "share of maximum", "ratio"),
        "x=time y=value series",
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
        "mad17.fig13",
        charts=(chart, *fine.charts),
        estimates=(*estimates, *fine.estimates),
        findings=(*_findings(share.value, total), *fine.findings),
        caveats=(f"{SPREAD} {where}", SERVER_TRAFFIC),
        coverage=(steps.coverage("sampling intervals"), *whose),
    )


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
            "traffic",
            "series",
            metrics=choices.TRAFFIC,
            shape="rollup",
            where={"component_kind": "$component_kind", "filesystem": "$filesystem"},
            exclude_flags=("over_limit", "reset"),
        ),
        Need("runs", "job_io", columns=_RUN_COLUMNS),
        Need("files", "files", columns=SPAN_COLUMNS, optional=True),
        Need("applications", "applications", columns=("log_digest", "job_id", "uid", "start_ns"), optional=True),
        Need(
            "jobs",
            "jobs",
            columns=names_of("""
                cluster raw_job_id step restart uid user account start_ns end_ns node_count cpu_count
            """),
            optional=True,
        ),
    ),
    run=run,
    params=(*choices.TRAFFIC_PARAMS, INTERVALS, FINE),
    too_few="no interval of the period has samples of all servers that can be used, or no run has a log",
)
