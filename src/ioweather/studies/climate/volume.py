"""How much is read and written (pat19 section 3): cumulative volume (fig3), distribution of the rate (fig4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Chart, Estimate, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import format_bytes
from ioweather.stats.series import variation_from_sums
from ioweather.studies.climate.context import WAYS, Climate, span
from ioweather.studies.shared.choices import TRAFFIC
from ioweather.studies.shared.intervals import directed, plain
from ioweather.studies.shared.presenting import cdf_table, cumulative_table
from ioweather.studies.shared.rollup_steps import Steps


@exhibit("pat19.fig3")
def cumulative(climate: Climate) -> Iterator[Piece]:
    steps = climate.system
    sums = climate.intervals.sums(climate.way("read"), climate.way("write"))
    ratio = climate.intervals.estimate("read_over_written", "factor", sums, lambda s: s[:, 0] / s[:, 1], n=climate.n)
    yield [plain(f"total_{way}", float(np.nansum(climate.way(way))), "bytes", n=climate.n) for way in WAYS]
    # Consistent over the period, or made by one stretch of it: the share of units in which reads lead, where one does.
    leads = np.stack([sums[:, 0] > sums[:, 1], sums[:, 0] != sums[:, 1]], axis=1).astype(np.float64)
    steady = climate.intervals.estimate("read_leads_ratio", "ratio", leads, lambda s: s[:, 0] / s[:, 1], n=len(leads))
    line = _running(steps, "")
    if climate.burst_buffer is not None:
        line = replace(line, rows=(*line.rows, *_running(climate.burst_buffer, "burst buffer ").rows))
    chart = Chart.of("timeline", line, "x=time y=value series", "Volume since the start")
    unit = climate.intervals.unit_name
    tied = int(np.sum((leads[:, 1] == 0) & (sums[:, 0] > 0)))
    of_all = f"all {unit}s" if not tied else f"the {unit}s in which one leads ({tied:,} are even)"
    equal = Finding(f"Reads equal writes in all {tied:,} {unit}s with traffic.", name="reads_equal_writes")
    reads = f"Reads lead in {steady.value or 0.0:.0%} of {of_all}, not in a short stretch alone."
    writes = f"Writes lead in {1 - (steady.value or 0.0):.0%} of {of_all}."
    findings = [equal] if tied and not leads.any() else [directed(steady, 0.5, reads, writes)]
    burst = list(_burst_buffer(climate))
    yield chart, ratio, steady, burst, findings, _burst_findings(ratio, burst), climate.caveats, climate.coverage()


def _running(steps: Steps, prefix: str) -> ResultTable:
    running = {
        f"{prefix}{way}": np.cumsum(np.nan_to_num(steps.values[metric], nan=0.0))
        for way, metric in zip(WAYS, TRAFFIC, strict=True)
    }
    return cumulative_table("cumulative", steps.times_ns, running, "since the start", "bytes")


def _burst_buffer(climate: Climate) -> Iterator[Estimate]:
    """Totals of the burst buffer, and the ratio when it is counted in."""
    if climate.burst_buffer is None:
        return
    own = [float(np.nansum(climate.burst_buffer.values[metric])) for metric in TRAFFIC]
    main = [float(np.nansum(climate.way(way))) for way in WAYS]
    n = int(climate.burst_buffer.usable.sum())
    for way, total in zip(WAYS, own, strict=True):
        yield plain(f"burst_buffer_{way}", total, "bytes", n=n)
    both = [a + b for a, b in zip(main, own, strict=True)]
    if both[1] > 0:
        yield plain("read_over_written_with_burst_buffer", both[0] / both[1], "factor", n=n, method="ratio of totals")
    yield plain("burst_buffer_ratio", sum(own) / sum(both), "ratio", n=n, method="share of all bytes")


def _burst_findings(ratio: Estimate, burst: list[Estimate]) -> list[Finding]:
    known = {estimate.name: estimate.value for estimate in burst}
    with_it = known.get("read_over_written_with_burst_buffer")
    if with_it is None:
        return []
    return [
        Finding(
            f"With the burst buffer counted in, {with_it:.2f} times as much is read as written ({ratio.value or 0:.2f} "
            f"without); it carries {known.get('burst_buffer_ratio') or 0.0:.1%} of all bytes.",
            name="burst_buffer",
        )
    ]


@exhibit("pat19.fig4")
def rate_distribution(climate: Climate) -> Iterator[Piece]:
    seconds = climate.system.step_seconds
    rates = {way: climate.way(way) / seconds for way in WAYS}
    estimates: list[Estimate] = []
    for way, rate in rates.items():
        there = ~np.isnan(rate)
        mean = float(np.nanmean(rate))
        sums = climate.intervals.sums(there, rate, rate**2, there & (rate < mean))
        estimates += [
            climate.intervals.estimate(
                f"mean_rate_{way}", "bytes_per_s", sums, lambda s: s[:, 1] / s[:, 0], n=climate.n
            ),
            climate.intervals.estimate(f"variation_{way}", "ratio", sums, _variation, n=climate.n),
            climate.intervals.estimate(
                f"below_mean_ratio_{way}", "ratio", sums, lambda s: s[:, 3] / s[:, 0], n=climate.n
            ),
        ]
    there = climate.system.usable
    read, write = (np.where(there, rates[way], 0.0) for way in WAYS)
    both = climate.intervals.sums(there, read, read**2, write, write**2)
    more = climate.intervals.estimate(
        "variation_write_minus_read",
        "ratio",
        both,
        lambda s: variation_from_sums(s[:, 0], s[:, 3], s[:, 4]) - _variation(s),
        n=climate.n,
    )
    by_name = {estimate.name: estimate for estimate in estimates}
    chart = Chart.of(
        "cdf",
        cdf_table("rates", rates, "rate", "bytes_per_s"),
        "x=value y=share series",
        f"Rates of intervals of {span(1, climate.system.step_ns)}",
        references=tuple(Reference("x", by_name[f"mean_rate_{way}"].value or 0.0, f"mean {way}") for way in WAYS),
    )
    yield chart, estimates, more, _rate_findings(by_name), climate.caveats, climate.coverage()


def _variation(sums: Floats) -> Floats:
    return variation_from_sums(sums[:, 0], sums[:, 1], sums[:, 2])


def _rate_findings(by_name: dict[str, Estimate]) -> Iterator[Finding]:
    for way, word in zip(WAYS, ("read", "written"), strict=True):
        mean = by_name[f"mean_rate_{way}"].value or 0.0
        yield Finding(
            f"On average {format_bytes(mean * 60)} are {word} per minute ({format_bytes(mean)}/s).", name="mean_rate"
        )
