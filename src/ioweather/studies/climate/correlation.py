"""Does a window tell about the next ones: lagged correlation of two series with themselves and with each other.

Used for reads and writes of the whole system (pat19.fig9) and for opens and closes (pat19.fig14).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Cell, Chart, Estimate, Finding, ResultTable
from ioweather.stats.series import correlation, lagged_sums, window_sums
from ioweather.studies.climate.context import HIGH_CORRELATION, WEAK_CORRELATION, span
from ioweather.studies.climate.targets_in_one_pass import LAGS, WINDOWS
from ioweather.studies.shared.intervals import Intervals, directed, number


@dataclass(frozen=True, eq=False)
class Correlations:
    """Chart, estimates and findings of two series: each with itself ('auto'), the first with the second ('cross')."""

    chart: Chart
    estimates: tuple[Estimate, ...]
    findings: tuple[Finding, ...]

    def estimate(self, name: str) -> Estimate:
        return next(estimate for estimate in self.estimates if estimate.name == name)


def correlate(series: Mapping[str, Floats], step_ns: int, intervals: Intervals, cross_words: str) -> Correlations:
    """`series` holds two amounts per step by name."""
    (first, x), (second, y) = series.items()
    pairs = {first: (x, x), second: (y, y), "cross": (x, y)}
    rows: list[tuple[Cell, ...]] = []
    estimates: list[Estimate] = []
    for window in WINDOWS:
        word = span(window, step_ns)
        for pair, (a, b) in pairs.items():
            made, value, low, high = _window(a, b, window, step_ns, intervals, pair, word)
            estimates += made
            label = f"{first} then {second}" if pair == "cross" else f"{pair} with itself"
            rows += [(label, word, lag, *(number(v[lag]) for v in (value, low, high))) for lag in range(LAGS + 1)]
    table = ResultTable.of(
        "correlations",
        "pair [text]; window [text]; lag: lag in windows; value: correlation; low: 90% from; high: 90% to",
        rows,
    )
    chart = Chart.of(
        "band", table, "x=lag y=value low high series=window", "Correlation with later windows", facet="pair"
    )
    findings = _findings(estimates, (first, second), step_ns, cross_words)
    return Correlations(chart, tuple(estimates), findings)


def _window(
    a: Floats, b: Floats, window: int, step_ns: int, intervals: Intervals, pair: str, word: str
) -> tuple[list[Estimate], Floats, Floats, Floats]:
    left, right = window_sums(a, window), window_sums(b, window)
    unit = max(1, round(intervals.unit / window))
    own = Intervals(
        ~np.isnan(left + right), step_ns * window, on=intervals.on, unit=unit, unit_name=intervals.unit_name
    )
    sums = lagged_sums(left, right, LAGS, unit) if len(left) else np.zeros((1, LAGS + 1, 6))
    n = int(sums[:, 0, 0].sum())
    value, low, high = own.estimates(sums, correlation)
    if pair == "cross":
        made = [
            own.estimate(
                f"cross[{word}]", "", sums, lambda s: np.abs(correlation(s)).max(axis=1), n=n, bounds=(0.0, 1.0)
            ),
            own.estimate(f"cross_lag0[{word}]", "", sums, lambda s: correlation(s)[:, 0], n=n),
        ]
    else:
        made = [own.estimate(f"auto_{pair}[{word}]", "", sums, lambda s: correlation(s)[:, 1], n=n)]
    return made, value, low, high


def _findings(estimates: list[Estimate], names: tuple[str, str], step_ns: int, cross_words: str) -> tuple[Finding, ...]:
    by_name = {estimate.name: estimate for estimate in estimates}
    out = []
    word = span(WINDOWS[-1], step_ns)  # of the others the paper speaks itself
    for name in names:
        auto = by_name[f"auto_{name}[{word}]"]
        out.append(
            directed(
                auto,
                HIGH_CORRELATION,
                f"The {name}s of a window of {word} tell about the next one (r = {auto.value or 0.0:.2f}).",
                f"The {name}s of a window of {word} tell little about the next one (r = {auto.value or 0.0:.2f}).",
            )
        )
    widest = max((by_name[f"cross[{span(window, step_ns)}]"] for window in WINDOWS), key=lambda e: e.value or 0.0)
    out.append(
        directed(
            widest,
            WEAK_CORRELATION,
            f"{cross_words} go together (|r| up to {widest.value or 0.0:.2f}).",
            f"{cross_words} do not go together (|r| at most {widest.value or 0.0:.2f} in any window and lag).",
        )
    )
    return tuple(out)
