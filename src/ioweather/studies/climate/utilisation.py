"""How much of the storage is used (car11 section IV): throughput over the period (fig6) and its distribution (fig7)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility, Window
from ioweather.core.results import Chart, Estimate, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import format_bytes, format_seconds
from ioweather.studies.shared import choices
from ioweather.studies.shared.intervals import INTERVALS, Intervals, plain
from ioweather.studies.shared.presenting import cdf_table, shaded, table, timeline_table
from ioweather.studies.shared.rollup_steps import SERVER_TRAFFIC, Steps, gaps, traffic_steps

THIRD = 0.33  # car11: "less than 33% of peak"
_MAX_SHADES = 40


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    steps = traffic_steps(data, facility, str(params["filesystem"]))
    if not steps.usable.any():
        return
    intervals = Intervals(steps.usable, steps.step_ns, on=bool(params["intervals"]))
    yield _timeline(steps, facility)
    yield _distribution(steps, intervals, facility, str(params["filesystem"]))


def _rates(steps: Steps) -> dict[str, Floats]:
    read, write = (steps.values[metric] / steps.step_seconds for metric in choices.TRAFFIC)
    return {"read": read, "write": write, "combined": read + write}


@exhibit("car11.fig6")
def _timeline(steps: Steps, facility: Facility) -> Iterator[Piece]:
    rates = _rates(steps)
    end_ns = steps.start_ns + steps.count * steps.step_ns
    windows = [w for w in facility.maintenance if w.start_ns < end_ns and w.end_ns > steps.start_ns]
    missing = gaps(steps.usable)
    n = int(steps.usable.sum())
    peaks = tuple(
        plain(f"peak_{_step_word(steps)}_{way}", float(np.nanmax(rates[way])), "bytes_per_s", n=n, method="maximum")
        for way in ("read", "write", "combined")
    )
    line = timeline_table("throughput", steps.times_ns, rates, "throughput", "bytes_per_s")
    chart = Chart.of(
        "timeline",
        line,
        "x=time y=value",
        "Throughput, lowest and highest of each stretch",
        references=_shades(steps, windows, missing),
        facet="series",
    )
    counts = (plain("maintenance_windows", len(windows), "count"), plain("gaps", len(missing), "count"))
    yield _window_table(steps, windows, rates["combined"]), _gap_table(steps, missing), chart, peaks, counts
    yield _timeline_findings(steps, windows, missing, peaks), SERVER_TRAFFIC, steps.coverage("intervals")


def _step_word(steps: Steps) -> str:
    """Published peaks are those of a minute; another step says its own length."""
    return "minute" if steps.step_seconds == 60 else f"{steps.step_seconds:g}_seconds"


def _shades(steps: Steps, windows: list[Window], missing: list[tuple[int, int]]) -> tuple[Reference, ...]:
    longest = sorted(missing, key=lambda gap: gap[0] - gap[1])[:_MAX_SHADES]
    return (
        *(shaded(w.start_ns, w.end_ns, w.label or "maintenance") for w in windows[:_MAX_SHADES]),
        *(
            shaded(steps.start_ns + a * steps.step_ns, steps.start_ns + b * steps.step_ns, "no data")
            for a, b in sorted(longest)
        ),
    )


def _window_table(steps: Steps, windows: list[Window], combined: Floats) -> ResultTable:
    means = []
    for window in windows:
        inside = (steps.times_ns >= window.start_ns) & (steps.times_ns < window.end_ns) & steps.usable
        means.append(float(combined[inside].mean()) if inside.any() else None)
    return table(
        "maintenance",
        {
            "label": ("window", "text", [w.label or "maintenance" for w in windows]),
            "start": ("from", "time_ns", [w.start_ns for w in windows]),
            "end": ("to", "time_ns", [w.end_ns for w in windows]),
            "mean": ("mean throughput in it", "bytes_per_s", means),
        },
        "Maintenance windows of the facility file",
    )


def _gap_table(steps: Steps, missing: list[tuple[int, int]]) -> ResultTable:
    longest = sorted(sorted(missing, key=lambda gap: gap[0] - gap[1])[:_MAX_SHADES])
    return table(
        "gaps",
        {
            "start": ("from", "time_ns", [steps.start_ns + a * steps.step_ns for a, _ in longest]),
            "end": ("to", "time_ns", [steps.start_ns + b * steps.step_ns for _, b in longest]),
            "length": ("length", "seconds", [(b - a) * steps.step_seconds for a, b in longest]),
        },
        f"Gaps: the {len(longest)} longest of {len(missing)}",
    )


def _timeline_findings(
    steps: Steps, windows: list[Window], missing: list[tuple[int, int]], peaks: tuple[Estimate, ...]
) -> Iterator[Finding]:
    read, write = (format_bytes(peak.value or 0.0) for peak in peaks[:2])
    interval = format_seconds(steps.step_seconds)
    yield Finding(
        f"The highest throughput of any interval of {interval} was {read}/s read and {write}/s written.",
        name="highest_throughput",
    )
    if missing:
        lost = sum(b - a for a, b in missing) * steps.step_seconds
        plural = "s" if len(missing) > 1 else ""
        yield Finding(f"{len(missing)} gap{plural} without usable data, {format_seconds(lost)} together.", name="gaps")
    if windows:
        yield Finding(f"{len(windows)} maintenance windows fall into the period.", name="maintenance")


@exhibit("car11.fig7")
def _distribution(steps: Steps, intervals: Intervals, facility: Facility, filesystem: str) -> Iterator[Piece]:
    combined = _rates(steps)["combined"]
    there = steps.usable
    n = int(there.sum())
    peak = float(np.nanmax(combined))
    below = np.where(there, combined < THIRD * peak, False)
    # One sum per statistic: intervals, bytes per second, intervals below a third of the observed and nominal peak.
    columns = [there, combined, below]
    known = facility.filesystem(filesystem)
    nominal = known.peak_bytes_per_s if known else None
    if nominal is not None:
        columns.append(np.where(there, combined < THIRD * nominal, False))
    sums = intervals.sums(*columns)
    mean = intervals.estimate("mean_rate", "bytes_per_s", sums, lambda s: s[:, 1] / s[:, 0], n=n)
    share = intervals.estimate("below_third_of_peak_ratio", "ratio", sums, lambda s: s[:, 2] / s[:, 0], n=n)
    yield [plain("intervals", n, "count"), mean, plain("peak_rate", peak, "bytes_per_s", n=n, method="maximum"), share]
    if nominal is not None:
        yield intervals.estimate("below_third_of_nominal_ratio", "ratio", sums, lambda s: s[:, 3] / s[:, 0], n=n)
        yield plain("peak_of_nominal_ratio", peak / nominal, "ratio", n=n, method="maximum")
    chart = Chart.of(
        "cdf",
        cdf_table("distribution", {"combined": combined}, "throughput", "bytes_per_s"),
        "x=value y=share",
        f"Throughput of each interval of {format_seconds(steps.step_seconds)}",
        references=_peak_lines(peak, nominal),
    )
    yield chart, _distribution_findings(mean, peak, nominal), SERVER_TRAFFIC, _nominal_caveat(nominal, filesystem)
    yield steps.coverage("intervals")


def _peak_lines(peak: float, nominal: float | None) -> tuple[Reference, ...]:
    observed = Reference("x", THIRD * peak, "33% of the observed peak")
    return (observed,) if nominal is None else (observed, Reference("x", THIRD * nominal, "33% of the nominal peak"))


def _distribution_findings(mean: Estimate, peak: float, nominal: float | None) -> Iterator[Finding]:
    rate = format_bytes(mean.value or 0.0)
    yield Finding(f"The mean throughput was {rate}/s; the peak was {format_bytes(peak)}/s.", name="mean_throughput")
    if nominal is not None:
        yield Finding(f"The observed peak is {peak / nominal:.0%} of the nominal one.", name="nominal_peak")


def _nominal_caveat(nominal: float | None, filesystem: str) -> tuple[str, ...]:
    if nominal is not None:
        return ()
    return (f"The nominal peak of {filesystem} is not known: set peak_bytes_per_s in facility.toml for its share.",)


STUDY = Study(
    name="utilisation",
    exhibits=("car11.fig6", "car11.fig7"),
    needs=(choices.TRAFFIC_NEED,),
    run=run,
    params=(*choices.TRAFFIC_PARAMS, INTERVALS),
    too_few="no interval of the period has samples of all servers that can be used",
)
