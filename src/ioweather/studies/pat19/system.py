"""The whole system over time (pat19 sections 3 to 5): volume, rate, phases and memory (fig3, 4, 7, 8 and 9), hour of
the day and day of the week (fig5, fig6).

The volume of an hour is that of one local day; its variation is from day to day. The volume of a weekday is that of
one week; its variation is from week to week. An hour or day counts when nine tenths of it were recorded, and is then
scaled to its full length, so that the long day of the change of clocks does not stand out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ioweather.core.choices import TRAFFIC
from ioweather.core.frames import Floats, Ints
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import DAY_NS, HOUR_NS, format_bytes, format_seconds
from ioweather.facts.system_grid import MIN_COVERAGE, Steps, local_clock
from ioweather.stats.estimates import Intervals, Scale, Statistic, directed, number, plain
from ioweather.stats.series import (
    Side,
    at_percentile,
    chance_bound,
    correlation,
    cycle_spread,
    find_phases,
    lagged_sums,
    mean_interarrival,
    mean_length,
    means_of,
    phase_sums,
    rotated_sums,
    thresholds,
    variation_from_sums,
    window_sums,
)
from ioweather.stats.summary_tables import cdf_table, cumulative_table, table
from ioweather.studies.pat19.matrices import HIGH_CORRELATION, LAGS, WAYS, WINDOWS, Climate, span

_SHORT_SECONDS = 300  # pat19 section 7: "over 80% of high I/O phases last 5 minutes or less"
# Upper edges of the bins of phase lengths, in steps.
_EDGES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 240, 480, 1440, 10080)
HOURS = tuple(f"{hour:02d}" for hour in range(24))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
EVENING = tuple(range(18, 24))  # [ours] the paper says "evening hours"
SUNDAY = (6,)
# [ours] How sure it must be that the busiest of 24 hours is not only the largest of 24 equal ones.
CHOSEN_LEVEL = 0.98
# [ours] Places named as busy are named at once, of reads and writes, volume and variation: chance names one in 100.
ADVICE_LEVEL = 1 - 0.01 / 4


@exhibit("pat19.fig3")
def cumulative_volume(climate: Climate) -> Iterator[Piece]:
    """Cumulative volume, and the ratio of reads to writes."""
    intervals, burst_buffer = climate.intervals, climate.burst_buffer
    sums = intervals.sums(climate.way("read"), climate.way("write"))
    totals = [float(np.nansum(climate.way(way))) for way in WAYS]
    ratio = intervals.estimate("read_over_written", "factor", sums, lambda s: s[:, 0] / s[:, 1], n=climate.n)
    yield [plain(f"total_{way}", total, "bytes", n=climate.n) for way, total in zip(WAYS, totals, strict=True)]
    rows = _running_totals(climate.system, "")
    if burst_buffer is not None:
        rows += _running_totals(burst_buffer, "burst buffer ")
    line = ResultTable.of("cumulative", "time [time_ns]; series [text]; value: since the start [bytes]", rows)
    yield Chart.of("timeline", line, "x=time y=value series", "Volume since the start"), ratio
    if burst_buffer is not None:
        own = [float(np.nansum(burst_buffer.values[metric])) for metric in TRAFFIC]
        n = int(burst_buffer.usable.sum())
        yield [plain(f"burst_buffer_{way}", total, "bytes", n=n) for way, total in zip(WAYS, own, strict=True)]
        read, written = (a + b for a, b in zip(totals, own, strict=True))
        share = sum(own) / (read + written)
        if written > 0:
            name = "read_over_written_with_burst_buffer"
            yield plain(name, read / written, "factor", n=n, method="ratio of totals")
        yield plain("burst_buffer_ratio", share, "ratio", n=n, method="share of all data")
    yield climate.caveats, climate.coverage()


def _running_totals(steps: Steps, prefix: str) -> tuple[tuple[Cell, ...], ...]:
    """Rows of cumulated reads and writes, their series named with the prefix."""
    series = {
        f"{prefix}{way}": np.where(steps.usable, steps.values[metric], np.nan)
        for way, metric in zip(WAYS, TRAFFIC, strict=True)
    }
    return cumulative_table("cumulative", steps.times_ns, series, "since the start", "bytes").rows


@exhibit("pat19.fig4")
def rate_distribution(climate: Climate) -> Iterator[Piece]:
    """Distribution of rates, their mean and variation."""
    n, there = climate.n, climate.system.usable
    rates = {way: climate.way(way) / climate.system.step_seconds for way in WAYS}
    references = []

    def variation(sums: Floats) -> Floats:
        return variation_from_sums(sums[:, 0], sums[:, 1], sums[:, 2])

    for way, word in zip(WAYS, ("read", "written"), strict=True):
        rate = rates[way]
        known = ~np.isnan(rate)
        sums = climate.intervals.sums(known, rate, rate**2, known & (rate < float(np.nanmean(rate))))
        mean = climate.intervals.estimate(f"mean_rate_{way}", "bytes_per_s", sums, lambda s: s[:, 1] / s[:, 0], n=n)
        yield mean, climate.intervals.estimate(f"variation_{way}", "ratio", sums, variation, n=n, scale="variation")
        yield climate.intervals.estimate(
            f"below_mean_ratio_{way}", "ratio", sums, lambda s: s[:, 3] / s[:, 0], n=n, scale="logit"
        )
        usual = mean.value or 0.0
        references.append(Reference("x", usual, f"mean {way}"))
        text = f"On average, {format_bytes(usual * 60)} are {word} per minute ({format_bytes(usual)}/s)."
        yield Finding(text, name="mean_rate")
    read, write = (np.where(there, rates[way], 0.0) for way in WAYS)
    yield climate.intervals.estimate(
        "variation_write_minus_read",
        "ratio",
        climate.intervals.sums(there, read, read**2, write, write**2),
        lambda s: variation_from_sums(s[:, 0], s[:, 3], s[:, 4]) - variation(s),
        n=n,
    )
    yield Chart.of(
        "cdf",
        cdf_table("rates", rates, "rate", "bytes_per_s"),
        "x=value y=share series",
        f"Rates per interval of {climate.span(1)}",
        references=tuple(references),
    )
    yield climate.caveats, climate.coverage()


def phases(climate: Climate, side: Side) -> Exhibit:
    """Length and frequency of high phases (pat19.fig7), or of low ones (pat19.fig8)."""
    return exhibit("pat19.fig7" if side == "high" else "pat19.fig8")(_phases)(climate, side)


def _phases(climate: Climate, side: Side) -> Iterator[Piece]:
    """How long phases last and how often they begin, for reads and writes."""
    seconds, intervals = climate.system.step_seconds, climate.intervals
    states: list[tuple[Side, str]] = [("high", "read"), ("high", "write"), ("low", "read"), ("low", "write")]
    cuts = {way: dict(zip(("low", "high"), thresholds(climate.way(way)), strict=True)) for way in WAYS}
    found = {(kind, way): find_phases(climate.way(way), cuts[way][kind], kind) for kind, way in states}
    # (units, states, thresholds, 7): every statistic chooses its threshold in the units drawn.
    short = _SHORT_SECONDS / seconds
    every = np.stack([phase_sums(climate.way(way), kind, intervals.unit, short) for kind, way in states], axis=1)
    whole = every.sum(axis=0)

    def estimate(name: str, unit: str, statistic: Statistic, n: int, scale: Scale = "") -> Estimate:
        return intervals.estimate(name, unit, every, lambda s: statistic(at_percentile(s, whole)), n=n, scale=scale)

    def of(mean: Statistic, at: int) -> Statistic:
        return lambda s: seconds * mean(s[:, at])

    def over(mean: Statistic, first: int, second: int) -> Statistic:
        return lambda s: mean(s[:, first]) / mean(s[:, second])

    means: dict[str, tuple[Estimate, Estimate]] = {}
    place = {state: i for i, state in enumerate(states)}
    for way in WAYS:
        phases, at = found[side, way], place[side, way]
        n, median = phases.count, seconds * float(np.median(phases.length)) if phases.count else None
        means[way] = (
            estimate(f"mean_length_{way}", "seconds", of(mean_length, at), n),
            estimate(f"mean_interarrival_{way}", "seconds", of(mean_interarrival, at), n),
        )
        method = "percentile of all steps"
        yield plain(f"threshold_{way}", cuts[way][side] / seconds, "bytes_per_s", n=climate.n, method=method)
        yield means[way][0], plain(f"median_length[{way}]", median, "seconds", n=n, method="median"), means[way][1]
    against = [("over_write", (side, "read"), (side, "write"))]
    if side == "low":
        against += [(f"over_high_{way}", ("low", way), ("high", way)) for way in WAYS]
    for name, first, second in against:
        for word, mean in (("length", mean_length), ("interarrival", mean_interarrival)):
            ratio = over(mean, place[first], place[second])
            yield estimate(f"{word}_{name}", "factor", ratio, found[first].count)
    chosen = {way: found[side, way] for way in WAYS}
    own = [place[side, way] for way in WAYS]
    n = sum(phases.count for phases in chosen.values())
    yield estimate("short_ratio", "ratio", lambda s: s[:, own, 6].sum(axis=1) / s[:, own, 5].sum(axis=1), n, "logit")
    for name, label, title in (
        ("length", "length of the phase", "Length of a phase"),
        ("interarrival", "time from start to start", "Time between the starts of consecutive phases"),
    ):
        rows: list[tuple[Cell, ...]] = []
        for way, phases in chosen.items():
            values = phases.length if name == "length" else phases.interarrival
            edges = np.array((0, *_EDGES, max(_EDGES[-1] + 1, int(values.max(initial=0)))))
            # Bins are (from, to]: whole steps, so that the first has exactly the phases of one step.
            counts = np.histogram(values, edges + 0.5)[0] / max(1, len(values))
            for i in range(int(np.flatnonzero(counts).max(initial=0)) + 1):
                begin = float(edges[i] * seconds) or 0.5 * seconds
                rows.append((way, begin, float(edges[i + 1] * seconds), float(counts[i])))
        columns = f"series [text]; from: {label} [seconds]; to: up to [seconds]; share: share of phases [ratio]"
        binned = ResultTable.of(name, columns, rows)
        yield Chart.of("histogram", binned, "low=from high=to y=share series", title, log="x")
    if all(phases.count for phases in chosen.values()):
        for way, (length, between) in means.items():
            yield Finding(
                f"{side.capitalize()} {way} phases last {format_seconds(length.value or 0.0)} on average and start "
                f"every {format_seconds(between.value or 0.0)}.",
                name="phase_lengths",
            )
    else:
        text = f"There is no {side} phase, because at least a quarter of all steps have the same amount."
        yield Finding(text, "undecided", name="no_phases")
    percentile = "at or above the 75th" if side == "high" else "below the 25th"
    read_cut, write_cut = (int(phases.cut.sum()) for phases in chosen.values())
    yield climate.caveats
    yield f"{side.capitalize()} means {percentile} percentile of all steps, recomputed for each resample."
    yield f"Gaps interrupt phases: {read_cut} read and {write_cut} write phases touch a gap or an end of the period."
    yield climate.coverage()


@exhibit("pat19.fig9")
def system_correlations(climate: Climate) -> Iterator[Piece]:
    """Lagged correlation of the system's reads and writes."""
    series = {way: climate.way(way) for way in WAYS}
    chart, estimates = correlate(series, climate.system.step_ns, climate.intervals)
    yield chart, list(estimates.values()), autocorrelation_findings(estimates, WAYS, climate.span(WINDOWS[-1]))
    # The shortest window that surely predicts the next one, for each direction.
    for way in WAYS:
        lows = {climate.span(window): estimates[f"auto_{way}[{climate.span(window)}]"].low for window in WINDOWS}
        enough = next((word for word, low in lows.items() if low is not None and low > HIGH_CORRELATION), None)
        if enough:
            advice = Finding(f"To predict the system's {way}s, look at the last {enough}.", name="history_needed")
        else:
            text = f"No window up to {climate.span(WINDOWS[-1])} reliably predicts the system's {way}s."
            advice = Finding(text, "undecided", name="history_needed")
        climate.advice.append(advice)
    yield climate.caveats, climate.coverage()


def correlate(series: Mapping[str, Floats], step_ns: int, intervals: Intervals) -> tuple[Chart, dict[str, Estimate]]:
    """Correlate two amounts per step at lags: each with itself ('auto'), the first with the second ('cross').

    Returns a chart, and the estimates by name.
    """
    (first, x), (second, y) = series.items()
    rows: list[tuple[Cell, ...]] = []
    estimates: list[Estimate] = []
    for window in WINDOWS:
        word = span(window, step_ns)
        unit = max(1, round(intervals.unit / window))
        for pair, (a, b) in {first: (x, x), second: (y, y), "cross": (x, y)}.items():
            left, right = window_sums(a, window), window_sums(b, window)
            there = ~np.isnan(left + right)
            own = Intervals(there, step_ns * window, unit=unit, unit_name=intervals.unit_name)
            sums = lagged_sums(left, right, LAGS, unit) if len(left) else np.zeros((1, LAGS + 1, 6))
            n = int(sums[:, 0, 0].sum())
            value, low, high = own.estimates(sums, correlation, scale="fisher")
            if pair == "cross":
                label = f"{first} then {second}"
                strongest = own.estimate(
                    f"cross[{word}]", "", sums, lambda s: np.abs(correlation(s)).max(axis=1), n=n, bounds=(0.0, 1.0)
                )
                together = own.estimate(
                    f"cross_lag0[{word}]", "", sums, lambda s: correlation(s)[:, 0], n=n, scale="fisher"
                )
                estimates += [strongest, together]
            else:
                label = f"{pair} with itself"
                auto = own.estimate(
                    f"auto_{pair}[{word}]", "", sums, lambda s: correlation(s)[:, 1], n=n, scale="fisher"
                )
                estimates.append(auto)
            rows += [(label, word, lag, *(number(v[lag]) for v in (value, low, high))) for lag in range(LAGS + 1)]
    columns = "pair [text]; window [text]; lag: lag in windows; value: correlation; low: 90% from; high: 90% to"
    title, encoding = "Correlation with later windows", "x=lag y=value low high series=window"
    chart = Chart.of("band", ResultTable.of("correlations", columns, rows), encoding, title, facet="pair")
    return chart, {estimate.name: estimate for estimate in estimates}


def autocorrelation_findings(
    estimates: Mapping[str, Estimate], names: tuple[str, ...], window: str
) -> Iterator[Finding]:
    """Yield whether a window predicts the next one, for the widest window; the paper's own text covers the others."""
    for name in names:
        auto = estimates[f"auto_{name}[{window}]"]
        shown = f"the next one (r = {auto.value or 0.0:.2f})."
        more, less = (f"The {name}s of a {window} window predict {how}{shown}" for how in ("", "little of "))
        yield directed(auto, HIGH_CORRELATION, more, less)


def hours_of_day(climate: Climate) -> Exhibit | None:
    """Make pat19.fig5; None where steps are longer than an hour or fewer than two days were seen."""
    if climate.system.step_ns > HOUR_NS:
        return None
    day, hour, _ = local_clock(climate.system.times_ns, climate.zone)
    volume = _volumes(climate, day - day[0], hour, 24, HOUR_NS / climate.system.step_ns)
    if len(volume) < 2:
        return None
    return exhibit("pat19.fig5")(_cycle_pieces)(climate, volume, HOURS, "hour", "day", EVENING, "evening")


def days_of_week(climate: Climate) -> Exhibit | None:
    """Make pat19.fig6; None before a week is complete."""
    if climate.system.step_ns > DAY_NS:
        return None
    day, _, weekday = local_clock(climate.system.times_ns, climate.zone)
    week = (day + 3) // 7
    volume = _volumes(climate, week - week[0], weekday, 7, DAY_NS / climate.system.step_ns)
    if np.isnan(volume).all(axis=0).any():
        return None
    return exhibit("pat19.fig6")(_cycle_pieces)(climate, volume, WEEKDAYS, "day", "week", SUNDAY, "sunday")


def _volumes(climate: Climate, unit: Ints, place: Ints, places: int, full: float) -> Floats:
    """Return volumes by unit (day or week), place in the cycle (hour or weekday) and way, scaled to the full length.

    NaN where less than MIN_COVERAGE was recorded.
    """
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
    """Coefficient of variation from n, sum and sum of squares; NaN for fewer than two values."""
    varied = variation_from_sums(sums[..., 0], sums[..., 1], sums[..., 2])
    # One value does not give a variation.
    return np.where(sums[..., 0] >= 2, varied, np.nan)


def _largest(values: Floats) -> Floats:
    """Return the maximum along the cycle without missing values; NaN without any value."""
    return np.asarray(np.fmax.reduce(values, axis=-1))


def _cycle_pieces(
    climate: Climate,
    volume: Floats,
    names: tuple[str, ...],
    noun: str,
    unit_name: str,
    chosen: tuple[int, ...],
    word: str,
) -> Iterator[Piece]:
    """Yield the mean volume and its variation at each place in a cycle: hours of the day, or days of the week.

    `volume`: bytes by unit, place and way; `names` of the places; `noun`: what a place is; `unit_name`: what a unit is;
    `chosen`: the places that vary more according to the paper, and `word`, their name in quantities.
    """
    there = ~np.isnan(volume)
    seen, autocorrelated = np.any(there, axis=(1, 2)), unit_name != "week"
    intervals = Intervals(seen, DAY_NS, unit=1, unit_name=unit_name, autocorrelated=autocorrelated)
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
        yield cycle_spread(f"{noun}_spread_{name}", own, null[:, :, way], aside, n=n)
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

    columns = (
        f"{noun}: {noun} ({climate.zone_name}) [text]; series [text]; mean: mean volume [bytes]; "
        "mean_low: 90% from [bytes]; mean_high: 90% to [bytes]; variation: variation [ratio]; "
        "variation_low: 90% from [ratio]; variation_high: 90% to [ratio]; n: n [count]"
    )
    ways = [way for way in WAYS for _ in names]
    numbers = [*map(stacked, (*means, *variations)), stacked(there.sum(axis=0)).astype(np.int64)]
    title = f"Mean by {noun}, and variation between {unit_name}s"
    long = table(f"{noun}s", columns, list(names) * len(WAYS), ways, *numbers, title=title)
    encoding = "x={} series y={} low={}_low high={}_high"
    yield long, Chart.of("bars", long, encoding.format(noun, *["mean"] * 3), f"Mean volume of the {noun}")
    if np.isfinite(variations[0]).any():
        title = f"Variation from {unit_name} to {unit_name}"
        yield Chart.of("bars", long, encoding.format(noun, *["variation"] * 3), title)
    when, read = "in the evening" if word == "evening" else "on Sundays", differences[0]
    if read.value is None:
        text = f"Needs two {unit_name}s to show whether volume varies more {when}."
        yield Finding(text, "undecided", name="calendar")
    else:
        points = 100 * read.value
        yield directed(
            read,
            0.0,
            f"Read volume varies more {when}, by {points:.0f} percentage points.",
            f"Read volume varies less {when}, by {-points:.0f} percentage points.",
        )
    advice = list(_places_to_avoid(names, sums, null, noun))
    climate.advice.extend(advice)
    yield advice
    yield climate.caveats, f"Times are local times in {climate.zone_name}.", climate.coverage()


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
    text = f"The busiest hour starts at {hour}:00, with {over.value or 0.0:.2f} times the mean volume."
    yield Finding(text, name="busiest_hour")
    value, chance = float(_largest(means)), _largest(means_of(null))
    usual, low, high = (chance_bound(chance, level) for level in (0.5, (1 + CHOSEN_LEVEL) / 2, (1 - CHOSEN_LEVEL) / 2))
    name, method = "spike_over_usual_peak", "largest mean of 24 hours, compared with randomly rotated days"
    if high > 0:
        yield Estimate(name, value / usual, "factor", value / low, value / high, CHOSEN_LEVEL, len(both), method)
    else:
        value = value / usual if usual > 0 else np.nan
        yield plain(name, value, "factor", n=len(both), method=method)


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
                    f"For runs that must not be disturbed, avoid {noun}s {listed}: they {reason} {name} volume than "
                    f"usual ({shown(typical)}).",
                    name="hours_to_avoid",
                )
