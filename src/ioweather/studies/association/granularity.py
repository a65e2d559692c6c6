"""What coarser sampling hides (mad17 VI-B): steps used and coefficients with k samples in one, k = 1 to 20."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, Piece, ResultColumn, ResultTable, exhibit
from ioweather.core.units import format_seconds
from ioweather.derive.system.job_system import job_system
from ioweather.stats.dependence import (
    LEVEL,
    MIN_PAIRS,
    coefficients,
    complete_pairs,
    spearman_change,
    spearman_interval,
)
from ioweather.studies.association.data import IN_TIME_ORDER, MEASURES, NEEDS, PARAMS, AssociationData, association_data
from ioweather.studies.shared.intervals import number, plain

COARSEST: Final = 20
# Of each rank correlation; there are more than a hundred of them.
_REPLICATES: Final = 100


@dataclass(frozen=True)
class Level:
    """One group at one granularity: steps used, and columns of time and volume."""

    group: int
    factor: int
    step_seconds: float
    steps: Floats
    d_d: Floats
    psid: dict[str, Floats]
    metadata: Floats
    psi_read_ops: Floats


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    found = association_data(data, facility, params)
    if found is None:
        return
    levels = [level for group in found.shown for level in _levels(found, group)]
    yield _steps_used(found, levels)
    yield _weakening(found, levels)


def _levels(data: AssociationData, group: int) -> Iterator[Level]:
    rows = data.members(group)
    spans = data.spans.of_runs(rows)
    start, end = (data.runs.ints(name)[rows] for name in ("start_ns", "end_ns"))
    metadata = data.of("d_u_m_seconds")[rows]
    for factor in range(1, COARSEST + 1):
        grid = data.grid.coarsened(factor)
        if grid.count < 2:
            return
        system = job_system(grid, start, end, spans)
        steps = system.floats("d_d_steps")
        columns = {name: np.asarray(system.array(name)) for name in ("d_d_seconds", "psi_read_ops_count")}
        volumes = {way: np.asarray(system.array(f"psid_{way}_bytes")) for way in ("read", "write")}
        times, opens = columns["d_d_seconds"], columns["psi_read_ops_count"]
        yield Level(group, factor, grid.step_seconds, steps, times, volumes, metadata, opens)


@exhibit("mad17.fig9")
def _steps_used(data: AssociationData, levels: list[Level]) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = [
        (
            level.step_seconds,
            data.name(level.group),
            number(np.nanmean(level.steps)),
            int(np.isfinite(level.steps).sum()),
        )
        for level in levels
        if np.isfinite(level.steps).any()
    ]
    table = ResultTable.of(
        "steps",
        "interval: sampling interval [seconds]; group [text]; steps: steps with I/O, mean [count]; n [count]",
        rows,
    )
    chart = Chart.of("timeline", table, "x=interval y=steps series=group", "Sampling intervals with I/O")
    for group in data.shown:
        own = [row for row in rows if row[1] == data.name(group)]
        if len(own) > 1:
            yield Finding(
                f"{own[0][1]}: {own[0][2]:.3g} intervals of {format_seconds(float(own[0][0] or 0))} hold its I/O, "
                f"{own[-1][2]:.3g} of {format_seconds(float(own[-1][0] or 0))}.",
                name="steps_used",
            )
    yield table, (chart,) if rows else (), _span(levels), data.caveats, data.coverage


def _span(levels: list[Level]) -> Iterator[Estimate]:
    if levels:
        yield plain("interval_low", min(level.step_seconds for level in levels), "seconds")
        yield plain("interval_high", max(level.step_seconds for level in levels), "seconds")
        yield plain("coarsening_low", min(level.factor for level in levels), "count")
        yield plain("coarsening_high", max(level.factor for level in levels), "count")


@exhibit("mad17.fig10")
def _weakening(data: AssociationData, levels: list[Level]) -> Iterator[Piece]:
    every: list[tuple[Cell, ...]] = []
    ranks: list[tuple[Cell, ...]] = []
    metadata: list[tuple[Cell, ...]] = []
    for level in levels:
        group = data.name(level.group)
        for way in ("read", "write"):
            if level.group == data.asked:
                found = coefficients(level.psid[way], level.d_d)
                every += [(level.step_seconds, way, MEASURES[name], number(value)) for name, value in found.items()]
            pairs = complete_pairs(level.psid[way], level.d_d)
            rank = spearman_interval(*pairs, _REPLICATES) or (None, None, None)
            ranks.append((level.step_seconds, f"{group} {way}", *rank, len(pairs[0])))
        found = coefficients(level.psi_read_ops, level.metadata) if level.group == data.asked else {}
        metadata += [(level.step_seconds, MEASURES[name], number(value)) for name, value in found.items()]
    yield _chart("all", every, ("way", "measure"), f"D_D with PsiD: {data.name(data.asked)}", facet="way")
    known = [row for row in ranks if row[2] is not None]
    yield [_rank_chart(known)] if known else []
    if any(row[2] is not None for row in metadata):
        yield _chart("metadata", metadata, ("measure",), "D_U_M with PsiO_R")
    estimates, findings = _change(data, levels)
    yield _span(levels), estimates, findings
    yield (
        "With coarser steps fewer runs lie wholly in monitored steps; each coefficient uses the runs it has. "
        "D_D comes in ever fewer values, which alone lowers what a coefficient can show."
    )
    yield IN_TIME_ORDER, data.caveats, data.coverage


def _chart(
    name: str, rows: list[tuple[Cell, ...]], keys: tuple[str, ...], title: str, *, facet: str | None = None
) -> Chart:
    columns = (
        ResultColumn("interval", "sampling interval", "seconds"),
        *(ResultColumn(key, "", "text") for key in keys),
        ResultColumn("value", "coefficient"),
    )
    return Chart(
        "timeline", ResultTable(name, columns, tuple(rows)), {"x": "interval", "y": "value", "series": keys[-1]}, title,
        facet=facet,
    )  # fmt: skip


def _rank_chart(rows: list[tuple[Cell, ...]]) -> Chart:
    encoding = {"x": "interval", "y": "value", "low": "low", "high": "high"}
    table = ResultTable.of(
        "ranks",
        "interval: sampling interval [seconds]; series [text]; value: Spearman; low: 90% from; high: 90% to; n [count]",
        rows,
    )
    return Chart("band", table, encoding, "Spearman of D_D with PsiD, and its 90% interval", facet="series")


def _change(data: AssociationData, levels: list[Level]) -> tuple[list[Estimate], list[Finding]]:
    """Finest against coarsest, on the same runs, resampled together."""
    estimates, findings = [], []
    for group in data.shown:
        own = [level for level in levels if level.group == group]
        if len(own) < 2:
            continue
        fine, coarse = own[0], own[-1]
        for way in ("read", "write"):
            columns = (fine.psid[way], fine.d_d, coarse.psid[way], coarse.d_d)
            there = np.isfinite(np.stack(columns)).all(axis=0)
            if there.sum() < MIN_PAIRS:
                continue
            a, b, c, d = (column[there] for column in columns)
            change = spearman_change((a, b, c, d))
            if change is None:
                continue
            value, low, high = change
            name, method = f"spearman_change_{way}[{data.name(group)}]", "same runs resampled for both granularities"
            estimates.append(Estimate(name, value, "", low, high, LEVEL, int(there.sum()), method))
            steps = f"from {format_seconds(fine.step_seconds)} to {format_seconds(coarse.step_seconds)}"
            by = f"changes by {value:+.2f} ({low:+.2f} to {high:+.2f})"
            text = f"{data.name(group)}: {steps} the rank correlation with {way}s {by}."
            findings.append(Finding(text, name="change_with_interval"))
    return [*estimates, *_all_groups(estimates)], findings


def _all_groups(changes: list[Estimate]) -> Iterator[Estimate]:
    """Weighted by the squares of their intervals. Reads and writes of a group are the same runs, and count as one."""
    known = [
        (e.value, (e.high - e.low) / 2, e.n or 0)
        for e in changes
        if e.value is not None and e.low is not None and e.high is not None and e.high > e.low
    ]
    if known:
        weight = sum(1 / half**2 for _, half, _ in known)
        value, half = sum(value / half**2 for value, half, _ in known) / weight, (weight / 2) ** -0.5
        n, method = sum(n for *_, n in known) // 2, "weighted mean of all groups, reads and writes"
        low, high = value - half, value + half
        yield Estimate("spearman_change_all_groups", value, "", low, high, LEVEL, n, method)


STUDY = Study(
    name="association_granularity",
    exhibits=("mad17.fig9", "mad17.fig10"),
    needs=NEEDS,
    run=run,
    params=PARAMS,
    too_few="no interval of the period has samples of all servers that can be used, or no run has a log",
)
