"""How much storage is used (car11 section IV): throughput over the period (fig6), its distribution (fig7), and volume
per day with the project behind a read share change (car11.volume)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core import choices
from ioweather.core.contracts import Params, Study
from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Ints
from ioweather.core.results import (
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    Reference,
    exhibit,
)
from ioweather.core.units import DAY_NS, HOUR_NS, format_bytes, format_ratio, format_seconds, names_of
from ioweather.facts.system_grid import (
    SERVER_TRAFFIC,
    Steps,
    day_name,
    facility_zone,
    gaps,
    local_clock,
)
from ioweather.stats.estimates import Intervals, plain
from ioweather.stats.summary_tables import cdf_table, shaded, table, timeline_table
from ioweather.studies.traffic import TRAFFIC_NEEDS, traffic_steps
from ioweather.topics.source import DataSource

THIRD: Final = 0.33  # car11: "less than 33% of peak"
_MAX_SHADES: Final = 40
# A change needs a week on each side, and is significant at this level.
_MIN_SIDE_DAYS = 7
_SIGNIFICANT = 0.05
# A day counts in the mix when half of it was recorded.
_MIN_DAY = 0.5
_AFTER_DAYS = 14  # car11: "for the following two weeks"
_PROJECTS = 10
# Autocorrelations that are simulated, and the number of series for each.
_TRIED: Final = np.array([0.0, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 0.95])
_SERIES: Final = 150
# [ours] Quantile of the residual correlation that is matched. A low one overestimates the correlation; an underestimate
# would find changes in series without any.
_MATCHED_QUANTILE: Final = 0.16
_LEAD_IN: Final = 100
_SEED: Final = 20110225
_CAVEATS = (
    "Server traffic includes login and visualisation nodes. It also includes reads by the file system itself to "
    "complete unaligned writes (read-modify-write), so the read share is an upper bound for jobs.",
    "Volume per day is the total divided by the recorded time. Gaps are not filled.",
)


def run(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make fig. 6 and 7."""
    steps = traffic_steps(source, params)
    if steps.usable.any():
        intervals = Intervals(steps.usable, steps.step_ns)
        yield _throughput(steps, source.facility)
        yield _distribution(steps, intervals, source.facility, str(params["filesystem"]))


def _rates_by_way(steps: Steps) -> dict[str, Floats]:
    """Bytes per second of reads, writes and both."""
    read, write = (steps.values[metric] / steps.step_seconds for metric in choices.TRAFFIC)
    return {"read": read, "write": write, "combined": read + write}


@exhibit("car11.fig6")
def _throughput(steps: Steps, facility: Facility) -> Iterator[Piece]:
    """Throughput over time, with maintenance windows and gaps."""
    rates, n, seconds = _rates_by_way(steps), int(steps.usable.sum()), steps.step_seconds
    end_ns = steps.start_ns + steps.count * steps.step_ns
    windows = [w for w in facility.maintenance if w.start_ns < end_ns and w.end_ns > steps.start_ns]
    missing = gaps(steps.usable)
    longest = sorted(sorted(missing, key=lambda gap: gap[0] - gap[1])[:_MAX_SHADES])
    times = [tuple(steps.start_ns + step * steps.step_ns for step in gap) for gap in longest]
    shades = [shaded(w.start_ns, w.end_ns, w.label or "maintenance") for w in windows[:_MAX_SHADES]]
    shades += [shaded(start, end, "no data") for start, end in times]
    line = timeline_table("throughput", steps.times_ns, rates, "throughput", "bytes_per_s")
    title = "Lowest and highest throughput per time step"
    yield Chart.of("timeline", line, "x=time y=value", title, references=tuple(shades), facet="series")
    # Published peaks are those of a minute; another step says its own length.
    word = "minute" if seconds == 60 else f"{seconds:g}_seconds"
    peaks = {way: float(np.nanmax(rate)) for way, rate in rates.items()}
    yield [plain(f"peak_{word}_{way}", peak, "bytes_per_s", n=n, method="maximum") for way, peak in peaks.items()]
    yield plain("maintenance_windows", len(windows), "count"), plain("gaps", len(missing), "count")
    moved = f"{format_bytes(peaks['read'])}/s read and {format_bytes(peaks['write'])}/s written"
    text = f"The highest throughput in an interval of {format_seconds(seconds)} was {moved}."
    yield Finding(text, name="highest_throughput")
    yield SERVER_TRAFFIC, steps.coverage("intervals")


@exhibit("car11.fig7")
def _distribution(steps: Steps, intervals: Intervals, facility: Facility, filesystem: str) -> Iterator[Piece]:
    """Throughput distribution compared with a third of the observed and nominal peaks."""
    combined, there = _rates_by_way(steps)["combined"], steps.usable
    n, peak = int(there.sum()), float(np.nanmax(combined))
    known = facility.filesystem(filesystem)
    nominal = known.peak_bytes_per_s if known else None
    # One sum per statistic: intervals, bytes per second, intervals below a third of the observed and nominal peak.
    below = [np.where(there, combined < THIRD * top, False) for top in (peak, nominal) if top is not None]
    sums = intervals.sums(there, combined, *below)
    mean = intervals.estimate("mean_rate", "bytes_per_s", sums, lambda s: s[:, 1] / s[:, 0], n=n)
    yield plain("intervals", n, "count"), mean, plain("peak_rate", peak, "bytes_per_s", n=n, method="maximum")
    below_third = partial(intervals.estimate, unit="ratio", per_unit=sums, n=n, scale="logit")
    yield below_third("below_third_of_peak_ratio", statistic=lambda s: s[:, 2] / s[:, 0])
    lines = [Reference("x", THIRD * peak, "33% of the observed peak")]
    text = f"The mean throughput was {format_bytes(mean.value or 0.0)}/s; the peak was {format_bytes(peak)}/s."
    yield Finding(text, name="mean_throughput"), SERVER_TRAFFIC
    if nominal is None:
        yield f"The nominal peak of {filesystem} is unknown. To show its share, set peak_bytes_per_s in facility.toml."
    else:
        yield below_third("below_third_of_nominal_ratio", statistic=lambda s: s[:, 3] / s[:, 0])
        yield plain("peak_of_nominal_ratio", peak / nominal, "ratio", n=n, method="maximum")
        lines.append(Reference("x", THIRD * nominal, "33% of the nominal peak"))
    drawn = cdf_table("distribution", {"combined": combined}, "throughput", "bytes_per_s")
    title = f"Throughput per interval of {format_seconds(steps.step_seconds)}"
    yield Chart.of("cdf", drawn, "x=value y=share", title, references=tuple(lines)), steps.coverage("intervals")


Shape: TypeAlias = Literal["step", "drift", "unclear"]


@dataclass(frozen=True)
class Change:
    """The series is at `before` up to `index` (not included), at `after` from there. `explained` is the share of the
    weighted variance that this explains, `drift_explained` that of a straight line; `p_value` how often series without
    a change, with the autocorrelation `lag_one`, have as much explained by their best step or by a line.

    `shape` is the one that is not ruled out, if the other one is. `ends` are the ends of the line.
    """

    index: int
    before: float
    after: float
    explained: float
    p_value: float
    lag_one: float
    replicates: int
    shape: Shape
    ends: tuple[float, float]
    drift_explained: float


def _fit_steps(rows: Floats, weight: Floats, min_side: int) -> tuple[Floats, Floats, Ints]:
    """Fit two levels to each row, at the place that explains most. Return the fitted values, the share of the weighted
    variance that is explained, and that place."""
    n = rows.shape[1]
    mass, amount, left = np.cumsum(weight), np.cumsum(weight * rows, axis=1), slice(min_side - 1, n - min_side)
    mean = amount[:, -1:] / mass[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Between-sides sum of squares: (W_l * W / W_r) * (mean_l - mean)^2, so that an empty side gives 0.
        shift = amount[:, left] - mean * mass[left]
        gain = np.nan_to_num(shift**2 * mass[-1] / (mass[left] * (mass[-1] - mass[left])), nan=0.0, posinf=0.0)
        index, explained = gain.argmax(axis=1) + min_side, gain.max(axis=1) / (weight * (rows - mean) ** 2).sum(axis=1)
    fitted, before = np.zeros_like(rows), np.arange(n) < index[:, None]
    for side in (before, ~before):
        sides = (side * weight).sum(axis=1)
        level = (side * weight * rows).sum(axis=1) / np.where(sides > 0, sides, 1.0)
        fitted += side * level[:, None]
    return fitted, np.asarray(explained), index


def _fit_lines(rows: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Fit a straight line to each row. Return the fitted values, and the share of the weighted variance that is
    explained."""
    time = np.arange(rows.shape[1]) - np.average(np.arange(rows.shape[1]), weights=weight)
    mean = np.average(rows, axis=1, weights=weight)[:, None]
    slope = (rows @ (weight * time) / (weight @ time**2))[:, None] * time
    with np.errstate(divide="ignore", invalid="ignore"):
        return mean + slope, np.asarray(slope**2 @ weight / ((rows - mean) ** 2 @ weight))


def _lag_one_autocorrelation(rows: Floats) -> Floats:
    squares = (rows**2).sum(axis=1)
    return np.asarray((rows[:, 1:] * rows[:, :-1]).sum(axis=1) / np.where(squares > 0, squares, 1.0))


def _autoregressive(innovations: Floats, lag_one: float) -> Floats:
    """Return autoregressive series of these innovations, without the first _LEAD_IN steps."""
    out = innovations.copy()
    for step in range(1, out.shape[1]):
        out[:, step] += lag_one * out[:, step - 1]
    return out[:, _LEAD_IN:]


def single_change(
    values: NDArray[Any], weights: NDArray[Any] | None = None, *, min_side: int = 3, replicates: int = 999
) -> Change | None:
    """Return the best single change in the level of a weighted series, with at least `min_side` values on each side;
    None if too short or flat.

    Weighted least squares over all places (values as shares, weights as volumes: the level of a side is then its volume
    share). The p-value compares with autoregressive series of order one without a change. Shuffled blocks would forget
    more than days do: on series with an autocorrelation of 0.8 they found a change in a quarter of the cases at 5%.

    A straight line has as many parameters as two levels. The log of the ratio of their residual variances is compared
    with series drawn from the fitted line and from the fitted step (Cox's test of separate families, by simulation).
    """
    level = np.asarray(values, np.float64)
    weight = np.ones(len(level)) if weights is None else np.asarray(weights, np.float64)
    n = len(level)
    if n < 2 * min_side or weight.sum() <= 0:
        return None
    rng = np.random.default_rng(_SEED)
    white = rng.standard_normal((len(_TRIED), _SERIES, n + _LEAD_IN))
    simulated = [_autoregressive(each, tried) for each, tried in zip(white, _TRIED, strict=True)]

    def fits(rows: Floats) -> tuple[tuple[Floats, Floats, Ints], tuple[Floats, Floats]]:
        return _fit_steps(rows, weight, min_side), _fit_lines(rows, weight)

    def better_step(rows: Floats) -> Floats:
        """Return by how much a step fits each row better than a line: log of the ratio of residual variances."""
        step, line = (np.maximum(1 - fit[1], 1e-300) for fit in fits(rows))
        return np.asarray(np.log(line / step))

    def noise_about(shape: int) -> tuple[Floats, float]:
        """Return autoregressive series like the residuals of a fit, and their lag-one autocorrelation."""
        # The fit biases the autocorrelation of residuals down: it is calibrated by simulation.
        again = [_lag_one_autocorrelation(rows - fits(rows)[shape][0]) for rows in simulated]
        seen, rest = [np.quantile(each, _MATCHED_QUANTILE) for each in again], level - found[shape][0][0]
        own = float(_lag_one_autocorrelation(rest[None])[0])
        lag_one = float(np.interp(own, np.maximum.accumulate(seen), _TRIED, left=0.0))
        innovations = rest[1:] - own * rest[:-1]
        drawn = rng.choice(innovations - innovations.mean(), (replicates, n + _LEAD_IN))
        return _autoregressive(drawn, lag_one), lag_one

    def share_beyond(null: Floats, value: float) -> float:
        """Return the share of `null` at or above a value, which counts as one of them: p is never 0."""
        return (1 + int(np.sum(null >= value - 1e-12 * abs(value)))) / (1 + replicates)

    found = fits(level[None])
    index, explained, drifted = int(found[0][2][0]), *(float(fit[1][0]) for fit in found)
    if not explained > 0:
        return None
    noises = [noise_about(shape) for shape in range(2)]
    # Residuals of the wrong shape are autocorrelated; those of the better one say how much the noise is.
    noise, lag_one = noises[int(drifted > explained)]
    p_value = share_beyond(np.maximum(*(fit[1] for fit in fits(noise))), max(explained, drifted))
    gain, (about_step, about_line) = float(better_step(level[None])[0]), (each for each, _ in noises)
    is_step = share_beyond(better_step(found[1][0] + about_line), gain) < _SIGNIFICANT
    is_drift = share_beyond(-better_step(found[0][0] + about_step), -gain) < _SIGNIFICANT
    shape: Shape = "unclear" if is_step == is_drift else "step" if is_step else "drift"
    sides = (slice(None, index), slice(index, None))
    before, after = (float(level[s] @ weight[s] / weight[s].sum()) if weight[s].any() else math.nan for s in sides)
    ends = float(found[1][0][0, 0]), float(found[1][0][0, -1])
    return Change(index, before, after, explained, p_value, lag_one, replicates, shape, ends, drifted)


def run_volume(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make the exhibit on volume per day."""
    steps = traffic_steps(source, params)
    if steps.usable.any():
        yield _volume(steps, source)


@exhibit("car11.volume")
def _volume(steps: Steps, source: DataSource) -> Iterator[Piece]:
    """Data volume and read share by day, and whether the read share changed."""
    facility = source.facility
    zone, zone_name = facility_zone(facility)
    day, _, _ = local_clock(steps.times_ns, zone)
    first, n = int(day[0]), int(day[-1] - day[0]) + 1
    names = [day_name(first + number) for number in range(n)]
    reads, writes, recorded = (
        np.asarray(np.bincount(day - first, weights=np.where(steps.usable, amount, 0.0), minlength=n), np.float64)
        for amount in (*(steps.values[metric] for metric in choices.TRAFFIC), np.ones(steps.count))
    )
    recorded = recorded * steps.step_ns / DAY_NS
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.asarray(reads / (reads + writes))
    use = np.flatnonzero((recorded >= _MIN_DAY) & (reads + writes > 0))  # days that count in the mix
    intervals = Intervals(recorded > 0, DAY_NS, unit=1, unit_name="day")
    per_day = np.stack([reads, writes, recorded], axis=1)
    totals = [float(reads.sum()), float(writes.sum())]
    read = intervals.estimate("per_day_read", "bytes", per_day, lambda s: s[:, 0] / s[:, 2], n=n)
    write = intervals.estimate("per_day_write", "bytes", per_day, lambda s: s[:, 1] / s[:, 2], n=n)
    yield plain("total_read", totals[0], "bytes", n=n), plain("total_write", totals[1], "bytes", n=n), read, write
    yield intervals.estimate(
        "read_ratio", "ratio", per_day, lambda s: s[:, 0] / (s[:, 0] + s[:, 1]), n=n, scale="logit"
    )
    per_read, per_write, all_read, all_write = (format_bytes(v or 0.0) for v in (read.value, write.value, *totals))
    text = f"{per_read} were read and {per_write} written per day, {all_read} and {all_write} in total."
    yield Finding(text, name="volume_per_day")
    columns = (
        "day: day [date]; read: read [bytes]; write: written [bytes]; share: read share [ratio]; "
        "recorded: recorded [ratio]"
    )
    yield table("days", columns, names, reads, writes, share, np.minimum(recorded, 1.0), title="Volume by day")
    change = single_change(share[use], (reads + writes)[use], min_side=_MIN_SIDE_DAYS)
    references: tuple[Reference, ...] = ()
    if change is None:
        text = f"Detecting a change of the read share needs {2 * _MIN_SIDE_DAYS} days of data."
        yield Finding(text, name="change_needs_days")
    else:
        split = int(use[change.index])
        series = f"{change.replicates} series with the same autocorrelation ({change.lag_one:.2f})"
        method = f"least squares; p by {series}"
        yield Estimate("change_p_value", change.p_value, "", n=len(use), method=method)
        yield Estimate("change_explained_ratio", change.explained, "ratio", n=len(use), method=method)
        # Read share on both sides of the day, given the day.
        for name, chosen in (
            ("read_ratio_before_change", use[: change.index]),
            ("read_ratio_after_change", use[change.index :][:_AFTER_DAYS]),
        ):
            side = Intervals(np.ones(len(chosen), np.bool_), DAY_NS, unit=1, unit_name="day")
            sums = np.stack([reads[chosen], writes[chosen]], axis=1)
            yield side.estimate(name, "ratio", sums, lambda s: s[:, 0] / s.sum(axis=1), n=len(chosen), scale="logit")
        yield plain("drift_explained_ratio", change.drift_explained, "ratio", n=len(use), method="straight line")
        if change.p_value < _SIGNIFICANT and change.shape == "drift":
            start, end = (format_ratio(min(1.0, max(0.0, value))) for value in change.ends)
            text = f"The read share drifted from {start} to {end}, without a step (p = {change.p_value:.3f})."
            yield Finding(text, name="change_of_mix")
        elif change.p_value < _SIGNIFICANT:
            before, after = format_ratio(change.before), format_ratio(change.after)
            text = f"The read share changed: it was {before} before {names[split]} and {after} after"
            slowly = "" if change.shape == "step" else ", in a step or slowly"
            yield Finding(f"{text}{slowly} (p = {change.p_value:.3f}).", name="change_of_mix")
            references = (Reference("x", (first + split) * DAY_NS / 1e6, "read share change"),)
            changed_ns = int(steps.times_ns[day >= first + split][0])
            moments = (steps.start_ns, changed_ns, int(steps.times_ns[-1]) + steps.step_ns)
            yield _projects(source, moments, totals[0] / sum(totals))
        else:
            best = f"the best candidate is {names[split]} (p = {change.p_value:.2f})"
            yield Finding(f"The read share did not change significantly: {best}.", "undecided", name="change_of_mix")
    # From the first to the last day that counts; those between that do not are gaps: their volume is of hours.
    drawn = use if len(use) else np.arange(n)
    part, counts = slice(int(drawn[0]), int(drawn[-1]) + 1), np.isin(np.arange(n), drawn)
    shown = [np.where(counts, values, np.nan)[part] for values in (reads, writes, share)]
    label, ways = f"day: day in {zone_name} [date]", ["read"] * len(names[part]) + ["write"] * len(names[part])
    columns = f"{label}; series [text]; value: volume of the day [bytes]"
    volume = table("volume", columns, names[part] * 2, ways, np.concatenate(shown[:2]))
    mix = table("mix", f"{label}; value: read share of the day [ratio]", names[part], shown[2])
    yield Chart.of("timeline", volume, "x=day y=value series", "Volume per day", references=references)
    yield Chart.of("timeline", mix, "x=day y=value", "Read share", references=references), _CAVEATS
    yield f"Days are in {zone_name}.", steps.coverage("intervals")
    yield Coverage(n, len(use), "days", {}, "at least half recorded")


def _projects(source: DataSource, moments: tuple[int, int, int], share: float) -> Iterator[Piece]:
    """Yield the projects whose own activity changed, by bytes of logs and by node-hours.

    `moments` are the begin, the change and the end in ns; `share` is the read share of all days.
    """
    facility = source.facility
    accounted = names_of("start_ns end_ns account uid node_count raw_job_id")
    jobs = source.frame("jobs", accounted, {"step": ""}, optional=True)
    runs = source.frame("job_io", names_of("log_digest start_ns end_ns read_bytes write_bytes"), optional=True)

    def behind(project: str, before: float, after: float, shown: str, what: str) -> Finding:
        """Say whether a project's activity began or ended with the change."""
        low, high = sorted((before, after))
        verb = "tapered off" if after < before else "started"
        text = f"{project} {verb} at that time ({shown}): it {what}. Coincidence in time is not proof."
        if low > high / 2:
            text = f"No project explains the change: {project} {what} ({shown}), but neither began nor ended."
        return Finding(text, name="project_behind_change")

    def sides(names: list[str], start: Any, end: Any, per_ns: Floats) -> tuple[list[str], list[Floats]]:
        """Return the projects, and what each did per day before and after the change. Rows without both times are left
        out."""
        known = ~(np.ma.getmaskarray(start) | np.ma.getmaskarray(end))
        projects, row = np.unique(names, return_inverse=True)
        amounts = []
        for first, last in pairwise(moments):
            spans = np.maximum(np.minimum(end, last) - np.maximum(start, first), 0)[known]
            moved = np.bincount(row[known], np.ma.getdata(spans) * per_ns[known], len(projects))
            amounts.append(np.asarray(moved * (DAY_NS / (last - first)), np.float64))
        return projects.tolist(), amounts

    if runs.rows:
        applications = source.frame("applications", ("log_digest", "uid", "exe", "job_id"), optional=True)
        account_of: dict[Any, str | None] = dict(
            zip(jobs.array("raw_job_id").tolist(), jobs.text("account").tolist(), strict=True)
        )
        described = {
            row["log_digest"]: facility.project_of(
                account=account_of.get(row["job_id"]), uid=row["uid"], exe=row["exe"]
            )
            for row in applications.records()
        }
        names = [described.get(digest, "unknown") for digest in runs.text("log_digest").tolist()]
        start = runs.array("start_ns")
        end = np.maximum(runs.array("end_ns"), start + 1)
        rates = (runs.array(metric) / (end - start) for metric in ("read_bytes", "write_bytes"))
        (projects, reads), (_, writes) = (sides(names, start, end, rate) for rate in rates)
        # How far a project moves the read share s: d(R / T) = (dR (1 - s) - dW s) / T.
        pull = (reads[1] - reads[0]) * (1 - share) - (writes[1] - writes[0]) * share
        order = np.argsort(-np.abs(pull), kind="stable")[:_PROJECTS]
        columns = (
            "project: project [text]; read_before: read per day before [bytes]; read_after: after [bytes]; "
            "write_before: written per day before [bytes]; write_after: after [bytes]"
        )
        title = "Projects by effect on the read share (instrumented runs)"
        shown_projects, numbers = [projects[i] for i in order], (each[order] for each in (*reads, *writes))
        yield table("projects_volume", columns, shown_projects, *numbers, title=title)
        before, after = (float(reads[side][order[0]] + writes[side][order[0]]) for side in (0, 1))
        shown = f"{format_bytes(before)} per day before, {format_bytes(after)} after"
        yield behind(shown_projects[0], before, after, shown, "changed the read share most")
    if jobs.rows:
        owners = zip(jobs.text("account").tolist(), jobs.array("uid").tolist(), strict=True)
        names = [facility.project_of(account=account, uid=uid) for account, uid in owners]
        hours = jobs.ints("node_count", missing=1) / HOUR_NS
        projects, per_day = sides(names, jobs.array("start_ns"), jobs.array("end_ns"), hours)
        order = np.argsort(-np.abs(per_day[1] - per_day[0]), kind="stable")[:_PROJECTS]
        columns = "project: project [text]; before: node-hours per day before [count]; after: after [count]"
        shown_projects, title = [projects[i] for i in order], "Projects by change of node-hours per day (scheduler log)"
        numbers = (each[order] for each in per_day)
        yield table("projects_node_hours", columns, shown_projects, *numbers, title=title)
        before, after = (float(each[order[0]]) for each in per_day)
        shown = f"{before:,.0f} node-hours per day before, {after:,.0f} after"
        yield behind(shown_projects[0], before, after, shown, "changed its node-hours most")


STUDY = Study(
    name="utilisation",
    exhibits=names_of("car11.fig6 car11.fig7"),
    needs=TRAFFIC_NEEDS,
    run=run,
    params=choices.TRAFFIC_PARAMS,
    too_few="no interval in the period has usable samples from all servers",
)
DAILY_VOLUME = Study(
    name="daily_volume",
    exhibits=("car11.volume",),
    needs=f"{TRAFFIC_NEEDS} jobs? job_io? applications?",
    run=run_volume,
    params=choices.TRAFFIC_PARAMS,
)
