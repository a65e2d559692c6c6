"""The metadata servers (pat19 section 7): opens and closes (fig13), and how they go together (fig14)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioweather.core.results import Chart, Estimate, Exhibit, Finding, Piece, exhibit
from ioweather.stats.series import variation_from_sums
from ioweather.studies.climate.context import HIGH_CORRELATION, Part, span
from ioweather.studies.climate.correlation import correlate
from ioweather.studies.climate.targets_in_one_pass import WINDOWS
from ioweather.studies.shared.intervals import Intervals, directed, plain
from ioweather.studies.shared.presenting import cumulative_table
from ioweather.studies.shared.rollup_steps import Steps

METADATA = ("open_ops", "close_ops")
KINDS = ("open", "close")
_CAVEATS = (
    "A file left open when its process ends is closed by the client, but an open that asks again for a file already "
    "open may be counted without a close of its own: the share not closed is what the counters say.",
)


def metadata_parts(steps: Steps, *, on: bool, caveats: tuple[str, ...]) -> Iterator[Part]:
    """pat19.fig13 and pat19.fig14; nothing without a usable step."""
    if not steps.usable.any():
        return
    intervals = Intervals(steps.usable, steps.step_ns, on=on)
    yield Part(_opens_and_closes(steps, intervals, caveats))
    series = {kind: steps.values[metric] for kind, metric in zip(KINDS, METADATA, strict=True)}
    found = correlate(series, steps.step_ns, intervals, "Opens and closes")
    findings = list(found.findings[:-1])
    for window in WINDOWS[1:]:
        word = span(window, steps.step_ns)
        together = found.estimate(f"cross_lag0[{word}]")
        findings.append(
            directed(
                together,
                HIGH_CORRELATION,
                f"Opens and closes of the same {word} go together (r = {together.value or 0.0:.2f}).",
                f"Opens and closes of the same {word} do not go together (r = {together.value or 0.0:.2f}).",
            )
        )
    yield Part(
        Exhibit(
            "pat19.fig14",
            charts=(found.chart,),
            estimates=found.estimates,
            findings=tuple(findings),
            caveats=caveats,
            coverage=(steps.coverage("steps"),),
        )
    )


@exhibit("pat19.fig13")
def _opens_and_closes(steps: Steps, intervals: Intervals, caveats: tuple[str, ...]) -> Iterator[Piece]:
    n = int(steps.usable.sum())
    there = steps.usable
    seconds = steps.step_seconds
    rates = {
        kind: np.where(there, steps.values[metric], np.nan) / seconds
        for kind, metric in zip(KINDS, METADATA, strict=True)
    }
    opens, closes = (float(np.nansum(rate)) * seconds for rate in rates.values())
    both = intervals.sums(rates["open"], rates["close"])
    left = intervals.estimate("not_closed_ratio", "ratio", both, lambda s: 1 - s[:, 1] / s[:, 0], n=n)
    estimates: list[Estimate] = [plain("opens", opens, "count", n=n), plain("closes", closes, "count", n=n), left]
    for kind, rate in rates.items():
        sums = intervals.sums(there, rate, rate**2)
        estimates += [
            intervals.estimate(f"mean_rate_{kind}", "ops_per_s", sums, lambda s: s[:, 1] / s[:, 0], n=n),
            plain(f"max_rate_{kind}", float(np.nanmax(rate)), "ops_per_s", n=n, method="maximum"),
            intervals.estimate(
                f"variation_{kind}", "ratio", sums, lambda s: variation_from_sums(s[:, 0], s[:, 1], s[:, 2]), n=n
            ),
        ]
    running = {f"{kind}s": np.cumsum(np.nan_to_num(rate, nan=0.0)) * seconds for kind, rate in rates.items()}
    line = cumulative_table("cumulative", steps.times_ns, running, "since the start", "count")
    chart = Chart.of("timeline", line, "x=time y=value series", "Operations since the start")
    yield chart, estimates, _findings(estimates), caveats, _CAVEATS, steps.coverage("steps")


def _findings(estimates: list[Estimate]) -> Iterator[Finding]:
    by_name = {estimate.name: estimate for estimate in estimates}
    for kind in KINDS:
        mean, top = by_name[f"mean_rate_{kind}"].value or 0.0, by_name[f"max_rate_{kind}"].value or 0.0
        variation = by_name[f"variation_{kind}"]
        yield Finding(
            f"{kind.capitalize()}s: {mean * 60:,.0f} per minute on average, {top * 60:,.0f} at most, coefficient of "
            f"variation {variation.value or 0.0:.0%}.",
            name="metadata_rate",
        )
