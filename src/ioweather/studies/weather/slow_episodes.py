"""Slow episodes, and on which days of the week they come (kun19.episodes)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.core.baseline import Baseline
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Coverage, Exhibit, Finding, ResultColumn, ResultTable
from ioweather.core.units import NS, format_seconds
from ioweather.derive.calendar import facility_zone, local_clock
from ioweather.derive.slowdown import OperationSeries, all_episodes
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import share_estimate

_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def episodes_exhibit(
    every: list[OperationSeries], facility: Facility, threshold: float, statistic: str, baseline: Baseline,
    caveats: tuple[str, ...], coverage: tuple[Coverage, ...],
) -> Exhibit:  # fmt: skip
    """kun19.episodes."""
    found = all_episodes(every, threshold, statistic, baseline)
    table = ResultTable(
        "episodes",
        (
            ResultColumn("filesystem", "file system", "text"), ResultColumn("op", "operation", "text"),
            ResultColumn("start", "from", "time_ns"), ResultColumn("end", "to", "time_ns"),
            ResultColumn("peak", "peak", "factor"), ResultColumn("peak_at", "peak at", "time_ns"),
            ResultColumn("recovery", "recovery", "ns"), ResultColumn("ongoing", "", "text"),
        ),
        tuple((e.filesystem, e.op, e.start_ns, e.end_ns, e.peak_ratio, e.peak_ns, e.recovery_ns,
               "ongoing" if e.ongoing else "") for e in found),
        "Episodes",
    )  # fmt: skip
    week, findings = _weekly(every, facility, threshold, statistic, baseline)
    if found:
        worst = max(found, key=lambda e: e.peak_ratio)
        findings.insert(
            0,
            Finding(
                f"The strongest of {len(found)} episodes: {worst.op} on {worst.filesystem}, {worst.peak_ratio:.1f}x, "
                f"back to usual after {format_seconds(worst.recovery_ns / 1e9)}."
            ),
        )
    else:
        findings.insert(0, Finding(f"No interval was {threshold:g}x slower than usual."))
    strongest = {(e.filesystem, e.op): e for e in sorted(found, key=lambda e: e.peak_ratio)}
    peaks = [
        plain(f"{name}_{op}[{filesystem}]", value, unit, method=f"{what} of the strongest episode")
        for (filesystem, op), e in sorted(strongest.items(), key=lambda item: -item[1].peak_ratio)
        for name, value, unit, what in (
            ("peak_slowdown", e.peak_ratio, "factor", "peak"),
            ("recovery", None if e.ongoing else e.recovery_ns / NS, "seconds", "time from peak to end"),
        )
    ]
    chart = Chart(
        "heatmap", week, {"x": "weekday", "y": "series", "value": "share"}, "Slow intervals by day of the week"
    )
    return Exhibit(
        "kun19.episodes", "Slow episodes and weekly patterns", tables=(table, week), charts=(chart,),
        estimates=(plain("episodes", len(found), "count"), *peaks), findings=tuple(findings),
        caveats=(f"An episode: consecutive intervals whose {statistic} is at least {threshold:g}x expected.", *caveats),
        coverage=coverage,
    )  # fmt: skip


def _weekly(
    every: list[OperationSeries], facility: Facility, threshold: float, statistic: str, baseline: Baseline
) -> tuple[ResultTable, list[Finding]]:
    """Share of slow intervals by local weekday; a day is named when its interval lies above that of all days."""
    zone, zone_name = facility_zone(facility)
    rows: list[tuple[Cell, ...]] = []
    findings: list[Finding] = []
    for series in every:
        slowdown = series.slowdown(statistic, baseline)
        known = np.isfinite(slowdown)
        weekday = local_clock(series.start_ns, zone).weekday
        whole = share_estimate("all", int((slowdown[known] >= threshold).sum()), int(known.sum()))
        for day, name in enumerate(_WEEKDAYS):
            mine = known & (weekday == day)
            share = share_estimate(name, int((slowdown[mine] >= threshold).sum()), int(mine.sum()))
            rows.append((series.label, name, share.value, share.low, share.high, share.n))
            if share.low is not None and whole.high is not None and share.low > whole.high:
                findings.append(
                    Finding(
                        f"{series.label} is slow more often on {name}s ({share.value:.0%} of intervals).", "supported"
                    )
                )
    columns = (
        ResultColumn("series", "", "text"), ResultColumn("weekday", f"day ({zone_name})", "text"),
        ResultColumn("share", "slow intervals", "ratio"), ResultColumn("low", "90% from", "ratio"),
        ResultColumn("high", "90% to", "ratio"), ResultColumn("n", "", "count"),
    )  # fmt: skip
    return ResultTable("weekdays", columns, tuple(rows), "By day of the week"), findings
