"""The climate of a storage system (pat19): its 17 exhibits, made of months of every target and server.

The eight boxed observations of the paper are sets of claims (core/papers/pat19.toml). Each is an estimate of another
exhibit against a number. An observation is true when all its claims are supported by their intervals, false when one is
refuted, and undecided otherwise.

Components one by one (sections 6 and 7): imbalance of the storage targets (fig10), their correlation (fig12) and degree
of parallelism (fig11, table1, sensitivity); object storage and metadata servers (fig13 to fig16).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Literal

import numpy as np

from ioweather.core import choices
from ioweather.core.choices import TRAFFIC
from ioweather.core.contracts import Param, Params, Study
from ioweather.core.frames import BlockwiseMatrix, Floats, Frame
from ioweather.core.papers.claim_tests import STANDINGS, claims, describe_estimate, judge_claim
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
    columns_of,
    exhibit,
)
from ioweather.core.tables import Quality
from ioweather.core.units import format_bytes, format_ratio
from ioweather.facts.system_grid import Steps, facility_zone, steps_of
from ioweather.stats.dependence import rank_correlation
from ioweather.stats.estimates import Intervals, directed, plain, rank_estimate, sums_by_unit
from ioweather.stats.series import (
    coefficient_of_variation,
    correlation,
    max_to_min,
    members,
    thresholds,
    variation_from_sums,
)
from ioweather.stats.summary_tables import cumulative_table, table
from ioweather.studies.pat19.matrices import (
    HIGH_CORRELATION,
    LAGS,
    NEAREST_LAG,
    WAYS,
    WIDE_TOLERANCE,
    WINDOWS,
    Climate,
    Limits,
    ServerLoad,
    high_share,
    reduce_servers,
    reduce_targets,
    span,
    steps_per_unit,
)
from ioweather.studies.pat19.parallelism import DEGREES, PAPER_TARGETS, TOLERANCE, ParallelismCounts, scaled
from ioweather.studies.pat19.system import (
    autocorrelation_findings,
    correlate,
    cumulative_volume,
    days_of_week,
    hours_of_day,
    phases,
    rate_distribution,
    system_correlations,
)
from ioweather.topics.source import DataSource

# [ours] Least ratio to the median target, by the low end of the interval, for the advice to move files.
RELIEVE = 1.25
TABLE_DEGREES = (10, 25, 50, 75, 100)
WIDTH = 2 + 2 * len(DEGREES)  # of the counts of an interval
LEAST_TARGETS = 50  # [ours] with fewer targets, 8% is about one target
_MAX_NAMED = 10
_UPPER_BOUND = (
    "Targets that move similar amounts in the same step count as working together. Busy targets also coincide by "
    "chance (see pat19.fig11), so a degree is an upper bound of the number of stripes that applications use."
)
MODEST = 0.75  # pat19: "max CPU utilization is lower than 75%"
METADATA = ("open_ops", "close_ops")
KINDS = ("open", "close")
_CLOSES = (
    "The client closes files that are still open when their process ends. A second open of an open file may "
    "have no close of its own. The share of opens without a close is not corrected for these two effects."
)


@exhibit("pat19.fig10")
def imbalance_of_targets(climate: Climate) -> Iterator[Piece]:
    """Totals per target: extremes, variation and persistence of their order."""
    names, intervals = climate.targets.components, climate.intervals
    n = len(names)
    per_unit = {way: climate.targets.totals[metric] for way, metric in zip(WAYS, TRAFFIC, strict=True)}
    sums = {way: amount.sum(axis=0) for way, amount in per_unit.items()}
    for way, amounts in per_unit.items():
        total, kind = sums[way], climate.component_kind
        yield plain(f"mean_per_{kind}_{way}", float(total.mean()), "bytes", n=n, method="mean over components")
        yield intervals.estimate(f"max_over_min_{way}", "factor", amounts, max_to_min, n=n, bounds=(1.0, np.inf))
        name = f"max_over_min_excess_{way}"
        yield intervals.estimate(name, "ratio", amounts, lambda s: max_to_min(s) - 1, n=n, bounds=(0.0, np.inf))
        yield plain(
            f"variation_{way}", float(coefficient_of_variation(total)), "ratio", n=n, method="sd / mean over components"
        )
        # Whether the targets that were busy in the first half of the period are busy in the second.
        half = len(amounts) // 2
        rho = rank_correlation(amounts[:half].sum(axis=0), amounts[half:].sum(axis=0)) if half else math.nan
        lasting = rank_estimate(f"persistence_{way}", rho, n, "Spearman of first and second half over components")
        yield lasting
    both = np.stack([per_unit["read"], per_unit["write"]], axis=1)
    yield intervals.estimate(
        "rank_correlation", "", both, lambda s: rank_correlation(s[:, 0], s[:, 1]), n=n, scale="fisher"
    )
    rows: list[tuple[Cell, ...]] = []
    for way in WAYS:
        ranked = enumerate(np.argsort(sums[way], kind="stable").tolist(), 1)
        rows += [(way, rank, float(sums[way][i]), names[i]) for rank, i in ranked]
    drawn = ResultTable.of("sorted", "series [text]; rank [count]; total [bytes]; component [text]", rows)
    title = "Totals, sorted for each direction"
    # An axis that begins at 0: a cut one makes small differences large.
    zero = (Reference("y", 0.0),)
    yield Chart.of("scatter", drawn, "x=rank y=total series label=component", title, references=zero)
    # Targets whose files should move: far above the median, surely.
    for way, amounts in per_unit.items():
        value, low, _ = intervals.estimates(amounts, lambda s: s / np.median(s, axis=-1, keepdims=True))
        over = [int(i) for i in np.argsort(-value) if low[i] > RELIEVE]
        if over:
            excess = sums[way] - np.median(sums[way])
            shown = ", ".join(
                f"{names[i]} ({value[i]:.2f}x, {format_bytes(excess[i])} above the mean)" for i in over[:_MAX_NAMED]
            )
            more = f" and {len(over) - _MAX_NAMED} more" if len(over) > _MAX_NAMED else ""
            files = "often-read" if way == "read" else "often-written"
            text = f"Move {files} files off {shown}{more}: `ioweather relieve` lists them."
            advice = Finding(text, name="files_to_move")
            climate.advice.append(advice)
            yield advice
    yield climate.caveats
    yield climate.coverage()


@exhibit("pat19.fig12")
def target_correlations(climate: Climate) -> Iterator[Piece]:
    """Lagged correlation of each target with itself, and of reads with writes."""
    names, intervals, lags = climate.targets.components, climate.intervals, climate.targets.lags
    n = len(names)
    high: dict[str, Estimate] = {}
    wide: dict[tuple[str, int], float] = {}
    for pair, near in NEAREST_LAG.items():
        nearest = climate.targets.nearest[pair]
        name = f"lag{near}_median_{pair}"
        yield intervals.estimate(name, "", nearest, lambda s: _median_known(correlation(s)), n=n, scale="fisher")
        name = f"lag{near}_high_ratio_{pair}"
        high[pair] = intervals.estimate(
            name, "ratio", nearest, lambda s: high_share(correlation(s)), n=n, scale="logit"
        )
        yield high[pair]
        for window in WINDOWS[1:]:
            wide[pair, window] = float(_median_known(lags[pair, window][near]))
            name = f"lag{near}_median_{pair}[{climate.span(window)}]"
            yield plain(name, wide[pair, window], "", n=n, method="median over components")
        far = float(high_share(lags[pair, 1][LAGS]))
        yield plain(f"lag{LAGS}_high_ratio_{pair}", far, "ratio", n=n, method="share of components")
    yield plain("targets", n, "count")
    columns = (
        f"component: {climate.component_kind} [text]; read: reads, lag 1; write: writes, lag 1; "
        "cross: reads with writes, lag 0"
    )
    at_nearest = (lags[pair, 1][near] for pair, near in NEAREST_LAG.items())
    yield table("targets", columns, names, *at_nearest, title=f"Correlation at windows of {climate.span(1)}")
    # One curve per target is what the paper draws; quantiles over targets say the same in fewer lines.
    rows: list[tuple[Cell, ...]] = []
    for (pair, window), values in lags.items():
        label = "reads then writes" if pair == "cross" else f"{pair}s with themselves"
        rows += ((label, climate.span(window), lag, *band) for lag, band in _bands_by_lag(values))
    columns = (
        "pair [text]; window [text]; lag: lag in windows; q05: 5% of targets below; q50: correlation; q95: 95% below"
    )
    title = "Correlation with later windows: median target, and range of 90% of targets"
    encoding = "x=lag y=q50 low=q05 high=q95 series=window"
    yield Chart.of("band", ResultTable.of("lags", columns, rows), encoding, title, facet="pair")
    # How much history predicts the load of one target.
    for way in WAYS:
        low = high[way].low
        enough = next((climate.span(w) for w in WINDOWS[1:] if wide[way, w] > HIGH_CORRELATION), None)
        if low is not None and low > 0.5:
            text = f"To predict {way}s on one target, data from its last {climate.span(1)} is enough."
            climate.advice.append(Finding(text, name="target_history"))
        else:
            text = f"{way.capitalize()}s on one target cannot be predicted from its past in these windows."
            if enough:
                text = f"To predict {way}s on one target, look at its last {enough}."
            climate.advice.append(Finding(text, "undecided", name="target_history"))
    yield climate.caveats, climate.coverage()


def _bands_by_lag(values: Floats) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yield each lag with the 5%, 50% and 95% quantiles over components; a lag without known values is left out."""
    for lag, row in enumerate(values):
        known = row[~np.isnan(row)]
        if len(known):
            yield lag, tuple(np.quantile(known, (0.05, 0.5, 0.95)).tolist())


def _median_known(values: Floats) -> Floats:
    """Return the median over components with a known correlation; NaN without any."""
    kept = np.where(np.isnan(values).all(axis=-1, keepdims=True), 0.0, values)
    return np.where(np.isnan(values).all(axis=-1), np.nan, np.nanmedian(kept, axis=-1))


def _parallelism(climate: Climate, way: str, tolerance: float = TOLERANCE, window: int = 1) -> ParallelismCounts:
    """Return the counts of parallel targets of reads or writes."""
    return climate.targets.degrees[TRAFFIC[WAYS.index(way)], tolerance, window]


def _parallelism_by_unit(climate: Climate, way: str, tolerance: float = TOLERANCE, *, high: bool = False) -> Floats:
    """Sums of `ParallelismCounts.per_interval` by unit of time; `high`: in high phases only."""
    rows = _parallelism(climate, way, tolerance).per_interval
    if high:
        rows = rows * members(climate.way(way), thresholds(climate.way(way))[1], "high")[:, None]
    return sums_by_unit(rows, climate.intervals.unit)


def _chance_by_unit(climate: Climate, way: str) -> Floats:
    """Same for targets that are each shifted in time on their own."""
    return sums_by_unit(climate.targets.chance[TRAFFIC[WAYS.index(way)]].per_interval, climate.intervals.unit)


def _degree_column(degree: int, *, here: bool = False) -> int:
    """Column of the counts of clusters of at least this degree; `here`: scaled to the targets of this site."""
    return 2 + DEGREES.index(degree) + (len(DEGREES) if here else 0)


def _mean_degree(sums: Floats) -> Floats:
    """Targets in clusters over clusters."""
    return np.asarray(sums[:, 1] / sums[:, 0])


@exhibit("pat19.fig11")
def degree_distribution(climate: Climate) -> Iterator[Piece]:
    """Distribution of the degree of parallelism."""
    targets, intervals = len(climate.targets.components), climate.intervals

    def below(sums: Floats, degree: int, name: str, n: int, *, here: bool = False) -> Estimate:
        place = _degree_column(degree, here=here)
        return intervals.estimate(name, "ratio", sums, lambda s: 1 - s[:, place] / s[:, 0], n=n, scale="logit")

    rows: list[tuple[Cell, ...]] = []
    means, chance = [], []
    both = np.zeros((intervals.units, WIDTH))
    for way in WAYS:
        counts, sums = _parallelism(climate, way), _parallelism_by_unit(climate, way)
        both += sums
        n = int(counts.histogram.sum())
        means.append(intervals.estimate(f"mean_{way}", "count", sums, _mean_degree, n=n, scale="log"))
        yield means[-1], [below(sums, degree, f"below_ratio_{way}[{degree}]", n) for degree in (10, 20)]
        degrees, share = counts.cdf()
        last = int(np.flatnonzero(counts.histogram).max(initial=1))
        rows += [(way, int(d), float(s)) for d, s in zip(degrees[:last], share[:last], strict=True)]
        shifted, name = _chance_by_unit(climate, way), f"chance_mean_{way}"
        chance.append(intervals.estimate(name, "count", shifted, _mean_degree, n=n, scale="log"))
    yield chance
    total = int(both[:, 0].sum())
    yield [below(both, degree, f"below_ratio[{degree}]", total) for degree in (10, 20)]
    if targets >= LEAST_TARGETS:
        yield below(both, 20, "few_targets_ratio", total, here=True)
    yield plain("targets", targets, "count")
    drawn = ResultTable.of(
        "degrees", "series [text]; degree: targets working together [count]; share: share of clusters [ratio]", rows
    )
    yield Chart.of("cdf", drawn, "x=degree y=share series", "Degree of parallelism", log="x")
    read, write = (mean.value or 0.0 for mean in means)
    text = f"On average, {read:.2f} of {targets} targets read similar amounts in the same step"
    yield Finding(f"{text}, and {write:.2f} write similar amounts.", name="degree")
    by_chance = " and ".join(f"{each.value or 0.0:.2f}" for each in chance)
    text = f"If each target is shifted in time independently, the mean degrees are {by_chance}: this part is chance."
    yield Finding(text, name="chance_degree")
    yield climate.caveats, _UPPER_BOUND, climate.coverage()


@exhibit("pat19.table1")
def high_phase_counts(climate: Climate) -> Iterator[Piece]:
    """Number of read and write clusters in high phases (clusters, not minutes) that reach each degree.

    With fewer targets than the paper's degrees, the same shares of the targets are shown too."""
    both = np.concatenate([_parallelism_by_unit(climate, way, high=True) for way in WAYS], axis=1)
    measured, by_chance = (
        np.add(*(of(climate, way) for way in WAYS)) for of in (_parallelism_by_unit, _chance_by_unit)
    )
    targets = len(climate.targets.components)
    left_out = [f"{degree}" for degree in TABLE_DEGREES if degree > targets]
    columns = columns_of(
        "degree: degree of parallelism [text]; read: clusters, reads [count]; write: clusters, writes [count]; "
        "difference: difference (W-R)/R [ratio]; low: 90% from [ratio]; high: 90% to [ratio]; "
        "chance: share by chance, in all steps [ratio]"
    )
    for here in (False, True) if left_out else (False,):
        rows: list[tuple[Cell, ...]] = []
        for degree in TABLE_DEGREES:
            if degree > targets and not here:
                continue
            place = _degree_column(degree, here=here)
            pair = both[:, [place, WIDTH + place]]
            read, write = (int(part) for part in pair.sum(axis=0))
            key = f"{degree} of {PAPER_TARGETS}" if here else f">={degree}"
            more = climate.intervals.estimate(
                f"difference[{key}]", "ratio", pair, lambda s: (s[:, 1] - s[:, 0]) / s[:, 0], n=read + write
            )
            yield Estimate(f"clusters_read[{key}]", read, "count", n=climate.n, method="exact count")
            yield Estimate(f"clusters_write[{key}]", write, "count", n=climate.n, method="exact count"), more
            sums = np.stack([measured[:, place], by_chance[:, place]], axis=1)
            chance = climate.intervals.estimate(
                f"chance_ratio[{key}]", "ratio", sums, lambda s: s[:, 1] / s[:, 0], n=int(sums[:, 0].sum()), scale="log"
            )
            yield chance
            label = f"≥ {scaled(degree, targets)} ({key})" if here else f"≥ {degree}"
            rows.append((label, float(read), float(write), more.value, more.low, more.high, chance.value))
        title = f"Degrees scaled to {targets} targets" if here else ""
        yield ResultTable("scaled_degrees" if here else "degrees", columns, tuple(rows), title)
    yield climate.caveats, _UPPER_BOUND
    if left_out:
        yield (
            f"There are only {targets} targets, so degrees of {', '.join(left_out)} or more are impossible. The "
            "table shows the paper's counts and the counts for the same shares of the targets."
        )
    yield climate.coverage()


@exhibit("pat19.sensitivity")
def sensitivity(climate: Climate) -> Iterator[Piece]:
    """Mean degree by tolerance, by interval length, and in high phases."""
    step, usual, intervals = climate.span(1), f"{TOLERANCE:.0%}", climate.intervals
    wide = f"{WIDE_TOLERANCE:.0%}"
    means: dict[str, list[float | None]] = {}
    high = {way: _parallelism_by_unit(climate, way, high=True) for way in WAYS}
    for way in WAYS:
        variants = [
            (f"mean_{way}", _parallelism_by_unit(climate, way)),
            (f"mean_high_phases_{way}", high[way]),
            (f"mean_{way}[{wide}]", _parallelism_by_unit(climate, way, WIDE_TOLERANCE)),
        ]
        made = [
            intervals.estimate(name, "count", s, _mean_degree, n=int(s[:, 0].sum()), scale="log")
            for name, s in variants
        ]
        for window in WINDOWS[1:]:
            rows = _parallelism(climate, way, TOLERANCE, window).per_interval
            unit, step_ns = max(1, round(intervals.unit / window)), climate.system.step_ns * window
            own = Intervals(rows[:, 0] > 0, step_ns, unit=unit, unit_name=intervals.unit_name)
            sums = sums_by_unit(rows, unit) if len(rows) else np.zeros((1, 2))
            name = f"mean_{way}[{climate.span(window)}]"
            made.append(own.estimate(name, "count", sums, _mean_degree, n=int(sums[:, 0].sum()), scale="log"))
        means[way] = [estimate.value for estimate in made]
        yield made
    both = np.concatenate([high["read"][:, :2], high["write"][:, :2]], axis=1)
    yield intervals.estimate(
        "mean_high_phases_write_minus_read",
        "count",
        both,
        lambda s: s[:, 3] / s[:, 2] - s[:, 1] / s[:, 0],
        n=int(both[:, 0].sum() + both[:, 2].sum()),
    )
    labels = [f"{step}, {usual}", f"{step}, {usual}, high phases", f"{step}, {wide}"]
    labels += [f"{climate.span(window)}, {usual}" for window in WINDOWS[1:]]
    columns = (
        "variant: interval and tolerance [text]; read: mean degree, reads [count]; write: mean degree, writes [count]"
    )
    yield table("sensitivity", columns, labels, means["read"], means["write"])
    yield plain("targets", len(climate.targets.components), "count")
    yield climate.caveats, _UPPER_BOUND, climate.coverage()


def server_exhibits(load: ServerLoad, caveats: tuple[str, ...]) -> Iterator[Exhibit]:
    """Yield pat19.fig15 and pat19.fig16; empty without any recorded load."""
    if not load.count.any():
        return
    intervals = Intervals(load.count.sum(axis=1) > 0, load.matrix.step_ns * steps_per_unit(load.matrix), unit=1)
    cells, present = load.matrix.steps * len(load.matrix.components), int(load.count.sum())
    excluded = {"not recorded": cells - present - load.over_limit, "above 100%": load.over_limit}
    excluded = {why: n for why, n in excluded.items() if n}
    coverage = Coverage(cells, present, "values", excluded, "per server and step")
    yield _processor_load(load, intervals, caveats, coverage)
    yield _load_correlation(load, intervals, caveats, coverage)


@exhibit("pat19.fig15")
def _processor_load(
    load: ServerLoad, intervals: Intervals, caveats: tuple[str, ...], coverage: Coverage
) -> Iterator[Piece]:
    """Mean and largest CPU load of each object storage server."""
    names, n = load.matrix.components, len(load.matrix.components)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = load.total.sum(axis=0) / load.count.sum(axis=0)
    both = np.stack([load.count, load.total], axis=1)
    yield plain("servers", n, "count")
    yield intervals.estimate(
        "mean_load_all",
        "ratio",
        both,
        lambda s: s[:, 1].sum(axis=1) / s[:, 0].sum(axis=1),
        n=int(load.count.sum()),
        scale="logit",
    )
    highest = intervals.estimate(
        "mean_load",
        "ratio",
        both,
        lambda s: np.fmax.reduce(s[:, 1] / s[:, 0], axis=1),
        n=n,
        bounds=(0.0, 1.0),  # the largest of many is large by chance, too
        scale="logit",
    )
    top, modest = float(np.nanmax(load.largest)), float(np.mean(load.largest[~np.isnan(load.largest)] < MODEST))
    yield highest, plain("max_load", top, "ratio", n=n, method="maximum over all servers")
    yield plain("max_load_servers_ratio", modest, "ratio", n=n, method=f"share of servers always below {MODEST:.0%}")
    yield Finding(
        f"The busiest server uses {format_ratio(highest.value or 0.0)} of its processors on average.", name="mean_load"
    )
    rows: list[tuple[Cell, ...]] = []
    for series, values in (("mean", mean), ("maximum", load.largest)):
        known = [i for i in np.argsort(values, kind="stable").tolist() if np.isfinite(values[i])]
        rows += [(series, rank, float(values[i]), names[i]) for rank, i in enumerate(known, 1)]
    drawn = ResultTable.of("sorted", "series [text]; rank [count]; load [ratio]; component [text]", rows)
    yield Chart.of("scatter", drawn, "x=rank y=load series label=component", "Load of each server, sorted")
    yield caveats, f"The maximum is over means of {span(1, load.matrix.step_ns)}. Shorter peaks are higher."
    yield coverage


@exhibit("pat19.fig16")
def _load_correlation(
    load: ServerLoad, intervals: Intervals, caveats: tuple[str, ...], coverage: Coverage
) -> Iterator[Piece]:
    """Autocorrelation of each server's load."""
    n, step_ns = len(load.matrix.components), load.matrix.step_ns
    yield intervals.estimate(
        "lag1_high_ratio", "ratio", load.lag_one, lambda s: high_share(correlation(s)), n=n, scale="logit"
    )
    rows: list[tuple[Cell, ...]] = []
    for window, values in load.lags.items():
        word = span(window, step_ns)
        for lag, band in _bands_by_lag(values):
            rows.append((word, lag, *band))
            if lag in (1, LAGS):
                yield plain(f"lag{lag}_median[{word}]", band[1], "", n=n, method="median over servers")
    drawn = ResultTable.of(
        "lags", "window [text]; lag: lag in windows; q05: 5% of servers below; q50: correlation; q95: 95% below", rows
    )
    title = "Load autocorrelation: median server, and range of 90% of servers"
    yield Chart.of("band", drawn, "x=lag y=q50 low=q05 high=q95 series=window", title), caveats, coverage


def metadata_exhibits(steps: Steps, caveats: tuple[str, ...]) -> Iterator[Exhibit]:
    """Yield pat19.fig13 and pat19.fig14; empty without a usable step."""
    if steps.usable.any():
        intervals = Intervals(steps.usable, steps.step_ns)
        yield _opens_and_closes(steps, intervals, caveats)
        yield _metadata_correlation(steps, intervals, caveats)


@exhibit("pat19.fig13")
def _opens_and_closes(steps: Steps, intervals: Intervals, caveats: tuple[str, ...]) -> Iterator[Piece]:
    """Opens and closes over time, their rates and variation."""
    there, seconds = steps.usable, steps.step_seconds
    n = int(there.sum())
    rates = {
        kind: np.where(there, steps.values[metric], np.nan) / seconds
        for kind, metric in zip(KINDS, METADATA, strict=True)
    }
    yield [plain(f"{kind}s", float(np.nansum(rate)) * seconds, "count", n=n) for kind, rate in rates.items()]
    both = intervals.sums(rates["open"], rates["close"])
    yield intervals.estimate("not_closed_ratio", "ratio", both, lambda s: 1 - s[:, 1] / s[:, 0], n=n)
    for kind, rate in rates.items():
        sums, top = intervals.sums(there, rate, rate**2), float(np.nanmax(rate))
        mean = intervals.estimate(f"mean_rate_{kind}", "ops_per_s", sums, lambda s: s[:, 1] / s[:, 0], n=n)
        variation = intervals.estimate(
            f"variation_{kind}",
            "ratio",
            sums,
            lambda s: variation_from_sums(s[:, 0], s[:, 1], s[:, 2]),
            n=n,
            scale="variation",
        )
        yield mean, plain(f"max_rate_{kind}", top, "ops_per_s", n=n, method="maximum"), variation
        yield Finding(
            f"{kind.capitalize()}s: {(mean.value or 0.0) * 60:,.0f} per minute on average, {top * 60:,.0f} at most, "
            f"coefficient of variation {variation.value or 0.0:.0%}.",
            name="metadata_rate",
        )
    running = {f"{kind}s": rate * seconds for kind, rate in rates.items()}
    line = cumulative_table("cumulative", steps.times_ns, running, "since the start", "count")
    yield Chart.of("timeline", line, "x=time y=value series", "Operations since the start")
    yield caveats, _CLOSES, steps.coverage("steps")


@exhibit("pat19.fig14")
def _metadata_correlation(steps: Steps, intervals: Intervals, caveats: tuple[str, ...]) -> Iterator[Piece]:
    """Correlation of opens and closes with each other and with later ones."""
    series = {kind: steps.values[metric] for kind, metric in zip(KINDS, METADATA, strict=True)}
    chart, estimates = correlate(series, steps.step_ns, intervals)
    yield chart, list(estimates.values())
    yield autocorrelation_findings(estimates, KINDS, span(WINDOWS[-1], steps.step_ns))
    for window in WINDOWS[1:]:
        word = span(window, steps.step_ns)
        together = estimates[f"cross_lag0[{word}]"]
        value = f"are correlated (r = {together.value or 0.0:.2f})."
        same = f"Opens and closes of the same {word}"
        yield directed(together, HIGH_CORRELATION, f"{same} {value}", f"{same} {value.replace('are', 'are not', 1)}")
    yield caveats, steps.coverage("steps")


# pat19 section 2.2: what the hardware cannot do, and times when it was shut down. Restarted counters are ours.
NOT_REAL = Quality.OVER_LIMIT | Quality.RESET | Quality.SHUTDOWN
_OPENS = (
    "No opens and closes were recorded. Ingest LMT data, or run `ioweather agent run lustre` on the metadata servers."
)
_CPU = (
    "No processor load of object storage servers was recorded. Ingest LMT data, or run `ioweather agent run` on "
    "these servers."
)
_SERVERS: Final = {"pat19.fig13": _OPENS, "pat19.fig14": _OPENS, "pat19.fig15": _CPU, "pat19.fig16": _CPU}
_NOTHING: Final = {
    "pat19.fig5": "Needs two complete days, in steps of at most one hour.",
    "pat19.fig6": "Needs each weekday in full. Choose a period of at least one week.",
    **_SERVERS,
}
_TARGETS: Final[Mapping[str, Callable[[Climate], Exhibit | None]]] = {
    "pat19.fig3": cumulative_volume,
    "pat19.fig4": rate_distribution,
    "pat19.fig5": hours_of_day,
    "pat19.fig6": days_of_week,
    "pat19.fig7": lambda climate: phases(climate, "high"),
    "pat19.fig8": lambda climate: phases(climate, "low"),
    "pat19.fig9": system_correlations,
    "pat19.fig10": imbalance_of_targets,
    "pat19.fig11": degree_distribution,
    "pat19.table1": high_phase_counts,
    "pat19.sensitivity": sensitivity,
    "pat19.fig12": target_correlations,
}
# Costly parts of the reduced matrices, and the exhibits that need them.
_PARTS: Final = {"degrees": ("pat19.fig11", "pat19.table1", "pat19.sensitivity"), "lags": ("pat19.fig12",)}
# Section and words of each box.
OBSERVATIONS: Final = (
    ("3", "The system reads more than it writes. Both are bursty, and writes are burstier."),
    ("4", "Average activity has no daily or weekly pattern, but writes vary more in the evening and on Sundays."),
    ("4", "The system enters high phases more often than low phases, and stays longer in low phases."),
    (
        "5",
        "One minute of system traffic does not predict the next minute, but five minutes predict the next five. "
        "Reads and writes do not predict each other.",
    ),
    ("6", "Reads and writes are unbalanced across OSTs over long periods."),
    ("6", "Few OSTs work together, even in high phases, where writes use more OSTs."),
    ("6", "On a single OST, the reads of one minute predict the next minute; writes do not."),
    ("7", "Metadata activity is autocorrelated and bursty. OSS processors are mostly idle."),
)
_WORDS: Final = {"supported": "true", "refuted": "false", "undecided": "undecided"}


def run(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make the wanted exhibits; those without data say why."""
    if "pat19.observations" in source.wanted:  # it is made of all others
        source.wanted = frozenset()
    filesystem, step_ns = params["filesystem"], int(params["resolution"])
    targets = source.matrices(filesystem, params["component_kind"], choices.TRAFFIC, step_ns, excluded=NOT_REAL)
    fetch = partial(source.matrices, step_ns=step_ns, excluded=NOT_REAL, optional=True)
    servers = fetch(filesystem, "oss", ("cpu_ratio",)).get("cpu_ratio")
    fetch_sums = partial(source.rollup, step_ns=step_ns, excluded=NOT_REAL, optional=True)
    metadata = fetch_sums(filesystem, params["metadata_kind"], METADATA)
    burst_buffer = fetch_sums(params["burst_buffer"], params["burst_buffer_kind"], choices.TRAFFIC)
    caveats = tuple(source.quality_notes)
    made: list[Exhibit] = []
    if metadata.rows and source.wants("pat19.fig13", "pat19.fig14"):
        made += metadata_exhibits(steps_of(metadata, METADATA, step_ns, source.period_ns), caveats)
    if servers is not None and servers.steps and source.wants("pat19.fig15", "pat19.fig16"):
        made += server_exhibits(reduce_servers(servers, source.spread), caveats)
    climate = None
    if source.wants(*_TARGETS, "pat19.observations"):
        climate = _reduce_climate(source, params, targets, burst_buffer, caveats)
    if climate is not None:
        found = [make(climate) for name, make in _TARGETS.items() if source.wants(name)]
        made += [each for each in found if each is not None]
        if source.wants("pat19.observations"):
            made.append(observations(made, climate.advice, climate.caveats, climate.coverage()))
    yield from made
    for name in STUDY.exhibits:
        if source.wants(name) and name not in {each.id for each in made}:
            why = "No step in the period has usable target samples."
            why = why if climate is None and name not in _SERVERS else _NOTHING[name]
            yield Exhibit(name, findings=(Finding(why, "undecided", name="nothing_to_show"),))


def _reduce_climate(
    source: DataSource,
    params: Params,
    matrices: Mapping[str, BlockwiseMatrix],
    burst_buffer: Frame,
    caveats: tuple[str, ...],
) -> Climate | None:
    """Return the reduced data of the file system; None where no step of the period is usable."""
    if any(metric not in matrices or not matrices[metric].steps for metric in choices.TRAFFIC):
        return None
    filesystem, step_ns = str(params["filesystem"]), int(params["resolution"])
    limits = Limits.of(source.facility, filesystem, step_ns)
    parts = [part for part, names in _PARTS.items() if source.wants(*names)]
    targets = reduce_targets(matrices, limits, parts, source.spread)
    steps = targets.system
    if not steps.usable.any():
        return None
    known = {"component_limit_bytes_per_s": limits.component, "peak_bytes_per_s": limits.system}
    unset = [name for name, value in known.items() if value is None]
    if unset:
        caveats = (
            *caveats,
            "Steps above the hardware limits are excluded only if they were flagged at ingest. Set "
            f"{' and '.join(unset)} of {filesystem} in facility.toml.",
        )
    buffered = steps_of(burst_buffer, choices.TRAFFIC, step_ns, source.period_ns) if burst_buffer.rows else None
    intervals = Intervals(steps.usable, steps.step_ns, unit=targets.unit)
    kind, zone = str(params["component_kind"]), facility_zone(source.facility)
    return Climate(targets, intervals, kind, *zone, buffered, caveats)


@exhibit("pat19.observations")
def observations(
    made: Iterable[Exhibit], advice: list[Finding], caveats: tuple[str, ...], coverage: Iterable[Coverage] = ()
) -> Iterator[Piece]:
    """The eight boxed observations, checked with the estimates of the other exhibits."""
    known = {each.id: {e.name: e for e in each.estimates} for each in made}
    claim_rows: list[tuple[Cell, ...]] = []
    rows: list[tuple[Cell, ...]] = []
    for number, (section, text) in enumerate(OBSERVATIONS, 1):
        found = [judge_claim(c, known.get(c.exhibit, {})) for c in claims("pat19") if c.observation == number]
        claim_rows += [
            (number, j.claim.text, STANDINGS[j.standing], describe_estimate(j) or j.why, j.claim.exhibit) for j in found
        ]
        standings = [j.standing for j in found]
        kind: Literal["supported", "refuted", "undecided"] = "undecided"
        if "refuted" in standings:
            kind = "refuted"
        elif set(standings) == {"supported"}:
            kind = "supported"
        held = f"{standings.count('supported')} of {len(found)} claims agree"
        rows.append((number, section, text, _WORDS[kind], held))
        listed = " ".join(j.claim.id for j in found)
        yield Finding(f"{number}. {text} Here: {_WORDS[kind]}.", kind, f"observation_{number}", listed)
    first = "observation [count]; section [text]; text [text]; here [text]; evidence [text]"
    yield ResultTable.of("observations", first, rows)
    second = "observation [count]; claim [text]; here [text]; evidence [text]; exhibit [text]"
    yield ResultTable.of("claims", second, claim_rows)
    yield Estimate("observations", len(OBSERVATIONS), "count", method="exact count"), advice, caveats
    yield (
        "True means that every claim agrees. False means that at least one claim is contradicted. `ioweather "
        "claims` shows the same results.",
        coverage,
    )


STUDY = Study(
    name="climate",
    exhibits=(*_TARGETS, *_SERVERS, "pat19.observations"),
    needs="series:read_bytes,write_bytes series:cpu_ratio? series:open_ops,close_ops?",
    run=run,
    params=(
        *choices.TRAFFIC_PARAMS,
        Param("metadata_kind", "mds or mdt; default: mds, if present", choose=choices.metadata_kind),
        Param("burst_buffer", "file system of the burst buffer; default: found by name", choose=choices.burst_buffer),
        Param("burst_buffer_kind", "component kind of the burst buffer", choose=choices.burst_buffer_kind),
    ),
    spreads=True,
)
