"""I/O time as a function of the system's volume: a forest's curve (mad17 fig. 6) and the joint density (fig. 7, 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Param
from ioweather.core.errors import UsageError
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, Reference, ResultTable
from ioweather.core.units import format_bytes, format_seconds
from ioweather.stats.conformal import MIN_POINTS, Band, conformal_folds
from ioweather.stats.density import Bandwidth, Density, density
from ioweather.stats.dependence import complete_pairs
from ioweather.stats.forest import LEAST_LEAF, TREES, forest_curve
from ioweather.studies.association.data import SHARED_STEPS, TIME, VOLUME, AssociationData
from ioweather.studies.association.groups import HALF_WIDTH_SD
from ioweather.studies.association.learning import CAVEAT, learning
from ioweather.studies.shared.intervals import LEVEL, plain

BANDWIDTH: Final = Param("bandwidth", "of the density: scott, or botev where there are several modes", default="scott")
_POINTS: Final = 60
_CELLS: Final = 40


def curve_exhibits(data: AssociationData) -> Iterator[Exhibit]:
    rows = data.members(data.asked)
    if len(rows) < MIN_POINTS:
        words = f"{data.name(data.asked)} has {len(rows)} runs with samples; a curve needs {MIN_POINTS}."
        for name in ("mad17.fig6", "mad17.fig7"):
            yield Exhibit(
                name,
                findings=(Finding(words, "undecided", name="too_few_runs"),),
                caveats=data.caveats,
                coverage=data.coverage,
            )
        return
    times = data.of("d_d_seconds")[rows]
    pairs = {way: complete_pairs(data.of(f"psid_{way}_bytes")[rows], times) for way in ("read", "write")}
    try:
        yield _forest(data, pairs)
    except UsageError as error:
        missing = Finding(str(error), "undecided", name="missing_package")
        yield Exhibit("mad17.fig6", findings=(missing,), caveats=data.caveats, coverage=data.coverage)
    yield _density(data)


def _forest(data: AssociationData, pairs: dict[str, tuple[Floats, Floats]]) -> Exhibit:
    """mad17.fig6."""
    charts, estimates, findings = [], [], []
    for way, (x, y) in pairs.items():
        least, most = np.quantile(x, (0.01, 0.99))
        at = np.linspace(float(least), float(most), _POINTS)
        band = cast(Band, conformal_folds(x, y, at))
        middle, explained = forest_curve(x, y, at)
        charts.append(
            Chart.of(
                "band",
                _band_table(at, middle, band.low, band.high),
                "x=volume y=middle low high",
                f"D_D against PsiD, {way}s: forest, and 90% of new runs",
            )
        )
        rise = float(middle[-1] / middle[0] - 1) if middle[0] else 0.0
        estimates += [
            plain(f"rise_{way}", rise, "ratio", n=len(x), method="forest, from the 1% to the 99% volume"),
            plain(f"explained_{way}", explained, "ratio", n=len(x), method="variance explained out of bag"),
        ]
        low, high = (format_seconds(float(middle[at])) for at in (0, -1))
        text = f"From little to much system volume of {way}s, D_D goes from {low} to {high} ({rise:+.0%})."
        findings.append(Finding(text, name="time_with_volume"))
    caveats = (
        f"The forest has {TREES} trees with leaves of at least {LEAST_LEAF} runs; the paper does not name its own.",
        "The band is conformal: 90% of new runs of this group fall inside.",
        SHARED_STEPS,
    )
    learnt = learning(data)
    return Exhibit(
        "mad17.fig6", f"Random-forest curve: {data.name(data.asked)}", tables=learnt.tables,
        charts=(*charts, *learnt.charts), estimates=(*estimates, *learnt.estimates),
        findings=(*findings, *learnt.findings), caveats=(*caveats, CAVEAT, *data.caveats), coverage=data.coverage,
    )  # fmt: skip


def _band_table(x: Floats, middle: Floats, low: Floats, high: Floats) -> ResultTable:
    rows = zip(*(values.tolist() for values in (x, middle, low, high)), strict=True)
    return ResultTable.of(
        "curve",
        f"volume: {VOLUME} [bytes]; middle: {TIME} [seconds]; low [seconds]; high [seconds]",
        (row for row in rows if all(np.isfinite(v) for v in row)),
    )


@dataclass(frozen=True, eq=False)
class _Given:
    """Volumes x and times y of a group's runs in one direction, and quantiles of time at each x of their density."""

    group: str
    way: str
    x: Floats
    y: Floats
    joint: Density
    low: Floats
    median: Floats
    high: Floats

    @property
    def symbol(self) -> str:
        return f"PsiD_{self.way[0].upper()}"

    def at(self, level: float) -> int:
        """Place of a quantile of the volumes."""
        return int(np.clip(np.searchsorted(self.joint.x, np.quantile(self.x, level)), 0, len(self.joint.x) - 1))


def _given(data: AssociationData, group: int, bandwidth: Bandwidth) -> Iterator[_Given]:
    """Reads and writes, where volume and time vary."""
    rows = data.members(group)
    for way in ("read", "write"):
        x, y = complete_pairs(data.of(f"psid_{way}_bytes")[rows], data.of("d_d_seconds")[rows])
        joint = density(x, y, bandwidth=bandwidth) if len(x) >= MIN_POINTS else None
        if joint is not None:
            low, median, high = joint.conditional_quantiles(((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
            yield _Given(data.name(group), way, x, y, joint, low, median, high)


def _density(data: AssociationData) -> Exhibit:
    """mad17.fig7: the group asked for; --set group=NAME shows another (the paper's fig. 8)."""
    bandwidth = str(data.params.get("bandwidth") or "scott")
    if bandwidth not in ("scott", "botev"):
        raise UsageError(f"There is no bandwidth {bandwidth!r}.", hint="There are: scott, botev.")
    charts: list[Chart] = []
    estimates: list[Estimate] = []
    findings: list[Finding] = []
    for given in _given(data, data.asked, cast(Bandwidth, bandwidth)):
        charts += [_conditional_chart(given), _joint_chart(given)]
        estimates += _conditional(given)
        findings += _density_findings(given)
    return Exhibit(
        "mad17.fig7", f"Density of I/O time and system volume: {data.name(data.asked)}", charts=tuple(charts),
        estimates=(*estimates, *_as_set()) if estimates else (),
        findings=tuple(findings) or (Finding("Volume or time does not vary.", "undecided", name="nothing_varies"),),
        caveats=(f"Gaussian kernels on a grid, bandwidth by {bandwidth.capitalize()}.", SHARED_STEPS, *data.caveats),
        coverage=data.coverage,
    )  # fmt: skip


def _conditional_chart(given: _Given) -> Chart:
    x, mean, sd = given.joint.x, float(given.y.mean()), float(given.y.std())
    lines = tuple(
        Reference("y", mean + k * HALF_WIDTH_SD * sd, words)
        for k, words in ((0, "mean"), (-1, "-1.645 sd"), (1, "+1.645 sd"))
    )
    inside = np.flatnonzero((x >= given.x.min()) & (x <= given.x.max()))
    picked = inside[:: max(1, len(inside) // _POINTS)]
    return Chart.of(
        "band",
        _band_table(x[picked], given.median[picked], given.low[picked], given.high[picked]),
        "x=volume y=middle low high",
        f"{given.group}: D_D given {given.symbol}, median and central 90%, against mean ± 1.645 sd of all",
        references=lines,
    )


def _joint_chart(given: _Given) -> Chart:
    encoding = {"x": "volume", "y": "time", "value": "density"}
    return Chart("heatmap", _heat_table(given.joint), encoding, f"Joint density, {given.way}s")


def _as_set() -> Iterator[Estimate]:
    yield Estimate("credible_level", LEVEL, "ratio", method="as the paper has it")
    yield Estimate("interval_half_width_sd", HALF_WIDTH_SD, "", method="as the paper has it")


def _conditional(given: _Given) -> Iterator[Estimate]:
    typical = float(np.median(given.x))
    yield Estimate(f"example_volume_{given.way}", typical, "bytes", n=len(given.x), method="median volume")
    for words, level in (("low", 0.1), ("median", 0.5), ("high", 0.9)):
        i, volume = given.at(level), float(np.quantile(given.x, level))
        if np.isfinite(given.median[i]):
            yield Estimate(
                f"D_D_given_{words}_volume_{given.way}", float(given.median[i]), "seconds", float(given.low[i]),
                float(given.high[i]), LEVEL, len(given.x),
                f"conditional median and central interval at {given.symbol} = {format_bytes(volume)}",
            )  # fmt: skip


def _density_findings(given: _Given) -> Iterator[Finding]:
    x, y = given.x, given.y
    place = np.clip(np.searchsorted(given.joint.x, x), 0, len(given.joint.x) - 1)
    top = x >= np.quantile(x, 0.9)
    inside = (y >= given.low[place]) & (y <= given.high[place])
    plainly = np.abs(y - y.mean()) <= HALF_WIDTH_SD * y.std()
    yield Finding(
        f"{given.group}: in the top tenth of {given.way} volume, mean ± 1.645 sd holds {plainly[top].mean():.0%} of "
        f"the runs, the conditional interval {inside[top].mean():.0%} (of the runs it was made from).",
        name="normal_interval",
    )
    little, much = (format_seconds(float(given.median[given.at(level)])) for level in (0.1, 0.9))
    yield Finding(
        f"{given.group}: the median D_D is {little} at little {given.way} volume (10%) and {much} at much (90%).",
        name="median_by_volume",
    )


def _heat_table(joint: Density) -> ResultTable:
    factor = len(joint.x) // _CELLS
    count = factor * _CELLS
    cells = joint.values[:count, :count].reshape(_CELLS, factor, _CELLS, factor).mean(axis=(1, 3))
    xs = joint.x[:count].reshape(_CELLS, factor).mean(axis=1)
    ys = joint.y[:count].reshape(_CELLS, factor).mean(axis=1)
    share = cells / cells.sum()
    rows: list[tuple[Cell, ...]] = [
        (float(xs[i]), float(ys[j]), float(share[i, j]))
        for i in range(_CELLS)
        for j in range(_CELLS)
        # Kernels reach below zero; bytes and seconds do not.
        if share[i, j] > 1e-5 and xs[i] >= 0 and ys[j] >= 0
    ]
    return ResultTable.of("density", f"volume: {VOLUME} [bytes]; time: {TIME} [seconds]; density: share [ratio]", rows)
