"""Volume per day, the mix of reads and writes, and the project behind a change of the mix (car11.volume)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Indices, Ints
from ioweather.core.contracts import Need, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Chart, Coverage, Estimate, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import DAY_NS, HOUR_NS, format_bytes
from ioweather.derive.system.calendar import day_name, facility_zone, local_clock, offsets_ns
from ioweather.stats.changepoint import Change, single_change
from ioweather.studies.shared import choices
from ioweather.studies.shared.intervals import INTERVALS, Intervals, plain
from ioweather.studies.shared.presenting import table
from ioweather.studies.shared.rollup_steps import Steps, traffic_steps


@dataclass(frozen=True, eq=False)
class ProjectDays:
    """`amount[i, j]`: what project i did on day first_day + j."""

    projects: tuple[str, ...]
    first_day: int
    amount: Floats


def days_of_jobs(jobs: Frame, facility: Facility, span: tuple[int, int]) -> ProjectDays:
    """Node-hours by project and day of a span of local days, a job's time split at midnight."""
    accounts, uids = jobs.text("account").tolist(), _optional(jobs.array("uid"))
    names = [facility.project_of(account=account, uid=uid) for account, uid in zip(accounts, uids, strict=True)]
    nodes = jobs.ints("node_count", missing=1)
    return _spread(names, jobs.array("start_ns"), jobs.array("end_ns"), nodes / HOUR_NS, facility, span)


def days_of_runs(
    runs: Frame, applications: Frame, jobs: Frame | None, facility: Facility, span: tuple[int, int]
) -> tuple[ProjectDays, ProjectDays]:
    """Bytes read, and bytes written, by project and day: a run's bytes spread evenly over its time."""
    account_of = _accounts(jobs)
    described = {
        row["log_digest"]: facility.project_of(account=account_of.get(row["job_id"]), uid=row["uid"], exe=row["exe"])
        for row in applications.select(("log_digest", "uid", "exe", "job_id")).records()
    }
    names = [described.get(digest, "unknown") for digest in runs.text("log_digest").tolist()]
    start = runs.array("start_ns")
    end = np.maximum(runs.array("end_ns"), start + 1)
    read, write = (
        _spread(names, start, end, runs.array(metric) / (end - start), facility, span)
        for metric in ("read_bytes", "write_bytes")
    )
    return read, write


def _accounts(jobs: Frame | None) -> dict[Any, str | None]:
    if jobs is None:
        return {}
    return dict(zip(_optional(jobs.array("raw_job_id")), jobs.text("account").tolist(), strict=True))


def _optional(column: NDArray[Any]) -> list[Any]:
    """Values with None for null."""
    return list(column.tolist())


def _spread(
    names: list[str],
    start_ns: NDArray[Any],
    end_ns: NDArray[Any],
    per_ns: Floats,
    facility: Facility,
    span: tuple[int, int],
) -> ProjectDays:
    """A constant rate per ns in [start, end), cut at local midnights. Rows without both times are left out."""
    first, last = span
    projects = tuple(sorted(set(names)))
    amount = np.zeros((len(projects), max(0, last - first)))
    zone, _ = facility_zone(facility)
    known = ~(np.ma.getmaskarray(start_ns) | np.ma.getmaskarray(end_ns))
    code = {name: i for i, name in enumerate(projects)}
    row = np.array([code[name] for name in names], np.int64)[known]
    starts, ends = (np.ma.getdata(times)[known].astype(np.int64) for times in (start_ns, end_ns))
    starts, ends = starts + offsets_ns(starts, zone), ends + offsets_ns(ends, zone)
    for day in range(first, last):
        overlap = np.minimum(ends, (day + 1) * DAY_NS) - np.maximum(starts, day * DAY_NS)
        inside = overlap > 0
        np.add.at(amount[:, day - first], row[inside], overlap[inside] * per_ns[known][inside])
    return ProjectDays(projects, first, amount)


# A change is looked for only where each side has a week, and believed at this level.
_MIN_SIDE_DAYS = 7
_SIGNIFICANT = 0.05
# A day counts in the mix when half of it was recorded.
_MIN_DAY = 0.5
_AFTER_DAYS = 14  # car11: "for the following two weeks"
_PROJECTS = 10
_CAVEATS = (
    "Traffic measured at the servers includes login and visualisation nodes, and the reads that a file system makes "
    "itself to complete unaligned writes (read-modify-write): the read share is an upper bound of what jobs asked for.",
    "Volume per day is the total over the time recorded; gaps are not filled.",
)


@dataclass(frozen=True, eq=False)
class Days:
    """Local days: number since 1970, bytes read and written, share of the day recorded."""

    day: Ints
    read: Floats
    write: Floats
    recorded: Floats
    zone: str

    @property
    def share(self) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.read / (self.read + self.write))

    @property
    def usable(self) -> Indices:
        """Days that count in the mix."""
        return np.flatnonzero((self.recorded >= _MIN_DAY) & (self.read + self.write > 0))


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    steps = traffic_steps(data, facility, str(params["filesystem"]))
    if steps.usable.any():
        yield _volume(steps, data, facility, on=bool(params["intervals"]))


@exhibit("car11.volume")
def _volume(steps: Steps, data: StudyData, facility: Facility, *, on: bool) -> Iterator[Piece]:
    days = _days(steps, facility)
    intervals = Intervals(days.recorded > 0, DAY_NS, on=on, unit=1, unit_name="day")
    per_day = np.stack([days.read, days.write, days.recorded], axis=1)
    n = len(days.day)
    read_ratio = intervals.estimate("read_ratio", "ratio", per_day, lambda s: s[:, 0] / (s[:, 0] + s[:, 1]), n=n)
    estimates = [
        plain("total_read", float(days.read.sum()), "bytes", n=n),
        plain("total_write", float(days.write.sum()), "bytes", n=n),
        intervals.estimate("per_day_read", "bytes", per_day, lambda s: s[:, 0] / s[:, 2], n=n),
        intervals.estimate("per_day_write", "bytes", per_day, lambda s: s[:, 1] / s[:, 2], n=n),
        read_ratio,
    ]
    findings = list(_volume_findings(estimates))
    references: tuple[Reference, ...] = ()
    yield _day_table(days)
    change = _change(days)
    if change is not None:
        first_day = int(days.day[days.usable[change.index]])
        estimates += _change_estimates(days, change, on=on)
        findings += _change_findings(days, change, first_day)
        if change.p_value < _SIGNIFICANT:
            references = (Reference("x", first_day * DAY_NS / 1e6, "change of the mix"),)
            behind = _projects(data, facility, first_day, days)
            yield [t for t, _ in behind]
            findings += [f for _, some in behind for f in some]
    else:
        findings.append(
            Finding(
                f"A change of the mix needs {2 * _MIN_SIDE_DAYS} days of data to be looked for.",
                name="change_needs_days",
            )
        )
    yield _chart(days, references), _mix_chart(days, references), estimates, findings, _CAVEATS
    yield f"Days are those of {days.zone}.", steps.coverage("intervals")
    yield Coverage(n, len(days.usable), "days", {}, "at least half recorded")


def _days(steps: Steps, facility: Facility) -> Days:
    zone, name = facility_zone(facility)
    day = local_clock(steps.times_ns, zone).day
    first, count = int(day[0]), int(day[-1] - day[0]) + 1
    place = day - first
    read, write = (np.nan_to_num(steps.values[metric], nan=0.0) for metric in choices.TRAFFIC)
    usable = steps.usable
    return Days(
        np.arange(first, first + count),
        _by_day(np.where(usable, read, 0.0), place, count),
        _by_day(np.where(usable, write, 0.0), place, count),
        _by_day(usable, place, count) * steps.step_ns / DAY_NS,
        name,
    )


def _by_day(amount: NDArray[Any], place: Ints, count: int) -> Floats:
    return np.asarray(np.bincount(place, weights=amount, minlength=count), np.float64)


def _day_table(days: Days) -> ResultTable:
    return table(
        "days",
        {
            "day": ("day", "date", [day_name(int(day)) for day in days.day]),
            "read": ("read", "bytes", days.read),
            "write": ("written", "bytes", days.write),
            "share": ("read share", "ratio", days.share),
            "recorded": ("recorded", "ratio", np.minimum(days.recorded, 1.0)),
        },
        "Volume by day",
    )


def _drawn(days: Days) -> tuple[str, list[str], dict[str, Floats]]:
    """From the first to the last day that counts; those between that do not are gaps: their volume is of hours."""
    use = days.usable if len(days.usable) else np.arange(len(days.day))
    part = slice(int(use[0]), int(use[-1]) + 1)
    counts = np.isin(np.arange(len(days.day)), use)
    series = {"read": days.read, "write": days.write, "share": days.share}
    values = {name: np.where(counts, value, np.nan)[part] for name, value in series.items()}
    return f"day in {days.zone}", [day_name(int(day)) for day in days.day[part]], values


def _chart(days: Days, references: tuple[Reference, ...]) -> Chart:
    label, names, values = _drawn(days)
    long = table(
        "volume",
        {
            "day": (label, "date", names * 2),
            "series": ("", "text", ["read"] * len(names) + ["write"] * len(names)),
            "value": ("volume of the day", "bytes", np.concatenate([values["read"], values["write"]])),
        },
    )
    encoding = {"x": "day", "y": "value", "series": "series"}
    return Chart("timeline", long, encoding, "Volume per day", references=references)


def _mix_chart(days: Days, references: tuple[Reference, ...]) -> Chart:
    label, names, values = _drawn(days)
    long = table("mix", {"day": (label, "date", names), "value": ("read share of the day", "ratio", values["share"])})
    return Chart.of("timeline", long, "x=day y=value", "Read share", references=references)


def _volume_findings(estimates: list[Estimate]) -> Iterator[Finding]:
    total_read, total_write, per_read, per_write, _ = estimates
    yield Finding(
        f"{format_bytes(per_read.value or 0.0)} were read and {format_bytes(per_write.value or 0.0)} written per day, "
        f"{format_bytes(total_read.value or 0.0)} and {format_bytes(total_write.value or 0.0)} in all.",
        name="volume_per_day",
    )


def _change(days: Days) -> Change | None:
    use = days.usable
    return single_change(days.share[use], (days.read + days.write)[use], min_side=_MIN_SIDE_DAYS)


def _change_estimates(days: Days, change: Change, *, on: bool) -> Iterator[Estimate]:
    """Read share on both sides of the day, given the day."""
    use = days.usable
    method = f"least squares; p by {change.replicates} series whose days are as alike (correlation {change.alike:.2f})"
    yield Estimate("change_p_value", change.p_value, "", n=len(use), method=method)
    yield Estimate("change_explained_ratio", change.explained, "ratio", n=len(use), method=method)
    sides: Mapping[str, Indices] = {
        "read_ratio_before_change": use[: change.index],
        "read_ratio_after_change": use[change.index :][:_AFTER_DAYS],
        "read_ratio_after_change[to the end]": use[change.index :],
    }
    for name, chosen in sides.items():
        intervals = Intervals(np.ones(len(chosen), np.bool_), DAY_NS, on=on, unit=1, unit_name="day")
        sums = np.stack([days.read[chosen], days.write[chosen]], axis=1)
        yield intervals.estimate(name, "ratio", sums, lambda s: s[:, 0] / s.sum(axis=1), n=len(chosen))


def _change_findings(days: Days, change: Change, first_day: int) -> list[Finding]:
    text = (
        f"The read share changed on {day_name(first_day)}, from {change.before:.1%} before to {change.after:.1%} after"
    )
    if change.p_value < _SIGNIFICANT:
        return [Finding(f"{text} (p = {change.p_value:.3f}).", name="change_of_mix")]
    return [
        Finding(
            f"No change of the mix stands out: the best candidate is {day_name(first_day)} (p = {change.p_value:.2f}).",
            "undecided",
            name="change_of_mix",
        )
    ]


def _projects(
    data: StudyData, facility: Facility, first_day: int, days: Days
) -> list[tuple[ResultTable, list[Finding]]]:
    """The projects whose own activity changed at that day: by bytes where logs tell them, and by node-hours."""
    span = (int(days.day[0]), int(days.day[-1]) + 1)
    out: list[tuple[ResultTable, list[Finding]]] = []
    runs, applications = data.frames.get("runs"), data.frames.get("applications")
    jobs = data.frames.get("jobs")
    if runs is not None and applications is not None and runs.rows:
        read, write = days_of_runs(runs, applications, jobs, facility, span)
        out.append(_by_volume(read, write, first_day, float(days.read.sum() / (days.read + days.write).sum())))
    if jobs is not None and jobs.rows:
        out.append(_by_node_hours(days_of_jobs(jobs, facility, span), first_day))
    return out


def _sides(activity: ProjectDays, first_day: int) -> tuple[Floats, Floats]:
    split = first_day - activity.first_day
    return activity.amount[:, :split].mean(axis=1), activity.amount[:, split:].mean(axis=1)


def _by_volume(
    read: ProjectDays, write: ProjectDays, first_day: int, share: float
) -> tuple[ResultTable, list[Finding]]:
    """Projects by how far their change moves the read share s: d(R / T) = (dR (1 - s) - dW s) / T."""
    read_before, read_after = _sides(read, first_day)
    write_before, write_after = _sides(write, first_day)
    pull = (read_after - read_before) * (1 - share) - (write_after - write_before) * share
    order = np.argsort(-np.abs(pull), kind="stable")[:_PROJECTS]
    ranked = table(
        "projects_volume",
        {
            "project": ("project", "text", [read.projects[i] for i in order]),
            "read_before": ("read per day before", "bytes", read_before[order]),
            "read_after": ("after", "bytes", read_after[order]),
            "write_before": ("written per day before", "bytes", write_before[order]),
            "write_after": ("after", "bytes", write_after[order]),
        },
        "Projects by how much they moved the mix (instrumented runs)",
    )
    top = int(order[0])
    before, after = read_before[top] + write_before[top], read_after[top] + write_after[top]
    shown = f"{format_bytes(before)} per day before, {format_bytes(after)} after"
    return ranked, [_behind(read.projects[top], before, after, shown, "moved the mix most")]


def _by_node_hours(activity: ProjectDays, first_day: int) -> tuple[ResultTable, list[Finding]]:
    before, after = _sides(activity, first_day)
    order = np.argsort(-np.abs(after - before), kind="stable")[:_PROJECTS]
    ranked = table(
        "projects_node_hours",
        {
            "project": ("project", "text", [activity.projects[i] for i in order]),
            "before": ("node-hours per day before", "count", before[order]),
            "after": ("after", "count", after[order]),
        },
        "Projects by change of node-hours per day (scheduler log)",
    )
    top = int(order[0])
    shown = f"{before[top]:,.0f} node-hours per day before, {after[top]:,.0f} after"
    what = "changed its node-hours most"
    return ranked, [_behind(activity.projects[top], float(before[top]), float(after[top]), shown, what)]


def _behind(project: str, before: float, after: float, shown: str, what: str) -> Finding:
    low, high = sorted((before, after))
    if low > high / 2:
        return Finding(
            f"No project stands behind the change: {project} {what} ({shown}) but neither began nor ended.",
            name="project_behind_change",
        )
    verb = "tapered off" if after < before else "started"
    return Finding(
        f"{project} {verb} at that time ({shown}): it {what}. Coincidence in time is not proof.",
        name="project_behind_change",
    )


STUDY = Study(
    name="daily_volume",
    exhibits=("car11.volume",),
    needs=(
        choices.TRAFFIC_NEED,
        Need(
            "jobs",
            "jobs",
            columns=("start_ns", "end_ns", "account", "uid", "node_count", "raw_job_id"),
            where={"step": ""},
            optional=True,
        ),
        Need(
            "runs", "job_io", columns=("log_digest", "start_ns", "end_ns", "read_bytes", "write_bytes"), optional=True
        ),
        Need("applications", "applications", columns=("log_digest", "uid", "exe", "job_id"), optional=True),
    ),
    run=run,
    params=(*choices.TRAFFIC_PARAMS, INTERVALS),
)
