"""Hour of the day and day of the week (pat19 section 4, fig5 and fig6): mean volume, variation between days or weeks.

The volume of an hour is that of one local day; its variation is from day to day. The volume of a weekday is that of
one week; its variation is from week to week. An hour or day counts when nine tenths of it were recorded, and is then
scaled to its full length, so that the long day of the change of clocks does not stand out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.results import NO_INTERVAL, Chart, Estimate, Exhibit, Finding, Piece, exhibit
from ioweather.core.units import DAY_NS, HOUR_NS, format_bytes
from ioweather.stats.climatology import chance_bound, cycle_spread, means_of, rotated_sums
from ioweather.stats.estimates import Intervals, directed, plain
from ioweather.stats.grid import MIN_COVERAGE, local_clock
from ioweather.stats.series import variation_from_sums
from ioweather.stats.summary_tables import table
from ioweather.studies.pat19.matrices import WAYS, Climate

HOURS = tuple(f"{hour:02d}" for hour in range(24))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
EVENING = tuple(range(18, 24))  # [ours] the paper says "evening hours"
SUNDAY = (6,)
# [ours] How sure it must be that the busiest of 24 hours is not only the largest of 24 equal ones.
CHOSEN_LEVEL = 0.98
# [ours] Places named as busy are named at once, of reads and writes, volume and variation: chance names one in 100.
ADVICE_LEVEL = 1 - 0.01 / 4


def hours_of_day(climate: Climate) -> Exhibit | None:
    """pat19.fig5; None where steps are longer than an hour or fewer than two days were seen."""
    if climate.system.step_ns > HOUR_NS:
        return None
    clock = local_clock(climate.system.times_ns, climate.zone)
    volume = _volumes(climate, clock.day - clock.day[0], clock.hour, 24, HOUR_NS / climate.system.step_ns)
    if len(volume) < 2:
        return None
    return exhibit("pat19.fig5")(_cycle)(climate, volume, HOURS, "hour", "day", EVENING, "evening")


def days_of_week(climate: Climate) -> Exhibit | None:
    """pat19.fig6; None before a week is full."""
    if climate.system.step_ns > DAY_NS:
        return None
    clock = local_clock(climate.system.times_ns, climate.zone)
    week = (clock.day + 3) // 7
    volume = _volumes(climate, week - week[0], clock.weekday, 7, DAY_NS / climate.system.step_ns)
    if np.isnan(volume).all(axis=0).any():
        return None
    return exhibit("pat19.fig6")(_cycle)(climate, volume, WEEKDAYS, "day", "week", SUNDAY, "sunday")


def _volumes(climate: Climate, unit: Ints, place: Ints, places: int, full: float) -> Floats:
    """Volumes by unit (day or week), place in the cycle (hour or weekday) and way; NaN where not recorded enough."""
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


def _mean_of(values: Floats) -> Floats:
    """Return the mean along the cycle without missing values; NaN without any value."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nansum(values, axis=-1) / np.sum(~np.isnan(values), axis=-1))


def _variations(sums: Floats) -> Floats:
    varied = variation_from_sums(sums[..., 0], sums[..., 1], sums[..., 2])
    # One value does not give a variation.
    return np.where(sums[..., 0] >= 2, varied, np.nan)


def _largest(values: Floats) -> Floats:
    """Return the maximum along the cycle without missing values; NaN without any value."""
    return np.asarray(np.fmax.reduce(values, axis=-1))


def _cycle(
    climate: Climate,
    volume: Floats,
    names: tuple[str, ...],
    noun: str,
    unit_name: str,
    chosen: tuple[int, ...],
    word: str,
) -> Iterator[Piece]:
    """Mean volume and variation of each place in a cycle; `chosen` are the places that the paper speaks of."""
    there = ~np.isnan(volume)
    on, autocorrelated = climate.intervals.on, unit_name != "week"
    seen = np.any(there, axis=(1, 2))
    intervals = Intervals(seen, DAY_NS, on=on, unit=1, unit_name=unit_name, autocorrelated=autocorrelated)
    amount = np.where(there, volume, 0.0)
    # n, sum and sum of squares: (units, places, ways, 3).
    sums = np.stack([there, amount, amount**2], axis=-1).astype(np.float64)
    null = rotated_sums(sums)  # the same without a pattern
    means, variations = (intervals.estimates(sums, of, scale="log") for of in (means_of, _variations))
    # The paper sees no daily pattern, "the only exception is the spike at 2 am": one hour is set aside.
    aside = 1 if noun == "hour" else 0
    others = tuple(place for place in range(len(names)) if place not in chosen)
    differences = []
    for way, name in enumerate(WAYS):
        n, own = int(there[..., way].sum()), sums[:, :, way]
        yield cycle_spread(f"{noun}_spread_{name}", own, null[:, :, way], aside, n=n, on=on)
        difference = intervals.estimate(
            f"{word}_variation_difference_{name}",
            "ratio",
            own,
            lambda s: _variations(s)[:, chosen].mean(axis=1) - _variations(s)[:, others].mean(axis=1),
            n=n,
        )
        differences.append(difference)
        yield difference
    if noun == "hour":
        yield _busiest_hour(intervals, sums.sum(axis=2), null.sum(axis=2))

    def stacked(values: Floats) -> Floats:
        return np.concatenate([values[:, way] for way in range(len(WAYS))])

    long = table(
        f"{noun}s",
        {
            noun: (f"{noun} ({climate.zone_name})", "text", list(names) * len(WAYS)),
            "series": ("", "text", [way for way in WAYS for _ in names]),
            "mean": ("mean volume", "bytes", stacked(means[0])),
            "mean_low": ("90% from", "bytes", stacked(means[1])),
            "mean_high": ("90% to", "bytes", stacked(means[2])),
            "variation": ("variation", "ratio", stacked(variations[0])),
            "variation_low": ("90% from", "ratio", stacked(variations[1])),
            "variation_high": ("90% to", "ratio", stacked(variations[2])),
            "n": ("n", "count", stacked(there.sum(axis=0)).astype(np.int64)),
        },
        f"By {noun}, mean and variation between {unit_name}s",
    )
    encoding = "x={} series y={} low={}_low high={}_high"
    yield long, Chart.of("bars", long, encoding.format(noun, *["mean"] * 3), f"Mean volume of the {noun}")
    if np.isfinite(variations[0]).any():
        title = f"Variation from {unit_name} to {unit_name}"
        yield Chart.of("bars", long, encoding.format(noun, *["variation"] * 3), title)
    when, read = "in the evening" if word == "evening" else "on Sundays", differences[0]
    if read.value is None:
        text = f"Whether volume varies more {when} takes two {unit_name}s to tell."
        yield Finding(text, "undecided", name="calendar")
    else:
        points = 100 * read.value
        yield directed(
            read,
            0.0,
            f"Read volume varies more {when}, by {points:.0f} percentage points.",
            f"Read volume varies less {when}, by {-points:.0f} percentage points.",
        )
    if on:
        advice = list(_places_to_avoid(names, sums, null, noun))
        climate.advice.extend(advice)
        yield advice
    yield climate.caveats, f"Local time of {climate.zone_name}.", climate.coverage()


def _busiest_hour(intervals: Intervals, both: Floats, null: Floats) -> Iterator[Piece]:
    """Yield the busiest hour, by reads plus writes, relative to the mean and to the largest mean by chance.

    Days rotated at random give the distribution of the largest mean without a daily pattern.
    """
    means = means_of(both.sum(axis=0))
    hour = int(np.nanargmax(means))
    n = int(both[:, hour, 0].sum())
    yield plain("spike_hour", hour, "count", n=n, method="hour with the largest mean volume")
    over = intervals.estimate(
        "spike_over_mean", "factor", both, lambda s: means_of(s)[:, hour] / _mean_of(means_of(s)), n=n
    )
    yield over
    text = f"The busiest hour begins at {hour}:00, with {over.value or 0.0:.2f} times the mean volume."
    yield Finding(text, name="busiest_hour")
    value, chance = float(_largest(means)), _largest(means_of(null))
    usual, low, high = (chance_bound(chance, level) for level in (0.5, (1 + CHOSEN_LEVEL) / 2, (1 - CHOSEN_LEVEL) / 2))
    name, method = "spike_over_usual_peak", "largest mean of 24 hours over that of days turned at random"
    if high > 0 and intervals.on:
        yield Estimate(name, value / usual, "factor", value / low, value / high, CHOSEN_LEVEL, len(both), method)
    else:
        value = value / usual if usual > 0 else np.nan
        yield plain(name, value, "factor", n=len(both), method=method if intervals.on else NO_INTERVAL)


def _places_to_avoid(names: tuple[str, ...], sums: Floats, null: Floats, noun: str) -> Iterator[Finding]:
    """Yield hours or days whose volume or variation exceeds the largest by chance without a pattern."""
    for way, name in enumerate(WAYS):
        for statistic, reason, shown in (
            (means_of, "carry more", format_bytes),
            (_variations, "vary more in", "{:.0%}".format),
        ):
            own = sums[:, :, way]
            value = statistic(own.sum(axis=0))
            typical = float(_mean_of(value))
            if len(own) < 2 or not np.isfinite(typical):
                continue
            chance = chance_bound(_largest(statistic(null[:, :, way])), ADVICE_LEVEL)
            places = np.flatnonzero(value > chance).tolist()
            if places and len(places) <= len(names) // 2:
                listed = ", ".join(f"{names[i]} ({shown(float(value[i]))})" for i in places)
                yield Finding(
                    f"Avoid for runs that must not be disturbed: {noun}s {listed} {reason} {name} volume than usual "
                    f"({shown(typical)}).",
                    name="hours_to_avoid",
                )
