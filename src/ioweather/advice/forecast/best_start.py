"""When in the next 24 hours to start a job that does much I/O: from the climate, and only where such advice has paid.

Whether it pays is measured on the past: each day the hour was chosen from the days before it, and what that hour then
brought is set beside the average of all hours of that day. No hour is chosen with the data it is judged by.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.results import Chart, Estimate, Exhibit, Fact, FactGroup, Finding
from ioweather.core.units import DAY_NS, HOUR_NS, format_seconds, format_value
from ioweather.stats.climatology import HOURS, MEMORY_DAYS, SLOTS, HourlyMeans, climate_replicates, climate_tables
from ioweather.stats.resampling import BlockBootstrap
from ioweather.studies.shared.intervals import LEVEL, Intervals
from ioweather.studies.shared.presenting import table

# A run of hours counts where this share of them was seen.
_SEEN: Final = 0.75
# [ours] Advice is worth giving from a twentieth on: less is not noticed.
WORTH_IT: Final = 0.05
# [ours] Before a fortnight was judged, an hour that was good on some days is good by chance.
LEAST_DAYS: Final = 14


@dataclass(frozen=True, eq=False)
class Starts:
    """The next 24 full hours as starts: when, and which hour of the week; `clock` is what a person reads."""

    start_ns: Ints
    slot: Ints
    clock: tuple[str, ...]
    zone: str


@dataclass(frozen=True, eq=False)
class BestStart:
    """Typical values of each start on the scale of the data, with intervals; what choosing brought in the past."""

    starts: Starts
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
        """Choosing has paid before, and the hours ahead differ."""
        proven = self.enough and self.gain.low is not None and self.gain.low > 0
        ahead = 1 - math.exp(self.typical[self.best] - float(self.typical.mean()))
        return proven and (self.gain.value or 0.0) >= WORTH_IT and ahead >= WORTH_IT


def best_start(hourly: HourlyMeans, starts: Starts, duration_ns: int) -> BestStart | None:
    """`hourly` are means of logarithms; None where the climate is not known for all starts."""
    hours = max(1, math.ceil(duration_ns / HOUR_NS))
    recent = HourlyMeans(hourly.means[-MEMORY_DAYS:], hourly.weekday[-MEMORY_DAYS:])
    typical = run_means(climate_tables(recent)[-1], starts.slot, hours)
    if not np.isfinite(typical).all():
        return None
    bootstrap = BlockBootstrap(len(recent.means), level=LEVEL, unit_name="day")
    again = run_means(climate_replicates(recent, bootstrap.weights), starts.slot, hours)
    bounds = [bootstrap.interval(again[:, place]) for place in range(len(typical))]
    low, high = (np.array([np.nan if b[side] is None else b[side] for b in bounds], np.float64) for side in (0, 1))
    return BestStart(starts, hours, typical, low, high, _gain(past_gains(hourly, hours)))


def run_means(climate: Floats, slot: Ints, hours: int) -> Floats:
    """Means over `hours` hours of the week from each slot on: (..., len(slot))."""
    return np.asarray(climate[..., (slot[:, None] + np.arange(hours)) % SLOTS].mean(axis=-1))


def past_gains(hourly: HourlyMeans, hours: int) -> Floats:
    """Per day: the mean logarithm of all its starts less that of the start chosen from the days before; NaN where the
    day was not seen enough, or the days before make no difference between hours."""
    means, days = hourly.means, len(hourly.means)
    flat = np.concatenate([means.ravel(), np.full(hours, np.nan)])
    seen = np.isfinite(flat)
    total = np.concatenate([[0.0], np.cumsum(np.where(seen, flat, 0.0))])
    count = np.concatenate([[0], np.cumsum(seen)])
    first = np.arange(days * HOURS)
    n = count[first + hours] - count[first]
    with np.errstate(invalid="ignore", divide="ignore"):
        came = np.where(n >= _SEEN * hours, (total[first + hours] - total[first]) / n, np.nan).reshape(days, HOURS)
    climate = climate_tables(hourly)
    out = np.full(days, np.nan)
    for day in range(1, days):
        expected = run_means(climate[day], hourly.weekday[day] * HOURS + np.arange(HOURS), hours)
        there = np.isfinite(came[day]) & np.isfinite(expected)
        if there.sum() >= _SEEN * HOURS:
            # Where the past tells no hour from another, there is no choice and nothing to gain.
            flat_day = np.ptp(expected[there]) < 1e-9
            chosen = np.where(there, expected, np.inf).argmin()
            out[day] = 0.0 if flat_day else came[day][there].mean() - came[day][chosen]
    return out


def _gain(gained: Floats) -> Estimate:
    """How much lower the chosen hour was, as a share: 1 - exp(-mean log gain)."""
    judged = np.isfinite(gained)
    if not judged.any():
        return Estimate("gain of the chosen hour", None, "ratio", n=0, method="no day could be judged")
    intervals = Intervals(judged, DAY_NS, on=True, unit=1, unit_name="day")
    return intervals.estimate(
        "gain of the chosen hour", "ratio", intervals.sums(judged, gained), _share_saved, n=int(judged.sum())
    )


def _share_saved(sums: Floats) -> Any:
    return 1 - np.exp(-sums[..., 1] / sums[..., 0])


def best_start_facts(found: BestStart, show: Callable[[Any], Any], unit: str, what: str) -> FactGroup:
    """`show` brings values from the scale of the data to `unit`."""
    best, starts = found.best, found.starts
    title = f"Best start in the next 24 h, for {format_seconds(found.hours * 3600)}"
    saved = Fact(
        "gain",
        "choosing the hour saved",
        _percent(found.gain.value),
        note=f"on {found.gain.n} past days; {_interval(found.gain)}",
    )
    if not found.pays:
        why = "the hours do not differ beyond the noise" if found.enough else _too_few(found.gain)
        facts = [Fact("start", "start", "any time", note=why)]
        if found.enough:
            facts.append(saved)
        return FactGroup("best_start", title, tuple(facts))
    ranged = ""
    if np.isfinite(found.low[best]):
        low, high = (format_value(float(show(bound[best])), unit) for bound in (found.low, found.high))
        ranged = f"{low} to {high} ({LEVEL:.0%})"
    return FactGroup(
        "best_start",
        title,
        (
            Fact("start", "start at", starts.clock[best], note=starts.zone),
            Fact("typical_then", f"typical {what} then", float(show(found.typical[best])), unit, note=ranged),
            Fact("typical", "typical of all 24 hours", float(show(found.typical.mean())), unit),
            saved,
        ),
    )


def _too_few(gain: Estimate) -> str:
    return f"{gain.n or 0} past days are too few to tell the hours apart; {LEAST_DAYS} are needed"


def _percent(value: float | None) -> str:
    return "no" if value is None else f"{round(100 * value)}%"


def _less(value: float | None) -> str:
    return f"{_percent(-value)} more" if value is not None and value < 0 else f"{_percent(value)} less"


def _interval(gain: Estimate) -> str:
    return f"{LEVEL:.0%} interval {_percent(gain.low)} to {_percent(gain.high)}"


def best_start_finding(found: BestStart | None, what: str) -> Finding:
    name = "best_start"
    if found is None:
        text = f"When to start cannot be told: not every hour of the week ahead has a typical {what} yet."
        return Finding(text, name=name)
    gain = found.gain
    if found.pays:
        return Finding(
            f"The hours differ: on {gain.n} past days the hour chosen beforehand had {_less(gain.value)} "
            f"{what} than the average hour of its day ({_interval(gain)}).",
            name=name,
        )
    if not found.enough:
        return Finding(f"Start any time: {_too_few(gain)}.", "undecided", name)
    return Finding(
        f"Start any time: the hours do not differ beyond the noise. On {gain.n} past days the hour chosen beforehand "
        f"had {_less(gain.value)} {what} than the average hour of its day (saved: {_interval(gain)}).",
        "note" if gain.high is not None and gain.high < WORTH_IT else "undecided",
        name,
    )


def best_start_exhibit(found: BestStart, show: Callable[[Any], Any], unit: str, what: str) -> Exhibit:
    rows = table(
        "starts",
        {
            "start": ("start", "time_ns", found.starts.start_ns),
            "clock": (f"local ({found.starts.zone})", "text", found.starts.clock),
            "typical": (f"typical {what}", unit, np.asarray(show(found.typical))),
            "low": ("90% from", unit, np.asarray(show(found.low))),
            "high": ("90% to", unit, np.asarray(show(found.high))),
            "ratio": ("against all hours", "factor", np.exp(found.typical - found.typical.mean())),
        },
        f"Typical {what} of {found.hours} h from each start",
    )
    chart = Chart.of("band", rows, "x=start y=typical low high", f"Typical {what} by start, next 24 hours")
    return Exhibit("forecast.start", chart.title, (rows,), (chart,), (found.gain,))
