"""The storage targets one by one (pat19 section 6): totals and their imbalance (fig10), correlations (fig12)."""

from __future__ import annotations

import math

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, ResultTable
from ioweather.core.units import format_bytes
from ioweather.stats.imbalance import imbalance, max_to_min, rank_correlation, rank_correlations
from ioweather.stats.series import N, correlation
from ioweather.studies.climate.context import HIGH_CORRELATION, WAYS, Climate, Part, high_share, span
from ioweather.studies.climate.targets_in_one_pass import LAGS, NEAREST_LAG, PAIRS, WINDOWS
from ioweather.studies.shared.choices import TRAFFIC
from ioweather.studies.shared.intervals import directed, plain
from ioweather.studies.shared.job_estimates import rank_estimate
from ioweather.studies.shared.presenting import table

# [ours] A target is worth relieving where its whole interval lies this far above the median target.
RELIEVE = 1.25
_MAX_ADVICE = 10
_AS_LONG = 0.9
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def totals(climate: Climate) -> Part:
    """pat19.fig10."""
    per_unit = {way: climate.targets.totals[metric] for way, metric in zip(WAYS, TRAFFIC, strict=True)}
    sums = {way: amount.sum(axis=0) for way, amount in per_unit.items()}
    n = len(climate.targets.components)
    kind = climate.component_kind
    estimates: list[Estimate] = []
    for way in WAYS:
        found = imbalance(sums[way])
        ratio = climate.intervals.estimate(
            f"max_over_min_{way}", "factor", per_unit[way], max_to_min, n=n, bounds=(1.0, np.inf)
        )
        estimates += [
            plain(f"mean_per_{kind}_{way}", found.mean, "bytes", n=n, method="mean over components"),
            ratio,
            climate.intervals.estimate(
                f"max_over_min_excess_{way}",
                "ratio",
                per_unit[way],
                lambda s: max_to_min(s) - 1,
                n=n,
                bounds=(0.0, np.inf),
            ),
            plain(f"variation_{way}", found.variation, "ratio", n=n, method="sd / mean over components"),
            _persistence(per_unit[way], way, n),
        ]
    both = np.stack([per_unit["read"], per_unit["write"]], axis=1)
    estimates.append(climate.intervals.estimate("rank_correlation", "", both, _rank_correlations, n=n))
    advice = _relief(climate, per_unit)
    return Part(
        Exhibit(
            "pat19.fig10",
            tables=(_total_table(climate, sums),),
            charts=(_total_chart(climate, sums),),
            estimates=tuple(estimates),
            findings=(*_total_findings(estimates), *advice),
            caveats=(*climate.caveats, *_shorter(climate)),
            coverage=climate.coverage(),
        ),
        advice,
    )


def _shorter(climate: Climate) -> tuple[str, ...]:
    """Targets that came, went or were silent for part of the period have moved less for that reason alone."""
    steps = climate.targets.nearest["read"][..., N].sum(axis=0)
    short = [climate.targets.components[i] for i in np.flatnonzero(steps < _AS_LONG * steps.max(initial=0.0))]
    if not short:
        return ()
    named = ", ".join(short[:_MAX_ADVICE]) + (", ..." if len(short) > _MAX_ADVICE else "")
    return (
        f"{len(short)} were recorded for less than {_AS_LONG:.0%} of the time of the others ({named}): their totals "
        "are smaller for that alone.",
    )


def _rank_correlations(totals: Floats) -> Floats:
    """(replicates, 2, targets) -> Spearman of reads and writes over targets."""
    return rank_correlations(totals[:, 0], totals[:, 1])


def _persistence(per_unit: Floats, way: str, n: int) -> Estimate:
    """Whether the targets that were busy in the first half of the period are busy in the second."""
    half = len(per_unit) // 2
    r = rank_correlation(per_unit[:half].sum(axis=0), per_unit[half:].sum(axis=0)) if half else math.nan
    return rank_estimate(f"persistence_{way}", r, n, "Spearman of first and second half over components")


def _total_table(climate: Climate, sums: dict[str, Floats]) -> ResultTable:
    order = np.argsort(-(sums["read"] + sums["write"]), kind="stable")
    return table(
        "totals",
        {
            "component": (climate.component_kind, "text", [climate.targets.components[i] for i in order]),
            "read": ("read", "bytes", sums["read"][order]),
            "write": ("written", "bytes", sums["write"][order]),
        },
        "Totals, busiest first",
    )


def _total_chart(climate: Climate, sums: dict[str, Floats]) -> Chart:
    rows: list[tuple[Cell, ...]] = []
    for way in WAYS:
        order = np.argsort(sums[way], kind="stable")
        rows += [
            (way, rank, float(sums[way][i]), climate.targets.components[i]) for rank, i in enumerate(order.tolist(), 1)
        ]
    encoding = {"x": "rank", "y": "total", "series": "series", "label": "component"}
    table = ResultTable.of("sorted", "series [text]; rank [count]; total [bytes]; component [text]", rows)
    return Chart("scatter", table, encoding, "Totals, sorted for each direction")


def _total_findings(estimates: list[Estimate]) -> list[Finding]:
    steady = next(estimate for estimate in estimates if estimate.name == "persistence_write")
    return [
        directed(
            steady,
            0.0,
            f"The order of targets by writes lasts (rank correlation of the two halves {steady.value or 0.0:.2f}).",
            f"The order of targets by writes does not last (rank correlation {steady.value or 0.0:.2f}).",
        )
    ]


def _relief(climate: Climate, per_unit: dict[str, Floats]) -> tuple[Finding, ...]:
    """Targets whose files should move: far above the median, surely."""
    out = []
    for way, amounts in per_unit.items():
        value, low, _ = climate.intervals.estimates(amounts, lambda s: s / np.median(s, axis=-1, keepdims=True))
        over = [int(i) for i in np.argsort(-value) if low[i] > RELIEVE]
        if not over:
            continue
        total = amounts.sum(axis=0)
        shown = ", ".join(
            f"{climate.targets.components[i]} ({value[i]:.2f}x, {format_bytes(total[i] - np.median(total))} too much)"
            for i in over[:_MAX_ADVICE]
        )
        more = f" and {len(over) - _MAX_ADVICE} more" if len(over) > _MAX_ADVICE else ""
        out.append(
            Finding(
                f"Move often-{'read' if way == 'read' else 'written'} files off {shown}{more}: `ioweather relieve` "
                "names them.",
                name="files_to_move",
            )
        )
    return tuple(out)


def correlations(climate: Climate) -> Part:
    """pat19.fig12."""
    n = len(climate.targets.components)
    estimates: list[Estimate] = []
    for pair in PAIRS:
        near, nearest = NEAREST_LAG[pair], climate.targets.nearest[pair]
        estimates += [
            climate.intervals.estimate(f"lag{near}_median_{pair}", "", nearest, lambda s: _median(correlation(s)), n=n),
            climate.intervals.estimate(
                f"lag{near}_high_ratio_{pair}", "ratio", nearest, lambda s: high_share(correlation(s)), n=n
            ),
        ]
        for window in WINDOWS[1:]:
            word = span(window, climate.system.step_ns)
            wide = float(_median(climate.targets.lags[pair, window][near]))
            estimates.append(plain(f"lag{near}_median_{pair}[{word}]", wide, "", n=n, method="median over components"))
        far = climate.targets.lags[pair, 1][LAGS]
        estimates.append(
            plain(f"lag{LAGS}_high_ratio_{pair}", float(high_share(far)), "ratio", n=n, method="share of components")
        )
    estimates += [
        plain("targets", n, "count"),
        plain("lags", LAGS, "count", method="as set"),
        plain("window", climate.system.step_seconds, "seconds", method="as set"),
    ]
    return Part(
        Exhibit(
            "pat19.fig12",
            tables=(_lag_table(climate),),
            charts=(_bands(climate),),
            estimates=tuple(estimates),
            caveats=climate.caveats,
            coverage=climate.coverage(),
        ),
        _history(climate, estimates),
    )


def _median(values: Floats) -> Floats:
    """Over the components that have a correlation; NaN where none has."""
    kept = np.where(np.isnan(values).all(axis=-1, keepdims=True), 0.0, values)
    return np.where(np.isnan(values).all(axis=-1), np.nan, np.nanmedian(kept, axis=-1))


def _label(pair: str) -> str:
    return "reads then writes" if pair == "cross" else f"{pair}s with themselves"


def _bands(climate: Climate) -> Chart:
    """One curve per target is what the paper draws; quantiles over targets say the same in fewer lines."""
    rows: list[tuple[Cell, ...]] = []
    for (pair, window), values in climate.targets.lags.items():
        for lag, row in enumerate(values):
            known = row[~np.isnan(row)]
            if len(known):
                q05, _, q50, _, q95 = (float(q) for q in np.quantile(known, _QUANTILES))
                rows.append((_label(pair), span(window, climate.system.step_ns), lag, q05, q50, q95))
    table = ResultTable.of(
        "lags",
        "pair [text]; window [text]; lag: lag in windows; q05: 5% of targets below; q50: correlation; q95: 95% below",
        rows,
    )
    return Chart.of(
        "band",
        table,
        "x=lag y=q50 low=q05 high=q95 series=window",
        "Correlation with later windows: median target, and nine tenths of all",
        facet="pair",
    )


def _lag_table(climate: Climate) -> ResultTable:
    lags = climate.targets.lags
    return table(
        "targets",
        {
            "component": (climate.component_kind, "text", list(climate.targets.components)),
            "read": ("reads, lag 1", "", lags["read", 1][1]),
            "write": ("writes, lag 1", "", lags["write", 1][1]),
            "cross": ("reads with writes, lag 0", "", lags["cross", 1][0]),
        },
        f"Correlation at windows of {span(1, climate.system.step_ns)}",
    )


def _history(climate: Climate, estimates: list[Estimate]) -> tuple[Finding, ...]:
    """How much history predicts the load of one target."""
    by_name = {estimate.name: estimate for estimate in estimates}
    out = []
    for way in WAYS:
        share = by_name[f"lag1_high_ratio_{way}"]
        if share.low is not None and share.low > 0.5:
            step = span(1, climate.system.step_ns)
            out.append(
                Finding(
                    f"To foresee {way}s on one target, the last {step} on that target is enough.", name="target_history"
                )
            )
            continue
        enough = next(
            (
                span(w, climate.system.step_ns)
                for w in WINDOWS[1:]
                if (by_name[f"lag1_median_{way}[{span(w, climate.system.step_ns)}]"].value or 0.0) > HIGH_CORRELATION
            ),
            None,
        )
        text = (
            f"To foresee {way}s on one target, look at its last {enough}."
            if enough
            else f"{way.capitalize()}s on one target cannot be foreseen from its own past at these windows."
        )
        out.append(Finding(text, "undecided", name="target_history"))
    return tuple(out)
