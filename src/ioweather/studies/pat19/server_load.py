"""Object storage servers and metadata servers (pat19 section 7): fig13 to fig16."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioweather.core.results import Cell, Chart, Coverage, Exhibit, Finding, Piece, ResultTable, exhibit
from ioweather.stats.estimates import Intervals, directed, plain
from ioweather.stats.grid import Steps
from ioweather.stats.series import correlation, variation_from_sums
from ioweather.stats.summary_tables import cumulative_table, table
from ioweather.studies.pat19.matrices import HIGH_CORRELATION, LAGS, WINDOWS, ServerLoad, high_share, span
from ioweather.studies.pat19.volume_and_phases import autocorrelation_findings, correlate

MODEST = 0.75  # pat19: "max CPU utilization is lower than 75%"
METADATA = ("open_ops", "close_ops")
KINDS = ("open", "close")
_CLOSES = (
    "A file left open when its process ends is closed by the client, but an open that asks again for a file already "
    "open may be counted without a close of its own: the share not closed is what the counters say."
)


def server_exhibits(load: ServerLoad, *, on: bool, caveats: tuple[str, ...]) -> Iterator[Exhibit]:
    """Yield pat19.fig15 and pat19.fig16; empty without any recorded load."""
    if not load.count.any():
        return
    intervals = Intervals(load.count.sum(axis=1) > 0, load.grid.step_ns * load.grid.unit, on=on, unit=1)
    cells, present = load.grid.steps * len(load.grid.components), int(load.count.sum())
    excluded = {"not recorded": cells - present - load.over_limit, "above 100%": load.over_limit}
    excluded = {why: n for why, n in excluded.items() if n}
    coverage = Coverage(cells, present, "values", excluded, "per server and step")
    yield _processor_load(load, intervals, caveats, coverage)
    yield _load_correlation(load, intervals, caveats, coverage)


@exhibit("pat19.fig15")
def _processor_load(
    load: ServerLoad, intervals: Intervals, caveats: tuple[str, ...], coverage: Coverage
) -> Iterator[Piece]:
    names, n = load.grid.components, len(load.grid.components)
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
        "mean_load", "ratio", both, lambda s: np.fmax.reduce(s[:, 1] / s[:, 0], axis=1), n=n, scale="logit"
    )
    top, modest = float(np.nanmax(load.largest)), float(np.mean(load.largest[~np.isnan(load.largest)] < MODEST))
    yield highest, plain("max_load", top, "ratio", n=n, method="largest step of any server")
    yield plain("max_load_servers_ratio", modest, "ratio", n=n, method=f"share of servers always below {MODEST:.0%}")
    yield Finding(f"The busiest server uses {highest.value or 0.0:.2%} of its processors on average.", name="mean_load")
    order = np.argsort(-np.nan_to_num(mean), kind="stable")
    yield table(
        "servers",
        {
            "component": ("server", "text", [names[i] for i in order]),
            "mean": ("mean load", "ratio", mean[order]),
            "largest": ("largest load", "ratio", load.largest[order]),
        },
        "Busiest first",
    )
    rows: list[tuple[Cell, ...]] = []
    for series, values in (("mean", mean), ("maximum", load.largest)):
        ranked = [i for i in np.argsort(values, kind="stable").tolist() if np.isfinite(values[i])]
        rows += [(series, rank, float(values[i]), names[i]) for rank, i in enumerate(ranked, 1)]
    drawn = ResultTable.of("sorted", "series [text]; rank [count]; load [ratio]; component [text]", rows)
    yield Chart.of("scatter", drawn, "x=rank y=load series label=component", "Load of each server, sorted")
    yield caveats, f"The maximum is that of means over {span(1, load.grid.step_ns)}; shorter peaks are higher."
    yield coverage


@exhibit("pat19.fig16")
def _load_correlation(
    load: ServerLoad, intervals: Intervals, caveats: tuple[str, ...], coverage: Coverage
) -> Iterator[Piece]:
    n, step_ns = len(load.grid.components), load.grid.step_ns
    yield intervals.estimate(
        "lag1_high_ratio", "ratio", load.lag_one, lambda s: high_share(correlation(s)), n=n, scale="logit"
    )
    yield plain("window", step_ns / 1e9, "seconds", method="as set")
    rows: list[tuple[Cell, ...]] = []
    for window, values in load.lags.items():
        word = span(window, step_ns)
        for lag, row in enumerate(values):
            known = row[~np.isnan(row)]
            if not len(known):
                continue
            q05, q50, q95 = (float(q) for q in np.quantile(known, (0.05, 0.5, 0.95)))
            rows.append((word, lag, q05, q50, q95))
            if lag in (1, LAGS):
                yield plain(f"lag{lag}_median[{word}]", q50, "", n=n, method="median over servers")
    drawn = ResultTable.of(
        "lags", "window [text]; lag: lag in windows; q05: 5% of servers below; q50: correlation; q95: 95% below", rows
    )
    title = "Autocorrelation of the load: median server, and nine tenths of all"
    yield Chart.of("band", drawn, "x=lag y=q50 low=q05 high=q95 series=window", title), caveats, coverage


def metadata_exhibits(steps: Steps, *, on: bool, caveats: tuple[str, ...]) -> Iterator[Exhibit]:
    """Yield pat19.fig13 and pat19.fig14; empty without a usable step."""
    if steps.usable.any():
        intervals = Intervals(steps.usable, steps.step_ns, on=on)
        yield _opens_and_closes(steps, intervals, caveats)
        yield _metadata_correlation(steps, intervals, caveats)


@exhibit("pat19.fig13")
def _opens_and_closes(steps: Steps, intervals: Intervals, caveats: tuple[str, ...]) -> Iterator[Piece]:
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
            scale="log",
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
    series = {kind: steps.values[metric] for kind, metric in zip(KINDS, METADATA, strict=True)}
    chart, estimates = correlate(series, steps.step_ns, intervals)
    yield chart, list(estimates.values())
    yield autocorrelation_findings(estimates, KINDS, span(WINDOWS[-1], steps.step_ns))
    for window in WINDOWS[1:]:
        word = span(window, steps.step_ns)
        together = estimates[f"cross_lag0[{word}]"]
        value = f"go together (r = {together.value or 0.0:.2f})."
        same = f"Opens and closes of the same {word}"
        yield directed(together, HIGH_CORRELATION, f"{same} {value}", f"{same} do not {value}")
    yield caveats, steps.coverage("steps")
