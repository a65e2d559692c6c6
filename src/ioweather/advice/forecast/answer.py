"""What load or slowdown the next two hours bring, in words, as a table and as a picture, and whether to believe it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ioweather.advice.forecast.best_start import (
    BestStart,
    Starts,
    best_start,
    best_start_exhibit,
    best_start_facts,
    best_start_finding,
)
from ioweather.advice.forecast.horizons import (
    History,
    KnownJobs,
    Outlook,
    Quantity,
    Seen,
    by_jobs,
    outlook,
    timed,
    without_maintenance,
)
from ioweather.core.facility import Facility
from ioweather.core.outcomes import ForecastOutcome, Horizon
from ioweather.core.results import (
    Answer,
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    Reference,
    ResultColumn,
    ResultTable,
    columns_of,
)
from ioweather.core.run_outcomes import Amount
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, format_seconds, format_time_ns, ns_to_datetime
from ioweather.derive.system.calendar import facility_zone, local_clock
from ioweather.stats.climatology import MEMORY_DAYS, hourly_means
from ioweather.stats.forecast import LEVEL, rolling_forecasts
from ioweather.studies.shared.intervals import surely


def _knows(jobs: KnownJobs | None, history: History) -> Finding:
    """What the forecast is made from, in one sentence."""
    days = min(len(history.values) * history.window_ns / DAY_NS, MEMORY_DAYS)
    known = "no jobs"
    if jobs is not None:
        work, steps = jobs.work, len(history.values) * (history.window_ns // jobs.step_ns)
        now = work.present & (work.window == steps - 1)
        running, waiting = (int((now & (work.waits == waits)).sum()) for waits in (False, True))
        known = f"{running} running and {waiting} waiting jobs by what their programs did before"
    return Finding(f"The forecast knows the last {days:.0f} days, and {known}.", name="knows")


HORIZONS_NS: Final = tuple(minutes * MINUTE_NS for minutes in (5, 10, 15, 30, 60, 90, 120))
HEADLINE_NS: Final = 60 * MINUTE_NS
NEEDED_DAYS: Final = 3
# [ours] A smaller gain is real where its interval says so, and of no use to anybody.
NOTICED: Final = 0.02
BY: Final = {"persistence": "as now", "climatology": "as usual at this hour", "combined": "from what is known"}


def forecast_answer(
    given: Seen, facility: Facility, *, horizon_ns: int | None = None, duration_ns: int = HOUR_NS
) -> Answer:
    """The answer as of the last window that was seen; later windows must not be in the history."""
    history, quantity, caveats = given.history, given.quantity, given.notes
    question = f"{quantity.title}: what do the next two hours bring?"
    horizons = _horizons(history.window_ns, horizon_ns)
    seen = without_maintenance(history, facility)
    present = int(np.isfinite(seen.values).sum())
    coverage = Coverage(len(history.values), present, f"windows of {format_seconds(history.window_ns / 1e9)}")
    if present * history.window_ns < NEEDED_DAYS * DAY_NS:
        return _too_short(question, quantity, seen, present, coverage, caveats)
    zone, zone_name = facility_zone(facility)
    series = timed(seen, quantity, zone, max(horizons))
    windows = tuple(horizon // history.window_ns for horizon in horizons)
    known = by_jobs(given.jobs, seen, quantity, windows)
    outlooks = [outlook(rolling, seen, quantity) for rolling in rolling_forecasts(series, windows, known=known)]
    hourly = hourly_means(series.values, series.day[: series.count], series.slot[: series.count])
    start = best_start(hourly, _starts(seen.end_ns, zone, zone_name), duration_ns)
    main = next((o for o in outlooks if o.horizon_ns == (horizon_ns or HEADLINE_NS)), outlooks[-1])
    what = quantity.of
    return Answer(
        question=question,
        headline=_headline(quantity, float(seen.values[-1]), main),
        facts=tuple(_facts(quantity, seen, outlooks, start, zone)),
        exhibits=(
            forecast_exhibit(seen, quantity, outlooks),
            *((best_start_exhibit(start, quantity.back, quantity.unit, what),) if start and start.pays else ()),
        ),
        findings=(
            *_findings(outlooks),
            _knows(given.jobs, seen),
            best_start_finding(start, what),
        ),
        caveats=(*caveats, *_caveats(quantity, seen, zone_name, given.jobs)),
        coverage=(coverage,),
        name="forecast",
        result=_outcome(seen, quantity, outlooks, start),
    )


def _outcome(
    seen: History, quantity: Quantity, outlooks: Sequence[Outlook] = (), start: BestStart | None = None
) -> ForecastOutcome:
    horizons = tuple(
        Horizon(
            o.horizon_ns, o.time_ns, o.by, o.value, o.low, o.high,
            Amount(o.skill.value, o.skill.low, o.skill.high), o.coverage.value,
        )
        for o in outlooks
    )  # fmt: skip
    best = int(start.starts.start_ns[start.best]) if start is not None and start.pays else None
    now = float(seen.values[-1]) if len(seen.values) and np.isfinite(seen.values[-1]) else None
    return ForecastOutcome(
        quantity.filesystem, quantity.of, quantity.op, quantity.unit, seen.window_ns, now, seen.end_ns, horizons, best
    )


def _horizons(window_ns: int, asked_ns: int | None) -> tuple[int, ...]:
    """Those that are whole numbers of windows, with the one asked for."""
    every = {h for h in HORIZONS_NS if h % window_ns == 0}
    if asked_ns is not None:
        every.add(-(-asked_ns // window_ns) * window_ns)
    return tuple(sorted(every)) or (window_ns,)


def _starts(after_ns: int, zone: dt.tzinfo, zone_name: str) -> Starts:
    first = -(-after_ns // HOUR_NS) * HOUR_NS
    times = first + np.arange(24, dtype=np.int64) * HOUR_NS
    clock = local_clock(times, zone)
    texts = tuple(ns_to_datetime(int(moment), zone).strftime("%a %H:%M") for moment in times)
    return Starts(times, clock.weekday * 24 + clock.hour, texts, zone_name)


def _headline(quantity: Quantity, now: float, main: Outlook) -> str:
    text = f"{quantity.title}: {quantity.show(now)} now"
    ahead = main.label.removeprefix("in ").replace(" min", " minutes")
    if main.low is not None and main.high is not None:
        text += f", {quantity.show(main.low)} to {quantity.show(main.high)} expected in {ahead} ({LEVEL:.0%})"
    elif main.value is not None:
        text += f", about {quantity.show(main.value)} expected in {ahead}"
    if main.skilled:
        return f"{text}; skill {_with_interval(main.skill)}."
    if main.skill.value is None:
        return f"{text}: {BY[main.by]}; how good a forecast is here was not measured yet, after so few days."
    return f"{text}: {BY[main.by]}; no forecast does better than that here, skill {_with_interval(main.skill)}."


def _with_interval(skill: Estimate) -> str:
    if skill.value is None:
        return "not measured"
    if skill.low is None or skill.high is None:
        return f"{_signed(skill.value)}, too few days for an interval"
    return f"{_signed(skill.value)} ({_signed(skill.low)} to {_signed(skill.high)})"


def _signed(value: float) -> str:
    text = f"{value:.3f}" if 0 < abs(value) < 0.01 else f"{value:.2f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _facts(
    quantity: Quantity, history: History, outlooks: Sequence[Outlook], start: BestStart | None, zone: dt.tzinfo
) -> Iterator[FactGroup]:
    width = format_seconds(history.window_ns / 1e9)
    until = format_time_ns(history.end_ns, zone)
    note = f"{width} until {until[:16]}{until[19:]}"
    now = Fact("now", "now", float(history.values[-1]), quantity.unit, note=note)
    ahead = [Fact(o.name, o.label, o.value, quantity.unit, note=_range(quantity, o)) for o in outlooks]
    # What is no better than a look at the clock is not shown as a forecast.
    name = "expected" if any(o.skilled for o in outlooks) else "usual"
    yield FactGroup(name, f"{quantity.title}, in windows of {width}", (now, *ahead))
    worth = [Fact(o.name, o.label, _with_interval(o.skill), note=_worth(o)) for o in outlooks]
    yield FactGroup("skill", "Skill against the better of 'as now' and 'as usual'", tuple(worth))
    held = [o.coverage for o in outlooks if o.coverage.value is not None]
    if held:
        least, most = (f(held, key=lambda e: e.value or 0.0) for f in (min, max))
        text = f"{least.value:.0%} to {most.value:.0%}"
        note = f"of the time, {LEVEL:.0%} intended; lowest and highest of the horizons"
        yield FactGroup("intervals", "Intervals", (Fact("coverage", "contained the actual value", text, note=note),))
    if start is not None:
        yield best_start_facts(start, quantity.back, quantity.unit, quantity.of)


def _worth(o: Outlook) -> str:
    if o.skill.value is None:
        return "not judged yet"
    if o.skilled and (o.skill_amount.value or 0.0) < 0:
        return "better by factors, worse by amounts"
    if o.skilled:
        return "better" if o.skill.value >= NOTICED else "better, but hardly"
    return f"no better than '{BY[o.by]}'"


def _range(quantity: Quantity, o: Outlook) -> str:
    if o.low is None or o.high is None:
        return f"{BY[o.by]}; no interval yet"
    return f"{quantity.show(o.low)} to {quantity.show(o.high)}, {BY[o.by]}"


def _findings(outlooks: Sequence[Outlook]) -> Iterator[Finding]:
    better = [o for o in outlooks if o.skilled]
    worse = [o for o in outlooks if not o.skilled]
    if better:
        most = max(better, key=lambda o: o.skill.value or 0.0)
        yield Finding(
            f"The forecast beats 'as now' and 'as usual' {_listed(better)}; most {most.label}, with skill "
            f"{_with_interval(most.skill)}.",
            name="skilled",
        )
    if worse:
        yield Finding(
            f"No forecast skill {_listed(worse)}; showing the better of 'as now' and 'as usual' there.",
            "note" if not better or all(surely(o.skill, below=0.0) for o in worse) else "undecided",
            "not_skilled",
        )
    off = [o for o in outlooks if surely(o.coverage, below=LEVEL - 0.05)]
    if off:
        yield Finding(
            f"Intervals are too narrow {_listed(off)}: they contained the actual value less often than intended.",
            name="narrow_intervals",
        )


def _listed(outlooks: Sequence[Outlook]) -> str:
    minutes = [str(o.horizon_ns // MINUTE_NS) for o in outlooks]
    together = minutes[0] if len(minutes) == 1 else f"{', '.join(minutes[:-1])} and {minutes[-1]}"
    return f"{together} minutes ahead"


def _caveats(quantity: Quantity, history: History, zone_name: str, jobs: KnownJobs | None) -> Iterator[str]:
    days = len(history.values) * history.window_ns / DAY_NS
    yield (
        f"{days:.1f} days of history, of which a forecast knows at most the last {MEMORY_DAYS}; the hours of the week "
        f"are those of {zone_name}."
    )
    if days < 14:
        yield "With less than two weeks, what is usual at an hour of the week is hardly known."
    scale = "log(1 + MiB/s)" if quantity.of == "load" else "the logarithm"
    unknown = "Jobs are" if jobs is None else "Jobs that are not submitted yet are"
    yield (
        f"Errors are of {scale}; a value 'in 60 min' is that of the window that ends then. {unknown} not known to the "
        "forecast."
    )


def _too_short(
    question: str, quantity: Quantity, history: History, present: int, coverage: Coverage, caveats: Sequence[str]
) -> Answer:
    width = format_seconds(history.window_ns / 1e9)
    needed = math.ceil(NEEDED_DAYS * DAY_NS / history.window_ns)
    headline = (
        f"{quantity.title}: not enough history for a forecast: {present:,} windows of {width}; {NEEDED_DAYS} days "
        f"({needed:,} windows) are needed."
    )
    facts: tuple[Fact, ...] = ()
    if len(history.values):
        note = format_time_ns(history.end_ns)
        facts = (Fact("last_seen", "last seen", float(history.values[-1]), quantity.unit, note=note),)
    return Answer(
        question,
        headline,
        facts=(FactGroup("expected", quantity.title, facts),) if facts else (),
        caveats=tuple(caveats),
        coverage=(coverage,),
        name="forecast",
        result=_outcome(history, quantity),
    )


SHOWN_NS: Final = 6 * HOUR_NS


def forecast_exhibit(history: History, quantity: Quantity, outlooks: Sequence[Outlook]) -> Exhibit:
    curve = _curve(history, quantity, outlooks)
    chart = Chart.of(
        "band",
        curve,
        "x=time y=value low high",
        f"{quantity.title}, seen and expected",
        references=(Reference("x", float(history.end_ns), "now"),),
    )
    estimates = [e for o in outlooks for e in (o.skill, *o.against, o.skill_amount, o.coverage)]
    return Exhibit("forecast", quantity.title, (_table(quantity, outlooks),), (chart,), tuple(estimates))


def _table(quantity: Quantity, outlooks: Sequence[Outlook]) -> ResultTable:
    unit = quantity.unit
    return ResultTable.of(
        "forecast",
        f"horizon: ahead [ns]; time: window ends [time_ns]; expected [{unit}]; low: 90% from [{unit}]; "
        f"high: 90% to [{unit}]; by [text]; skill; skill_low: skill from; skill_high: skill to; "
        "skill_against_persistence: against as now; skill_against_climatology: against as usual; "
        "skill_amount: skill in own unit; coverage: intervals held [ratio]; n: forecasts judged [count]",
        (_row(o) for o in outlooks),
        quantity.title,
    )


def _row(o: Outlook) -> tuple[Cell, ...]:
    return (
        o.horizon_ns, o.time_ns, o.value, o.low, o.high, o.by, o.skill.value, o.skill.low, o.skill.high,
        o.against[0].value, o.against[1].value, o.skill_amount.value, o.coverage.value, o.skill.n,
    )  # fmt: skip


def _curve(history: History, quantity: Quantity, outlooks: Sequence[Outlook]) -> ResultTable:
    """Values stand where their window ends, so that the last one seen is now; one curve, so that one scale serves."""
    first = max(0, len(history.values) - SHOWN_NS // history.window_ns)
    rows: list[tuple[Cell, ...]] = []
    for place in range(first, len(history.values)):
        value = history.values[place]
        seen = float(value) if np.isfinite(value) else None
        rows.append((history.start_ns + (place + 1) * history.window_ns, "seen", seen, None, None))
    # The band opens where the last value was seen.
    time, kind, now, *_ = rows[-1]
    rows[-1] = (time, kind, now, now, now)
    rows += [(o.time_ns, "expected", o.value, o.low, o.high) for o in outlooks]
    columns = (
        *columns_of("time [time_ns]; series [text]"),
        ResultColumn("value", quantity.of, quantity.unit),
        *columns_of(f"low: 90% from [{quantity.unit}]; high: 90% to [{quantity.unit}]"),
    )
    return ResultTable("course", columns, tuple(rows), quantity.title)
