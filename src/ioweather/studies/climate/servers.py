"""The object storage servers (pat19 section 7): processor load (fig15) and its autocorrelation (fig16)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.frames import BlockwiseMatrix
from ioweather.core.results import Cell, Chart, Coverage, Finding, Piece, ResultTable, exhibit
from ioweather.stats.resampling import unit_steps
from ioweather.stats.series import LaggedCorrelation, LagStream, WindowReducer, correlation
from ioweather.studies.climate.context import Part, high_share, span
from ioweather.studies.climate.stretches import (
    ALONE,
    CommonGrid,
    Walk,
    Work,
    aligned_blocks,
    aligned_rows,
    common_grid,
    walked,
)
from ioweather.studies.climate.targets_in_one_pass import LAGS, WINDOWS
from ioweather.studies.shared.intervals import Intervals, plain
from ioweather.studies.shared.presenting import table

MODEST = 0.75  # pat19: "max CPU utilization is lower than 75%"


@dataclass(frozen=True, eq=False)
class ServerLoad:
    """CPU load of each server: sums per unit, largest step, lagged correlations per window."""

    components: tuple[str, ...]
    step_ns: int
    steps: int
    unit: int
    count: Floats  # (units, servers): steps that were there
    total: Floats  # (units, servers): sum of load over them
    largest: Floats
    lags: dict[int, Floats]  # window -> (lags + 1, servers)
    lag_one: Floats  # (units, servers, 6)
    over_limit: int


def pass_over_servers(matrix: BlockwiseMatrix, work: Work = ALONE) -> ServerLoad:
    """Stretches of time are passed over one by one, and added up in their order."""
    grid = common_grid([matrix])
    whole = _Collected(grid, 0, grid.steps)
    walk = Walk("servers1", [matrix], grid, whole.unit, WINDOWS[-1], LAGS * WINDOWS[-1], lambda *_: None)
    for part in walked(walk, work, _pass_over, (matrix,), partial(_Collected, grid)):
        whole.add(part)
    lags = {window: accumulator.result() for window, accumulator in whole.lags.items()}
    sums = (whole.unit, whole.count, whole.total, whole.largest, lags)
    near = np.moveaxis(whole.lag_one, 1, -1)
    return ServerLoad(grid.components, grid.step_ns, grid.steps, *sums, near, whole.over_limit)


class _Collected:
    """What the steps [first, last) leave."""

    def __init__(self, grid: CommonGrid, first: int, last: int) -> None:
        self.unit = unit_steps(grid.steps, 3.6e12 / grid.step_ns)
        # The outer units of time may be shared with the steps before and after.
        self.units = slice(first // self.unit, -(-last // self.unit))
        units, servers = self.units.stop - self.units.start, len(grid.components)
        self.count, self.total = np.zeros((units, servers)), np.zeros((units, servers))
        self.largest, self.over_limit = np.full(servers, np.nan), 0
        self.lags = {window: LaggedCorrelation(servers, LAGS) for window in WINDOWS}
        self.lag_one = np.zeros((units, 6, servers))

    def add(self, part: _Collected) -> None:
        self.count[part.units] += part.count
        self.total[part.units] += part.total
        self.largest = np.fmax(self.largest, part.largest)
        self.over_limit += part.over_limit
        self.lag_one[part.units] += part.lag_one
        for window, lags in part.lags.items():
            self.lags[window].sums += lags.sums

    def record(self) -> dict[str, Any]:
        return {**self._arrays(), "over_limit": np.array([self.over_limit])}

    def _arrays(self) -> dict[str, Floats]:
        lags = {f"lag_{window}": lags.sums for window, lags in self.lags.items()}
        return {"count": self.count, "total": self.total, "largest": self.largest, "lag_one": self.lag_one, **lags}

    def restore(self, record: Mapping[str, Any]) -> None:
        for name, values in self._arrays().items():
            if record[name].shape != values.shape:
                raise ValueError(f"{name} is of other steps")
            values[:] = record[name]
        self.over_limit = int(record["over_limit"][0])


def _pass_over(matrix: BlockwiseMatrix, first: int, last: int) -> _Collected:
    """A load above 1 is not real; it is left out and counted."""
    grid = common_grid([matrix])
    out = _Collected(grid, first, last)
    streams = {window: LagStream(LAGS) for window in WINDOWS}
    # CPU windows are means; each is made of whole windows of the size before it.
    reducers = {window: WindowReducer(window // narrower, mean=True) for narrower, window in pairwise(WINDOWS)}
    # The rows just before the first are not counted here, but later ones are correlated with them.
    (before,) = aligned_rows([matrix], grid, max(0, first - LAGS * WINDOWS[-1]), first)
    wide, _ = _within(before)
    for window, stream in streams.items():
        wide = wide if window == 1 else reducers[window].update(wide)
        if len(wide):
            stream.next(wide)
    row = first
    for (block,) in aligned_blocks([matrix], grid, first, last):
        values, above = _within(block)
        out.over_limit += above
        out.largest = np.fmax(out.largest, np.fmax.reduce(values, axis=0))
        for start in sorted({0, *range(-row % out.unit, len(values), out.unit)}):
            piece = values[start : min(len(values), start + out.unit - (row + start) % out.unit)]
            place = (row + start) // out.unit - out.units.start
            there = ~np.isnan(piece)
            out.count[place] += there.sum(axis=0)
            out.total[place] += np.where(there, piece, 0.0).sum(axis=0)
            ready = streams[1].next(piece)
            out.lag_one[place] += out.lags[1].update(ready, ready)[1]
        wide = values
        for window, reducer in reducers.items():
            wide = reducer.update(wide)
            if not len(wide):
                break
            ready = streams[window].next(wide)
            out.lags[window].update(ready, ready)
        row += len(values)
    return out


def _within(block: Floats) -> tuple[Floats, int]:
    if block.max(initial=0.0) <= 1.0:
        return block, 0
    above = block > 1.0
    return np.where(above, np.nan, block), int(above.sum())


def server_parts(load: ServerLoad, *, on: bool, caveats: tuple[str, ...]) -> Iterator[Part]:
    """pat19.fig15 and pat19.fig16; nothing where no load was recorded."""
    if not load.count.any():
        return
    intervals = Intervals(load.count.sum(axis=1) > 0, load.step_ns * load.unit, on=on, unit=1)
    cells = load.steps * len(load.components)
    present = int(load.count.sum())
    excluded = {"not recorded": cells - present - load.over_limit, "above 100%": load.over_limit}
    coverage = (
        Coverage(cells, present, "values", {why: n for why, n in excluded.items() if n}, "per server and step"),
    )
    yield Part(_utilisation(load, intervals, caveats, coverage))
    yield Part(_autocorrelation(load, intervals, caveats, coverage))


@exhibit("pat19.fig15")
def _utilisation(
    load: ServerLoad, intervals: Intervals, caveats: tuple[str, ...], coverage: tuple[Coverage, ...]
) -> Iterator[Piece]:
    n = len(load.components)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = load.total.sum(axis=0) / load.count.sum(axis=0)
    known = ~np.isnan(load.largest)
    both = np.stack([load.count, load.total], axis=1)
    highest = intervals.estimate("mean_load", "ratio", both, lambda s: np.fmax.reduce(s[:, 1] / s[:, 0], axis=1), n=n)
    overall = intervals.estimate(
        "mean_load_all", "ratio", both, lambda s: s[:, 1].sum(axis=1) / s[:, 0].sum(axis=1), n=int(load.count.sum())
    )
    modest = float(np.mean(load.largest[known] < MODEST))
    yield [
        plain("servers", n, "count"),
        overall,
        highest,
        plain("max_load", float(np.nanmax(load.largest)), "ratio", n=n, method="largest step of any server"),
        plain("max_load_servers_ratio", modest, "ratio", n=n, method=f"share of servers always below {MODEST:.0%}"),
    ]
    yield Finding(f"The busiest server uses {highest.value or 0.0:.2%} of its processors on average.", name="mean_load")
    yield _load_table(load, mean), _load_chart(load, mean), caveats
    yield f"The maximum is that of means over {span(1, load.step_ns)}; shorter peaks are higher.", coverage


def _load_table(load: ServerLoad, mean: Floats) -> ResultTable:
    order = np.argsort(-np.nan_to_num(mean), kind="stable")
    return table(
        "servers",
        {
            "component": ("server", "text", [load.components[i] for i in order]),
            "mean": ("mean load", "ratio", mean[order]),
            "largest": ("largest load", "ratio", load.largest[order]),
        },
        "Busiest first",
    )


def _load_chart(load: ServerLoad, mean: Floats) -> Chart:
    rows: list[tuple[Cell, ...]] = []
    for series, values in (("mean", mean), ("maximum", load.largest)):
        order = [i for i in np.argsort(values, kind="stable").tolist() if np.isfinite(values[i])]
        rows += [(series, rank, float(values[i]), load.components[i]) for rank, i in enumerate(order, 1)]
    encoding = {"x": "rank", "y": "load", "series": "series", "label": "component"}
    table = ResultTable.of("sorted", "series [text]; rank [count]; load [ratio]; component [text]", rows)
    return Chart("scatter", table, encoding, "Load of each server, sorted")


@exhibit("pat19.fig16")
def _autocorrelation(
    load: ServerLoad, intervals: Intervals, caveats: tuple[str, ...], coverage: tuple[Coverage, ...]
) -> Iterator[Piece]:
    n = len(load.components)
    share = intervals.estimate("lag1_high_ratio", "ratio", load.lag_one, lambda s: high_share(correlation(s)), n=n)
    yield [share, plain("window", load.step_ns / 1e9, "seconds", method="as set")]
    rows: list[tuple[Cell, ...]] = []
    for window, values in load.lags.items():
        word = span(window, load.step_ns)
        for lag, row in enumerate(values):
            known = row[~np.isnan(row)]
            if not len(known):
                continue
            q05, q50, q95 = (float(q) for q in np.quantile(known, (0.05, 0.5, 0.95)))
            rows.append((word, lag, q05, q50, q95))
            if lag in (1, LAGS):
                yield plain(f"lag{lag}_median[{word}]", q50, "", n=n, method="median over servers")
    table = ResultTable.of(
        "lags", "window [text]; lag: lag in windows; q05: 5% of servers below; q50: correlation; q95: 95% below", rows
    )
    chart = Chart.of(
        "band",
        table,
        "x=lag y=q50 low=q05 high=q95 series=window",
        "Autocorrelation of the load: median server, and nine tenths of all",
    )
    yield chart, caveats, coverage
