"""Whether a burst is coming: its probability over the next minutes, and what such probabilities were worth so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.advice.forecast.horizons import History, is_skilled, skill_of_sums
from ioweather.core.results import Estimate, Finding
from ioweather.core.units import MINUTE_NS
from ioweather.stats.bursts import REGRESSION, WAYS, Bursts, burst_forecasts
from ioweather.stats.climatology import MEMORY_DAYS
from ioweather.stats.forecast import Timed
from ioweather.studies.shared.intervals import Intervals

BURST_HORIZONS_NS: Final = tuple(minutes * MINUTE_NS for minutes in (5, 30, 120))


@dataclass(frozen=True)
class BurstOutlook:
    """`f1` by persistence, climatology and regression; `skill` is 1 - Brier's score over that of the better reference;
    `independent` counts the judged stretches that do not overlap."""

    horizon_ns: int
    probability: float | None
    f1: tuple[float, ...]
    skill: Estimate
    bursts: int
    independent: int

    @property
    def skilled(self) -> bool:
        return is_skilled(self.skill)


def burst_outlooks(history: History, series: Timed) -> list[BurstOutlook]:
    """Everything is fitted at the beginning of each day, to the days before it."""
    day = series.day[: series.count]
    mornings = np.concatenate([[0], np.flatnonzero(np.diff(day)) + 1])
    memory = MEMORY_DAYS * round(24 * 60 / series.window_minutes)
    hour = series.slot[: series.count] % 24
    found = []
    for horizon_ns in BURST_HORIZONS_NS:
        if horizon_ns % history.window_ns == 0:
            windows = horizon_ns // history.window_ns
            made = burst_forecasts(series.values, hour, windows, mornings, memory, series.window_minutes)
            found.append(burst_outlook(made, history))
    return found


def burst_outlook(made: Bursts, history: History) -> BurstOutlook:
    judged = made.judged
    intervals = Intervals(judged, history.window_ns, on=True)
    sums = intervals.sums(*np.where(judged, made.squares, 0.0), judged)
    horizon_ns, n = made.horizon * history.window_ns, int(judged.sum())
    skill = intervals.estimate(f"burst skill in {horizon_ns // MINUTE_NS} min", "", sums, skill_of_sums, n=n)
    last = float(made.probability[REGRESSION, -1]) if made.probability.shape[1] else np.nan
    return BurstOutlook(
        horizon_ns, last if np.isfinite(last) else None, tuple(made.f1(way) for way in range(len(WAYS))), skill,
        int(np.nansum(made.truth[judged])), made.independent,
    )  # fmt: skip


def burst_finding(outlooks: Sequence[BurstOutlook]) -> Iterator[Finding]:
    """One line, of the horizons where the probabilities were worth something."""
    better = [each for each in outlooks if each.skilled and each.probability is not None]
    if better:
        told = ", ".join(
            f"{each.probability:.0%} in the next {each.horizon_ns // MINUTE_NS} minutes (F1 {each.f1[REGRESSION]:.2f})"
            for each in better
        )
        yield Finding(f"A burst, load above its 90th percentile, comes with a probability of {told}.", name="bursts")
