"""How the number of files and the bytes grow from scan to scan (car11 Table III), and when a number will be reached."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.clock import utc_day
from ioweather.core.results import Chart, Coverage, Estimate, Finding, Piece, ResultTable, exhibit
from ioweather.core.units import DAY_NS, format_bytes
from ioweather.stats.growth import Drift, drift
from ioweather.studies.contents.scans import ScanView
from ioweather.studies.shared.intervals import LEVEL, plain
from ioweather.studies.shared.presenting import table

_TWO_SCANS: Final = "two scans give a rate but no interval"
_DRIFT: Final = "random walk with drift over scans"
_FAR_DAYS: Final = 365_000.0  # beyond a thousand years nothing is forecast


@dataclass(frozen=True)
class _Series:
    """One quantity over the scans, and of one project."""

    total: list[int]
    project: list[int] | None


@exhibit("car11.table3")
def growth_exhibit(scans: ScanView, project: str | None, target: int | None) -> Iterator[Piece]:
    files, used, what = _files(scans, project), *_used(scans, project)
    moments = scans.moments_ns()
    goal = target or _next_power_of_ten(files.total[-1])
    estimates: list[Estimate] = []
    findings: list[Finding] = [
        Finding("Growth needs a second scan of the same tree.", "undecided", name="second_scan_needed")
    ]
    if scans.count > 1:
        growth = drift(moments / DAY_NS, np.array(files.total))
        estimates = [
            *_growth_estimates(files, used, growth),
            *_forecast_estimates(growth, files.total[-1], goal, int(moments[-1])),
            *_inode_estimates(scans, growth),
        ]
        findings = list(_findings(scans, files, used, project, goal, estimates))
    yield _table(scans, files, used, project), _charts(scans, files, used, project) if scans.count > 1 else ()
    yield estimates, findings, _caveats(scans, what)
    yield Coverage(scans.count, int(np.sum(scans.scans.array("complete"))), "scans complete")


def _files(scans: ScanView, project: str | None) -> _Series:
    own = [scans.project_histogram(i, "size", project).files for i in range(scans.count)] if project else None
    return _Series([n or 0 for n in scans.numbers("file_count")], own)


def _used(scans: ScanView, project: str | None) -> tuple[_Series, str]:
    """Allocated bytes where every scan has them, else sizes."""
    capacity = scans.numbers("capacity_bytes")
    name, column = ("capacity", capacity) if None not in capacity else ("size", scans.numbers("file_bytes"))
    own = [scans.project_histogram(i, name, project).total_bytes for i in range(scans.count)] if project else None
    return _Series([n or 0 for n in column], own), name


def _growth(values: Sequence[int] | None) -> float | None:
    return values[-1] / values[0] - 1 if values and values[0] else None


def _share_of_new(series: _Series) -> float | None:
    new = series.total[-1] - series.total[0]
    return (series.project[-1] - series.project[0]) / new if series.project and new > 0 else None


def _growth_estimates(files: _Series, used: _Series, growth: Drift | None) -> Iterator[Estimate]:
    method = "first to last scan"
    yield plain("used_growth", _growth(used.total), "ratio", method=method)
    yield plain("files_growth", _growth(files.total), "ratio", method=method)
    both = {"used": used.total, "files": files.total, "used_project": used.project, "files_project": files.project}
    for name, values in both.items():
        if values:
            unit = "bytes" if name.startswith("used") else "count"
            yield plain(f"{name}[first scan]", values[0], unit)
            yield plain(f"{name}[last scan]", values[-1], unit)
    more_files, more_bytes = _growth(files.total), _growth(used.total)
    if more_files is not None and more_bytes is not None and more_files > 0:
        faster = more_files / more_bytes if more_bytes > 0 else math.inf
        yield Estimate("files_growth_over_used_growth", faster, "factor", method=method)
    if files.project is not None:
        yield plain("used_growth_project", _growth(used.project), "ratio", method=method)
        yield plain("files_growth_project", _growth(files.project), "ratio", method=method)
        yield plain("new_files_project_ratio", _share_of_new(files), "ratio", method=method)
        yield plain("new_bytes_project_ratio", _share_of_new(used), "ratio", method=method)
    if growth is not None:
        bounds = growth.rate_interval(LEVEL)
        low, high = bounds or (None, None)
        level, method = (LEVEL, _DRIFT) if bounds else (None, _TWO_SCANS)
        yield Estimate("files_per_day", growth.rate, "count", low, high, level, growth.steps, method)


def _forecast_estimates(growth: Drift | None, files: int, goal: int, last_ns: int) -> Iterator[Estimate]:
    yield plain("files_forecast", goal, "count", method="asked for, or the next power of ten")
    if growth is not None:
        yield _date("files_forecast_month", growth, goal - files, last_ns)


def _date(name: str, growth: Drift, distance: float, last_ns: int) -> Estimate:
    """When the growth has covered a distance."""

    def moment(days: float | None) -> float | None:
        return None if days is None or days > _FAR_DAYS else float((last_ns + round(days * DAY_NS)) // DAY_NS * DAY_NS)

    value = moment(growth.reaches(distance))
    bounds = growth.reach_interval(distance, LEVEL)
    if bounds is None:
        return Estimate(name, value, "time_ns", n=growth.steps, method=_TWO_SCANS if value else "it does not grow")
    low, high = moment(bounds[0]), moment(bounds[1])
    method = _DRIFT if high is not None else f"{_DRIFT}; it may never be reached"
    return Estimate(name, value, "time_ns", low, high, LEVEL, growth.steps, method)


def _inode_estimates(scans: ScanView, growth: Drift | None) -> Iterator[Estimate]:
    """When the file system has no inode left, where it has a fixed number."""
    total, used = scans.numbers("total_inodes")[-1], scans.numbers("used_inodes")[-1]
    if growth is not None and total is not None and used is not None:
        yield _date("inodes_used_up", growth, total - used, int(scans.moments_ns()[-1]))


def _next_power_of_ten(files: int) -> int:
    return int(10 ** (math.floor(math.log10(files)) + 1)) if files > 0 else 10


def _table(scans: ScanView, files: _Series, used: _Series, project: str | None) -> ResultTable:
    days = [utc_day(int(moment)) for moment in scans.moments_ns()]
    changes = scans.count > 1
    columns = {
        "scan": ("scan", "text", [*days, *(["change"] if changes else [])]),
        "used": ("used", "text", _shown(used.total, "bytes", changes)),
        "files": ("files", "text", _shown(files.total, "count", changes)),
    }
    if project is not None and files.project is not None and used.project is not None:
        columns["used_project"] = (f"used, {project}", "text", _shown(used.project, "bytes", changes))
        columns["files_project"] = (f"files, {project}", "text", _shown(files.project, "count", changes))
    return table("growth", columns, "Growth")


def _shown(values: list[int], unit: str, changes: bool) -> list[str]:
    shown = [format_bytes(value) if unit == "bytes" else f"{value:,}" for value in values]
    change = _growth(values)
    return [*shown, *([f"{change:+.1%}" if change is not None else "–"] if changes else [])]


def _charts(scans: ScanView, files: _Series, used: _Series, project: str | None) -> Iterator[Chart]:
    for series, title, unit in ((files, "Files", "count"), (used, "Bytes", "bytes")):
        lines = {"all": series.total, **({project: series.project} if project and series.project else {})}
        points = table(
            title.lower(),
            {
                "time": ("", "time_ns", [int(moment) for _ in lines for moment in scans.moments_ns()]),
                "series": ("", "text", [name for name, values in lines.items() for _ in values]),
                "value": (title.lower(), unit, [value for values in lines.values() for value in values]),
            },
        )
        yield Chart.of("timeline", points, "x=time y=value series", f"{title} per scan")


def _findings(
    scans: ScanView, files: _Series, used: _Series, project: str | None, goal: int, estimates: list[Estimate]
) -> Iterator[Finding]:
    moments = scans.moments_ns()
    days = (int(moments[-1]) - int(moments[0])) / DAY_NS
    more_files, more_bytes = _growth(files.total), _growth(used.total)
    yield Finding(
        f"In {days:.0f} days the number of files changed by {_percent(more_files)} to {files.total[-1]:,}, "
        f"the bytes by {_percent(more_bytes)} to {format_bytes(used.total[-1])}.",
        name="growth",
    )
    of_files, of_bytes = _share_of_new(files), _share_of_new(used)
    if project is not None and of_files is not None:
        bytes_part = f", and {of_bytes:.0%} of the new bytes" if of_bytes is not None else ""
        yield Finding(
            f"{project} is responsible for {of_files:.0%} of the new files{bytes_part}.", name="project_behind_growth"
        )
    forecast = next((e for e in estimates if e.name == "files_forecast_month"), None)
    if forecast is None or forecast.value is None:
        yield Finding(f"The number of files does not grow towards {goal:,}.", "undecided", name="goal")
        return
    yield Finding(
        f"At this rate there are {goal:,} files on {utc_day(int(forecast.value))}{_between(forecast)}.", name="goal"
    )
    if files.total[0] > 0 and more_files and more_files > 0:
        doubling = days * math.log(2) / math.log1p(more_files)
        faster = days * math.log(goal / files.total[-1]) / math.log1p(more_files)
        yield Finding(
            f"If it grew by the same percentage instead (doubling every {doubling:,.0f} days), it would be on "
            f"{utc_day(int(moments[-1]) + round(faster * DAY_NS))}.",
            name="goal_exponential",
        )


def _percent(change: float | None) -> str:
    return "an unknown share" if change is None else f"{change:+.1%}"


def _between(estimate: Estimate) -> str:
    if estimate.low is None:
        return " (two scans do not say how sure that is)"
    first = utc_day(int(estimate.low))
    if estimate.high is None:
        return f" ({LEVEL:.0%}: not before {first}, perhaps never)"
    return f" ({LEVEL:.0%}: {first} to {utc_day(int(estimate.high))})"


def _caveats(scans: ScanView, what: str) -> Iterator[str]:
    yield f"Used is {'what files allocate' if what == 'capacity' else 'the sum of sizes; allocation is not known'}."
    unreadable = [n for n in scans.numbers("unreadable_count") if n]
    if unreadable:
        yield f"{len(unreadable)} scans could not read some directories: growth may hide in them."
