"""Load or slowdown of the next two hours, "as now" or "as usual", with its interval, and the best hour to start.

The best start comes from the climate, and only if such advice has paid before: for each past day the hour is chosen
from the days before it, and compared with the average of all hours of that day.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from ioweather.core import choices
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Ints
from ioweather.core.results import (
    Amount,
    Answer,
    Block,
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    Reference,
    ResultTable,
    largest_facts,
)
from ioweather.core.tables import Quality
from ioweather.core.units import (
    DAY_NS,
    HOUR_NS,
    MIB,
    MINUTE_NS,
    format_seconds,
    format_time_ns,
    format_value,
    now_ns,
    ns_to_datetime,
)
from ioweather.facts.slowdown import ROLLUP_COLUMNS, operation_series
from ioweather.facts.system_grid import facility_zone, local_clock, steps_of
from ioweather.lake import grid
from ioweather.lake.lake import Snapshot
from ioweather.planning.rolling_forecast import (
    CANDIDATES,
    CHOSEN,
    CLIMATOLOGY,
    HOURS,
    LEVEL,
    PERSISTENCE,
    SLOTS,
    HourlyMeans,
    Rolling,
    Timed,
    climate_tables,
    hourly_means,
    rolling_forecasts,
    rolling_intervals,
)
from ioweather.stats.estimates import Intervals, surely
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class Horizon:
    """`by`: persistence (as now) or climatology (as usual), the one with the smaller error so far. `skill`: how much
    smaller errors were than those of climatology, as a share. `coverage`: how often intervals held the actual value;
    `n` forecasts were judged."""

    horizon_ns: int
    time_ns: int
    by: str
    value: float | None
    low: float | None
    high: float | None
    skill: Amount
    coverage: float | None
    n: int

    @property
    def minutes(self) -> int:
        return self.horizon_ns // MINUTE_NS


@dataclass(frozen=True)
class ForecastOutcome:
    """Values have `unit`. `best_start_ns` is None where the hours do not differ."""

    filesystem: str
    of: Literal["load", "slowdown"]
    op: str
    unit: str
    window_ns: int
    now: float | None
    now_ns: int
    horizons: tuple[Horizon, ...] = ()
    best_start_ns: int | None = None


HORIZONS_NS: Final = tuple(minutes * MINUTE_NS for minutes in (5, 10, 15, 30, 60, 90, 120))
HEADLINE_NS: Final = 60 * MINUTE_NS
SHOWN_NS: Final = 6 * HOUR_NS
NEEDED_DAYS: Final = 3
BY: Final = {"persistence": "as now", "climatology": "as usual at this hour"}
# Minimum share of known hours in a run of hours.
_SEEN: Final = 0.75
# [ours] Advice on the start needs a gain of a twentieth over a fortnight of judged days, else it may be chance.
WORTH_IT: Final = 0.05
LEAST_DAYS: Final = 14


@dataclass(frozen=True, eq=False)
class History:
    """Load in bytes per second, or slowdown as a ratio, in equal windows from `start_ns` on; NaN is missing.

    Errors are of logarithms, so that a factor counts the same at every level; for loads of log(1 + MiB/s), since idle
    is 0. `notes` are caveats on the data: their age, other file systems.
    """

    filesystem: str
    of: Literal["load", "slowdown"]
    op: str
    start_ns: int
    window_ns: int
    values: Floats
    notes: tuple[str, ...] = ()

    @property
    def end_ns(self) -> int:
        return self.start_ns + len(self.values) * self.window_ns

    @property
    def unit(self) -> str:
        return "bytes_per_s" if self.of == "load" else "factor"

    @property
    def title(self) -> str:
        if self.of == "slowdown":
            return f"Slowdown of {self.op} on {self.filesystem}"
        return {"read": "Reads", "write": "Writes"}.get(self.op, "Reads and writes") + f" on {self.filesystem}"

    def forward(self, values: Any) -> Any:
        """Convert values to the scale of errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log1p(values / MIB) if self.of == "load" else np.log(values)

    def back(self, values: Any) -> Any:
        """Convert from the scale of errors to values."""
        return np.maximum(np.expm1(values), 0.0) * MIB if self.of == "load" else np.exp(values)

    def range_of(self, at: Horizon) -> str:
        """Return the interval as text; empty without one."""
        if at.low is None or at.high is None:
            return ""
        return f"{format_value(at.low, self.unit)} to {format_value(at.high, self.unit)}"


def forecast_answer(
    history: History, facility: Facility, *, horizon_ns: int | None = None, duration_ns: int = HOUR_NS
) -> Answer:
    """Return the answer as of the last window of the history."""
    window_ns, seen = history.window_ns, without_maintenance(history, facility)
    present = int(np.isfinite(seen.values).sum())
    width = format_seconds(window_ns / 1e9)
    now = float(seen.values[-1]) if len(seen.values) else None
    outcome = ForecastOutcome(seen.filesystem, seen.of, seen.op, seen.unit, window_ns, now, seen.end_ns)
    answer = Answer(
        question=f"{seen.title}: forecast for the next two hours",
        headline=f"{seen.title}: not enough history for a forecast. It has {present:,} windows of {width} and "
        f"needs {NEEDED_DAYS} days ({math.ceil(NEEDED_DAYS * DAY_NS / window_ns):,} windows).",
        caveats=seen.notes,
        coverage=(Coverage(len(history.values), present, f"windows of {width}"),),
        name="forecast",
        result=outcome,
    )
    if present * window_ns < NEEDED_DAYS * DAY_NS:
        last = Fact("last_seen", "last seen", now, seen.unit, note=format_time_ns(seen.end_ns))
        return replace(answer, facts=(FactGroup("expected", seen.title, (last,)),) if now is not None else ())
    # Horizons are whole numbers of windows.
    horizons = {horizon for horizon in HORIZONS_NS if horizon % window_ns == 0}
    if horizon_ns is not None:
        horizons.add(-(-horizon_ns // window_ns) * window_ns)
    windows = tuple(horizon // window_ns for horizon in sorted(horizons)) or (1,)
    zone, zone_name = facility_zone(facility)
    series = with_local_clock(seen, zone, windows[-1] * window_ns)
    judged = [judge_forecasts(each, seen) for each in rolling_forecasts(series, windows)]
    forecasts, skills = [each for each, _ in judged], tuple(skill for _, skill in judged)
    count = len(series.values)
    hourly = hourly_means(series.values, series.day[:count], series.slot[:count])
    start = best_start(hourly, seen, (zone, zone_name), duration_ns)
    main = next((each for each in forecasts if each.horizon_ns == (horizon_ns or HEADLINE_NS)), forecasts[-1])
    expected = f"{seen.range_of(main)} expected in {main.minutes} minutes ({LEVEL:.0%}): {BY[main.by]}"
    if main.low is None:
        expected = f"in {main.minutes} minutes {BY[main.by]}; too little history for an interval"
    persistent = [each.minutes for each in forecasts if each.by == CANDIDATES[PERSISTENCE]]
    record = "In the past, 'as usual' had smaller errors at every horizon."
    if persistent:
        record = f"In the past, 'as now' had smaller errors than 'as usual' up to {max(persistent)} minutes ahead."
    findings = (Finding(record, name="record"),) if any(each.n for each in forecasts) else ()
    days = len(seen.values) * window_ns / DAY_NS
    return replace(
        answer,
        headline=f"{seen.title}: {format_value(now, seen.unit)} now, {expected}.",
        facts=(_expected_values(seen, forecasts, zone), *start.facts),
        exhibits=(replace(forecast_exhibit(seen, forecasts), estimates=skills),),
        findings=(*findings, start.finding),
        caveats=(
            *seen.notes,
            f"The forecast uses {days:.1f} days of history. Hours of the week are in {zone_name}.",
            f"Errors are computed on {'log(1 + MiB/s)' if seen.of == 'load' else 'the logarithm'}. A value 'in 60 "
            "min' is for the window that ends then. The forecast ignores future jobs.",
        ),
        result=replace(outcome, horizons=tuple(forecasts), best_start_ns=start.start_ns),
    )


def without_maintenance(history: History, facility: Facility) -> History:
    """Return the history up to its last known window, with maintenance as missing values."""
    values = history.values.copy()
    starts = history.start_ns + np.arange(len(values), dtype=np.int64) * history.window_ns
    for window in facility.maintenance:
        values[(starts < window.end_ns) & (starts + history.window_ns > window.start_ns)] = np.nan
    seen = np.flatnonzero(np.isfinite(values))
    return replace(history, values=values[: int(seen[-1]) + 1 if len(seen) else 0])


def with_local_clock(history: History, zone: dt.tzinfo, longest_ns: int) -> Timed:
    """Return the logarithms of a history, with the local clock of its windows and of those ahead."""
    ahead = longest_ns // history.window_ns
    times = history.start_ns + np.arange(len(history.values) + ahead, dtype=np.int64) * history.window_ns
    day, hour, weekday = local_clock(times, zone)
    values = np.asarray(history.forward(history.values), np.float64)
    values[~np.isfinite(values)] = np.nan
    return Timed(values, day - day[0], weekday * 24 + hour, history.window_ns / MINUTE_NS)


def judge_forecasts(rolling: Rolling, history: History) -> tuple[Horizon, Estimate]:
    """Return the last forecast of one horizon, and the skill of the forecasts before."""
    scored, horizon_ns = rolling.scored(), rolling.horizon * history.window_ns
    error, judged = np.abs(rolling.point - rolling.truth), Intervals(scored, history.window_ns)
    sums = judged.sums(*(np.where(scored, error[way], 0.0) for way in (CHOSEN, CLIMATOLOGY)))
    n, name = int(scored.sum()), f"skill in {horizon_ns // MINUTE_NS} min"
    skill = judged.estimate(name, "", sums, _skill_of_sums, n=n)
    lows, highs, within = rolling_intervals(rolling)
    coverage = float(np.nanmean(within)) if np.isfinite(within).any() else None
    last = history.back(np.array([rolling.point[CHOSEN, -1], lows[-1], highs[-1]]))
    value, low, high = (float(each) if np.isfinite(each) else None for each in last)
    by = CANDIDATES[int(rolling.point[CHOSEN, -1] == rolling.point[CLIMATOLOGY, -1])]
    record = Amount(skill.value, skill.low, skill.high)
    return Horizon(horizon_ns, history.end_ns + horizon_ns, by, value, low, high, record, coverage, n), skill


def _skill_of_sums(sums: Floats) -> Any:
    """Return 1 - error / error of climatology, from sums of both; 0 where neither ever erred."""
    own, usual = sums[..., 0], sums[..., 1]
    return np.where(usual > 0, 1 - own / usual, np.where(own > 0, np.nan, 0.0))


def _expected_values(history: History, forecasts: Sequence[Horizon], zone: dt.tzinfo) -> FactGroup:
    """Return the present value and the expected ones."""
    width, until = format_seconds(history.window_ns / 1e9), format_time_ns(history.end_ns, zone)
    now = Fact("now", "now", float(history.values[-1]), history.unit, note=f"{width} until {until[:16]}{until[19:]}")
    values = [now]
    for at in forecasts:
        expected = f"{history.range_of(at) or 'no interval yet'}, {BY[at.by]}"
        values.append(Fact(f"in_{at.minutes}_min", f"in {at.minutes} min", at.value, history.unit, note=expected))
    return FactGroup("expected", f"{history.title}, in windows of {width}", tuple(values))


def forecast_exhibit(history: History, forecasts: Sequence[Horizon]) -> Exhibit:
    """Return the forecasts as a table, and as a curve that continues the last hours."""
    unit, title = history.unit, history.title
    rows: list[tuple[Cell, ...]] = []
    for at in forecasts:
        record = at.skill.value, at.skill.low, at.skill.high, at.coverage, at.n
        rows.append((at.horizon_ns, at.time_ns, at.value, at.low, at.high, at.by, *record))
    table_of_horizons = ResultTable.of(
        "forecast",
        f"horizon: ahead [ns]; time: window ends [time_ns]; expected [{unit}]; low: 90% from [{unit}]; "
        f"high: 90% to [{unit}]; by [text]; skill: errors smaller by [ratio]; skill_low: from [ratio]; "
        "skill_high: to [ratio]; coverage: interval coverage [ratio]; n: forecasts judged [count]",
        rows,
        title,
    )
    # Values are drawn at the end of their window, so that the last known one is now.
    first = max(0, len(history.values) - SHOWN_NS // history.window_ns)
    points: list[tuple[Cell, ...]] = []
    for place, value in enumerate(history.values[first:].tolist(), first + 1):
        seen = value if math.isfinite(value) else None
        points.append((history.start_ns + place * history.window_ns, "seen", seen, None, None))
    # The band starts at the last value.
    points[-1] = (*points[-1][:3], points[-1][2], points[-1][2])
    points += [(at.time_ns, "expected", at.value, at.low, at.high) for at in forecasts]
    columns = f"time [time_ns]; series [text]; value: {history.of} [{unit}]; low: 90% from [{unit}]; "
    course = ResultTable.of("course", f"{columns}high: 90% to [{unit}]", points, title)
    now = (Reference("x", float(history.end_ns), "now"),)
    chart = Chart.of("band", course, "x=time y=value low high", f"{title}: measured and expected", references=now)
    return Exhibit("forecast", title, (table_of_horizons,), (chart,))


@dataclass(frozen=True)
class BestStart:
    """What is said of the best start, the gain of choosing the hour in the past; `start_ns` is None for any time."""

    finding: Finding
    facts: tuple[FactGroup, ...] = ()
    start_ns: int | None = None
    gain: Estimate | None = None


def best_start(hourly: HourlyMeans, history: History, zone: tuple[dt.tzinfo, str], duration_ns: int) -> BestStart:
    """Compare starts in the 24 hours after the history; `hourly` are means of logarithms."""
    times = -(-history.end_ns // HOUR_NS) * HOUR_NS + np.arange(24, dtype=np.int64) * HOUR_NS
    _, hour, weekday = local_clock(times, zone[0])
    hours, what = max(1, math.ceil(duration_ns / HOUR_NS)), history.of
    typical = means_from_each_start(climate_tables(hourly)[-1], weekday * 24 + hour, hours)
    if not np.isfinite(typical).all():
        text = f"No best start: some hours of the week have too little {what} history."
        return BestStart(Finding(text, name="best_start"))
    # How much lower the chosen hour was, as a share: 1 - exp(-mean log gain).
    gained = past_gains(hourly, hours)
    judged = np.isfinite(gained)
    intervals, n = Intervals(judged, DAY_NS, unit=1, unit_name="day"), int(judged.sum())
    gain = Estimate("gain of the chosen hour", None, "ratio", n=0, method="no day could be evaluated")
    if n:
        sums = intervals.sums(judged, gained)
        gain = intervals.estimate(gain.name, "ratio", sums, lambda s: 1 - np.exp(-s[..., 1] / s[..., 0]), n=n)
    title = f"Best start in the next 24 h, for {format_seconds(hours * 3600)}"

    def said(finding: Finding, *facts: Fact, start_ns: int | None = None) -> BestStart:
        """Return the advice with its facts."""
        return BestStart(finding, (FactGroup("best_start", title, facts),), start_ns, gain)

    if n < LEAST_DAYS or gain.value is None or gain.low is None:
        why = f"needs {LEAST_DAYS} days of history to compare hours; only {n} so far"
        any_time = Fact("start", "start", "any time", note=why)
        return said(Finding(f"Start any time: {why}.", "undecided", "best_start"), any_time)
    least, value, most = ("no" if v is None else f"{round(100 * v)}%" for v in (gain.low, gain.value, gain.high))
    interval = f"{LEVEL:.0%} interval {least} to {most}"
    saved = Fact("gain", "saved by choosing the hour", value, note=f"on {n} past days; {interval}")
    less = f"{value.removeprefix('-')} {'more' if value.startswith('-') else 'less'} {what}"
    chosen = f"n {n} past days, the hour chosen in advance had {less} than the average of that day"
    best, mean = int(np.argmin(typical)), float(typical.mean())
    if not (surely(gain, above=0.0) and min(gain.value, 1 - math.exp(typical[best] - mean)) >= WORTH_IT):
        text = f"Start any time: differences between hours are within the noise. O{chosen} (saved: {interval})."
        is_small = gain.high is not None and gain.high < WORTH_IT
        any_time = Fact("start", "start", "any time", note="differences between hours are within the noise")
        return said(Finding(text, "note" if is_small else "undecided", "best_start"), any_time, saved)
    clock = ns_to_datetime(int(times[best]), zone[0]).strftime("%a %H:%M")
    return said(
        Finding(f"The hours differ: o{chosen} ({interval}).", name="best_start"),
        Fact("start", "start at", clock, note=zone[1]),
        Fact("typical_then", f"typical {what} then", float(history.back(typical[best])), history.unit),
        saved,
        start_ns=int(times[best]),
    )


def means_from_each_start(climate: Floats, slot: Ints, hours: int) -> Floats:
    """Return means over `hours` hours of the week from each slot on: (..., len(slot))."""
    return np.asarray(climate[..., (slot[:, None] + np.arange(hours)) % SLOTS].mean(axis=-1))


def past_gains(hourly: HourlyMeans, hours: int) -> Floats:
    """Return by day the mean logarithm of all starts minus that of the start chosen from the days before.

    NaN if too little of the day is known; 0 if the days before show no difference between hours.
    """
    days = len(hourly.means)
    padded = np.concatenate([hourly.means.ravel(), np.full(hours - 1, np.nan)])
    runs = np.lib.stride_tricks.sliding_window_view(padded, hours).reshape(days, HOURS, hours)
    n = np.isfinite(runs).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        actual = np.where(n >= _SEEN * hours, np.nansum(runs, axis=-1) / n, np.nan)
    climate = climate_tables(hourly)
    gains = np.full(days, np.nan)
    for day in range(1, days):
        expected = means_from_each_start(climate[day], hourly.weekday[day] * HOURS + np.arange(HOURS), hours)
        known = np.isfinite(actual[day]) & np.isfinite(expected)
        if known.sum() >= _SEEN * HOURS:
            is_flat = np.ptp(expected[known]) < 1e-9
            chosen = np.where(known, expected, np.inf).argmin()
            gains[day] = 0.0 if is_flat else actual[day][known].mean() - actual[day][chosen]
    return gains


WINDOW_NS = 5 * MINUTE_NS
_TABLES: Final = {"load": frozenset({"series"}), "slowdown": frozenset({"response_rollups"})}


def run(source: DataSource, params: Params) -> Answer:
    """Forecast load or slowdown of one file system."""
    source.tables = _TABLES[params["of"]]
    seen = read_history(source.snapshot, params)
    horizon, duration = params["horizon"], params["duration"]
    if params["window"] < WINDOW_NS:
        raise UsageError("--window must be 5 minutes or more.", hint="Shorter windows are too noisy to forecast.")
    if horizon is not None and not 0 < horizon <= 2 * HOUR_NS:
        raise UsageError("--horizon must be between 5 and 120 minutes.")
    if not 0 < duration <= DAY_NS:
        raise UsageError("--for must be at most 24 hours.")
    return forecast_answer(seen, source.facility, horizon_ns=horizon, duration_ns=duration)


def _screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Yield what is expected, and when to start."""
    yield from (largest_facts(group, 8) for group in answer.facts if group.name in ("expected", "best_start"))
    yield from (finding for finding in answer.findings if finding.name == "record")


QUESTION = Question(
    name="forecast",
    result=ForecastOutcome,
    run=run,
    tables=_TABLES["load"] | _TABLES["slowdown"],
    params=(
        Param("filesystem", "File system to forecast (default: the busiest).", metavar="NAME"),
        Param(
            "of",
            "What to forecast (default: load, if sampled).",
            choose=lambda snapshot, _: "slowdown" if choices.busiest_filesystem(snapshot) is None else "load",
            choices=("load", "slowdown"),
        ),
        Param("op", "read or write; for slowdown, any probe operation.", metavar="OP"),
        Param("horizon", "Horizon of the headline, 5 to 120 min (default: 60min).", "duration", metavar="TIME"),
        Param("window", "Length of a window.", "duration", "5min", metavar="TIME"),
        Param("at", "Forecast as of this time (default: the newest data).", "time", metavar="TIME"),
        Param("duration", "I/O duration of the planned job.", "duration", "1h", option="for", metavar="TIME"),
    ),
    help="""Forecast load or slowdown for the next two hours, and the best time to start a job.

    Each value is "as now" or "as usual at this hour", depending on which had smaller errors here, with an interval.""",
    epilog="""Load comes from server samples, slowdown from the probe. --full shows how much smaller the errors were
than with 'as usual', and how often intervals contained the actual value.

\b
Example: ioweather forecast --filesystem scratch --op write --for 2h
""",
    seen_by="public",
    period=False,
    table="forecast",
    blocks=_screen,
)


# [ours] Twelve weeks: the mix of jobs changes with the term and the allocation year, and the cost does not grow.
HISTORY_NS: Final = 84 * DAY_NS
_LEFT_OUT: Final = int(Quality.OVER_LIMIT | Quality.RESET | Quality.SHUTDOWN)
_OPS: Final = ("read", "write", "create", "stat", "file_read", "delete", "write_sync")
_NEITHER: Final = "Ingest server statistics (LMT, Lustre, iostat) for load, or run `ioweather probe PATH` for slowdown."


def read_history(snapshot: Snapshot, values: Mapping[str, Any]) -> History:
    """Return load or slowdown (`of`) as of `at`, or of the newest data."""
    at_ns, window_ns = values["at"], values["window"]
    read = _read_load if values["of"] == "load" else _read_slowdown
    seen = read(snapshot, values["filesystem"], values["op"], window_ns, at_ns or 2**62)
    notes = []
    age = (at_ns or now_ns()) - seen.end_ns
    if age > 2 * seen.window_ns:
        notes.append(f"The newest data are {format_seconds(age / 1e9)} old, and 'now' means the end of the data.")
    if seen.of == "load" and (others := sorted(set(snapshot.filesystems()) - {seen.filesystem})):
        notes.append(f"Other file systems: {', '.join(others)} (--filesystem).")
    return replace(seen, notes=tuple(notes))


def _read_load(snapshot: Snapshot, filesystem: str | None, op: str | None, window_ns: int, until_ns: int) -> History:
    """Return the rates that servers sampled, until the last whole window before `until_ns`."""
    name = filesystem or choices.busiest_filesystem(snapshot)
    groups = [g for g in snapshot.series() if g.metric in choices.TRAFFIC]
    if name is None:
        raise DataUnavailable("No server load data in the lake.", hint=_NEITHER)
    if name not in {group.filesystem for group in groups}:
        known = ", ".join(sorted({group.filesystem for group in groups})) or "none"
        raise DataUnavailable(f"No load data for {name} in the lake.", hint=f"File systems with load: {known}.")
    metrics = {"read": ("read_bytes",), "write": ("write_bytes",), "all": choices.TRAFFIC}.get(op or "all")
    if metrics is None:
        hint = "Use --op read or --op write; for other operations, --of slowdown."
        raise UsageError(f"Load forecasts do not support operation {op!r}.", hint=hint)
    kind = choices.traffic_kind(snapshot, {"filesystem": name})
    own = [g for g in groups if g.filesystem == name and g.component_kind == kind]
    # If samples are longer than the window, the window becomes a whole number of samples.
    sample = max((g.interval_ns for g in own), default=window_ns)
    step = window_ns if sample <= window_ns else -(-window_ns // sample) * sample
    end = min(until_ns, max(g.end_ns for g in own))
    period = ((end - HISTORY_NS) // step * step, end // step * step)
    selection = snapshot.selection(name, kind, metrics, step, period_ns=period, excluded_quality=_LEFT_OUT)
    steps = steps_of(grid.rollup(selection, metrics), metrics, step, (0, 2**62))
    total = np.sum([steps.values[metric] for metric in metrics], axis=0) / (step / 1e9)
    return History(name, "load", op or "all", steps.start_ns, step, np.asarray(total, np.float64))


def _read_slowdown(
    snapshot: Snapshot, filesystem: str | None, op: str | None, window_ns: int, until_ns: int
) -> History:
    """Return the ratio of probe times to their usual ones, until the last whole window before `until_ns`."""
    # Timed operations by file system and kind.
    counts: dict[str, Counter[str]] = {}
    newest = 0
    if snapshot.pinned["response_rollups"].uris:
        sql = f"SELECT system, op, sum(count) FROM response_rollups WHERE interval_ns = {HOUR_NS} GROUP BY system, op"
        for system, kind, count in snapshot.query(sql).fetchall():
            counts.setdefault(snapshot.facility.filesystem_of(system), Counter())[kind] += int(count)
        newest = int(snapshot.scalar("SELECT max(start_ns) FROM response_rollups") or 0) + MINUTE_NS
    if not counts:
        raise DataUnavailable("No probe response times in the lake.", hint=_NEITHER)
    name = filesystem or max(sorted(counts), key=lambda each: counts[each].total())
    if name not in counts:
        hint = f"Probed file systems: {', '.join(sorted(counts))}."
        raise DataUnavailable(f"No probe has measured {name}.", hint=hint)
    known = sorted(counts[name])
    chosen = op or next((kind for kind in _OPS if kind in known), known[0])
    if chosen not in known:
        raise UsageError(f"No probe has timed {chosen!r} on {name}.", hint=f"Operations there: {', '.join(known)}.")
    end, step = min(until_ns, newest), -(-window_ns // MINUTE_NS) * MINUTE_NS
    period = ((end - HISTORY_NS) // step * step, end // step * step)
    where: dict[str, Cell] = {"interval_ns": MINUTE_NS, "op": chosen, "filesystem": name}
    rows = snapshot.frame("response_rollups", ROLLUP_COLUMNS, where, period)
    names = {str(system): name for system in rows.text("system").categories}
    series = max(operation_series(rows, names, step), key=lambda s: int(s.count.sum()), default=None)
    if series is None:
        raise DataUnavailable(f"No probe has timed {chosen} on {name} in this period.", hint="Try a later --at.")
    # On a complete grid: windows without an operation are missing.
    first = int(series.start_ns[0])
    slowdown = np.full((int(series.start_ns[-1]) - first) // step + 1, np.nan)
    slowdown[(series.start_ns - first) // step] = series.slowdown()
    return History(name, "slowdown", chosen, first, step, slowdown)
