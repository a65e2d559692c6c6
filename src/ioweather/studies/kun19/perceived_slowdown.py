"""Slowdown as users perceive it (kun19 4.6, 4.7): interval statistics, slowdown, episodes, weekly pattern."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from ioweather.core.contracts import Param, Params, Study
from ioweather.core.facility import Facility
from ioweather.core.frames import Floats
from ioweather.core.results import (
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    Reference,
    ResultTable,
    exhibit,
    quantity_label,
)
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS, format_seconds, format_time_ns, names_of
from ioweather.facts.slowdown import (
    COUNTINGS,
    LEAST_BASELINE,
    QUANTILES,
    RELATIVE_ERROR,
    ROLLUP_COLUMNS,
    STATISTICS,
    OperationSeries,
    all_episodes,
    operation_series,
    usual_requests,
)
from ioweather.facts.system_grid import facility_zone, local_clock
from ioweather.stats.estimates import (
    LEVEL,
    Intervals,
    grouped_share,
    median_estimate,
    plain,
    quantiles,
)
from ioweather.stats.series import cycle_spread, rotated_sums, variation_from_sums
from ioweather.stats.summary_tables import cells, relabelled, thin
from ioweather.topics.source import DataSource

_WEEKDAYS: Final = names_of("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
_KIND: Final = "filesystem: file system [text]; op: operation [text]"
_NORMAL_90: Final = 1.6449  # half width of the central 90% of a normal distribution, in sd
_POINTS: Final = 1800
LEAST_OF_INTERVAL: Final = 8  # operations; of fewer the order statistics are the extremes
_LEAST_INTERVALS: Final = 6
_LEAST_WEEKS: Final = 3
_DRAWS: Final = 200
_SEED: Final = 20191118
_LONG: Final = 2.0  # [ours] seconds; the paper says "a few"
_METADATA: Final = frozenset({"create", "delete", "file_read", "stat"})
_LONG_NS: Final = 4 * HOUR_NS  # the intervals of kun19
_SHORT_NS: Final = 10 * MINUTE_NS
ROLLED_UP: Final = f"Quantiles come from roll-ups and are accurate to {RELATIVE_ERROR:.0%}. Means and maxima are exact."
COUNTED: Final = (
    "`raw` counts completed operations. `omission_corrected` is shown if it differs: it also counts each tick "
    "missed during a hang as an operation that waited until the hang ended."
)


@dataclass(frozen=True, eq=False)
class Probed:
    """Series of the usual requests, and what their slowdown is measured by."""

    series: list[OperationSeries]
    baseline_ns: int | None
    caveats: tuple[str, ...]
    coverage: Coverage


def run(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make the exhibits of intervals of four hours."""
    probed = _fetch_probed(source, HOUR_NS, _LONG_NS)
    if probed is not None:
        yield _interval_statistics(probed)
        yield _time_lines(probed)
        yield _episodes(probed, source.facility, float(params["threshold"]))


def run_two_lengths(source: DataSource, _: Params) -> Iterator[Exhibit]:
    """Make fig6, of intervals of four hours and of ten minutes."""
    probed = _fetch_probed(source, _SHORT_NS, _SHORT_NS)
    if probed is not None:
        yield _slowdowns(probed, [series.by(_LONG_NS) for series in probed.series], probed.series)


def _fetch_probed(source: DataSource, rolled_up_ns: int, length_ns: int) -> Probed | None:
    """Return the usual requests in intervals of a length, from roll-ups of another; None without any."""
    facility = source.facility
    rows = source.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": rolled_up_ns})
    names = {system: facility.filesystem_of(system) for system in rows.text("system").categories}
    every = operation_series(rows, names, length_ns)
    usual = usual_requests([series for series in every if series.count.sum()])
    if not usual:
        return None
    caveats = [expected_note(facility), ROLLED_UP]
    missed = sum(int(series.reduced["missed_count"].sum()) for series in usual)
    if missed:
        hung = f"{missed:,} ticks were missed while an operation hung"
        caveats.append(f"{hung}. Statistics of completed operations understate this.")
    used, ended = (sum(int(s.count.sum()) for s in series) for series in (usual, every))
    excluded = {
        "of_another_size_or_mode": ended - used,
        "answered_by_the_cache": sum(int(s.reduced["cached_count"].sum()) for s in every),
        "failed": sum(int(s.reduced["error_count"].sum()) for s in every),
        "missed_ticks": sum(int(s.reduced["missed_count"].sum()) for s in every),
    }
    left_out = {reason: n for reason, n in excluded.items() if n}
    coverage = Coverage(used + sum(excluded.values()), used, "operations", left_out)
    return Probed(usual, facility.baseline_ns, tuple(caveats), coverage)


def expected_note(facility: Facility) -> str:
    """Return the sentence that says what is expected."""
    return (
        f"Slowdown is relative to the median of all operations of the same kind on the same file system over "
        f"{facility.baseline_text} (at least {LEAST_BASELINE} operations). Values below 1 are faster than usual."
    )


def _countings(series: OperationSeries) -> tuple[str, ...]:
    """Return both countings where they differ, as after a hang."""
    hidden = any(
        not np.array_equal(series.omission_corrected[name], series.statistics[name], equal_nan=True)
        for name in STATISTICS
    )
    return COUNTINGS if hidden else ("raw",)


@exhibit("kun19.fig4")
def _interval_statistics(probed: Probed) -> Iterator[Piece]:
    """Boxes of interval statistics by operation, also with omitted requests if there was a hang."""
    rows: list[tuple[Cell, ...]] = []
    length = probed.series[0].interval_ns / NS
    for series in probed.series:
        for name, counting in product(STATISTICS, _countings(series)):
            numbers = quantiles(series.counted(counting)[name])
            rows.append((series.filesystem, series.op, name, counting, *numbers, series.label))
        medians = series.statistics["median"][series.count > 0]
        yield median_estimate(f"{series.op}_median[{series.filesystem}]", medians, "seconds", in_time=True)
        slowest = float(series.statistics["q99"][series.count > 0].max())
        usual, _ = series.expected(probed.baseline_ns)
        if usual:
            yield Finding(
                f"{series.label}: usually {format_seconds(usual)}. In the worst interval, 1% of operations took at "
                f"least {format_seconds(slowest)}, {slowest / usual:.0f} times as long.",
                name="usual_time",
            )
    yield _worst_interval(
        "worst_over_typical", probed.series, "q99", "largest interval q99 divided by the median interval q99"
    )
    yield _variation_of_kinds(probed.series)
    columns = (
        f"{_KIND}; statistic [text]; counted [text]; q05: 5% [seconds]; q25: 25% [seconds]; q50: median [seconds]; "
        "q75: 75% [seconds]; q95: 95% [seconds]"
    )
    yield ResultTable.of("intervals", columns, (row[:-1] for row in rows))
    drawn = relabelled(ResultTable.of("intervals", f"{columns}; panel [text]", rows), q50="response time")
    title = f"Statistics per interval of {format_seconds(length)}"
    yield Chart.of("box", drawn, "x=statistic q05 q25 q50 q75 q95 series=counted", title, facet="panel", log="y")
    yield probed.caveats, COUNTED, probed.coverage


def _worst_interval(name: str, every: Sequence[OperationSeries], statistic: str, method: str) -> Estimate:
    """Return the greatest statistic of any interval over the median one; the lower end is reduced by what chance gives.

    The greatest of many intervals is large by selection. Operations drawn from all others together, as many as each
    interval has, give the greatest by chance; operation and file system are selected in every draw as in the data.
    """
    rng, worst, chance = np.random.default_rng(_SEED), [], np.zeros(_DRAWS)
    for series in every:
        counts = series.count[series.count >= LEAST_OF_INTERVAL]
        if len(counts) < _LEAST_INTERVALS:
            continue
        observed = series.statistics[statistic][series.count >= LEAST_OF_INTERVAL]
        worst.append(float(observed.max() / np.median(observed)))
        others = np.flatnonzero(series.count >= LEAST_OF_INTERVAL)
        pooled = series.histograms.select(np.delete(others, int(observed.argmax()))).pooled()
        law, values = pooled.count / pooled.count.sum(), pooled.values
        for draw in range(_DRAWS):
            up_to = np.cumsum(rng.multinomial(counts, law), axis=1)
            rank = np.ceil(QUANTILES[statistic] * counts - 1e-9)[:, None]
            drawn = values[(up_to < rank).sum(axis=1)]
            chance[draw] = max(chance[draw], float(drawn.max() / np.median(drawn)))
    n = sum(int((series.count > 0).sum()) for series in every)
    if not worst:
        return plain(name, None, "factor", n=n, method=f"{method}: fewer than {_LEAST_INTERVALS} intervals")
    value, usual = max(worst), float(np.quantile(chance, (1 + LEVEL) / 2))
    words = f"{method}; low end divided by the same ratio of operations resampled from all other intervals"
    return Estimate(name, value, "factor", value / usual, value, LEVEL, n, words)


def _variation_of_kinds(every: Sequence[OperationSeries]) -> Estimate:
    """Return the variation of metadata operations between intervals over that of reads and writes of blocks."""
    name, method = "metadata_over_data_variation", "CoV of interval medians; root mean square over operations"
    starts = np.unique(np.concatenate([series.start_ns for series in every]))
    sums: dict[bool, list[Floats]] = {True: [], False: []}
    for series in every:
        medians = np.full(len(starts), np.nan)
        medians[np.searchsorted(starts, series.start_ns)] = series.statistics["median"]
        there = np.isfinite(medians)
        scaled = np.where(there, medians / np.nanmedian(medians), 0.0)
        sums[series.op in _METADATA].append(np.stack([there, scaled, scaled**2], axis=1).astype(np.float64))
    if not sums[True] or not sums[False]:
        return plain(name, None, "factor", method="no metadata operations, or no reads and writes")

    def variation(each: Floats) -> Floats:
        return np.asarray(np.sqrt((variation_from_sums(each[..., 0], each[..., 1], each[..., 2]) ** 2).mean(axis=-1)))

    split, width = len(sums[True]), every[0].interval_ns
    table = np.stack([*sums[True], *sums[False]], axis=1)
    intervals = Intervals(np.ones(len(starts), np.bool_), width, unit=1, unit_name="interval")
    found = intervals.estimate(
        name, "factor", table, lambda s: variation(s[:, :split]) / variation(s[:, split:]), n=len(starts)
    )
    return replace(found, method=f"{method}; {found.method}")


# The corrected line first: where both are equal, the raw one is drawn over it.
_LINES: Final = (("max", "omission_corrected"), *((name, "raw") for name in ("max", "q99", "q95", "mean", "median")))


@exhibit("kun19.fig5")
def _time_lines(probed: Probed) -> Iterator[Piece]:
    """Interval statistics over time, and the slowest operation of each kind."""
    rows: list[tuple[Cell, ...]] = []
    slowest: list[Estimate] = []
    for series in probed.series:
        for name, counting in _LINES:
            statistic = series.counted(counting)[name]
            # Without a hang the corrected line equals the raw one.
            if counting != "raw" and np.array_equal(statistic, series.statistics[name], equal_nan=True):
                continue
            kept = thin(statistic, max(1, _POINTS // (2 * len(_LINES) * len(probed.series))))
            times, values = cells(series.start_ns[kept]), cells(statistic[kept])
            label = name if counting == "raw" else f"{name}, {counting}"
            rows += [(t, label, v, series.label) for t, v in zip(times, values, strict=True)]
        name, peak = f"slowest_{series.op}[{series.filesystem}]", float(np.nanmax(series.statistics["max"]))
        slowest.append(plain(name, peak, "seconds", n=int(series.count.sum()), method="maximum"))
    columns = "time [time_ns]; series [text]; value: response time [seconds]; panel [text]"
    drawn, title = ResultTable.of("time_lines", columns, rows), "Median, mean, 95%, 99% and maximum per interval"
    yield Chart.of("timeline", drawn, "x=time y=value series", title, facet="panel", log="y")
    most = max(slowest, key=lambda e: e.value or 0.0)
    yield slowest
    yield plain("slowest_of_all", most.value, "seconds", n=most.n, method="maximum")
    starts = np.concatenate([series.start_ns[series.count > 0] for series in probed.series])
    long = np.concatenate([series.statistics["max"][series.count > 0] >= _LONG for series in probed.series])
    yield grouped_share("long_wait_intervals_ratio", long, np.ones(len(long)), starts // DAY_NS, "day")
    text = f"The slowest operation ({quantity_label(most.name, '')}) took {format_seconds(most.value or 0.0)}."
    yield Finding(text, name="slowest_operation"), probed.caveats, COUNTED, probed.coverage


@exhibit("kun19.episodes")
def _episodes(probed: Probed, facility: Facility, threshold: float) -> Iterator[Piece]:
    """Slow episodes, their strength and recovery time, and slow weekdays."""
    found = all_episodes(probed.series, threshold, probed.baseline_ns)
    rows: list[tuple[Cell, ...]] = []
    for e in found:
        peak = (e.peak_ratio, e.peak_ns, e.recovery_ns, "ongoing" if e.ongoing else "")
        rows.append((e.filesystem, e.op, e.start_ns, e.end_ns, *peak))
    yield ResultTable.of(
        "episodes",
        f"{_KIND}; start: from [time_ns]; end: to [time_ns]; peak [factor]; peak_at [time_ns]; recovery [ns]; "
        "ongoing [text]",
        rows,
        "Episodes",
    )
    yield plain("episodes", len(found), "count")
    strongest = {(e.filesystem, e.op): e for e in sorted(found, key=lambda e: e.peak_ratio)}
    if found:
        worst = max(found, key=lambda e: e.peak_ratio)
        yield plain("peak_slowdown_of_all", worst.peak_ratio, "factor", n=len(found), method="maximum")
        yield Finding(
            f"The strongest of {len(found)} episodes: {worst.op} on {worst.filesystem} was {worst.peak_ratio:.1f}x "
            f"slower and recovered after {format_seconds(worst.recovery_ns / 1e9)}.",
            name="strongest_episode",
        )
    else:
        yield Finding(f"No interval was {threshold:g}x slower than usual.", name="no_episodes")
    ended = [e.recovery_ns / NS for e in found if not e.ongoing]
    if ended:
        yield plain("longest_recovery", max(ended), "seconds", n=len(ended), method="longest time from peak to end")
    of_kind = {(series.filesystem, series.op): series for series in probed.series}
    for (filesystem, op), e in sorted(strongest.items(), key=lambda item: -item[1].peak_ratio):
        series = of_kind[filesystem, op]
        place = int(np.searchsorted(series.start_ns, e.peak_ns))
        yield _interval_slowdown(f"peak_slowdown_{op}[{filesystem}]", series, place, e.peak_ratio)
        recovery = None if e.ongoing else e.recovery_ns / NS
        method = "time from peak to end of the strongest episode"
        yield plain(f"recovery_{op}[{filesystem}]", recovery, "seconds", method=method)
    # Share of slow intervals by local weekday; one is named when its interval is above that of all days. Intervals
    # of one day resemble each other: days are resampled, and one week shows no weekday.
    zone, zone_name = facility_zone(facility)
    by_day: list[tuple[Cell, ...]] = []
    for series in probed.series:
        slowdown = series.slowdown(probed.baseline_ns)
        known, (date, _, weekday) = np.isfinite(slowdown), local_clock(series.start_ns, zone)
        slow = (slowdown >= threshold).astype(np.float64)
        for day, name in enumerate(_WEEKDAYS):
            mine = known & (weekday == day)
            share = grouped_share(name, slow[mine], mine[mine], date[mine], "day")
            by_day.append((series.label, name, share.value, share.low, share.high, share.n))
    yield _weekday_spread(probed, zone)
    week = ResultTable.of(
        "weekdays",
        f"series [text]; weekday: day ({zone_name}) [text]; share: slow intervals [ratio]; low: 90% from [ratio]; "
        "high: 90% to [ratio]; n [count]",
        by_day,
        "By day of the week",
    )
    yield week, Chart.of("heatmap", week, "x=weekday y=series value=share", "Slow intervals by weekday")
    yield f"An episode consists of consecutive intervals with a median of at least {threshold:g}x the usual time."
    yield probed.caveats, probed.coverage


def _weekday_spread(probed: Probed, zone: dt.tzinfo) -> Estimate:
    """Return the variation of the mean slowdown between days of the week, reduced by that of randomly rotated weeks."""
    ratios = [(series, series.slowdown(probed.baseline_ns)) for series in probed.series]
    clocks = [local_clock(series.start_ns, zone) for series, _ in ratios]
    first, last = min(int(day[0]) for day, _, _ in clocks), max(int(day[-1]) for day, _, _ in clocks)
    monday = first - (first + 3) % 7
    sums = np.zeros(((last - monday) // 7 + 1, 7, 2))
    for (day, _, weekday), (_, slowdown) in zip(clocks, ratios, strict=True):
        known, place = np.isfinite(slowdown), ((day - monday) // 7, weekday)
        np.add.at(sums, tuple(each[known] for each in place), np.stack([known, slowdown], axis=1)[known])
    whole = sums[(sums[..., 0] > 0).all(axis=1)]
    if len(whole) < _LEAST_WEEKS:
        return plain("weekday_spread", None, "ratio", n=len(whole), method=f"fewer than {_LEAST_WEEKS} whole weeks")
    return cycle_spread("weekday_spread", whole, rotated_sums(whole), n=len(whole))


def _interval_slowdown(name: str, series: OperationSeries, index: int, slowdown: float) -> Estimate:
    """Return the slowdown of interval `index` by its median, with a 90% confidence interval."""
    n, observed = int(series.count[index]), float(series.statistics["median"][index])
    method = "interval median divided by the expected time"
    if n < LEAST_OF_INTERVAL or not observed > 0:
        return plain(name, slowdown, "factor", n=n, method=method)
    half_width = _NORMAL_90 * 0.5 / math.sqrt(n)
    histogram = series.histograms.select(np.array([index]))
    low, high = histogram.quantiles([max(0.0, 0.5 - half_width), min(1.0, 0.5 + half_width)])[0] * (slowdown / observed)
    low, high = min(float(low), slowdown), max(float(high), slowdown)
    return Estimate(name, slowdown, "factor", low, high, LEVEL, n, f"{method}, interval by order statistics")


@exhibit("kun19.fig6")
def _slowdowns(probed: Probed, long: list[OperationSeries], short: list[OperationSeries]) -> Iterator[Piece]:
    """Slowdown over time, in long and short intervals."""
    rows: list[tuple[Cell, ...]] = []
    slow: list[Finding] = []
    ratios = [(series, series.slowdown(probed.baseline_ns)) for series in (*long, *short)]
    every = [(series, slowdown) for series, slowdown in ratios if np.isfinite(slowdown).any()]
    greatest = {"long": 0.0, "short": 0.0}
    for series, slowdown in every:
        length = format_seconds(series.interval_ns / 1e9)
        kept = thin(slowdown, max(1, _POINTS // (2 * len(every))))
        # In the middle of its interval: at its start, a long one would seem to come before what makes it slow.
        times, values = cells(series.start_ns[kept] + series.interval_ns // 2), cells(slowdown[kept])
        rows += [(t, length, v, series.label) for t, v in zip(times, values, strict=True)]
        place = int(np.nanargmax(slowdown))
        worst, which = float(slowdown[place]), "long" if series in long else "short"
        greatest[which] = max(greatest[which], worst)
        yield _interval_slowdown(f"slowdown_{series.op}[{series.filesystem}, {length}]", series, place, worst)
        if which == "long" and worst >= 2:
            begin = format_time_ns(int(series.start_ns[place]))
            text = f"{series.label} took {worst:.1f} times as long as usual in the {length} from {begin}."
            slow.append(Finding(text, name="slowdown"))
    if all(greatest.values()):
        for name, own in (("long", long), ("short", short)):
            yield plain(f"interval[{name}]", own[0].interval_ns / NS, "seconds", method="as set")
        method = "largest interval median divided by the expected time"
        yield plain("slowdown_of_all", greatest["long"], "factor", method=method)
        of = "largest interval median divided by the median of interval medians"
        yield _worst_interval("slowest_over_typical", long, "median", of)
    calmer = format_seconds(long[0].interval_ns / 1e9)
    rows.sort(key=lambda row: row[1] == calmer)  # drawn last, over the other
    drawn = ResultTable.of("slowdown", "time [time_ns]; interval [text]; slowdown [factor]; panel [text]", rows)
    yield Chart.of(
        "timeline",
        drawn,
        "x=time y=slowdown series=interval",
        "Slowdown (median of each interval)",
        facet="panel",
        log="y",
        references=(Reference("y", 1.0),),
    )
    yield slow or [Finding("No operation took twice its usual time in any interval.", name="no_slowdown")]
    unknown = [series.label for series, slowdown in ratios[: len(long)] if not np.isfinite(slowdown).any()]
    if unknown:
        yield f"No baseline yet for {', '.join(unknown)}."
    yield probed.caveats, probed.coverage


STUDY = Study(
    name="slowdown",
    too_few="no probe ran in the period",
    exhibits=("kun19.fig4", "kun19.fig5", "kun19.episodes"),
    needs="response_rollups",
    run=run,
    params=(Param("threshold", "minimum slowdown of an episode", "float", default=2.0),),
)
# By itself, because the shorter intervals are six times the rows.
TWO_LENGTHS = Study(
    name="slowdown_lengths",
    too_few="no probe ran in the period",
    exhibits=("kun19.fig6",),
    needs="response_rollups",
    run=run_two_lengths,
)
