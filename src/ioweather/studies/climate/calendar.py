"""Hour of the day and day of the week (pat19 section 4, fig5 and fig6): mean volume, variation between days or weeks.

The volume of an hour is that of one local day; its variation is from day to day. The volume of a weekday is that of
one week; its variation is from week to week. An hour or day counts when nine tenths of it were recorded, and is then
scaled to its full length, so that the long day of the change of clocks does not stand out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.papers.claims import NO_INTERVAL
from ioweather.core.results import Chart, Estimate, Exhibit, Finding, ResultTable
from ioweather.core.units import DAY_NS, HOUR_NS, format_bytes
from ioweather.derive.system.calendar import local_clock
from ioweather.stats.climatology import chance_bound, turned_sums
from ioweather.stats.series import variation_from_sums
from ioweather.studies.climate.context import WAYS, Climate, Part
from ioweather.studies.shared.intervals import LEVEL, Intervals, directed, plain
from ioweather.studies.shared.presenting import table
from ioweather.studies.shared.rollup_steps import MIN_COVERAGE

HOURS = tuple(f"{hour:02d}" for hour in range(24))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
EVENING = tuple(range(18, 24))  # [ours] the paper says "evening hours"
SUNDAY = (6,)
# [ours] How sure it must be that the busiest of 24 hours is not only the largest of 24 equal ones.
CHOSEN_LEVEL = 0.98
# [ours] Places named as busy are named at once, of reads and writes, volume and variation: chance names one in 100.
ADVICE_LEVEL = 1 - 0.01 / 4


@dataclass(frozen=True, eq=False)
class Cycle:
    """Volumes by unit (day or week), place in the cycle (hour or weekday) and way; NaN where not recorded enough."""

    names: tuple[str, ...]
    volume: Floats  # (units, places, ways)
    unit_name: str

    def sums(self) -> Floats:
        """n, sum and sum of squares: (units, places, ways, 3)."""
        there = ~np.isnan(self.volume)
        amount = np.where(there, self.volume, 0.0)
        return np.stack([there, amount, amount**2], axis=-1).astype(np.float64)


def hours_of_day(climate: Climate) -> Part | None:
    """pat19.fig5; None where steps are longer than an hour or fewer than two days were seen."""
    if climate.system.step_ns > HOUR_NS:
        return None
    clock = local_clock(climate.system.times_ns, climate.zone)
    volume = _volumes(climate, clock.day - clock.day[0], clock.hour, 24, HOUR_NS / climate.system.step_ns)
    if len(volume) < 2:
        return None
    cycle = Cycle(HOURS, volume, "day")
    return _part(climate, cycle, "pat19.fig5", "hour", EVENING, "evening")


def days_of_week(climate: Climate) -> Part | None:
    """pat19.fig6; None before a week is full."""
    if climate.system.step_ns > DAY_NS:
        return None
    clock = local_clock(climate.system.times_ns, climate.zone)
    week = (clock.day + 3) // 7
    volume = _volumes(climate, week - week[0], clock.weekday, 7, DAY_NS / climate.system.step_ns)
    if np.isnan(volume).all(axis=0).any():
        return None
    return _part(climate, Cycle(WEEKDAYS, volume, "week"), "pat19.fig6", "day", SUNDAY, "sunday")


def _volumes(climate: Climate, unit: Ints, place: Ints, places: int, full: float) -> Floats:
    units = int(unit[-1]) + 1
    cell = unit * places + place
    usable = climate.system.usable
    count = np.bincount(cell, weights=usable, minlength=units * places).reshape(units, places)
    out = np.full((units, places, len(WAYS)), np.nan)
    for way, name in enumerate(WAYS):
        amount = np.where(usable, climate.way(name), 0.0)
        total = np.bincount(cell, weights=amount, minlength=units * places).reshape(units, places)
        with np.errstate(divide="ignore", invalid="ignore"):
            out[..., way] = np.where(count >= MIN_COVERAGE * full, total / count * full, np.nan)
    return out


def _means(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 1] / sums[..., 0])


def _mean_of(values: Floats) -> Floats:
    """Mean along the cycle of what is there; NaN where nothing is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nansum(values, axis=-1) / np.sum(~np.isnan(values), axis=-1))


def _variations(sums: Floats) -> Floats:
    varied = variation_from_sums(sums[..., 0], sums[..., 1], sums[..., 2])
    # One value does not vary, but says nothing about variation either.
    return np.where(sums[..., 0] >= 2, varied, np.nan)


def _part(climate: Climate, cycle: Cycle, exhibit: str, noun: str, chosen: tuple[int, ...], word: str) -> Part:
    seen = np.any(~np.isnan(cycle.volume), axis=(1, 2))
    on, alike = climate.intervals.on, cycle.unit_name != "week"
    intervals = Intervals(seen, DAY_NS, on=on, unit=1, unit_name=cycle.unit_name, alike=alike)
    sums = cycle.sums()
    null = turned_sums(sums)  # what all that is chosen of these sums would be without a pattern
    means, variations = intervals.estimates(sums, _means), intervals.estimates(sums, _variations)
    # The paper sees no daily pattern, "the only exception is the spike at 2 am": one hour is set aside.
    aside = 1 if noun == "hour" else 0
    others = tuple(place for place in range(len(cycle.names)) if place not in chosen)
    estimates: list[Estimate] = []
    for way, name in enumerate(WAYS):
        n = int((~np.isnan(cycle.volume[..., way])).sum())
        own = sums[:, :, way]
        estimates += [
            _spread_estimate(f"{noun}_spread_{name}", own, null[:, :, way], aside, n=n, on=intervals.on),
            intervals.estimate(
                f"{word}_variation_difference_{name}",
                "ratio",
                own,
                lambda s: _variations(s)[:, chosen].mean(axis=1) - _variations(s)[:, others].mean(axis=1),
                n=n,
            ),
        ]
    if noun == "hour":
        estimates += [*_spike(intervals, sums), _chosen_peak(sums.sum(axis=2), null.sum(axis=2), on=intervals.on)]
    long = _long_table(cycle, means, variations, noun, climate.zone_name)
    shown = {"x": noun, "series": "series"}
    charts = [
        Chart(
            "bars", long, {**shown, "y": "mean", "low": "mean_low", "high": "mean_high"}, f"Mean volume of the {noun}"
        )
    ]
    if np.isfinite(variations[0]).any():
        shown |= {"y": "variation", "low": "variation_low", "high": "variation_high"}
        charts.append(Chart("bars", long, shown, f"Variation from {cycle.unit_name} to {cycle.unit_name}"))
    advice = _advice(cycle, sums, null, noun) if intervals.on else ()
    findings = (*_findings(estimates, noun, word), *advice)
    return Part(
        Exhibit(
            exhibit, tables=(long,), charts=tuple(charts), estimates=tuple(estimates), findings=findings,
            caveats=(*climate.caveats, f"Local time of {climate.zone_name}."), coverage=climate.coverage(),
        ),
        advice,
    )  # fmt: skip


def _spread(means: Floats, aside: int) -> Floats:
    """sd / mean of the means along the cycle, the `aside` largest left out: 0 is flat."""
    kept = np.sort(means, axis=-1)[..., : means.shape[-1] - aside]
    return np.asarray(kept.std(axis=-1) / kept.mean(axis=-1))


def _spread_estimate(name: str, sums: Floats, null: Floats, aside: int, *, n: int, on: bool) -> Estimate:
    """Noise makes means differ too. What the means of days turned at random differ by is taken off for the lower bound;
    the upper one is the spread as it is."""

    def squared(summed: Floats) -> Floats:
        return _spread(_means(summed), aside) ** 2

    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(np.sqrt(squared(sums.sum(axis=0))))
    if not on or len(sums) < 2 or not np.isfinite(value):
        return plain(name, value, "ratio", n=n, method="too few for an interval" if on else NO_INTERVAL)
    chance = chance_bound(squared(null), (1 + LEVEL) / 2)
    low = float(np.sqrt(max(0.0, value**2 - chance)))
    return Estimate(name, value, "ratio", low, value, LEVEL, n, "sd / mean of the means; from: less what chance gives")


def _largest(values: Floats) -> Floats:
    """Along the cycle, of what is there; NaN where nothing is."""
    return np.asarray(np.fmax.reduce(values, axis=-1))


def _chosen_peak(both: Floats, null: Floats, *, on: bool) -> Estimate:
    """The busiest hour's mean over the largest that hours without a pattern have, by chance, in days like these."""
    value, chance = float(_largest(_means(both.sum(axis=0)))), _largest(_means(null))
    usual, low, high = (chance_bound(chance, level) for level in (0.5, (1 + CHOSEN_LEVEL) / 2, (1 - CHOSEN_LEVEL) / 2))
    name, method = "spike_over_usual_peak", "largest mean of 24 hours over that of days turned at random"
    if not high > 0 or not on:
        value = value / usual if usual > 0 else np.nan
        return plain(name, value, "factor", n=len(both), method=method if on else NO_INTERVAL)
    return Estimate(name, value / usual, "factor", value / low, value / high, CHOSEN_LEVEL, len(both), method)


def _spike(intervals: Intervals, sums: Floats) -> list[Estimate]:
    """The busiest hour, reads and writes together, and how far it stands above the mean of all."""
    both = sums.sum(axis=2)
    hour = int(np.nanargmax(_means(both.sum(axis=0))))
    n = int(both[:, hour, 0].sum())
    over = intervals.estimate(
        "spike_over_mean", "factor", both, lambda s: _means(s)[:, hour] / _mean_of(_means(s)), n=n
    )
    return [plain("spike_hour", hour, "count", n=n, method="hour with the largest mean volume"), over]


def _long_table(
    cycle: Cycle, means: tuple[Floats, Floats, Floats], variations: tuple[Floats, Floats, Floats], noun: str, zone: str
) -> ResultTable:
    def stacked(values: Floats) -> Floats:
        return np.concatenate([values[:, way] for way in range(len(WAYS))])

    count = np.sum(~np.isnan(cycle.volume), axis=0)
    return table(
        f"{noun}s",
        {
            noun: (f"{noun} ({zone})", "text", list(cycle.names) * len(WAYS)),
            "series": ("", "text", [way for way in WAYS for _ in cycle.names]),
            "mean": ("mean volume", "bytes", stacked(means[0])),
            "mean_low": ("90% from", "bytes", stacked(means[1])),
            "mean_high": ("90% to", "bytes", stacked(means[2])),
            "variation": ("variation", "ratio", stacked(variations[0])),
            "variation_low": ("90% from", "ratio", stacked(variations[1])),
            "variation_high": ("90% to", "ratio", stacked(variations[2])),
            "n": ("n", "count", stacked(count).astype(np.int64)),
        },
        f"By {noun}, mean and variation between {cycle.unit_name}s",
    )


def _findings(estimates: Sequence[Estimate], noun: str, word: str) -> list[Finding]:
    by_name = {estimate.name: estimate for estimate in estimates}
    when = "in the evening" if word == "evening" else "on Sundays"
    out = []
    if noun == "hour":
        over, hour = by_name["spike_over_mean"], int(by_name["spike_hour"].value or 0)
        out.append(
            Finding(
                f"The busiest hour begins at {hour}:00, with {over.value or 0.0:.2f} times the mean volume.",
                name="busiest_hour",
            )
        )
    more = by_name[f"{word}_variation_difference_read"]
    if more.value is None:
        text = f"Whether volume varies more {when} takes two {'days' if noun == 'hour' else 'weeks'} to tell."
        return [*out, Finding(text, "undecided", name="calendar")]
    points = 100 * more.value
    out.append(
        directed(
            more,
            0.0,
            f"Read volume varies more {when}, by {points:.0f} percentage points.",
            f"Read volume varies less {when}, by {-points:.0f} percentage points.",
        )
    )
    return out


def _advice(cycle: Cycle, sums: Floats, null: Floats, noun: str) -> tuple[Finding, ...]:
    """Hours or days whose volume or variation lies above what the largest of all has without a pattern."""
    out = []
    for way, name in enumerate(WAYS):
        for statistic, what in ((_means, "volume"), (_variations, "variation")):
            own = sums[:, :, way]
            value = statistic(own.sum(axis=0))
            typical = float(_mean_of(value))
            if len(own) < 2 or not np.isfinite(typical):
                continue
            chance = chance_bound(_largest(statistic(null[:, :, way])), ADVICE_LEVEL)
            places = np.flatnonzero(value > chance).tolist()
            if not places or len(places) > len(cycle.names) // 2:
                continue
            shown = ", ".join(f"{cycle.names[i]} ({_shown(float(value[i]), what)})" for i in places)
            usual = _shown(typical, what)
            reason = "carry more" if what == "volume" else "vary more in"
            out.append(
                Finding(
                    f"Avoid for runs that must not be disturbed: {noun}s {shown} {reason} {name} volume than usual "
                    f"({usual}).",
                    name="hours_to_avoid",
                )
            )
    return tuple(out)


def _shown(value: float, what: str) -> str:
    return format_bytes(value) if what == "volume" else f"{value:.0%}"
