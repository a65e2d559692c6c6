"""Phases of high and of low activity (pat19 section 4): how long they last and how often they begin (fig7, fig8)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, ResultColumn, ResultTable, columns_of
from ioweather.core.units import format_seconds
from ioweather.stats.phases import Phases, find_phases, phase_sums, thresholds
from ioweather.studies.climate.context import WAYS, Climate, Part
from ioweather.studies.shared.intervals import plain

Side = Literal["high", "low"]
_SHORT_SECONDS = 300  # pat19 section 7: "over 80% of high I/O phases last 5 minutes or less"
# Upper edges of the bins, in steps.
_EDGES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 240, 480, 1440, 10080)


def phases_of(climate: Climate, side: Side) -> dict[str, tuple[Phases, float]]:
    """Phases and threshold by way."""
    out = {}
    for way in WAYS:
        low, high = thresholds(climate.way(way))
        threshold = high if side == "high" else low
        out[way] = (find_phases(climate.way(way), threshold, side), threshold)
    return out


def phase_part(climate: Climate, side: Side) -> Part:
    """pat19.fig7 (high) and pat19.fig8 (low)."""
    found = phases_of(climate, side)
    sums = {way: phase_sums(phases, climate.system.count, climate.intervals.unit) for way, (phases, _) in found.items()}
    estimates = [e for way in WAYS for e in _own(climate, way, found[way], sums[way])]
    estimates += _against(climate, "over_write", sums["read"], sums["write"], "")
    if side == "low":
        high = {
            way: phase_sums(p, climate.system.count, climate.intervals.unit)
            for way, (p, _) in phases_of(climate, "high").items()
        }
        for way in WAYS:
            estimates += _against(climate, "over_high", sums[way], high[way], f"_{way}")
    estimates.append(_short(climate, found))
    length, between = _histograms(climate, found)
    shown = {"low": "from", "high": "to", "y": "share", "series": "series"}
    cut = {way: int(phases.cut.sum()) for way, (phases, _) in found.items()}
    caveats = (
        *climate.caveats,
        f"{side.capitalize()} is {'at or above the 75th' if side == 'high' else 'below the 25th'} percentile of all "
        "steps; intervals take that threshold as given.",
        f"Gaps break phases: {cut['read']} read and {cut['write']} write phases touch one, or the ends of the period.",
    )
    return Part(
        Exhibit(
            f"pat19.fig{7 if side == 'high' else 8}",
            charts=(
                Chart("histogram", length, shown, "Length of a phase", scales={"x": "log"}),
                Chart("histogram", between, shown, "Time between the starts of two phases", scales={"x": "log"}),
            ),
            estimates=tuple(estimates),
            findings=tuple(_findings(estimates, found, side)),
            caveats=caveats,
            coverage=climate.coverage(),
        )
    )


def _own(climate: Climate, way: str, found: tuple[Phases, float], sums: Floats) -> list[Estimate]:
    phases, threshold = found
    seconds = climate.system.step_seconds
    return [
        plain(f"threshold_{way}", threshold / seconds, "bytes_per_s", n=climate.n, method="percentile of all steps"),
        climate.intervals.estimate(
            f"mean_length_{way}", "seconds", sums, lambda s: seconds * s[:, 1] / s[:, 0], n=phases.count
        ),
        plain(f"median_length[{way}]", seconds * float(np.median(phases.length)) if phases.count else None, "seconds",
              n=phases.count, method="median"),
        climate.intervals.estimate(
            f"mean_interarrival_{way}", "seconds", sums, lambda s: seconds * s[:, 3] / s[:, 2],
            n=len(phases.interarrival),
        ),
    ]  # fmt: skip


def _against(climate: Climate, name: str, first: Floats, second: Floats, suffix: str) -> list[Estimate]:
    """Length and inter-arrival of one kind of phase over those of another."""
    both = np.concatenate([first, second], axis=1)
    n = int(first[:, 0].sum())
    return [
        climate.intervals.estimate(
            f"length_{name}{suffix}", "factor", both, lambda s: (s[:, 1] / s[:, 0]) / (s[:, 5] / s[:, 4]), n=n
        ),
        climate.intervals.estimate(
            f"interarrival_{name}{suffix}", "factor", both, lambda s: (s[:, 3] / s[:, 2]) / (s[:, 7] / s[:, 6]), n=n
        ),
    ]


def _short(climate: Climate, found: dict[str, tuple[Phases, float]]) -> Estimate:
    """Share of phases, reads and writes together, of five minutes or less."""
    limit = _SHORT_SECONDS / climate.system.step_seconds
    units = climate.intervals.units
    sums = np.zeros((units, 2))
    for phases, _ in found.values():
        of = phases.start // climate.intervals.unit
        sums[:, 0] += np.bincount(of, weights=phases.length <= limit, minlength=units)
        sums[:, 1] += np.bincount(of, minlength=units)
    n = int(sums[:, 1].sum())
    return climate.intervals.estimate("short_ratio", "ratio", sums, lambda s: s[:, 0] / s[:, 1], n=n)


def _histograms(climate: Climate, found: dict[str, tuple[Phases, float]]) -> tuple[ResultTable, ResultTable]:
    seconds = climate.system.step_seconds
    tables = []
    for name, label in (("length", "length of the phase"), ("interarrival", "time from start to start")):
        columns = (
            ResultColumn("series", "", "text"),
            ResultColumn("from", label, "seconds"),
            *columns_of("to: up to [seconds]; share: share of phases [ratio]"),
        )
        rows: list[tuple[Cell, ...]] = []
        for way, (phases, _) in found.items():
            values = phases.length if name == "length" else phases.interarrival
            edges = np.array((0, *_EDGES, max(_EDGES[-1] + 1, int(values.max(initial=0)))))
            # Bins are (from, to]: whole steps, so that the first holds exactly the phases of one step.
            counts = np.histogram(values, edges + 0.5)[0] / max(1, len(values))
            last = int(np.flatnonzero(counts).max(initial=0)) + 1
            rows += [
                (way, float(edges[i] * seconds) or 0.5 * seconds, float(edges[i + 1] * seconds), float(counts[i]))
                for i in range(last)
            ]
        tables.append(ResultTable(name, columns, tuple(rows)))
    return tables[0], tables[1]


def _findings(estimates: list[Estimate], found: dict[str, tuple[Phases, float]], side: Side) -> list[Finding]:
    by_name = {estimate.name: estimate for estimate in estimates}
    if not all(phases.count for phases, _ in found.values()):
        return [
            Finding(
                f"There is no {side} phase: a quarter of all steps or more have the same amount.",
                "undecided",
                name="no_phases",
            )
        ]
    out = []
    for way in WAYS:
        length, between = by_name[f"mean_length_{way}"].value, by_name[f"mean_interarrival_{way}"].value
        out.append(
            Finding(
                f"{side.capitalize()} {way} phases last {format_seconds(length or 0.0)} on average and begin every "
                f"{format_seconds(between or 0.0)}.",
                name="phase_lengths",
            )
        )
    return out
