"""Load or slowdown of the next two hours with interval and skill, and the best hour to start.

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
from ioweather.core.frames import Bools, Floats, Ints
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
from ioweather.core.tables import Quality, query_columns
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
from ioweather.lake import grid
from ioweather.lake.database import fetch_frame
from ioweather.lake.lake import Snapshot
from ioweather.stats.estimates import MIN_BLOCKS, BlockBootstrap, Intervals, expanded_levels, surely
from ioweather.stats.forecast import (
    CANDIDATES,
    COMBINED,
    HOURS,
    LEVEL,
    MEMORY_DAYS,
    SLOTS,
    HourlyMeans,
    Rolling,
    Timed,
    climate_replicates,
    climate_tables,
    hourly_means,
    rolling_forecasts,
    rolling_intervals,
)
from ioweather.stats.slowdown import ROLLUP_COLUMNS, operation_series
from ioweather.stats.summary_tables import table
from ioweather.stats.system_grid import facility_zone, local_clock, steps_of
from ioweather.topics.source import DataSource

_ACCOUNTED: Final = ("raw_job_id", "user", "uid", "name", "submit_ns", "start_ns", "end_ns")
_MOVED: Final = query_columns("key=text exe=text? slot=int64 bytes=float64")
# [ours] How many moments the wider group counts for.
_PARENT_WEIGHT: Final = 2.0


@dataclass(frozen=True, eq=False)
class KnownJobs:
    """Jobs one after another, window by window: `rate` in bytes per second, `window`, `job` and `program`. `present`:
    known to wait or run when the window ends; `waits`: not begun by then. After its end each job has as many windows
    more as the longest horizon."""

    rate: Floats
    window: Ints
    job: Ints
    program: Ints
    present: Bools
    waits: Bools


def find_known_jobs(
    snapshot: Snapshot, filesystem: str, operations: tuple[str, ...], grid: tuple[int, int, int], ahead: int
) -> KnownJobs | None:
    """Return the jobs of all users on a grid of windows (start, length, count), as the servers count them; None without
    counts. A job without accounting is there until it moved nothing for `ahead` windows."""
    whole, (start_ns, window_ns, windows) = snapshot.whole, grid
    if not whole.filled(["job_operations"]):
        return None
    end_ns = start_ns + windows * window_ns
    period = max(start_ns, end_ns - MEMORY_DAYS * DAY_NS), end_ns
    where: dict[str, Any] = {"filesystem": filesystem, "operation": operations, "interval_ns <=": window_ns}
    counted = fetch_frame(
        whole.bare,
        f"""SELECT coalesce(job_id::VARCHAR, job_key) AS key, any_value(exe) AS exe,
            (start_ns + interval_ns // 2 - {start_ns}) // {window_ns} AS slot, sum(bytes)::DOUBLE AS bytes
        FROM ({whole.rows("job_operations", where, period)})
        WHERE quality & {int(Quality.WHOLE_LIFE)} = 0 AND bytes > 0 GROUP BY 1, 3 ORDER BY 1, 3""",
        _MOVED,
    )
    if not counted.rows:
        return None
    keys, slot, moved = counted.text("key").tolist(), counted.ints("slot"), counted.floats("bytes")
    jobs = _read_accounted_jobs(whole, period, start_ns, window_ns)
    for key, exe, first in zip(keys, counted.text("exe").tolist(), slot.tolist(), strict=True):
        jobs.setdefault(key, ((None, exe), float(first), -np.inf, np.nan))
    numbers = {key: number for number, key in enumerate(jobs)}
    programs = {job[0]: code for code, job in enumerate(jobs.values())}
    job = np.array([numbers[key] for key in keys], np.int64)
    submitted, began, ended = np.array([each[1:] for each in jobs.values()]).T
    last_moved = np.full(len(jobs), -1)
    np.maximum.at(last_moved, job, slot)
    first = np.clip(submitted, 0, windows).astype(np.int64)
    last = np.where(np.isnan(ended), last_moved + ahead, np.clip(np.nan_to_num(ended), -1, windows - 1)).astype(
        np.int64
    )
    length = np.where(last >= first, last - first + 1 + ahead, 0)
    begins = np.cumsum(length) - length
    row_job = np.repeat(np.arange(len(jobs)), length)
    window = np.arange(len(row_job)) - begins[row_job] + first[row_job]
    inside = (slot >= first[job]) & (slot < first[job] + length[job]) & (slot < windows)
    place = (begins[job] + slot - first[job])[inside]
    rate = np.bincount(place, moved[inside], minlength=len(window)) / (window_ns / 1e9)
    end, until = window + 1, np.where(np.isnan(ended), last, ended)
    present = (end >= submitted[row_job]) & (end <= until[row_job])
    program = np.array([programs[each[0]] for each in jobs.values()], np.int64)[row_job]
    return KnownJobs(rate, window, row_job, program, present, end < began[row_job])


def _read_accounted_jobs(
    whole: Snapshot, period: tuple[int, int], start_ns: int, window_ns: int
) -> dict[str | None, tuple[Any, float, float, float]]:
    """Return the program of each job of the period in accounting, and when it was submitted, began and ended, counted
    in windows from `start_ns`; infinite if unknown."""
    jobs: dict[str | None, tuple[Any, float, float, float]] = {}
    for row in whole.frame("jobs", _ACCOUNTED, {"step": "", "submit_ns <": period[1]}).records():
        if row["raw_job_id"] is not None and (row["end_ns"] or period[1]) > period[0]:
            submitted, began, ended = (
                np.inf if row[name] is None else (row[name] - start_ns) / window_ns
                for name in ("submit_ns", "start_ns", "end_ns")
            )
            jobs[str(row["raw_job_id"])] = (row["user"] or row["uid"], row["name"]), submitted, began, ended
    return jobs


def expected_load(jobs: KnownJobs, windows: int, horizons: tuple[int, ...]) -> Floats:
    """Return (horizons, windows): what jobs known at the end of a window move in the one `h` later."""
    rows = np.flatnonzero(jobs.present & (jobs.window < windows))
    now, waits = jobs.window[rows], jobs.waits[rows].astype(np.int64)
    found = np.zeros((len(horizons), windows))
    for place, horizon in enumerate(horizons):
        came, mean = jobs.rate[rows + horizon], np.zeros(len(rows))
        for key in (waits, 2 * jobs.program[rows] + waits, 2 * jobs.job[rows] + waits):
            # Moments in order of their group and time: those that a moment may know lie side by side.
            order = np.lexsort((now, key))
            moments, group = (key * (windows + 1) + now)[order], key * (windows + 1)
            first = np.searchsorted(moments, group)
            last = np.maximum(np.searchsorted(moments, group + now - horizon, side="right"), first)
            total = np.concatenate([[0.0], np.cumsum(came[order])])
            mean = (total[last] - total[first] + _PARENT_WEIGHT * mean) / (last - first + _PARENT_WEIGHT)
        found[place] = np.bincount(now, mean, minlength=windows)
    return found


@dataclass(frozen=True)
class Horizon:
    """`by`: what the value is made from (combined, persistence, climatology). `coverage`: how often such intervals
    held the actual value."""

    horizon_ns: int
    time_ns: int
    by: str
    value: float | None
    low: float | None
    high: float | None
    skill: Amount
    coverage: float | None


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
AHEAD_NS: Final = HORIZONS_NS[-1]
HEADLINE_NS: Final = 60 * MINUTE_NS
SHOWN_NS: Final = 6 * HOUR_NS
NEEDED_DAYS: Final = 3
# [ours] Skill below half a percent does not count, even if it is certain; below two percent it is barely noticed.
LEAST_SKILL: Final = 0.005
NOTICED: Final = 0.02
BY: Final = {"persistence": "as now", "climatology": "as usual at this hour", "combined": "combined forecast"}
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
    jobs: KnownJobs | None = None
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

    def show(self, value: float | None) -> str:
        return format_value(None if value is None else float(value), self.unit)


@dataclass(frozen=True)
class _JudgedForecast:
    """The forecast of one horizon and the skill of past ones: `shown` is of the combination if its skill is above zero
    (`skilled`), else of the better of persistence and climatology.

    `skill` = 1 - MAE / MAE of the better of persistence and climatology, `against` the same for each of them, and
    `skill_amount` in the unit of the values.
    """

    shown: Horizon
    skill: Estimate
    against: tuple[Estimate, ...]
    skill_amount: Estimate
    coverage: Estimate
    skilled: bool

    @property
    def minutes(self) -> int:
        return self.shown.horizon_ns // MINUTE_NS


@dataclass(frozen=True, eq=False)
class _BestStart:
    """The next 24 full hours as starts (`clock` is local time in `zone`), the typical value of the `hours` from each,
    on the scale of the data and with intervals, and the gain of choosing the hour in the past. `pays`: choosing has
    paid before on `enough` days, and the hours ahead differ."""

    start_ns: Ints
    clock: tuple[str, ...]
    zone: str
    hours: int
    typical: Floats
    low: Floats
    high: Floats
    gain: Estimate

    @property
    def enough(self) -> bool:
        return (self.gain.n or 0) >= LEAST_DAYS and self.gain.low is not None

    @property
    def best(self) -> int:
        return int(np.argmin(self.typical))

    @property
    def pays(self) -> bool:
        proven = self.enough and surely(self.gain, above=0.0) and (self.gain.value or 0.0) >= WORTH_IT
        return proven and 1 - math.exp(self.typical[self.best] - float(self.typical.mean())) >= WORTH_IT


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
        question=f"{seen.title}: what is expected in the next two hours?",
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
    rolling = rolling_forecasts(series, windows, forecast_from_jobs(seen, windows))
    forecasts = [judge_forecasts(each, seen) for each in rolling]
    hourly = hourly_means(series.values, series.day[: series.count], series.slot[: series.count])
    start = best_start(hourly, seen.end_ns, (zone, zone_name), duration_ns)
    main = next((o for o in forecasts if o.shown.horizon_ns == (horizon_ns or HEADLINE_NS)), forecasts[-1])
    start_facts, start_finding = describe_start(start, seen)
    worth_it = start if start is not None and start.pays else None
    starts = () if worth_it is None else (start_exhibit(worth_it, seen),)
    return replace(
        answer,
        headline=_headline(seen, main),
        facts=(*_facts(seen, forecasts, zone), *start_facts),
        exhibits=(forecast_exhibit(seen, forecasts), *starts),
        findings=(*_findings(forecasts), _describe_input(seen), start_finding),
        caveats=(*seen.notes, *_caveats(seen, zone_name)),
        result=replace(
            outcome,
            horizons=tuple(o.shown for o in forecasts),
            best_start_ns=None if worth_it is None else int(worth_it.start_ns[worth_it.best]),
        ),
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


def forecast_from_jobs(history: History, horizons: tuple[int, ...]) -> Floats | None:
    """Return logarithms (horizons, T) of the load of known jobs plus the other load unchanged."""
    if (jobs := history.jobs) is None:
        return None
    own = np.bincount(jobs.window, jobs.rate, minlength=len(history.values))[: len(history.values)]
    rest = np.maximum(history.values - own, 0.0)
    return np.asarray(history.forward(expected_load(jobs, len(history.values), horizons) + rest))


def judge_forecasts(rolling: Rolling, history: History) -> _JudgedForecast:
    """Return the skill of one horizon, and the last forecast of the candidate chosen by it."""
    scored = rolling.scored()
    n = int(scored.sum())
    intervals = Intervals(scored, history.window_ns)
    error = np.abs(rolling.point - rolling.truth)
    amount = np.abs(history.back(rolling.point) - history.back(rolling.truth))
    sums, sums_amount = (intervals.sums(*np.where(scored, e, 0.0), scored) for e in (error, amount))
    horizon_ns = rolling.horizon * history.window_ns
    label = f"in {horizon_ns // MINUTE_NS} min"

    def skill_of(name: str, per_unit: Floats) -> Estimate:
        return intervals.estimate(f"skill {label}{name}", "", per_unit, _skill_of_sums, n=n)

    skill = skill_of("", sums)
    against = tuple(
        skill_of(f" against {name}", sums[:, [candidate, candidate, COMBINED, COMBINED + 1]])
        for candidate, name in enumerate(CANDIDATES[:COMBINED])
    )
    skilled = surely(skill, above=0.0) and (skill.value or 0.0) >= LEAST_SKILL
    by = COMBINED if skilled else int(sums[:, :COMBINED].sum(axis=0).argmin())
    lows, highs, within = rolling_intervals(rolling, by)
    known = np.isfinite(within)
    covered = Intervals(known, history.window_ns)
    inside = covered.sums(known, within)
    coverage = covered.estimate(
        f"coverage {label}", "ratio", inside, lambda s: s[..., 1] / s[..., 0], n=int(known.sum())
    )
    value, low, high = (
        float(last) if np.isfinite(last := history.back(values)[-1]) else None
        for values in (rolling.point[by], lows, highs)
    )
    amount_of_skill = Amount(skill.value, skill.low, skill.high)
    time_ns, by_name = history.end_ns + horizon_ns, CANDIDATES[by]
    shown = Horizon(horizon_ns, time_ns, by_name, value, low, high, amount_of_skill, coverage.value)
    return _JudgedForecast(shown, skill, against, skill_of(f" in {history.unit}", sums_amount), coverage, skilled)


def _skill_of_sums(sums: Floats) -> Any:
    """Return 1 - MAE / least MAE of the references, from sums of errors and their number; 0 where nothing ever
    erred."""
    best, own, n = sums[..., :COMBINED].min(axis=-1), sums[..., COMBINED], sums[..., COMBINED + 1]
    return np.where(best > 0, 1 - own / best, np.where((own > 0) | (n == 0), np.nan, 0.0))


def best_start(hourly: HourlyMeans, after_ns: int, zone: tuple[dt.tzinfo, str], duration_ns: int) -> _BestStart | None:
    """Compare starts in the 24 hours after `after_ns`; `hourly` are means of logarithms. None unless the climate is
    known for all starts."""
    times = -(-after_ns // HOUR_NS) * HOUR_NS + np.arange(24, dtype=np.int64) * HOUR_NS
    _, hour, weekday = local_clock(times, zone[0])
    slot = weekday * 24 + hour
    hours = max(1, math.ceil(duration_ns / HOUR_NS))
    recent = HourlyMeans(hourly.means[-MEMORY_DAYS:], hourly.weekday[-MEMORY_DAYS:])
    typical = means_from_each_start(climate_tables(recent)[-1], slot, hours)
    if not np.isfinite(typical).all():
        return None
    bootstrap = BlockBootstrap(len(recent.means))
    low = high = np.full(len(typical), np.nan)
    if bootstrap.blocks >= MIN_BLOCKS:
        again = means_from_each_start(climate_replicates(recent, bootstrap.weights), slot, hours)
        low, high = np.quantile(again, expanded_levels(LEVEL, bootstrap.blocks), axis=0)
    clock = tuple(ns_to_datetime(int(moment), zone[0]).strftime("%a %H:%M") for moment in times)
    # How much lower the chosen hour was, as a share: 1 - exp(-mean log gain).
    gained = past_gains(hourly, hours)
    judged = np.isfinite(gained)
    gain = Estimate("gain of the chosen hour", None, "ratio", n=0, method="no day could be evaluated")
    if judged.any():
        intervals = Intervals(judged, DAY_NS, unit=1, unit_name="day")
        sums = intervals.sums(judged, gained)
        gain = intervals.estimate(
            gain.name, "ratio", sums, lambda s: 1 - np.exp(-s[..., 1] / s[..., 0]), n=int(judged.sum())
        )
    return _BestStart(times, clock, zone[1], hours, typical, low, high, gain)


def means_from_each_start(climate: Floats, slot: Ints, hours: int) -> Floats:
    """Return means over `hours` hours of the week from each slot on: (..., len(slot))."""
    return np.asarray(climate[..., (slot[:, None] + np.arange(hours)) % SLOTS].mean(axis=-1))


def past_gains(hourly: HourlyMeans, hours: int) -> Floats:
    """Return by day the mean logarithm of all starts minus that of the start chosen from the days before.

    NaN if too little of the day is known; 0 if the days before show no difference between hours.
    """
    means, days = hourly.means, len(hourly.means)
    padded = np.concatenate([means.ravel(), np.full(hours, np.nan)])
    seen = np.isfinite(padded)
    total = np.concatenate([[0.0], np.cumsum(np.where(seen, padded, 0.0))])
    count = np.concatenate([[0], np.cumsum(seen)])
    first = np.arange(days * HOURS)
    n = count[first + hours] - count[first]
    with np.errstate(invalid="ignore", divide="ignore"):
        actual = np.where(n >= _SEEN * hours, (total[first + hours] - total[first]) / n, np.nan).reshape(days, HOURS)
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


def _headline(history: History, main: _JudgedForecast) -> str:
    """Return a sentence: the last value, what is expected, and whether such forecasts had skill."""
    text, shown = f"{history.title}: {history.show(history.values[-1])} now", main.shown
    ahead = f"{main.minutes} minutes"
    if shown.low is not None and shown.high is not None:
        text += f", {history.show(shown.low)} to {history.show(shown.high)} expected in {ahead} ({LEVEL:.0%})"
    elif shown.value is not None:
        text += f", about {history.show(shown.value)} expected in {ahead}"
    if main.skilled:
        return f"{text}; skill {_with_interval(main.skill)}."
    if main.skill.value is None:
        return f"{text}: {BY[shown.by]}. Too little history to measure forecast skill."
    return f"{text}: {BY[shown.by]}. No forecast beats this here: skill {_with_interval(main.skill)}."


def _with_interval(skill: Estimate) -> str:
    """Return a skill with its interval as text."""

    def signed(value: float) -> str:
        text = f"{value:.3f}" if 0 < abs(value) < 0.01 else f"{value:.2f}"
        return text.removeprefix("-") if float(text) == 0 else text

    if skill.value is None:
        return "not measured"
    if skill.low is None or skill.high is None:
        return f"{signed(skill.value)}, too few days for an interval"
    return f"{signed(skill.value)} ({signed(skill.low)} to {signed(skill.high)})"


def _facts(history: History, forecasts: Sequence[_JudgedForecast], zone: dt.tzinfo) -> Iterator[FactGroup]:
    """Yield the expected values, the skill of each horizon, and how often intervals contained the actual value."""
    width = format_seconds(history.window_ns / 1e9)
    until = format_time_ns(history.end_ns, zone)
    note = f"{width} until {until[:16]}{until[19:]}"
    values, skills = [Fact("now", "now", float(history.values[-1]), history.unit, note=note)], []
    for o in forecasts:
        name, label, by = f"in_{o.minutes}_min", f"in {o.minutes} min", BY[o.shown.by]
        expected = f"{by}; no interval yet"
        if o.shown.low is not None and o.shown.high is not None:
            expected = f"{history.show(o.shown.low)} to {history.show(o.shown.high)}, {by}"
        values.append(Fact(name, label, o.shown.value, history.unit, note=expected))
        worth = f"no better than '{by}'"
        if o.skill.value is None:
            worth = "not judged yet"
        elif o.skilled and (o.skill_amount.value or 0.0) < 0:
            worth = "better in relative terms, worse in absolute terms"
        elif o.skilled:
            worth = "better" if o.skill.value >= NOTICED else "slightly better"
        skills.append(Fact(name, label, _with_interval(o.skill), note=worth))
    # A forecast without skill is not shown as a forecast.
    kind = "expected" if any(o.skilled for o in forecasts) else "usual"
    yield FactGroup(kind, f"{history.title}, in windows of {width}", tuple(values))
    yield FactGroup("skill", "Skill against the better of 'as now' and 'as usual'", tuple(skills))
    covered = [o.coverage.value for o in forecasts if o.coverage.value is not None]
    if covered:
        note = f"of the time ({LEVEL:.0%} intended); range over horizons"
        text = f"{min(covered):.0%} to {max(covered):.0%}"
        yield FactGroup("intervals", "Intervals", (Fact("coverage", "contained the actual value", text, note=note),))


def _findings(forecasts: Sequence[_JudgedForecast]) -> Iterator[Finding]:
    """Yield at which horizons the forecast has skill, at which it has none, and where intervals are too narrow."""

    def listed(some: Sequence[_JudgedForecast]) -> str:
        *first, last = (str(o.minutes) for o in some)
        return f"{', '.join(first)} and {last} minutes ahead" if first else f"{last} minutes ahead"

    better, worse = ([o for o in forecasts if o.skilled == skilled] for skilled in (True, False))
    if better:
        most = max(better, key=lambda o: o.skill.value or 0.0)
        text = f"best {most.minutes} minutes ahead, with skill {_with_interval(most.skill)}"
        yield Finding(f"The forecast beats 'as now' and 'as usual' {listed(better)}; {text}.", name="skilled")
    if worse:
        text = f"No forecast skill {listed(worse)}; showing the better of 'as now' and 'as usual' there."
        decided = not better or all(surely(o.skill, below=0.0) for o in worse)
        yield Finding(text, "note" if decided else "undecided", "not_skilled")
    if off := [o for o in forecasts if surely(o.coverage, below=LEVEL - 0.05)]:
        text = f"Intervals are too narrow {listed(off)}: they contained the actual value less often than intended."
        yield Finding(text, name="narrow_intervals")


def _describe_input(history: History) -> Finding:
    """Return a sentence on the input of the forecast."""
    days = min(len(history.values) * history.window_ns / DAY_NS, MEMORY_DAYS)
    known = "no jobs, since there are no job counters of servers"
    if (jobs := history.jobs) is not None:
        now = jobs.present & (jobs.window == len(history.values) - 1)
        running, waiting = (int((now & (jobs.waits == waits)).sum()) for waits in (False, True))
        known = f"{running} running and {waiting} waiting jobs, with their programs' past I/O"
    return Finding(f"The forecast uses the last {days:.0f} days and {known}.", name="knows")


def _caveats(history: History, zone_name: str) -> list[str]:
    """Return the limits of the forecast: length of history, scale of errors, jobs that are not known."""
    days = len(history.values) * history.window_ns / DAY_NS
    short = "With less than two weeks of history, the usual value for an hour of the week is uncertain."
    scale = "log(1 + MiB/s)" if history.of == "load" else "the logarithm"
    unknown = "jobs" if history.jobs is None else "jobs that are not submitted yet"
    return [
        f"{days:.1f} days of history; a forecast uses at most the last {MEMORY_DAYS}. Hours of the week are in "
        f"{zone_name}.",
        *([short] if days < 14 else []),
        f"Errors are computed on {scale}; a value 'in 60 min' is for the window that ends then. The forecast "
        f"ignores {unknown}.",
    ]


def forecast_exhibit(history: History, forecasts: Sequence[_JudgedForecast]) -> Exhibit:
    """Return the forecasts as a table, and as a curve that continues the last hours."""
    unit, title, horizons = history.unit, history.title, [o.shown for o in forecasts]
    rows: list[tuple[Cell, ...]] = []
    for o, at in zip(forecasts, horizons, strict=True):
        skills = o.skill.value, o.skill.low, o.skill.high, *(each.value for each in o.against), o.skill_amount.value
        rows.append((at.horizon_ns, at.time_ns, at.value, at.low, at.high, at.by, *skills, at.coverage, o.skill.n))
    table_of_horizons = ResultTable.of(
        "forecast",
        f"horizon: ahead [ns]; time: window ends [time_ns]; expected [{unit}]; low: 90% from [{unit}]; "
        f"high: 90% to [{unit}]; by [text]; skill; skill_low: skill from; skill_high: skill to; "
        "skill_against_persistence: against as now; skill_against_climatology: against as usual; "
        "skill_amount: skill in own unit; coverage: interval coverage [ratio]; n: forecasts judged [count]",
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
    points += [(at.time_ns, "expected", at.value, at.low, at.high) for at in horizons]
    columns = f"time [time_ns]; series [text]; value: {history.of} [{unit}]; low: 90% from [{unit}]; "
    course = ResultTable.of("course", f"{columns}high: 90% to [{unit}]", points, title)
    now = (Reference("x", float(history.end_ns), "now"),)
    chart = Chart.of("band", course, "x=time y=value low high", f"{title}, measured and expected", references=now)
    estimates = [e for o in forecasts for e in (o.skill, *o.against, o.skill_amount, o.coverage)]
    return Exhibit("forecast", title, (table_of_horizons,), (chart,), tuple(estimates))


def describe_start(found: _BestStart | None, history: History) -> tuple[tuple[FactGroup, ...], Finding]:
    """Return facts and a finding on the best start; `found` is None if there is no typical value for every hour."""
    if found is None:
        text = f"No best start: some hours of the week have too little history of {history.of}."
        return (), Finding(text, name="best_start")
    gain, best, unit = found.gain, found.best, history.unit
    least, value, most = ("no" if v is None else f"{round(100 * v)}%" for v in (gain.low, gain.value, gain.high))
    interval = f"{LEVEL:.0%} interval {least} to {most}"
    saved = Fact("gain", "saved by choosing the hour", value, note=f"on {gain.n} past days; {interval}")
    less = f"{value.removeprefix('-')} {'more' if value.startswith('-') else 'less'} {history.of}"
    chosen = f"n {gain.n} past days the hour chosen in advance had {less} than that day's average"
    if found.pays:
        typical, mean = (float(history.back(value)) for value in (found.typical[best], found.typical.mean()))
        low, high = (history.show(history.back(bound[best])) for bound in (found.low, found.high))
        ranged = f"{low} to {high} ({LEVEL:.0%})" if np.isfinite(found.low[best]) else ""
        facts = [
            Fact("start", "start at", found.clock[best], note=found.zone),
            Fact("typical_then", f"typical {history.of} then", typical, unit, note=ranged),
            Fact("typical", "typical of all 24 hours", mean, unit),
            saved,
        ]
        finding = Finding(f"The hours differ: o{chosen} ({interval}).", name="best_start")
    elif found.enough:
        facts = [Fact("start", "start", "any time", note="differences between hours are within the noise"), saved]
        text = f"Start any time: differences between hours are within the noise. O{chosen} (saved: {interval})."
        is_small = gain.high is not None and gain.high < WORTH_IT
        finding = Finding(text, "note" if is_small else "undecided", "best_start")
    else:
        why = f"needs {LEAST_DAYS} days of history to compare hours; only {gain.n or 0} so far"
        facts = [Fact("start", "start", "any time", note=why)]
        finding = Finding(f"Start any time: {why}.", "undecided", "best_start")
    title = f"Best start in the next 24 h, for {format_seconds(found.hours * 3600)}"
    return (FactGroup("best_start", title, tuple(facts)),), finding


def start_exhibit(found: _BestStart, history: History) -> Exhibit:
    """Return typical values by start in the next 24 hours."""
    what, unit, back = history.of, history.unit, history.back
    columns = (
        f"start: start [time_ns]; clock: local ({found.zone}) [text]; typical: typical {what} [{unit}]; "
        f"low: 90% from [{unit}]; high: 90% to [{unit}]; ratio: against all hours [factor]"
    )
    shown = (np.asarray(back(each)) for each in (found.typical, found.low, found.high))
    ratio, title = np.exp(found.typical - found.typical.mean()), f"Typical {what} of {found.hours} h from each start"
    rows = table("starts", columns, found.start_ns, found.clock, *shown, ratio, title=title)
    chart = Chart.of("band", rows, "x=start y=typical low high", f"Typical {what} by start, next 24 hours")
    return Exhibit("forecast.start", chart.title, (rows,), (chart,), (found.gain,))


WINDOW_NS = 5 * MINUTE_NS
_TABLES: Final = {
    "load": frozenset({"job_operations", "jobs", "series"}),
    "slowdown": frozenset({"response_rollups"}),
}


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


def _load_or_slowdown(snapshot: Snapshot, _: Params) -> Cell:
    """Choose load if servers were sampled, else slowdown."""
    return "load" if choices.busiest_filesystem(snapshot) is not None else "slowdown"


def _screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Yield what is expected, and when to start."""
    yield from (largest_facts(group, 8) for group in answer.facts if group.name in ("expected", "best_start"))
    yield from (finding for finding in answer.findings if finding.name == "knows")


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
            choose=_load_or_slowdown,
            choices=("load", "slowdown"),
        ),
        Param("op", "read or write; for slowdown, any probe operation.", metavar="OP"),
        Param("horizon", "The horizon of the headline, 5 to 120 min (default: 60min).", "duration", metavar="TIME"),
        Param("window", "Length of a window.", "duration", "5min", metavar="TIME"),
        Param("at", "As of this time (default: of the newest data).", "time", metavar="TIME"),
        Param("duration", "How long the planned job does I/O.", "duration", "1h", option="for", metavar="TIME"),
    ),
    help="""Forecast load or slowdown for the next two hours, and the best time to start a job.

    Each forecast comes with its interval and past skill. Forecasts without skill are marked.""",
    epilog="""\b
Load comes from server samples, slowdown from the probe. Running and queued
jobs come from server counters and accounting. Skill is how much smaller the
errors were than those of 'as now' and 'as usual'.

\b
Example: ioweather forecast --filesystem scratch --op write --for 2h
""",
    seen_by="public",
    period=False,
    table="forecast",
    blocks=_screen,
)


# [ours] Half a year: eight weeks to learn from, the rest to judge by. More would cost reading and change nothing.
HISTORY_NS: Final = 182 * DAY_NS
_LEFT_OUT: Final = int(Quality.OVER_LIMIT | Quality.RESET | Quality.SHUTDOWN)
_OPS: Final = ("read", "write", "create", "stat", "file_read", "delete", "write_sync")
_NEITHER: Final = "Ingest server statistics (LMT, Lustre, iostat) for load, or run `ioweather probe PATH` for slowdown."


def read_history(snapshot: Snapshot, values: Mapping[str, Any]) -> History:
    """Return load or slowdown (`of`) as of `at`, or of the newest data."""
    at_ns, window_ns = values["at"], values["window"]
    read = _read_load if values["of"] == "load" else _read_slowdown
    seen = read(snapshot, values["filesystem"], values["op"], window_ns, at_ns or 2**62)
    notes, jobs = [], None
    age = (at_ns or now_ns()) - seen.end_ns
    if age > 2 * seen.window_ns:
        notes.append(f"The newest data are {format_seconds(age / 1e9)} old; 'now' means the end of the data.")
    if seen.of == "load":
        if others := sorted(set(snapshot.filesystems()) - {seen.filesystem}):
            notes.append(f"Other file systems: {', '.join(others)} (--filesystem).")
        operations = ("read", "write") if seen.op == "all" else (seen.op,)
        windows = seen.start_ns, seen.window_ns, len(seen.values)
        jobs = find_known_jobs(snapshot, seen.filesystem, operations, windows, -(-AHEAD_NS // seen.window_ns))
    return replace(seen, notes=tuple(notes), jobs=jobs)


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
        raise UsageError(f"Load has no operation {op!r}.", hint=hint)
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
