"""Volume, rate, phases and memory of the whole system (pat19 sections 3 to 5): fig3, fig4, fig7, fig8 and fig9."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.choices import TRAFFIC
from ioweather.core.results import (
    Cell,
    Chart,
    Estimate,
    Finding,
    Piece,
    Reference,
    ResultColumn,
    ResultTable,
    columns_of,
    exhibit,
)
from ioweather.core.units import format_bytes, format_seconds
from ioweather.stats.estimates import Intervals, Scale, Statistic, directed, number, plain
from ioweather.stats.grid import Steps
from ioweather.stats.phases import (
    Phases,
    Side,
    at_percentile,
    find_phases,
    mean_interarrival,
    mean_length,
    phase_sums,
    thresholds,
)
from ioweather.stats.series import correlation, lagged_sums, variation_from_sums, window_sums
from ioweather.stats.summary_tables import cdf_table, cumulative_table
from ioweather.studies.pat19.matrices import HIGH_CORRELATION, LAGS, WAYS, WEAK_CORRELATION, WINDOWS, Climate, span

_SHORT_SECONDS = 300  # pat19 section 7: "over 80% of high I/O phases last 5 minutes or less"
# Upper edges of the bins of phase lengths, in steps.
_EDGES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 240, 480, 1440, 10080)


@exhibit("pat19.fig3")
def cumulative_volume(climate: Climate) -> Iterator[Piece]:
    """Volume since the start, and reads over writes."""
    intervals, burst_buffer = climate.intervals, climate.burst_buffer
    sums = intervals.sums(climate.way("read"), climate.way("write"))
    totals = [float(np.nansum(climate.way(way))) for way in WAYS]
    ratio = intervals.estimate("read_over_written", "factor", sums, lambda s: s[:, 0] / s[:, 1], n=climate.n)
    yield [plain(f"total_{way}", total, "bytes", n=climate.n) for way, total in zip(WAYS, totals, strict=True)]
    # Consistent over the period, or made by one stretch of it: the share of units in which reads lead, where one does.
    leads = np.stack([sums[:, 0] > sums[:, 1], sums[:, 0] != sums[:, 1]], axis=1).astype(np.float64)
    steady = intervals.estimate(
        "read_leads_ratio", "ratio", leads, lambda s: s[:, 0] / s[:, 1], n=int(leads[:, 1].sum()), scale="logit"
    )
    rows = _running_totals(climate.system, "")
    if burst_buffer is not None:
        rows += _running_totals(burst_buffer, "burst buffer ")
    line = ResultTable.of("cumulative", "time [time_ns]; series [text]; value: since the start [bytes]", rows)
    yield Chart.of("timeline", line, "x=time y=value series", "Volume since the start"), ratio, steady
    unit = intervals.unit_name
    tied = int(np.sum((leads[:, 1] == 0) & (sums[:, 0] > 0)))
    if tied and not leads.any():
        yield Finding(f"Reads equal writes in all {tied:,} {unit}s with traffic.", name="reads_equal_writes")
    else:
        of_all = f"the {unit}s with traffic" if not tied else f"the {unit}s in which one leads ({tied:,} are even)"
        reads = f"Reads lead in {steady.value or 0.0:.0%} of {of_all}, not in a short stretch alone."
        yield directed(steady, 0.5, reads, f"Writes lead in {1 - (steady.value or 0.0):.0%} of {of_all}.")
    if burst_buffer is not None:
        own = [float(np.nansum(burst_buffer.values[metric])) for metric in TRAFFIC]
        n = int(burst_buffer.usable.sum())
        yield [plain(f"burst_buffer_{way}", total, "bytes", n=n) for way, total in zip(WAYS, own, strict=True)]
        read, written = (a + b for a, b in zip(totals, own, strict=True))
        share = sum(own) / (read + written)
        if written > 0:
            name = "read_over_written_with_burst_buffer"
            yield plain(name, read / written, "factor", n=n, method="ratio of totals")
            yield Finding(
                f"With the burst buffer counted in, {read / written:.2f} times as much is read as written "
                f"({ratio.value or 0:.2f} without); it carries {share:.1%} of all bytes.",
                name="burst_buffer",
            )
        yield plain("burst_buffer_ratio", share, "ratio", n=n, method="share of all bytes")
    yield climate.caveats, climate.coverage()


def _running_totals(steps: Steps, prefix: str) -> tuple[tuple[Cell, ...], ...]:
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
        yield mean, climate.intervals.estimate(f"variation_{way}", "ratio", sums, variation, n=n, scale="log")
        yield climate.intervals.estimate(
            f"below_mean_ratio_{way}", "ratio", sums, lambda s: s[:, 3] / s[:, 0], n=n, scale="logit"
        )
        usual = mean.value or 0.0
        references.append(Reference("x", usual, f"mean {way}"))
        text = f"On average {format_bytes(usual * 60)} are {word} per minute ({format_bytes(usual)}/s)."
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
        f"Rates of intervals of {climate.span(1)}",
        references=tuple(references),
    )
    yield climate.caveats, climate.coverage()


@exhibit("pat19.fig7")
def high_phases(climate: Climate) -> Iterator[Piece]:
    """Length and frequency of high phases."""
    yield from _phases(climate, "high")


@exhibit("pat19.fig8")
def low_phases(climate: Climate) -> Iterator[Piece]:
    """Length and frequency of low phases."""
    yield from _phases(climate, "low")


def _phases(climate: Climate, side: Side) -> Iterator[Piece]:
    """How long phases last and how often they begin, for reads and writes."""
    seconds, intervals = climate.system.step_seconds, climate.intervals
    states: list[tuple[Side, str]] = [("high", way) for way in WAYS]
    states += [("low", way) for way in WAYS]
    cuts = {way: dict(zip(("low", "high"), thresholds(climate.way(way)), strict=True)) for way in WAYS}
    found = {(kind, way): find_phases(climate.way(way), cuts[way][kind], kind) for kind, way in states}
    short, on = _SHORT_SECONDS / seconds, intervals.on
    # (units, states, thresholds, 7): every statistic chooses its threshold in the units drawn.
    every = np.stack([phase_sums(climate.way(w), k, intervals.unit, short, resampled=on) for k, w in states], axis=1)
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
    yield _phase_histograms(chosen, seconds)
    if all(phases.count for phases in chosen.values()):
        for way, (length, between) in means.items():
            yield Finding(
                f"{side.capitalize()} {way} phases last {format_seconds(length.value or 0.0)} on average and begin "
                f"every {format_seconds(between.value or 0.0)}.",
                name="phase_lengths",
            )
    else:
        text = f"There is no {side} phase: a quarter of all steps or more have the same amount."
        yield Finding(text, "undecided", name="no_phases")
    percentile = "at or above the 75th" if side == "high" else "below the 25th"
    read_cut, write_cut = (int(phases.cut.sum()) for phases in chosen.values())
    yield climate.caveats
    yield f"{side.capitalize()} is {percentile} percentile of all steps, taken again in each resample."
    yield f"Gaps break phases: {read_cut} read and {write_cut} write phases touch one, or the ends of the period."
    yield climate.coverage()


def _phase_histograms(chosen: Mapping[str, Phases], seconds: float) -> Iterator[Chart]:
    """Lengths, and times between two starts; `seconds` of a step."""
    for name, label, title in (
        ("length", "length of the phase", "Length of a phase"),
        ("interarrival", "time from start to start", "Time between the starts of two phases"),
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
        columns = (
            ResultColumn("series", "", "text"),
            ResultColumn("from", label, "seconds"),
            *columns_of("to: up to [seconds]; share: share of phases [ratio]"),
        )
        binned = ResultTable(name, columns, tuple(rows))
        yield Chart.of("histogram", binned, "low=from high=to y=share series", title, log="x")


@exhibit("pat19.fig9")
def system_correlations(climate: Climate) -> Iterator[Piece]:
    """Lagged correlation of the system's reads and writes."""
    series = {way: climate.way(way) for way in WAYS}
    chart, estimates = correlate(series, climate.system.step_ns, climate.intervals)
    yield chart, list(estimates.values()), autocorrelation_findings(estimates, WAYS, climate.span(WINDOWS[-1]))
    widest = max((estimates[f"cross[{climate.span(window)}]"] for window in WINDOWS), key=lambda e: e.value or 0.0)
    words, value = "Reads and writes of the system", widest.value or 0.0
    yield directed(
        widest,
        WEAK_CORRELATION,
        f"{words} go together (|r| up to {value:.2f}).",
        f"{words} do not go together (|r| at most {value:.2f} in any window and lag).",
    )
    # The shortest window that surely predicts the next one, for each direction.
    for way in WAYS:
        lows = {climate.span(window): estimates[f"auto_{way}[{climate.span(window)}]"].low for window in WINDOWS}
        enough = next((word for word, low in lows.items() if low is not None and low > HIGH_CORRELATION), None)
        if enough:
            advice = Finding(f"To foresee the system's {way}s, look at the last {enough}.", name="history_needed")
        else:
            text = f"No window up to {climate.span(WINDOWS[-1])} surely foretells the system's {way}s."
            advice = Finding(text, "undecided", name="history_needed")
        climate.advice.append(advice)
    yield climate.caveats, climate.coverage()


def correlate(series: Mapping[str, Floats], step_ns: int, intervals: Intervals) -> tuple[Chart, dict[str, Estimate]]:
    """Lagged correlation of two amounts per step: each with itself ('auto'), the first with the second ('cross').
    A chart, and the estimates by name."""
    (first, x), (second, y) = series.items()
    rows: list[tuple[Cell, ...]] = []
    estimates: list[Estimate] = []
    for window in WINDOWS:
        word = span(window, step_ns)
        unit = max(1, round(intervals.unit / window))
        for pair, (a, b) in {first: (x, x), second: (y, y), "cross": (x, y)}.items():
            left, right = window_sums(a, window), window_sums(b, window)
            there = ~np.isnan(left + right)
            own = Intervals(there, step_ns * window, on=intervals.on, unit=unit, unit_name=intervals.unit_name)
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
    """Of the widest window; of the others the paper speaks itself."""
    for name in names:
        auto = estimates[f"auto_{name}[{window}]"]
        shown = f"about the next one (r = {auto.value or 0.0:.2f})."
        more, less = (f"The {name}s of a window of {window} tell {how}{shown}" for how in ("", "little "))
        yield directed(auto, HIGH_CORRELATION, more, less)
