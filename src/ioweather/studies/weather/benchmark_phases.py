"""A benchmark as the probe felt it (kun19 4.5): response time and slowdown while it ran, its phases shaded.

Slow is what takes longer than usual over the whole period, not than in the hour of the benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.contracts import Inventory, Need, Param, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import (
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    Reference,
    ResultColumn,
    ResultTable,
    exhibit,
)
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.derive.responses.rollups import ROLLUP_COLUMNS
from ioweather.derive.responses.slowdown import operation_series
from ioweather.stats.loghistogram import RELATIVE_ERROR
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import median_estimate, quantiles
from ioweather.studies.shared.presenting import cells, table
from ioweather.studies.weather.probing import COLUMNS, Measured, drawn_note, drawn_points, measured
from ioweather.studies.weather.slowdown import expected_note

Usual: TypeAlias = Mapping[tuple[str, str, int, str], float]

_LEAST: Final = 5  # measurements in a phase
_PHASES: Final = "FROM events WHERE kind = 'phase' AND end_ns IS NOT NULL"


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    part, phases = measured(data.frames["benchmark"], facility), data.frames["phases"]
    if not len(part.seconds) or not phases.rows:
        return
    records = sorted(phases.records(), key=lambda row: row["start_ns"])
    usual = _usual(data.frames.get("rollups"), facility, records[0]["start_ns"])
    exact = f"It comes from roll-ups and is right to within {RELATIVE_ERROR:.1%}."
    yield _benchmark(part, records, usual, f"{expected_note(facility.baseline)} {exact}")


def _usual(rollups: Frame | None, facility: Facility, before_ns: int) -> Usual:
    """Seconds that are usual, by file system, operation, size and mode."""
    if rollups is None:
        return {}
    names = {system: facility.filesystem_of(system) for system in rollups.text("system").categories}
    found = {}
    for series in operation_series(rollups, names, HOUR_NS):
        seconds, _ = series.expected(facility.baseline, before_ns)
        if seconds:
            found[series.filesystem, series.op, series.request_bytes, series.mode] = seconds
    return found


@exhibit("kun19.fig3")
def _benchmark(part: Measured, phases: list[dict[str, Any]], usual: Usual, expected: str) -> Iterator[Piece]:
    """Every measurement (3a, 3b), and means of 60 s (3c)."""
    stored = ~part.cached  # the cache's answers are not in what is usual either
    slowdown = np.full(len(part.seconds), np.nan)
    means: list[tuple[Cell, ...]] = []
    estimates: list[Estimate] = []
    unknown = []
    for filesystem, op in part.kinds():
        mine = part.of(filesystem, op) & stored
        seconds = usual.get(_kind(part, filesystem, op))
        if seconds is None:
            unknown.append(f"{filesystem} {op}")
            continue
        slowdown[mine] = part.seconds[mine] / seconds
        means += [(*mean, op, filesystem) for mean in _minute_means(part.start_ns[mine], slowdown[mine])]
        estimates += _in_phases(part.start_ns[mine], slowdown[mine], phases, f"{filesystem} {op}")
    shown = np.flatnonzero(stored)[drawn_points(part.seconds[stored])]
    shown = shown[np.argsort(part.op[shown], kind="stable")]  # the order, and so the colours, of the means
    notes = (f"No baseline yet for {', '.join(unknown)}.",) if unknown else ()
    cached = int((~stored).sum())
    left_out = {"failed_or_missed": part.failed, "of_another_size_or_mode": part.other, "answered_by_the_cache": cached}
    total = len(part.seconds) + part.failed + part.other
    yield _charts(part, slowdown, shown, means, phases)
    yield (*estimates, plain("reduced_interval", 60, "seconds", method="as set")) if means else ()
    yield _slowest(estimates), notes, expected, drawn_note(shown, part.seconds[stored])
    yield Coverage(total, len(part.seconds) - cached, "operations", {k: n for k, n in left_out.items() if n})


def _kind(part: Measured, filesystem: str, op: str) -> tuple[str, str, int, str]:
    """All measurements of an operation have one size and mode."""
    first = int(np.argmax(part.of(filesystem, op)))
    return filesystem, op, int(part.request_bytes[first]), str(part.mode[first])


def _minute_means(start_ns: Ints, slowdown: Floats) -> Iterator[tuple[int, float]]:
    minute, place = np.unique(start_ns // MINUTE_NS, return_inverse=True)
    means = np.bincount(place, weights=slowdown) / np.bincount(place)
    yield from zip((minute * MINUTE_NS).tolist(), means.tolist(), strict=True)


def _in_phases(start_ns: Ints, slowdown: Floats, phases: list[dict[str, Any]], label: str) -> Iterator[Estimate]:
    for phase in phases:
        during = (start_ns >= phase["start_ns"]) & (start_ns < (phase["end_ns"] or 2**62))
        if during.sum() >= _LEAST:
            made = median_estimate(f"slowdown[{phase['label']}, {label}]", slowdown[during], "factor")
            yield replace(made, method=f"{made.method}; over what is usual")


def _charts(
    part: Measured, slowdown: Floats, shown: Ints, means: list[tuple[Cell, ...]], phases: list[dict[str, Any]]
) -> Iterator[Chart]:
    # Nine phases without a pause are one grey block: lines where they begin, and a box of each below.
    shades = tuple(Reference("x", float(p["start_ns"])) for p in phases if p["end_ns"])

    def chart(kind: Any, y: str, made: ResultTable, title: str) -> Chart:
        encoding = {"x": "time", "y": y, "series": "op"}
        return Chart(kind, made, encoding, title, facet="filesystem", scales={"y": "log"}, references=shades)

    points: dict[str, tuple[str, str, Any]] = {
        "time": ("", "time_ns", part.start_ns[shown]),
        "seconds": ("response time", "seconds", part.seconds[shown]),
        "slowdown": ("slowdown", "factor", slowdown[shown]),
        "op": ("operation", "text", part.op[shown].tolist()),
        "filesystem": ("", "text", part.filesystem[shown].tolist()),
    }
    measurements = table("measurements", points)
    yield chart("scatter", "seconds", measurements, "Every measurement while a benchmark ran")
    if not means:
        return
    yield chart("scatter", "slowdown", measurements, "Slowdown of every measurement")
    times, ratios, ops, filesystems = zip(*means, strict=True)
    reduced: dict[str, tuple[str, str, Any]] = {
        "time": ("", "time_ns", times),
        "slowdown": ("slowdown, means of 60 s", "factor", cells(ratios)),
        "op": ("operation", "text", ops),
        "filesystem": ("", "text", filesystems),
    }
    yield chart("timeline", "slowdown", table("run", reduced), "Slowdown, means of 60 s; lines where phases begin")
    boxes = list(_phase_boxes(part, slowdown, phases))
    if boxes:
        names = ("phase", "op", "filesystem", "q05", "q25", "q50", "q75", "q95")
        columns = tuple(
            ResultColumn(name, "slowdown" if name == "q50" else "", "factor" if name[0] == "q" else "text")
            for name in names
        )
        encoding = {"x": "phase", "series": "op"} | {name: name for name in names[3:]}
        yield Chart("box", ResultTable("phases", columns, tuple(boxes)), encoding, "Slowdown in each phase",
                    facet="filesystem", scales={"y": "log"})  # fmt: skip


def _phase_boxes(part: Measured, slowdown: Floats, phases: list[dict[str, Any]]) -> Iterator[tuple[Cell, ...]]:
    for phase in phases:
        during = (part.start_ns >= phase["start_ns"]) & (part.start_ns < (phase["end_ns"] or 2**62))
        for filesystem, op in part.kinds():
            own = slowdown[during & part.of(filesystem, op)]
            own = own[np.isfinite(own)]
            if len(own) >= _LEAST:
                yield (str(phase["label"]), op, filesystem, *quantiles(own))


def _slowest(estimates: list[Estimate]) -> Finding:
    worst = max(estimates, key=lambda e: e.value or 0.0, default=None)
    if worst is None:
        return Finding(
            f"No phase has {_LEAST} measurements of an operation whose usual time is known.", name="slowest_phase"
        )
    where = worst.name.removeprefix("slowdown[").removesuffix("]")
    return Finding(f"Slowest was {where}: {worst.value or 0.0:.1f} times the usual.", name="slowest_phase")


def _bound(which: str, margin_ns: int) -> Callable[[Inventory, Params], Cell]:
    """The newest day with phases, and an hour on either side."""

    def choose(inventory: Inventory, _: Params) -> Cell:
        found = inventory.scalar(f"SELECT {which} {_PHASES} AND day = (SELECT max(day) {_PHASES})")
        return int(found) + margin_ns if isinstance(found, int) else 0

    return choose


_STRETCH: Final = {"start_ns >=": "$first_ns", "start_ns <": "$last_ns"}
STUDY = Study(
    name="benchmark_phases",
    exhibits=("kun19.fig3",),
    needs=(
        Need("benchmark", "responses", columns=COLUMNS, where=_STRETCH),
        Need("phases", "events", columns=("label", "start_ns", "end_ns"), where={"kind": "phase", **_STRETCH}),
        Need("rollups", "response_rollups", ROLLUP_COLUMNS, where={"interval_ns": HOUR_NS}, optional=True),
    ),
    run=run,
    params=(
        Param("first_ns", "where it begins (UTC ns); default: an hour before the newest day's phases", "int",
              choose=_bound("min(start_ns)", -HOUR_NS)),
        Param("last_ns", "where it ends (UTC ns); default: an hour after them", "int",
              choose=_bound("max(end_ns)", HOUR_NS)),
    ),
)  # fmt: skip
